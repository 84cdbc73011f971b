"""What is refused as a query: mistakes, where they are, and sizes without end."""

from __future__ import annotations

import time

import pytest

from atlas import ATLAS, A, B, P, marked, read, refused
from flexkg.errors import FlexError, LimitError
from flexkg.query import parse, to_text
from flexkg.query.limits import MAX_ATOMS, MAX_DEPTH, MAX_TEXT
from flexkg.query.terms import Implies, Not, Project


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "The query is empty"),
        ("  \n ", 1, "The query is empty"),
        ("?x :", 5, "The formula is empty"),
        ("p(A, ?x)", 1, "begins with the variable it asks for"),
        ("?x p(A, ?x)", 4, "A colon must follow the target ?x"),
        ("?x, ?y : p(?x, ?y)", 3, "asks for one variable"),
        ("?x : p(A,?x) && q(A,?x)", 14, "Write a single &"),
        ("?x : p(A,?x) || q(A,?x)", 14, "Write a single |"),
        ("?x : p(A,?x) => q(A,?x)", 14, "Write ->"),
        ("?x : ?x = A", 6, "A variable cannot stand here"),
        ("?x : p(A,?x) = B", 14, "no equality"),
        ("?x : p(A,?y) & ?y != B", 16, "A variable cannot stand here"),
        ("?x : ~p(A,?x)", 6, "Write ! or not"),
        ("?x : p('A', ?x)", 8, "Single quotes do not quote"),
        ("?x : p(“A”, ?x)", 8, "Curly quotes do not quote"),
        ('?x : p("A, ?x)', 8, "never closed"),
        ('?x : p("", ?x)', 8, "cannot be empty"),
        (r'?x : p("a\n", ?x)', 10, "backslash"),
        ("?x : (p(A,?x) & (q(A,?x))", 6, "This parenthesis is never closed"),
        ("?x : p(A,?x))", 13, "This parenthesis closes nothing"),
        ("?x : p(A,?x", 7, "This parenthesis is never closed"),
        ("?x : p(A", 7, "This parenthesis is never closed"),
        ("?x : p(", 7, "This parenthesis is never closed"),
        ("?x : (", 6, "This parenthesis is never closed"),
        ("?x : ()", 6, "nothing between these parentheses"),
        ("?x : p(A ?x)", 10, "A comma is missing"),
        ("?x : p(United States, ?x)", 15, "needs quotes"),
        ("?x : part of(A, ?x)", 11, "needs quotes"),
        ("?x : p()", 6, "two arguments; this one has none"),
        ("?x : p(?x)", 6, "two arguments; this one has one"),
        ("?x : p(A, ?x, B)", 6, "two arguments; this one has more"),
        ("?x : p(, ?x)", 8, "An argument is missing"),
        ("?x : p(q(A,?y), ?x)", 8, "not another atom"),
        ("?x : p(A,?x) q(B,?x)", 14, "A connective is missing"),
        ("?x : p(A,?x), q(B,?x)", 13, "Join formulas with &"),
        ("?x : p(A,?x).", 13, "Nothing may follow"),
        ("?x : p(A,?x) &", 15, "The formula ends where an atom must follow"),
        ("?x : & p(A,?x)", 6, "An atom is missing before '&'"),
        ("?x : p(A,?x) & | q(B,?x)", 16, "An atom is missing before '|'"),
        ("?x : or(A,?x)", 6, 'To use the word as a name write "or"'),
        ("?x : Not p(A,?x)", 6, "written not or NOT"),
        ("?x : France", 6, "'(' is missing behind France"),
        ("?x : ?r(A,?x)", 6, "An atom begins with a relation's name"),
        ("?x : exists y. p(y,?x)", 13, "A variable must follow"),
        ("?x : exists ?y p(?y,?x)", 16, "A dot must follow"),
        ("?x : p(A, ?)", 11, "'?' with a name right behind it"),
        ("?x : p(/m/06, ?x)", 8, "Put names that hold it in double quotes"),
    ],
)
def test_mistakes(text, column, words):
    error = refused(text)
    assert words in str(error)
    assert (error.line, error.column) == (1, column)
    assert error.kind == "query"


class TestPlaces:
    def test_lines_are_counted(self):
        error = refused("?x :\n  p(A, ?x)\n  & zzz(A, ?x)\n")
        assert (error.line, error.column, marked(error)) == (3, 5, "zzz")

    def test_columns_count_code_points(self):
        error = refused('?日本 : p(A, ?日本) & q("é𝄞", ?日本)')
        assert error.column == 21
        assert error.caret().split("\n")[1].index("^") == 2 + 20

    def test_a_tab_is_one_column_and_does_not_move_the_caret(self):
        error = refused("?x :\tp(A,\t?x) & zzz(A, ?x)")
        assert (error.column, marked(error)) == (17, "zzz")

    def test_every_kind_of_line_break(self):
        for end in ("\n", "\r\n", "\r", "\u2028", "\x0b"):
            error = refused(f"?x :{end}p(A, ?x) &{end}zzz(A, ?x)")
            assert (error.line, error.column, marked(error)) == (3, 1, "zzz")

    def test_an_error_at_the_end_stays_on_the_last_written_line(self):
        error = refused("?x : p(A, ?x) &\n\n\n")
        assert (error.line, error.column) == (1, 16)

    def test_a_long_line_is_cut_around_the_place(self):
        error = refused("?x : " + "p(A, ?x) & " * 200 + "zzz(A, ?x)")
        assert marked(error) == "zzz"
        assert len(error.caret()) < 300


def chain(length: int) -> str:
    atoms = " & ".join(f"p(?v{index}, ?v{index + 1})" for index in range(length))
    return f"?v{length} : p(A, ?v0) & {atoms}"


class TestLimits:
    @pytest.mark.parametrize(
        "text",
        [
            "(" * 100_000,
            "?x : " + "(" * 99_000,
            "?x : " + "!" * 99_000,
            "?x : " + "not " * 24_000,
            "?x : " + "exists ?y. " * 9_000,
            "?x : " + "p(A,?x) -> " * 9_000,
            "?x : " + "p(A,?x) \\ " * 9_000 + "p(A,?x)",
            "?x : " + "p(A,?x) & " * 9_000 + "p(A,?x)",
            "?x : p(" + "a" * 99_000 + ", ?x)",
            "?x : " + "a" * 99_000,
            '?x : p("' + '\\"' * 49_000 + '", ?x)',
            "?" + "x" * 99_000,
            "?x : exists " + "?y, " * 24_000,
            "?x" * 50_000,
            "\n" * 100_000,
            "?x : p(A,?x)" + ")" * 90_000,
            chain(900),
            "?x : " + " & ".join(f"p(?y{i}, ?x) & q(A, ?z{i})" for i in range(450)),
            "?x : q(?y,?x) & " + " & ".join(["(p(A,?y) | r(B,?x))"] * 400),
            "?x : exists ?y. " + " ^ ".join(["(p(A,?y) & r(?y,?x))"] * 60),
            "?x : exists ?y. " + " <-> ".join(["p(A,?y)", *["p(A,?x)"] * 60]),
        ],
        ids=range(21),
    )
    def test_nonsense_of_any_size_ends_quickly(self, text):
        started = time.perf_counter()
        with pytest.raises(FlexError) as caught:
            parse(text, ATLAS)
        assert time.perf_counter() - started < 5  # about a tenth of a second; the rest is room for a busy machine
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 1_000

    def test_text_length(self):
        with pytest.raises(LimitError, match=f"the limit is {MAX_TEXT:,}"):
            parse("?x : p(A, ?x)" + " " * MAX_TEXT, ATLAS)

    def test_depth(self):
        deep = "!" * (MAX_DEPTH - 2)
        term = read(f"{deep}p(A, ?x)")
        assert parse(to_text(term, ATLAS), ATLAS) == term
        assert f"the limit is {MAX_DEPTH} levels" in str(refused(f"?x : {deep}!p(A, ?x)"))
        assert f"the limit is {MAX_DEPTH} levels" in str(refused(chain(MAX_DEPTH)))

    def test_the_deepest_path_can_be_read_back(self):
        term = parse(chain(MAX_DEPTH - 2), ATLAS)
        assert parse(to_text(term, ATLAS), ATLAS) == term

    def test_deep_alternation_can_be_read_back(self):
        term = Project(P, A)
        while len(to_text(term, ATLAS)) and term_depth(term) + 3 <= MAX_DEPTH:
            term = Project(P, Not(Implies(Project(P, B), term)))
        assert parse(to_text(term, ATLAS), ATLAS) == term

    def test_atoms(self):
        wide = " & ".join(["p(A, ?x)"] * MAX_ATOMS)
        assert len(read(wide).operands) == MAX_ATOMS
        assert f"the limit is {MAX_ATOMS:,}" in str(refused(f"?x : {wide} & p(A, ?x)"))

    def test_growth(self):
        text = "?x : q(?y,?x) & " + " & ".join(["(p(A,?y) | r(B,?x))"] * 20)
        assert "grows past the limit" in str(refused(text))


def term_depth(term):
    from flexkg.query.terms import size_and_depth

    return size_and_depth(term)[1]
