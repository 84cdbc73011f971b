"""How a query was answered: every node of its computation graph with its own answers, and reasons for the result."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from flexkg.api import Explanation
from flexkg.engine.witness import Prover
from flexkg.errors import LimitError
from flexkg.models import interpretation
from flexkg.plan.algebra import OPERATOR_OF, Operator
from flexkg.plan.prepare import Union, prepare
from flexkg.predictor.answers import mark
from flexkg.predictor.support import Reason, Supporter
from flexkg.query import to_text
from flexkg.query.terms import Entity, Project, Term, operands
from flexkg.query.walk import postorder

if TYPE_CHECKING:
    from flexkg.predictor.answers import Prediction
    from flexkg.predictor.judged import Judge, Judged

_MEMORY = 1 << 30


@dataclass(frozen=True)
class Step:
    """One node of a computation graph, with the answers that it has by itself."""

    id: int
    label: str
    """The node alone, such as `borders(..., ?)` or `and`."""
    text: str
    """The whole sub-query."""
    operator: str
    operands: tuple[int, ...]
    """The ids of its operands."""
    asked: bool
    """Whether the node is in the query as it was asked, or came in by rewriting."""
    native: bool
    """Whether the model ran it as an operator of its own; otherwise it was rewritten."""
    known_count: int
    answers: tuple[Prediction, ...]
    """By descending score, known or not, without what the facts rule out there."""

    def to_dict(self) -> dict[str, Any]:
        """Plain Python."""
        return {
            "id": self.id,
            "term": self.text,
            "label": self.label,
            "operator": self.operator,
            "operands": list(self.operands),
            "asked": self.asked,
            "native": self.native,
            "known_count": self.known_count,
            "answers": [answer.to_dict() for answer in self.answers],
        }


@dataclass(frozen=True, eq=False)
class Reasoning:
    """The steps of a query, operands before what is made of them, and the reasons for its answers."""

    term: Term
    answers: tuple[Prediction, ...]
    steps: tuple[Step, ...]
    asked: int
    """The id of the step that is the query itself."""
    rewritten: tuple[int, ...]
    """The ids of the steps that ran in its place; the same one where nothing was rewritten."""
    notes: tuple[str, ...]
    """What was rewritten, in words."""
    reasons: tuple[Reason, ...]

    @property
    def query(self) -> str:
        """The query in canonical text."""
        return self.steps[self.asked].text

    def to_dict(self) -> dict[str, Any]:
        """Plain Python: what `flexkg ask --explain --json` prints beside the answers."""
        return {
            "asked": self.asked,
            "rewritten": list(self.rewritten),
            "steps": [step.to_dict() for step in self.steps],
            "reasons": [reason.to_dict() for reason in self.reasons],
        }

    def __repr__(self) -> str:
        lines = [self.query, *self._tree(self.asked, "  ")]
        lines += [f"rewritten: {note}" for note in self.notes]
        for id in self.computed():
            lines += ["computed as", *self._tree(id, "  ")]
        for reason in self.reasons:
            lines.append(f"{reason.answer.name}  ({mark(reason.answer)})")
            lines += [f"  {line}" for line in reason.lines()]
        return "\n".join(lines)

    def computed(self) -> tuple[int, ...]:
        """The ids of what ran in the query's place; none where it ran as it was asked."""
        return () if self.rewritten == (self.asked,) else self.rewritten

    def _tree(self, id: int, indent: str) -> list[str]:
        step = self.steps[id]
        below = [line for operand in step.operands for line in self._tree(operand, indent + "  ")]
        return [f"{indent}{step.label}{step_text(step)}", *below]

    def _repr_html_(self) -> str:
        reasons = "".join(
            f"<li>{escape(reason.answer.name)} ({mark(reason.answer)})"
            f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in reason.lines())}</ul></li>"
            for reason in self.reasons
        )
        notes = "".join(f"<p>rewritten: {escape(note)}</p>" for note in self.notes)
        head = f"<p><code>{escape(self.query)}</code></p>"
        ran = "".join(f"<p>computed as</p><ul>{self._html(id)}</ul>" for id in self.computed())
        return f"{head}<ul>{self._html(self.asked)}</ul>{notes}{ran}<ul>{reasons}</ul>"

    def _html(self, id: int) -> str:
        step = self.steps[id]
        below = "".join(self._html(operand) for operand in step.operands)
        inner = f"<ul>{below}</ul>" if below else ""
        return f"<li><b>{escape(step.label)}</b>{escape(step_text(step))}{inner}</li>"


def step_text(step: Step) -> str:
    """The answers of a step in a line, and whether it was rewritten."""
    if step.operator == Operator.ENTITY:
        return ""
    shown = ", ".join(f"{answer.name} ({mark(answer)})" for answer in step.answers)
    return f"{'' if step.native else ' (rewritten)'}: {shown}"


def explain(term: Term, answers: tuple[Prediction, ...], judge: Judge, top: int) -> Reasoning:
    """Answer every part of a query by itself, and find what its answers rest on."""
    by = interpretation(judge.model)
    prepared = prepare(term, by)
    parts = prepared.terms
    asked = dict.fromkeys(postorder(term))
    nodes = list(asked | dict.fromkeys(node for part in parts for node in postorder(part)))
    if len(nodes) * judge.model.num_entities * 16 > _MEMORY:
        raise LimitError(
            f"The query has {len(nodes):,} parts, too many to explain on {judge.model.num_entities:,} entities.",
            hint="Ask a part of it.",
        )
    judged = dict(zip(nodes, judge.judge(nodes), strict=True))
    number = {node: id for id, node in enumerate(nodes)}
    native = by.operators - (set() if by.union is Union.NATIVE else {Operator.UNITE})
    steps = tuple(
        _step(id, node, judged[node], judge, top, number, node in asked, OPERATOR_OF[type(node)] in native)
        for node, id in number.items()
    )
    known = [answer for answer in answers if answer.known]
    others = [answer for answer in answers if not answer.known]
    reasons = [*_proofs(term, judge, known), *Supporter(judge, judged).reasons(term, others)]
    return Reasoning(
        term,
        answers,
        steps,
        number[term],
        tuple(number[part] for part in parts),
        prepared.notes,
        tuple(sorted(reasons, key=lambda reason: reason.answer.rank)),
    )


def _step(
    id: int, node: Term, judged: Judged, judge: Judge, top: int, number: dict[Term, int], asked: bool, native: bool
) -> Step:
    # A leaf is the entity that was named, whatever the model thinks lies near it.
    ids = judged.best(1) if isinstance(node, Entity) else judged.likeliest(top)
    answers = judged.listed(ids, judge.dataset)
    return Step(
        id,
        _label(node, judge),
        _text(node, judge),
        str(OPERATOR_OF[type(node)]),
        tuple(number[part] for part in operands(node)),
        asked,
        native,
        int(judged.known.sum()),
        answers,
    )


def _label(node: Term, judge: Judge) -> str:
    if isinstance(node, Entity):
        return judge.dataset.entities.name(node.id)
    if isinstance(node, Project):
        relation = judge.dataset.relations.name(node.relation >> 1)
        return f"{relation}(?, ...)" if node.relation & 1 else f"{relation}(..., ?)"
    return type(node).__name__.lower()


def _text(node: Term, judge: Judge) -> str:
    names = judge.dataset.names
    return names.entity_text(node.id) if isinstance(node, Entity) else to_text(node, names)


def _proofs(term: Term, judge: Judge, known: list[Prediction]) -> list[Reason]:
    if not known:
        return []
    prover = Prover(judge.engine, term)
    reasons = []
    for answer in known:
        witness = prover.prove(answer.id)
        assert witness is not None, "what the engine lists it can prove"
        proof = Explanation(judge.kg, witness)
        reasons.append(Reason(answer, tuple(proof.facts), absent=tuple(proof.absent)))
    return reasons
