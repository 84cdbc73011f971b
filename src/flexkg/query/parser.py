"""Text to term: the grammar of queries, read with an explicit stack so that no nesting can exhaust Python's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from flexkg.errors import LimitError
from flexkg.query.formula import And, Atom, Exists, Formula, Iff, Implies, Minus, Name, Not, Or, Variable, Xor
from flexkg.query.limits import MAX_ATOMS, MAX_DEPTH, MAX_TEXT
from flexkg.query.scope import scope
from flexkg.query.shape import shape
from flexkg.query.tokens import KEYWORDS, Source, Token, shown, tokens

if TYPE_CHECKING:
    from flexkg.query.formula import Argument
    from flexkg.query.names import Names
    from flexkg.query.terms import Term

_BINDING = {"!": 70, "&": 60, "\\": 50, "^": 40, "|": 30, "->": 20, "<->": 10}
_EXAMPLE = "?x : borders(France, ?x)"


def parse(text: str, names: Names) -> Term:
    """Read a query: its target, its formula, the names in it and its shape."""
    source = Source(text)
    target, formula = parse_formula(source)
    return shape(source, target, scope(source, target, formula, names))


def parse_formula(source: Source) -> tuple[Variable, Formula]:
    """Read `TARGET : formula` without looking anything up."""
    if len(source.text) > MAX_TEXT:
        raise LimitError(f"The query has {len(source.text):,} characters; the limit is {MAX_TEXT:,}.")
    return _Parser(source).query()


@dataclass(slots=True)
class _Pending:
    """An operator or an open parenthesis that still waits for what stands to its right."""

    token: Token
    variables: tuple[Variable, ...] = ()

    @property
    def binding(self) -> int:
        # `exists` reaches as far right as it can: only a closing parenthesis or the end takes it off the stack.
        return _BINDING.get(self.token.kind, 0)


@dataclass(slots=True)
class _Operand:
    formula: Formula
    depth: int


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.rest = tokens(source)
        self.token = next(self.rest)
        self.pending: list[_Pending] = []
        self.operands: list[_Operand] = []
        self.num_atoms = 0

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.token = next(self.rest)
        return token

    def fail(self, message: str, hint: str | None = None, token: Token | None = None) -> NoReturn:
        token = token or self.token
        raise self.source.error(message, token.start, token.end, hint)

    def query(self) -> tuple[Variable, Formula]:
        if self.token.kind == "end":
            self.fail("The query is empty.", f"Write for example {_EXAMPLE}.")
        if self.token.kind != "variable":
            self.fail("A query begins with the variable it asks for and a colon.", f"Write for example {_EXAMPLE}.")
        target = self.advance()
        if self.token.kind == ",":
            self.fail("A query asks for one variable.", "Keep one before the colon; the others need no declaration.")
        if self.token.kind != ":":
            self.fail(f"A colon must follow the target ?{shown(target.text)}.", f"Write for example {_EXAMPLE}.")
        self.advance()
        if self.token.kind == "end":
            self.fail("The formula is empty.", f"Write one behind the colon, for example {_EXAMPLE}.")
        return Variable(target.text, target.start, target.end), self.formula()

    def formula(self) -> Formula:
        while True:
            self.prefixes()
            self.operands.append(_Operand(self.atom(), 1))
            while self.token.kind == ")":
                self.close()
            if self.token.kind == "end":
                break
            if self.token.kind not in _BINDING or self.token.kind == "!":
                self.unexpected_after_operand()
            self.connective()
        while self.pending:
            if self.pending[-1].token.kind == "(":
                self.fail("This parenthesis is never closed.", "Add a ) or take it away.", self.pending[-1].token)
            self.reduce()
        return self.operands.pop().formula

    def prefixes(self) -> None:
        while True:
            match self.token.kind:
                case "!" | "(":
                    self.push(_Pending(self.advance()))
                case "exists":
                    self.push(self.quantifier())
                case _:
                    return

    def push(self, pending: _Pending) -> None:
        # Parentheses leave no trace in a formula's depth, so twice the depth leaves room for a pair at every level.
        if len(self.pending) >= 2 * MAX_DEPTH:
            self.too_deep(pending.token)
        self.pending.append(pending)

    def too_deep(self, token: Token) -> NoReturn:
        self.fail(f"The formula is nested too deeply; the limit is {MAX_DEPTH} levels.", token=token)

    def quantifier(self) -> _Pending:
        exists = self.advance()
        variables = []
        while True:
            if self.token.kind != "variable":
                self.fail("A variable must follow here.", "Write exists ?y. and then the formula.")
            token = self.advance()
            variables.append(Variable(token.text, token.start, token.end))
            if self.token.kind != ",":
                break
            self.advance()
        if self.token.kind != ".":
            self.fail("A dot must follow the quantified variable.", f"Write exists ?{shown(variables[-1].name)}. here.")
        self.advance()
        return _Pending(exists, tuple(variables))

    def connective(self) -> None:
        token = self.advance()
        binding = _BINDING[token.kind]
        while self.pending and (
            self.pending[-1].binding > binding or (self.pending[-1].binding == binding and token.kind != "->")
        ):
            self.reduce()
        self.push(_Pending(token))

    def close(self) -> None:
        closing = self.token
        while self.pending and self.pending[-1].token.kind != "(":
            self.reduce()
        if not self.pending:
            self.fail("This parenthesis closes nothing.", "Take it away or open one before it.", closing)
        self.pending.pop()
        self.advance()

    def reduce(self) -> None:
        """Apply the operator on top of the stack to the operands it waited for."""
        pending = self.pending.pop()
        right = self.operands.pop()
        start, end = pending.token.start, right.formula.end
        depth = right.depth + 1
        formula: Formula
        match pending.token.kind:
            case "!":
                formula = Not(right.formula, start, end)
            case "exists":
                formula = Exists(pending.variables, right.formula, start, end)
            case kind:
                left = self.operands.pop()
                start = left.formula.start
                depth = 1 + max(left.depth, right.depth)
                match kind:
                    case "&":
                        formula = And(_flat(And, left.formula, right.formula), start, end)
                        depth = max(side.depth + (not isinstance(side.formula, And)) for side in (left, right))
                    case "|":
                        formula = Or(_flat(Or, left.formula, right.formula), start, end)
                        depth = max(side.depth + (not isinstance(side.formula, Or)) for side in (left, right))
                    case "\\":
                        formula = Minus(left.formula, right.formula, start, end)
                    case "^":
                        formula = Xor(left.formula, right.formula, start, end)
                    case "->":
                        formula = Implies(left.formula, right.formula, start, end)
                    case _:
                        formula = Iff(left.formula, right.formula, start, end)
        if depth > MAX_DEPTH:
            self.too_deep(pending.token)
        self.operands.append(_Operand(formula, depth))

    def atom(self) -> Atom:
        relation = self.token
        if relation.kind != "name":
            self.unexpected_operand()
        self.num_atoms += 1
        if self.num_atoms > MAX_ATOMS:
            self.fail(f"The formula has too many atoms; the limit is {MAX_ATOMS:,}.")
        self.advance()
        if self.token.kind != "(":
            self.not_an_atom(relation)
        opening = self.advance()
        if self.token.kind == ")":
            self.wrong_number(relation, 0)
        subject = self.argument(opening)
        if self.token.kind == ")":
            self.wrong_number(relation, 1)
        self.comma(opening)
        object = self.argument(opening)
        if self.token.kind == ",":
            self.wrong_number(relation, 3)
        if self.token.kind != ")":
            self.comma(opening)
        closing = self.advance()
        name = Name(relation.text, relation.start, relation.end)
        return Atom(name, subject, object, relation.start, closing.end)

    def argument(self, opening: Token) -> Argument:
        token = self.token
        if token.kind == "variable":
            self.advance()
            return Variable(token.text, token.start, token.end)
        if token.kind == "end":
            self.fail("This parenthesis is never closed.", "Close it behind two arguments.", opening)
        if token.kind != "name" and token.text.lower() in KEYWORDS:
            self.fail(f"'{token.text}' is a word of the language.", f'To use it as a name write "{token.text}".')
        if token.kind != "name":
            self.fail(f"An argument is missing before {self.describe()}.", "Write a variable ?y or a name.")
        self.advance()
        if self.token.kind == "(":
            self.fail(
                "An argument is a variable or a name, not another atom.",
                "Put a variable here and write the inner atom beside this one, joined with &.",
                token,
            )
        return Name(token.text, token.start, token.end)

    def comma(self, opening: Token) -> None:
        match self.token.kind:
            case ",":
                self.advance()
            case "end":
                self.fail("This parenthesis is never closed.", "Close it behind two arguments.", opening)
            case "name" | "." | ":":
                self.fail(
                    f"A comma is missing before {self.describe()}.",
                    'A name with spaces or signs in it needs quotes, as in "United States".',
                )
            case _:
                self.fail(f"A comma is missing before {self.describe()}.", "Write relation(subject, object).")

    def wrong_number(self, relation: Token, count: int) -> NoReturn:
        have = {0: "has none", 1: "has one", 3: "has more"}[count]
        self.fail(
            f"An atom has two arguments; this one {have}.", f"Write {shown(relation.text)}(subject, object).", relation
        )

    def not_an_atom(self, name: Token) -> NoReturn:
        if name.text.lower() in KEYWORDS and name.text == self.source.text[name.start : name.end]:
            self.fail(
                f"'{name.text}' is read as a name here.",
                f"The word of the language is written {name.text.lower()} or {name.text.upper()}.",
                name,
            )
        if self.token.kind == "name":
            self.fail(
                f"'(' is missing before {self.describe()}.",
                'Write relation(subject, object); a name with spaces in it needs quotes, as in "part of".',
            )
        self.fail(
            f"'(' is missing behind {shown(name.text)}.",
            "A formula is made of atoms, relation(subject, object).",
            name,
        )

    def unexpected_operand(self) -> NoReturn:
        match self.token.kind:
            case "end":
                last = self.pending[-1].token if self.pending else self.token
                if last.kind == "(":
                    self.fail("This parenthesis is never closed.", "Add an atom and a ).", last)
                self.fail("The formula ends where an atom must follow.", "Write relation(subject, object).")
            case "variable":
                self.fail("A variable cannot stand here.", "An atom begins with a relation's name: relation(?y, ?x).")
            case ")" if self.pending and self.pending[-1].token.kind == "(":
                self.fail("There is nothing between these parentheses.", token=self.pending[-1].token)
            case _:
                hint = "Write relation(subject, object)."
                if self.token.text.lower() in KEYWORDS:
                    hint = f'To use the word as a name write "{self.token.text}".'
                self.fail(f"An atom is missing before {self.describe()}.", hint)

    def unexpected_after_operand(self) -> NoReturn:
        hint = "Join formulas with one of & \\ ^ | -> <->."
        if self.token.kind == "," and not any(pending.token.kind == "(" for pending in self.pending):
            hint = "Join formulas with & where all must hold, with | where one is enough."
        if self.token.kind in {".", ":"}:
            hint = "Nothing may follow the formula."
        self.fail(f"A connective is missing before {self.describe()}.", hint)

    def describe(self) -> str:
        """The current token in words."""
        if self.token.kind == "end":
            return "the end"
        return f"'{shown(self.source.text[self.token.start : self.token.end], 40)}'"


def _flat(kind: type[And] | type[Or], left: Formula, right: Formula) -> tuple[Formula, ...]:
    operands: list[Formula] = []
    for side in (left, right):
        if isinstance(side, And | Or) and isinstance(side, kind):
            operands.extend(side.operands)
        else:
            operands.append(side)
    return tuple(operands)
