"""What `import flexkg` offers: load a graph, ask it questions, look at the answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, cast, get_args, overload

import torch

from flexkg.engine.engine import Engine
from flexkg.engine.files import members
from flexkg.engine.witness import Prover
from flexkg.errors import FlexError, QueryError
from flexkg.frames import pandas_frame, polars_frame
from flexkg.kg import catalog
from flexkg.kg.dataset import SPLITS
from flexkg.query import parse, statement, to_text
from flexkg.query.betae import from_nested
from flexkg.query.terms import Entity, Project, Term

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from flexkg.engine.witness import Witness
    from flexkg.kg.dataset import Dataset

_SHOWN = 20
_COLUMNS = {"entity": str, "name": str}


def load(data: str | Path) -> KnowledgeGraph:
    """Open an embedded dataset (`world`), a fetched one (`fb15k-237`, ...) or a prepared folder."""
    return KnowledgeGraph(catalog.resolve(data))


def choose_device(name: str = "auto") -> torch.device:
    """The device that `auto`, `cpu` or `cuda` stands for."""
    if name == "cuda" and not torch.cuda.is_available():
        raise FlexError("There is no CUDA device here.", hint="Use --device cpu, or install a torch built for CUDA.")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


class KnowledgeGraph:
    """A graph that answers questions from the facts that it holds."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._engines: dict[str, Engine] = {}

    def __repr__(self) -> str:
        return repr(self.dataset).replace("<Dataset", "<KnowledgeGraph", 1)

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.dataset.name

    def info(self) -> dict[str, Any]:
        """Statistics of the dataset."""
        return self.dataset.info()

    def parse(self, query: str | Sequence[Any] | Term) -> Term:
        """The term that a query text or a nested list of ids or identifiers stands for."""
        if isinstance(query, str):
            return parse(query, self.dataset.names)
        if isinstance(query, (list, tuple)):
            leaves = self.dataset.leaves
            return from_nested(query, entity=leaves.entity, relation=leaves.relation)
        if not isinstance(query, get_args(Term)):
            raise QueryError(f"A query cannot be {query!r}.", hint="Give query text, a nested list or a term.")
        return cast("Term", query)

    def text(self, term: Term) -> str:
        """A term in canonical query text."""
        return to_text(term, self.dataset.names)

    def engine(self, graph: str = "test") -> Engine:
        """The exact engine over the facts of the splits up to `graph`; made once."""
        if graph not in self._engines:
            self._engines[graph] = Engine(self.dataset.graph(graph))
        return self._engines[graph]

    def answer(self, query: str | Sequence[Any] | Term, graph: str = "test") -> Answers:
        """The exact answers from known facts: of all of them, or of the splits up to `graph`."""
        term = self.parse(query)
        engine = self.engine(graph)
        listed, complement = next(engine.answer([term]).rows())
        return Answers(self, engine, term, listed, complement)


@dataclass(frozen=True, slots=True)
class Answer:
    """One entity that answers a query."""

    id: int
    entity: str
    name: str


class Answers:
    """The answers to one query, in the order of their names; a complement lists what it leaves out only on demand."""

    def __init__(self, kg: KnowledgeGraph, engine: Engine, term: Term, listed: list[int], complement: bool) -> None:
        self._kg = kg
        self._engine = engine
        self._listed = listed
        self.term = term
        self.complement = complement
        """True when the answers are everything but a few entities, and are kept that way."""

    @cached_property
    def query(self) -> str:
        """The query in canonical text."""
        return self._kg.text(self.term)

    @property
    def count(self) -> int:
        """Number of answers."""
        return len(self._kg.dataset.entities) - len(self._listed) if self.complement else len(self._listed)

    def first(self, limit: int | None = None) -> list[Answer]:
        """At most `limit` answers: by name, or of a complement those of the lowest ids, by name."""
        entities = self._kg.dataset.entities
        ids = members(self._listed, self.complement, len(entities), limit if self.complement else None)
        found = [Answer(id, entities.identifier(id), entities.name(id)) for id in ids]
        return sorted(found, key=lambda answer: (answer.name.casefold(), answer.entity))[:limit]

    def names(self, limit: int | None = None) -> list[str]:
        """The names of the answers."""
        return [answer.name for answer in self.first(limit)]

    def explain(self, limit: int | None = None) -> list[Explanation]:
        """For each answer the facts that prove it."""
        prover = Prover(self._engine, self.term)
        witnesses = [prover.prove(answer.id) for answer in self.first(limit)]
        return [Explanation(self._kg, witness) for witness in witnesses if witness is not None]

    def to_dicts(self, limit: int | None = None) -> list[dict[str, str]]:
        """Plain Python: entity and name of each answer."""
        return [{"entity": answer.entity, "name": answer.name} for answer in self.first(limit)]

    def to_pandas(self) -> Any:
        """A pandas DataFrame with the columns entity and name."""
        return pandas_frame(self.to_dicts(), _COLUMNS)

    def to_polars(self) -> Any:
        """A polars DataFrame with the columns entity and name."""
        return polars_frame(self.to_dicts(), _COLUMNS)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.first())

    @overload
    def __getitem__(self, index: int) -> Answer: ...
    @overload
    def __getitem__(self, index: slice) -> list[Answer]: ...
    def __getitem__(self, index: int | slice) -> Answer | list[Answer]:
        return self.first()[index]

    def __contains__(self, name: object) -> bool:
        return any(name in (answer.name, answer.entity) for answer in self)

    def __repr__(self) -> str:
        shown = self.first(_SHOWN)
        lines = [f"{self.count:,} answers to {self.query}" if self.count != 1 else f"1 answer to {self.query}"]
        lines += [f"  {answer.name}  [{answer.entity}]" for answer in shown]
        if self.count > len(shown):
            lines.append(f"  ... and {self.count - len(shown):,} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        shown = self.first(_SHOWN)
        rows = "".join(f"<tr><td>{escape(a.name)}</td><td><code>{escape(a.entity)}</code></td></tr>" for a in shown)
        more = f"<p>... and {self.count - len(shown):,} more</p>" if self.count > len(shown) else ""
        head = f"<p><code>{escape(self.query)}</code>: {self.count:,}</p>"
        return f"{head}<table><tr><th>name</th><th>entity</th></tr>{rows}</table>{more}"


class Explanation:
    """The facts that prove one answer, and what must not be known for it to hold."""

    def __init__(self, kg: KnowledgeGraph, witness: Witness) -> None:
        self._kg = kg
        self._witness = witness
        entities = kg.dataset.entities
        self.answer = Answer(witness.entity, entities.identifier(witness.entity), entities.name(witness.entity))

    @cached_property
    def facts(self) -> list[dict[str, str]]:
        """Head, relation, tail (as identifiers), their names, and the split that holds the fact."""
        facts, dataset = self._witness.facts, self._kg.dataset
        if not facts:
            return []
        splits = dataset.split_of([(fact.head, fact.relation, fact.tail) for fact in facts])
        return [
            {
                "head": dataset.entities.identifier(fact.head),
                "relation": dataset.relations.identifier(fact.relation),
                "tail": dataset.entities.identifier(fact.tail),
                "text": statement(Project(2 * fact.relation, Entity(fact.head)), dataset.names, fact.tail),
                "split": SPLITS[split],
            }
            for fact, split in zip(facts, splits.tolist(), strict=True)
        ]

    @cached_property
    def absent(self) -> list[str]:
        """What would have to be known for the answer not to hold, as text."""
        names = self._kg.dataset.names
        return [statement(absence.term, names, absence.entity) for absence in self._witness.absent]

    def to_dict(self) -> dict[str, Any]:
        """Plain Python."""
        return {
            "entity": self.answer.entity,
            "name": self.answer.name,
            "facts": self.facts,
            "absent": self.absent,
        }

    def __repr__(self) -> str:
        lines = [self.answer.name]
        lines += [
            f"  {fact['text']}" + ("" if fact["split"] == "train" else f"  [{fact['split']}]") for fact in self.facts
        ]
        lines += [f"  not known: {text}" for text in self.absent]
        return "\n".join(lines)
