"""One test for each rule of the interface's section on query text."""

from __future__ import annotations

import itertools

import pytest

from atlas import ATLAS, A, Atlas, B, C, P, Q, R, S, marked, read, refused
from flexkg.errors import QueryError
from flexkg.query import parse, to_text
from flexkg.query.terms import And, Any, Entity, Iff, Implies, Minus, Not, Or, Project, Xor


class TestAtoms:
    def test_object_is_asked_for(self):
        assert read("p(A, ?x)") == Project(P, A)

    def test_subject_is_asked_for_by_the_inverse_relation(self):
        assert read("p(?x, A)") == Project(P + 1, A)

    def test_the_target_may_have_any_name(self):
        assert parse("?who : p(A, ?who)", ATLAS) == Project(P, A)

    def test_an_unanchored_leaf_is_any(self):
        assert read("p(?y, ?x)") == Project(P, Any())
        assert read("p(?x, ?y)") == Project(P + 1, Any())

    def test_a_path_over_variables(self):
        assert read("p(A, ?y) & q(?y, ?z) & r(?x, ?z)") == Project(R + 1, Project(Q, Project(P, A)))


class TestNames:
    @pytest.mark.parametrize(
        ("name", "id"),
        [("France", 3), ('"United States"', 4), ("USA", 4), ("Q4", 4), ("St.Lucia", 9), ("d'Ivoire", 10)],
    )
    def test_entities_by_name_alias_and_identifier(self, name, id):
        assert read(f"p({name}, ?x)") == Project(P, Entity(id))

    @pytest.mark.parametrize(("name", "id"), [("ex:knows", 5), ('"part of"', 6), ('"/a/b"', 7), ('"p"', 0)])
    def test_relations_follow_the_same_rule(self, name, id):
        assert read(f"{name}(A, ?x)") == Project(2 * id, A)

    def test_quoting_makes_a_keyword_a_name(self):
        assert read('p("or", ?x)') == Project(P, Entity(8))

    def test_a_keyword_as_an_argument_asks_for_quotes(self):
        error = refused("?x : p(or, ?x)")
        assert 'write "or"' in str(error)
        assert error.column == 8

    def test_an_arrow_ends_a_bare_name_and_a_hyphen_does_not(self):
        assert read("p(A,?x)->q(B,?x)") == Implies(Project(P, A), Project(Q, B))
        assert "'A->B'" not in str(refused("?x : p(A-B, ?x)"))
        assert marked(refused("?x : p(A-B, ?x)")) == "A-B"

    def test_unknown_entity(self):
        error = refused("?x : p(Frnace, ?x)")
        assert str(error) == "There is no entity 'Frnace' (line 1, column 8). Did you mean France?"
        assert marked(error) == "Frnace"

    def test_suggestions_are_written_as_they_must_be_typed(self):
        assert 'Did you mean "United States"?' in str(refused("?x : p(Untied, ?x)"))

    def test_unknown_relation(self):
        error = refused("?x : boders(A, ?x)")
        assert str(error) == "There is no relation 'boders' (line 1, column 6). Did you mean borders?"

    def test_unknown_without_anything_close(self):
        assert "No known name is close" in str(refused("?x : zzz(A, ?x)"))

    def test_ambiguous_entity_lists_its_candidates(self):
        error = refused("?x : p(Georgia, ?x)")
        assert "'Georgia' may mean 2 entities (line 1, column 8)." in str(error)
        assert "Q5 (country); Q6 (state)" in str(error)

    def test_ambiguous_relation_lists_its_candidates(self):
        assert "'uses' may mean 2 relations (line 1, column 6)." in str(refused("?x : uses(A, ?x)"))

    def test_many_candidates_are_cut(self):
        class Crowd(Atlas):
            entities = ("Springfield",) * 40

        with pytest.raises(QueryError, match=r"may mean 40 entities .*; and 35 more\."):
            parse("?x : p(Springfield, ?x)", Crowd())

    def test_a_relation_in_an_entitys_place(self):
        error = refused("?x : p(borders, ?x)")
        assert "'borders' is a relation, and an entity or a variable belongs here" in str(error)
        assert error.column == 8

    def test_an_entity_in_a_relations_place(self):
        error = refused("?x : France(A, ?x)")
        assert "'France' is an entity, and a relation belongs here" in str(error)
        assert error.column == 6


class TestConnectives:
    a, b, c, d = Project(P, A), Project(Q, A), Project(R, A), Project(S, A)

    @pytest.mark.parametrize(
        ("sign", "word", "kind"),
        [
            ("&", "and", And),
            ("\\", "minus", Minus),
            ("^", "xor", Xor),
            ("|", "or", Or),
            ("->", "implies", Implies),
            ("<->", "iff", Iff),
        ],
    )
    def test_signs_and_words(self, sign, word, kind):
        for spelling in (sign, word, word.upper()):
            assert read(f"p(A,?x) {spelling} q(A,?x)") == kind(self.a, self.b)

    def test_negation(self):
        for spelling in ("!", "not ", "NOT "):
            assert read(f"{spelling}p(A,?x)") == Not(self.a)
        assert read("!!p(A,?x)") == Not(Not(self.a))

    def test_symbols_of_logic(self):
        assert read("¬p(A,?x) ∧ q(A,?x) → r(A,?x)") == Implies(And(Not(self.a), self.b), self.c)
        assert read("∃?y. p(?y,?x)") == Project(P, Any())

    def test_each_connective_binds_tighter_than_the_next(self):
        signs = ["&", "\\", "^", "|", "->", "<->"]
        kinds = [And, Minus, Xor, Or, Implies, Iff]
        for tight in range(6):
            for loose in range(tight + 1, 6):
                left = f"p(A,?x) {signs[tight]} q(A,?x) {signs[loose]} r(A,?x)"
                right = f"p(A,?x) {signs[loose]} q(A,?x) {signs[tight]} r(A,?x)"
                assert read(left) == kinds[loose](kinds[tight](self.a, self.b), self.c)
                assert read(right) == kinds[loose](self.a, kinds[tight](self.b, self.c))

    def test_negation_binds_tightest(self):
        assert read("!p(A,?x) & q(A,?x)") == And(Not(self.a), self.b)

    def test_chains_of_and_and_or_are_flat(self):
        for sign, kind in (("&", And), ("|", Or)):
            for text in ("p(A,?x) {0} q(A,?x) {0} r(A,?x)", "p(A,?x) {0} (q(A,?x) {0} r(A,?x))"):
                assert read(text.format(sign)) == kind(self.a, self.b, self.c)

    @pytest.mark.parametrize(("sign", "kind"), [("\\", Minus), ("^", Xor), ("<->", Iff)])
    def test_to_the_left(self, sign, kind):
        assert read(f"p(A,?x) {sign} q(A,?x) {sign} r(A,?x)") == kind(kind(self.a, self.b), self.c)

    def test_implies_to_the_right(self):
        assert read("p(A,?x) -> q(A,?x) -> r(A,?x)") == Implies(self.a, Implies(self.b, self.c))

    def test_parentheses(self):
        assert read("p(A,?x) & (q(A,?x) | r(A,?x))") == And(self.a, Or(self.b, self.c))

    def test_the_interfaces_example(self):
        class World(Atlas):
            entities = ("France", "German", "Euro")
            relations = ("borders", "speaks", "uses")

        text = "?x : borders(France, ?x) & speaks(?x, German) & !uses(?x, Euro)"
        term = And(Project(0, Entity(0)), Project(3, Entity(1)), Not(Project(5, Entity(2))))
        assert parse(text, World()) == term
        assert to_text(term, World()) == text


class TestQuantifiers:
    def test_inside_a_negation_when_all_occurrences_are(self):
        assert read("!(p(A,?y) & q(?y,?x))") == Not(Project(Q, Project(P, A)))
        assert read("s(A,?x) & !q(?y,?x)") == And(Project(S, A), Not(Project(Q, Any())))

    def test_outside_when_one_is_outside(self):
        term = Project(Q, And(Project(P, A), Not(Project(R + 1, B))))
        assert read("p(A,?y) & q(?y,?x) & !r(?y,B)") == term

    def test_pushed_through_or(self):
        assert read("q(?y,?x) & p(A,?y) | r(?y,?x)") == Or(Project(Q, Project(P, A)), Project(R, Any()))

    def test_a_union_on_the_inner_variable_stays(self):
        assert read("q(?y,?x) & (p(A,?y) | r(B,?y))") == Project(Q, Or(Project(P, A), Project(R, B)))

    def test_a_union_over_both_variables_is_distributed(self):
        term = Or(Project(Q, Project(P, A)), And(Project(Q, Any()), Project(R, B)))
        assert read("q(?y,?x) & (p(A,?y) | r(B,?x))") == term

    def test_written_out(self):
        assert read("exists ?y. p(A,?y) & q(?y,?x)") == Project(Q, Project(P, A))
        assert read("exists ?y, ?z. p(A,?y) & q(?y,?z) & r(?z,?x)") == Project(R, Project(Q, Project(P, A)))

    def test_reaches_as_far_right_as_possible(self):
        assert read("s(A,?x) & exists ?y. q(?y,?x) & p(A,?y)") == And(Project(S, A), Project(Q, Project(P, A)))
        assert read("!exists ?y. q(?y,?x) & p(A,?y)") == Not(Project(Q, Project(P, A)))

    def test_an_inner_one_hides_an_outer_one(self):
        term = Project(Q, And(Project(P, A), Not(Project(R, Project(S, B)))))
        assert read("q(?y,?x) & p(A,?y) & !(exists ?z. r(?z,?y) & s(B,?z))") == term
        assert read("exists ?y. q(?y,?x) & p(A,?y) & (exists ?y. r(?y,?x))") == And(
            Project(Q, Project(P, A)), Project(R, Any())
        )

    @pytest.mark.parametrize("sign", ["^", "->", "<->", "\\"])
    def test_shared_across_other_connectives_needs_exists(self, sign):
        text = f"?x : p(A,?y) & q(?y,?x) {sign} r(?y,?x)"
        error = refused(text)
        assert f"?y is shared across '{sign}'" in str(error)
        assert "exists ?y. (" in str(error)
        assert error.column == text.rindex("?y") + 1

    def test_connectives_stay_where_the_variable_is_on_one_side(self):
        path = Project(Q, Project(P, A))
        assert read("exists ?y. (q(?y,?x) & p(A,?y)) \\ s(B,?x)") == Minus(path, Project(S, B))
        assert read("exists ?y. s(B,?x) -> q(?y,?x) & p(A,?y)") == Implies(Project(S, B), path)
        assert read("q(?y,?x) & p(A,?y) ^ s(B,?x)") == Xor(path, Project(S, B))

    def test_connectives_are_written_out_where_it_is_on_both(self):
        term = Project(Q, And(Project(P, A), Not(Project(R + 1, B))))
        assert read("exists ?y. p(A,?y) & q(?y,?x) \\ r(?y,B)") == term

    def test_the_target_cannot_be_quantified(self):
        error = refused("?x : exists ?x. p(?x, A)")
        assert "?x is the target and cannot be quantified (line 1, column 13)" in str(error)

    def test_an_unused_one_is_an_error(self):
        assert "?y is quantified but not used (line 1, column 13)" in str(refused("?x : exists ?y. p(A, ?x)"))

    def test_the_same_one_twice_is_an_error(self):
        assert "?y is quantified twice here" in str(refused("?x : exists ?y, ?y. p(?y, ?x)"))


class TestNegatedAtoms:
    def test_a_condition_on_one_variable_is_fine_anywhere(self):
        assert read("q(?y,?x) & !p(?y,B)") == Project(Q, Not(Project(P + 1, B)))
        assert read("q(?y,?x) & (s(?y,C) | !p(?y,B))") == Project(Q, Or(Project(S + 1, C), Not(Project(P + 1, B))))

    def test_between_two_variables_tied_outside(self):
        error = refused("?x : p(A,?y) & !q(?y,?x)")
        assert "?y is tied outside of it as well (line 1, column 16)" in str(error)
        assert "Write !(p(A,?y) & q(?y,?x))," in str(error)
        assert marked(error) == "!q(?y,?x)"

    def test_the_suggestion_can_be_read(self):
        for text in (
            "p(A,?y) & !q(?y,?x)",
            "s(B,?x) & p(A,?y) & !q(?y,?x)",
            "p(A,?y) & r(?y,?x) & !q(?y,?x)",
            "p(A,?z) & r(?z,?y) & !q(?y,?x)",
            "p(A,?y) & !(q(?y,?z) & r(?z,?x))",
            "exists ?y. !q(?y,?x)",
            "!(p(A,?y) & q(?y,?x)) & r(?y,?x)",
        ):
            error = refused(f"?x : {text}")
            suggestion = error.hint.removeprefix("Write ").split(", which")[0]
            assert isinstance(read(suggestion), Not), text

    def test_a_negated_conjunction_is_shown_whole(self):
        error = refused("?x : !(p(A,?y) & q(?y,?x)) & r(?y,?x)")
        assert "Write !(exists ?y. p(A,?y) & q(?y,?x))," in str(error)
        assert error.column == 6

    def test_hidden_in_another_connective(self):
        assert "tied outside of it" in str(refused("?x : exists ?y. p(A,?y) & s(?y,?x) \\ q(?y,?x)"))


class TestTree:
    def test_a_loop_at_one_variable(self):
        error = refused("?x : p(?x, ?x)")
        assert "p(?x, ?x) closes a cycle" in str(error)
        assert error.column == 6

    def test_two_atoms_between_the_same_variables(self):
        error = refused("?x : p(?y,?x) & q(?y,?x)")
        assert "q(?y,?x) closes a cycle" in str(error)
        assert error.column == 17

    def test_a_longer_cycle_points_at_the_closing_atom_on_its_line(self):
        error = refused("?x : p(?x,?y) &\n\tq(?y,?z) &\n\t r(?z,?x)")
        assert (error.line, error.column, marked(error)) == (3, 3, "r(?z,?x)")

    def test_a_cycle_is_seen_in_any_order_of_its_atoms(self):
        atoms = ["p(?x,?y)", "q(?x,?z)", "r(?y,?z)", "s(?z,?w)"]
        for order in itertools.permutations(atoms):
            closing = [atom for atom in order if "?w" not in atom][-1]
            assert marked(refused(f"?x : {' & '.join(order)}")) == closing

    def test_a_cycle_away_from_the_target(self):
        assert marked(refused("?x : s(?y,?x) & p(?y,?z) & q(?z,?w) & r(?w,?y)")) == "r(?w,?y)"

    @pytest.mark.parametrize(
        ("formula", "what"),
        [
            ("p(A,?y)", "?y"),
            ("p(A,?x) & q(B,?y)", "?y"),
            ("p(A,?x) | q(B,?y)", "?y"),
            ("!p(A,?x) & !q(?y,?z)", "?y"),
            ("p(?y,?x) & (q(A,?y) | r(B,?w))", "?w"),
        ],
    )
    def test_an_untied_variable_is_named(self, formula, what):
        error = refused(f"?x : {formula}")
        assert f"Nothing ties {what} to ?" in str(error)
        assert marked(error) == what

    def test_a_fact_about_nothing_asked(self):
        error = refused("?x : p(A,?x) & q(A,B)")
        assert "Nothing ties q(A,B) to ?x (line 1, column 16)" in str(error)
