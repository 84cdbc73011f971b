"""What asking a run gives: ranked answers that print well and turn into plain Python or a frame."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, overload

from flexkg.frames import pandas_frame, polars_frame
from flexkg.predictor.answers import COLUMNS, Prediction, mark
from flexkg.predictor.explain import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flexkg.predictor.explain import Reasoning
    from flexkg.predictor.judged import Judge
    from flexkg.query.terms import Term


@dataclass(frozen=True, eq=False)
class Predictions:
    """The ranked answers to one query: known ones first, then predicted ones, each by descending score."""

    term: Term
    answers: tuple[Prediction, ...]
    known_count: int
    """How many answers are known in all, shown or not."""
    estimate: float | None
    """How many answers there may be: the known ones and the sum of the others' probabilities."""
    kind: str
    """The kind of query: a benchmark shape's name, or a template's key."""
    calibration: str | None
    """What the probabilities rest on: validation queries of this `kind`, of all kinds (`pooled`), or nothing."""
    notes: tuple[str, ...]
    """What was rewritten for want of an operator."""
    judge: Judge

    @cached_property
    def query(self) -> str:
        """The query in canonical text."""
        return self.judge.kg.text(self.term)

    def names(self) -> list[str]:
        """The names of the answers."""
        return [answer.name for answer in self.answers]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Plain Python: rank, entity, name, score, probability and known of each answer."""
        return [answer.to_dict() for answer in self.answers]

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain Python, as `flexkg ask --json` prints it."""
        return {
            "query": self.query,
            "kind": self.kind,
            "known_count": self.known_count,
            "estimate": self.estimate,
            "calibration": self.calibration,
            "notes": list(self.notes),
            "answers": self.to_dicts(),
        }

    def explain(self, top: int = 5) -> Reasoning:
        """How it was answered: every part of the query with its best answers, and the reasons for each answer."""
        return explain(self.term, self.answers, self.judge, top)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each answer."""
        return pandas_frame(self.to_dicts(), COLUMNS)

    def to_polars(self) -> Any:
        """A polars DataFrame with a row for each answer."""
        return polars_frame(self.to_dicts(), COLUMNS)

    def summary(self) -> str:
        """One line: how many answers are known, and how many there may be."""
        known = f"{self.known_count:,} known answer{'' if self.known_count == 1 else 's'}"
        if self.estimate is None:
            return known
        pooled = ", probabilities from other kinds of query" if self.calibration == "pooled" else ""
        return f"{known}, about {self.estimate:,.1f} in all{pooled}"

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.answers)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Prediction, ...]: ...
    def __getitem__(self, index: int | slice) -> Prediction | tuple[Prediction, ...]:
        return self.answers[index]

    def __contains__(self, name: object) -> bool:
        return any(name in (answer.name, answer.entity) for answer in self.answers)

    def __repr__(self) -> str:
        width = max((len(answer.name) for answer in self.answers), default=0)
        lines = [
            f"  {answer.rank:>3}  {answer.name:<{width}}  {answer.score:>8.2f}  {mark(answer):>9}  [{answer.entity}]"
            for answer in self.answers
        ]
        return "\n".join([self.query, *(lines or ["  nothing to show"]), self.summary()])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{answer.rank}</td><td>{escape(answer.name)}</td><td><code>{escape(answer.entity)}</code></td>"
            f"<td>{answer.score:.2f}</td><td>{mark(answer)}</td></tr>"
            for answer in self.answers
        )
        head = "<tr><th></th><th>name</th><th>entity</th><th>score</th><th>probability</th></tr>"
        return f"<p><code>{escape(self.query)}</code></p><table>{head}{rows}</table><p>{escape(self.summary())}</p>"
