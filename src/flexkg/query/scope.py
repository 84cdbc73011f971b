"""Who is who in a formula: looks names up, tells variables apart and makes every quantifier explicit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flexkg.query import formula as f
from flexkg.query.tokens import Source, shown, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flexkg.errors import QueryError
    from flexkg.query.names import Names

TARGET = 0
"""The key of the target variable."""

_SHOWN_CANDIDATES = 5
# No real name is this long, and looking for near misses costs time in proportion.
_LONGEST_SUGGESTED = 200
_CONNECTIVES: dict[type[f.Formula], str] = {f.Minus: "\\", f.Xor: "^", f.Implies: "->", f.Iff: "<->"}


def scope(source: Source, target: f.Variable, formula: f.Formula, names: Names) -> f.Formula:
    """Give every name its id, every variable a key of its own, and every variable but the target an `Exists`."""
    binder = _Binder(source, target.name, names)
    bound = binder.bind(formula, {target.name: TARGET})
    return _quantify(source, bound, list(binder.implicit.values()), binder.free)


class _Binder:
    def __init__(self, source: Source, target: str, names: Names) -> None:
        self.source = source
        self.target = target
        self.free = f.FreeVariables()
        self.implicit: dict[str, int] = {}
        self.num_keys = 1
        self.lookup = _Lookup(source, names)

    def bind(self, formula: f.Formula, keys: dict[str, int]) -> f.Formula:
        match formula:
            case f.Atom(relation=relation, subject=subject, object=object):
                return replace(
                    formula,
                    relation=self.lookup.relation(relation),
                    subject=self.argument(subject, keys),
                    object=self.argument(object, keys),
                )
            case f.Exists(variables=variables, body=body):
                return self.exists(formula, variables, body, keys)
            case _:
                return f.rebuild(formula, tuple(self.bind(part, keys) for part in f.parts(formula)))

    def argument(self, argument: f.Argument, keys: dict[str, int]) -> f.Argument:
        if isinstance(argument, f.Name):
            return self.lookup.entity(argument)
        key = keys.get(argument.name)
        if key is None:
            key = self.implicit.get(argument.name)
        if key is None:
            key = self.implicit[argument.name] = self.new_key()
        return replace(argument, key=key)

    def exists(
        self, formula: f.Exists, variables: tuple[f.Variable, ...], body: f.Formula, keys: dict[str, int]
    ) -> f.Formula:
        inner = dict(keys)
        bound: list[f.Variable] = []
        for variable in variables:
            if variable.name == self.target:
                raise self.error(variable, "is the target and cannot be quantified", "Use another variable here.")
            if any(variable.name == other.name for other in bound):
                raise self.error(variable, "is quantified twice here", "Name it once.")
            inner[variable.name] = self.new_key()
            bound.append(replace(variable, key=inner[variable.name]))
        new = self.bind(body, inner)
        for variable in bound:
            if variable.key not in self.free(new):
                raise self.error(variable, "is quantified but not used", "Take it away or use it in the formula.")
        return f.Exists(tuple(bound), new, formula.start, formula.end)

    def new_key(self) -> int:
        self.num_keys += 1
        return self.num_keys - 1

    def error(self, variable: f.Variable, what: str, hint: str) -> QueryError:
        return self.source.error(f"?{shown(variable.name)} {what}.", variable.start, variable.end, hint)


def _quantify(source: Source, formula: f.Formula, keys: Sequence[int], free: f.FreeVariables) -> f.Formula:
    """Put each free variable's quantifier on the smallest sub-formula that holds all its occurrences."""
    places: dict[f.Formula, list[f.Variable]] = {}
    first: dict[int, f.Variable] = {}
    for variable in f.variables(formula):
        first.setdefault(variable.key, variable)
    for key in keys:
        node = formula
        while len(holders := [part for part in f.parts(node) if key in free(part)]) == 1:
            node = holders[0]
        if (connective := _CONNECTIVES.get(type(node))) is not None:
            shared = next(variable for variable in f.variables(holders[-1]) if variable.key == key)
            name = f"?{shown(shared.name)}"
            raise source.error(
                f"{name} is shared across '{connective}', which leaves open where it is quantified.",
                shared.start,
                shared.end,
                f"Write exists {name}. (…) around what it should cover, or use two variables.",
            )
        places.setdefault(node, []).append(first[key])
    return _insert(formula, places)


def _insert(formula: f.Formula, places: dict[f.Formula, list[f.Variable]]) -> f.Formula:
    new = f.rebuild(formula, tuple(_insert(part, places) for part in f.parts(formula)))
    if formula in places:
        return f.Exists(tuple(places[formula]), new, formula.start, formula.end)
    return new


class _Lookup:
    """Finds the one id that a name stands for, or says why there is none."""

    def __init__(self, source: Source, names: Names) -> None:
        self.source = source
        self.names = names

    def entity(self, name: f.Name) -> f.Name:
        ids = self.names.find_entities(name.text)
        if len(ids) == 1:
            return replace(name, id=ids[0])
        if ids:
            raise self.ambiguous(
                name, "entities", [self.names.describe_entity(id) for id in ids[:_SHOWN_CANDIDATES]], len(ids)
            )
        if self.names.find_relations(name.text):
            raise self.error(
                name, "is a relation, and an entity or a variable belongs here", "Write relation(subject, object)."
            )
        raise self.unknown(name, "entity", self.suggestions(name, entity=True))

    def relation(self, name: f.Name) -> f.Name:
        ids = self.names.find_relations(name.text)
        if len(ids) == 1:
            return replace(name, id=ids[0])
        if ids:
            raise self.ambiguous(
                name, "relations", [self.names.describe_relation(id) for id in ids[:_SHOWN_CANDIDATES]], len(ids)
            )
        if self.names.find_entities(name.text):
            raise self.error(name, "is an entity, and a relation belongs here", "Write relation(subject, object).")
        raise self.unknown(name, "relation", self.suggestions(name, entity=False))

    def suggestions(self, name: f.Name, *, entity: bool) -> Sequence[str]:
        if len(name.text) > _LONGEST_SUGGESTED:
            return ()
        return self.names.suggest_entities(name.text) if entity else self.names.suggest_relations(name.text)

    def unknown(self, name: f.Name, kind: str, suggestions: Sequence[str]) -> QueryError:
        near = [shown(written(suggestion)) for suggestion in suggestions[:_SHOWN_CANDIDATES]]
        hint = f"Did you mean {_alternatives(near)}?" if near else "No known name is close to it."
        return self.source.error(f"There is no {kind} {_quote(name)}.", name.start, name.end, hint)

    def ambiguous(self, name: f.Name, kind: str, candidates: list[str], count: int) -> QueryError:
        candidates = [shown(candidate, 120) for candidate in candidates]
        more = f"; and {count - len(candidates)} more" if count > len(candidates) else ""
        return self.error(
            name, f"may mean {count} {kind}", f"Use the identifier of one of them: {'; '.join(candidates)}{more}."
        )

    def error(self, name: f.Name, what: str, hint: str) -> QueryError:
        return self.source.error(f"{_quote(name)} {what}.", name.start, name.end, hint)


def _quote(name: f.Name) -> str:
    return f"'{shown(name.text)}'"


def _alternatives(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
