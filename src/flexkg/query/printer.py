"""Term to canonical text: the fewest parentheses, names quoted only where they must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from flexkg.errors import QueryError
from flexkg.query import formula as f
from flexkg.query import terms as t
from flexkg.query.tokens import written
from flexkg.query.walk import check_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from flexkg.query.names import Names

_BINDING: dict[type, tuple[int, str]] = {
    f.Atom: (80, ""),
    f.Not: (70, "!"),
    f.And: (60, " & "),
    f.Minus: (50, " \\ "),
    f.Xor: (40, " ^ "),
    f.Or: (30, " | "),
    f.Implies: (20, " -> "),
    f.Iff: (10, " <-> "),
    f.Exists: (0, ""),
}


def to_text(term: t.Term, names: Names) -> str:
    """Write the query that `parse` reads back as exactly this term."""
    check_size(term)
    formula = _Writer(names).formula(term, f.Variable("x"))
    return f"?x : {formula_text(formula, _atom_text)}"


def statement(term: t.Term, names: Names, entity: int) -> str:
    """Write that one entity is in the term's set, such as `borders(France, Spain)`."""
    check_size(term)
    subject = f.Name(written(names.entity_text(entity)))
    return formula_text(_Writer(names).formula(term, subject), _atom_text)


def formula_text(formula: f.Formula, atom_text: Callable[[f.Atom], str]) -> str:
    """Write a formula with the fewest parentheses."""
    binding, sign = _BINDING[type(formula)]

    def part(operand: f.Formula, at_least: int) -> str:
        text = formula_text(operand, atom_text)
        return text if _BINDING[type(operand)][0] >= at_least else f"({text})"

    match formula:
        case f.Atom():
            return atom_text(formula)
        case f.Not(operand=operand):
            return f"!{part(operand, binding)}"
        case f.And() | f.Or():
            return sign.join(part(operand, binding + 1) for operand in formula.operands)
        case f.Implies(left=left, right=right):
            return part(left, binding + 1) + sign + part(right, binding)
        case f.Exists(variables=variables, body=body):
            return f"exists {', '.join(f'?{variable.name}' for variable in variables)}. {part(body, 0)}"
        case _:
            return part(formula.left, binding) + sign + part(formula.right, binding + 1)


class _Writer:
    """Turns a term into a formula with a fresh variable for every inner set."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.num_variables = 0

    def fresh(self) -> f.Variable:
        self.num_variables += 1
        first = ("y", "z", "w")
        if self.num_variables <= len(first):
            return f.Variable(first[self.num_variables - 1])
        return f.Variable(f"v{self.num_variables - len(first)}")

    def formula(self, term: t.Term, subject: f.Argument) -> f.Formula:
        """The formula that holds of `subject` where it is in the term's set."""
        match term:
            case t.Entity() | t.Any():
                _no_text(term)
            case t.Project(relation=relation, operand=operand):
                return self.projection(relation, operand, subject)
            case t.Not(operand=operand):
                return f.Not(self.formula(operand, subject))
            case t.And():
                return _conjunction([self.formula(operand, subject) for operand in term.operands])
            case t.Or():
                return f.Or(tuple(self.formula(operand, subject) for operand in term.operands))
        left, right = self.formula(term.left, subject), self.formula(term.right, subject)
        match term:
            case t.Minus():
                return f.Minus(left, right)
            case t.Xor():
                return f.Xor(left, right)
            case t.Implies():
                return f.Implies(left, right)
            case t.Iff():
                return f.Iff(left, right)

    def projection(self, relation: int, operand: t.Term, subject: f.Argument) -> f.Formula:
        name = f.Name(written(self.names.relation_text(relation >> 1)))

        def atom(inner: f.Argument) -> f.Atom:
            return f.Atom(name, subject, inner) if relation & 1 else f.Atom(name, inner, subject)

        if isinstance(operand, t.Entity):
            return atom(f.Name(written(self.names.entity_text(operand.id))))
        inner = self.fresh()
        if isinstance(operand, t.Any):
            return atom(inner)
        return _conjunction([atom(inner), self.formula(operand, inner)])


def _conjunction(formulas: list[f.Formula]) -> f.Formula:
    flat: list[f.Formula] = []
    for formula in formulas:
        flat.extend(formula.operands if isinstance(formula, f.And) else (formula,))
    return f.And(tuple(flat))


def _atom_text(atom: f.Atom) -> str:
    subject, object = (
        f"?{argument.name}" if isinstance(argument, f.Variable) else argument.text
        for argument in (atom.subject, atom.object)
    )
    return f"{atom.relation.text}({subject}, {object})"


def _no_text(term: t.Entity | t.Any) -> NoReturn:
    what = f"the single entity {term.id}" if isinstance(term, t.Entity) else "the set of all entities"
    raise QueryError(
        f"A query text cannot have {what} as a condition of its own.", hint="Only a relation's argument can be one."
    )
