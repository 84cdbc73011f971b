"""Formula to term: hangs the variables of a formula as a tree under its target.

A formula with one free variable becomes a term connective by connective. A quantified conjunction is cut
into the pieces that its variables hold together; each piece must reach the outer variable by one atom, the
edge, and what is left of the piece describes the variable at the edge's far end. Only where a condition
speaks of two variables at once is it rewritten, step by step, until such conditions are edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexkg.query import formula as f
from flexkg.query import terms as t
from flexkg.query.limits import MAX_DEPTH, MAX_EXPANSION, MAX_NODES
from flexkg.query.mixed import negate, negated_edge, unfold
from flexkg.query.scope import TARGET
from flexkg.query.tokens import Source, shown

if TYPE_CHECKING:
    from flexkg.errors import QueryError

# A level of a term takes at most two calls, and rewriting adds a few; Python's own limit stays far away.
_MAX_CALLS = 3 * MAX_DEPTH


def shape(source: Source, target: f.Variable, formula: f.Formula) -> t.Term:
    """Translate a formula whose quantifiers are all explicit and whose only free variable is the target."""
    shaper = _Shaper(source, target)
    if TARGET not in shaper.free(formula):
        raise shaper.untied(formula, TARGET)
    term = shaper.term(formula, TARGET, 0)
    size, depth = t.size_and_depth(term)
    if depth > MAX_DEPTH or size > MAX_NODES:
        raise shaper.too_deep(formula) if depth > MAX_DEPTH else shaper.too_large(formula)
    return term


class _Shaper:
    def __init__(self, source: Source, target: f.Variable) -> None:
        self.source = source
        self.free = f.FreeVariables()
        self.names = {TARGET: target.name}
        self.copied = 0

    def term(self, formula: f.Formula, root: int, calls: int) -> t.Term:
        """The set of values of the variable `root`, the only free one, for which the formula holds."""
        if calls > _MAX_CALLS:
            raise self.too_deep(formula)
        match formula:
            case f.Atom():
                return self.condition(formula)
            case f.Exists(variables=variables, body=body):
                self.names.update((variable.key, variable.name) for variable in variables)
                return self.block([body], root, calls + 1)
        operands = f.parts(formula)
        for operand in operands:
            if root not in self.free(operand):
                raise self.untied(operand, root)
        return _connect(formula, [self.term(operand, root, calls + 1) for operand in operands])

    def condition(self, atom: f.Atom) -> t.Term:
        """An atom between the variable and an entity."""
        match atom.subject, atom.object:
            case f.Name(id=entity), f.Variable():
                return t.Project(2 * atom.relation.id, t.Entity(entity))
            case f.Variable(), f.Name(id=entity):
                return t.Project(2 * atom.relation.id + 1, t.Entity(entity))
            case _:
                raise self.cycle(atom)

    def block(self, conjuncts: list[f.Formula], root: int, calls: int) -> t.Term:
        """The values of `root` for which all conjuncts hold under some values of their other free variables."""
        if calls > _MAX_CALLS:
            raise self.too_deep(conjuncts[0])
        conjuncts = self.flatten(conjuncts)
        pieces = self.pieces(conjuncts, root)
        found = []
        for piece in pieces:
            touching = [index for index in piece if root in self.free(conjuncts[index])]
            if not touching:
                raise self.untied(conjuncts[piece[0]], root)
            found.append((touching[0], [conjuncts[index] for index in piece]))
        parts = [self.piece(piece, root, calls + 1) for _, piece in sorted(found, key=lambda pair: pair[0])]
        return parts[0] if len(parts) == 1 else t.And(*parts)

    def flatten(self, conjuncts: list[f.Formula]) -> list[f.Formula]:
        """Splice in nested conjunctions, and inner quantifiers over conditions that speak of several variables."""
        flat: list[f.Formula] = []
        stack = conjuncts[::-1]
        while stack:
            conjunct = stack.pop()
            if isinstance(conjunct, f.And):
                stack.extend(reversed(conjunct.operands))
            elif isinstance(conjunct, f.Exists) and (len(self.free(conjunct)) > 1 or len(conjuncts) == 1):
                self.names.update((variable.key, variable.name) for variable in conjunct.variables)
                stack.append(conjunct.body)
            else:
                flat.append(conjunct)
        return flat

    def pieces(self, conjuncts: list[f.Formula], root: int) -> list[list[int]]:
        """Group the conjuncts, by index, that share variables other than the root."""
        leader: dict[int, int] = {}

        def find(key: int) -> int:
            while leader.setdefault(key, key) != key:
                leader[key] = key = leader[leader[key]]
            return key

        inner = [sorted(self.free(conjunct) - {root}) for conjunct in conjuncts]
        for keys in inner:
            for key in keys[1:]:
                leader[find(key)] = find(keys[0])
        groups: dict[object, list[int]] = {}
        for index, keys in enumerate(inner):
            # Without another variable a conjunct stands alone; a tuple is no variable's key.
            groups.setdefault(find(keys[0]) if keys else (index,), []).append(index)
        return list(groups.values())

    def piece(self, conjuncts: list[f.Formula], root: int, calls: int) -> t.Term:
        """The same for conjuncts that their variables hold together."""
        if len(conjuncts) == 1:
            return self.single(conjuncts[0], root, calls)
        for index, conjunct in enumerate(conjuncts):
            if isinstance(conjunct, f.Atom) or len(self.free(conjunct)) == 1:
                continue
            if isinstance(conjunct, f.Or):
                alternatives = [[*conjuncts[:index], choice, *conjuncts[index + 1 :]] for choice in conjunct.operands]
                self.count(*(part for alternative in alternatives for part in alternative))
                return t.Or(*(self.block(alternative, root, calls + 1) for alternative in alternatives))
            return self.block(self.replace(conjuncts, index, root), root, calls + 1)
        edges = [conjunct for conjunct in conjuncts if root in self.free(conjunct)]
        if len(edges) > 1:
            raise self.cycle(self.closing(conjuncts))
        return self.follow(edges[0], [conjunct for conjunct in conjuncts if conjunct is not edges[0]], root, calls)

    def single(self, conjunct: f.Formula, root: int, calls: int) -> t.Term:
        """The same for one conjunct; here connectives can often stay as they are."""
        free = self.free(conjunct)
        if free == {root}:
            return self.term(conjunct, root, calls + 1)
        match conjunct:
            case f.Atom():
                return self.follow(conjunct, [], root, calls)
            case f.Or(operands=operands):
                return t.Or(*(self.tied_block(operand, root, calls) for operand in operands))
            case f.Minus(left=left, right=right) if self.free(right) <= {root}:
                return t.Minus(self.tied_block(left, root, calls), self.tied_block(right, root, calls))
            case f.Implies(left=left, right=right) if self.free(left) <= {root}:
                return t.Implies(self.tied_block(left, root, calls), self.tied_block(right, root, calls))
            case _:
                return self.block(self.replace([conjunct], 0, root), root, calls + 1)

    def tied_block(self, formula: f.Formula, root: int, calls: int) -> t.Term:
        if root not in self.free(formula):
            raise self.untied(formula, root)
        return self.block([formula], root, calls + 1)

    def replace(self, conjuncts: list[f.Formula], index: int, root: int) -> list[f.Formula]:
        """Take one step towards edges with the conjunct at `index`, which speaks of several variables."""
        conjunct = conjuncts[index]
        new: f.Formula | None
        if isinstance(conjunct, f.Not):
            new = negate(conjunct.operand)
            # A negated conjunction around an edge would fail one step later, and less of it could be shown then.
            if new is None or (
                isinstance(conjunct.operand, f.And) and any(map(self.is_link, conjunct.operand.operands))
            ):
                others = [other for other in conjuncts if other is not conjunct]
                raise negated_edge(self.source, conjunct, others, root, self.free, self.names)
        else:
            new = unfold(conjunct)
        self.count(new)
        return [*conjuncts[:index], new, *conjuncts[index + 1 :]]

    def is_link(self, formula: f.Formula) -> bool:
        """Whether the formula joins variables and no negation can be pushed into it."""
        return isinstance(formula, f.Atom | f.Exists) and len(self.free(formula)) > 1

    def follow(self, edge: f.Formula, rest: list[f.Formula], root: int, calls: int) -> t.Term:
        """Step from the root along the edge to the variable that the rest describes."""
        assert isinstance(edge, f.Atom)
        subject, object = edge.subject, edge.object
        assert isinstance(subject, f.Variable)
        assert isinstance(object, f.Variable)
        backwards = subject.key == root
        inner = (object if backwards else subject).key
        operand = self.block(rest, inner, calls + 1) if rest else t.Any()
        return t.Project(2 * edge.relation.id + backwards, operand)

    def closing(self, conjuncts: list[f.Formula]) -> f.Atom:
        """The first atom, in the order of the text, that joins two variables which are joined already."""
        group: dict[int, int] = {}
        edges = [conjunct for conjunct in conjuncts if isinstance(conjunct, f.Atom) and len(self.free(conjunct)) == 2]
        for edge in sorted(edges, key=lambda edge: edge.start):
            left, right = (group.setdefault(key, key) for key in self.free(edge))
            if left == right:
                return edge
            group = {key: left if value == right else value for key, value in group.items()}
        return edges[-1]

    def count(self, *formulas: f.Formula) -> None:
        """Keep what is copied within the limit, which stops exponential growth early."""
        self.copied += sum(1 for formula in formulas for _ in f.atoms(formula))
        if self.copied > MAX_EXPANSION:
            raise self.too_large(formulas[0])

    def untied(self, formula: f.Formula, root: int) -> QueryError:
        name = f"?{shown(self.names[root])}"
        variable = next(f.variables(formula), None)
        if variable is not None:
            return self.source.error(
                f"Nothing ties ?{shown(variable.name)} to {name}.",
                variable.start,
                variable.end,
                f"Join them by atoms, or leave this part out: every part must say something about {name}.",
            )
        fact = shown(self.source.text[formula.start : formula.end])
        return self.source.error(
            f"Nothing ties {fact} to {name}.",
            formula.start,
            formula.end,
            f"Leave it out: every part must say something about {name}.",
        )

    def cycle(self, atom: f.Atom) -> QueryError:
        fact = shown(self.source.text[atom.start : atom.end])
        return self.source.error(
            f"{fact} closes a cycle between variables.",
            atom.start,
            atom.end,
            "A query must be a tree around its target: use another variable or leave this atom out.",
        )

    def too_deep(self, formula: f.Formula) -> QueryError:
        message = f"The query is nested too deeply; the limit is {MAX_DEPTH} levels."
        return self.source.error(message, formula.start, formula.end, "Ask it in parts.")

    def too_large(self, formula: f.Formula) -> QueryError:
        return self.source.error(
            f"The query grows past the limit of {MAX_EXPANSION:,} atoms when its quantifiers are pushed inwards.",
            formula.start,
            formula.end,
            "Let fewer | and ^ speak of two variables at once.",
        )


def _connect(formula: f.Formula, operands: list[t.Term]) -> t.Term:
    match formula:
        case f.Not():
            return t.Not(operands[0])
        case f.And():
            return t.And(*operands)
        case f.Or():
            return t.Or(*operands)
        case f.Minus():
            return t.Minus(operands[0], operands[1])
        case f.Xor():
            return t.Xor(operands[0], operands[1])
        case f.Implies():
            return t.Implies(operands[0], operands[1])
        case f.Iff():
            return t.Iff(operands[0], operands[1])
        case _:
            raise AssertionError(f"{type(formula).__name__} is no connective")
