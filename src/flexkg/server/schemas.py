"""Requests and replies as OpenAPI describes them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

QueryText = Annotated[
    str,
    Field(
        description="A question in the query language.",
        examples=["?x : borders(France, ?x) & !uses(?x, Euro)"],
    ),
]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AskRequest(_Request):
    """A question for ranked answers."""

    query: QueryText
    top: int = Field(10, ge=0, description="Answers to give.")
    explain: bool = Field(False, description="Also the answers of every part of the question, and reasons.")


class AnswerRequest(_Request):
    """A question for exact answers."""

    query: QueryText
    limit: int = Field(1_000, ge=0, description="Answers to list; `count` says how many there are.")


class CheckRequest(_Request):
    """A question to be read, not answered."""

    query: QueryText


class ErrorFields(BaseModel):
    """What went wrong."""

    kind: str
    message: str
    line: int | None
    column: int | None
    hint: str | None


class ErrorReply(BaseModel):
    """Every error has this form."""

    error: ErrorFields


class RankedAnswer(BaseModel):
    """One entity of a ranking."""

    rank: int
    entity: str
    name: str
    score: float
    probability: float | None
    known: bool


class Step(BaseModel):
    """One part of a question with its own answers."""

    id: int
    term: str
    label: str
    operator: str
    operands: list[int]
    asked: bool
    native: bool
    known_count: int
    answers: list[RankedAnswer]


class Histogram(BaseModel):
    """How many entities have which score."""

    low: float
    high: float
    known: list[int]
    others: list[int]


class AskReply(BaseModel):
    """Ranked answers; the later fields come with `explain`."""

    query: str
    kind: str
    known_count: int
    estimate: float | None
    calibration: str | None
    notes: list[str]
    answers: list[RankedAnswer]
    asked: int | None = None
    rewritten: list[int] | None = None
    steps: list[Step] | None = None
    reasons: list[dict[str, Any]] | None = None
    histogram: Histogram | None = None


class NamedEntity(BaseModel):
    """An entity by identifier and name."""

    entity: str
    name: str


class AnswerReply(BaseModel):
    """Exact answers from known facts."""

    query: str
    count: int
    complement: bool
    answers: list[NamedEntity]


class CheckReply(BaseModel):
    """Whether a question can be read; if not, what is wrong with how many characters where."""

    ok: bool
    query: str | None
    kind: str | None
    error: ErrorFields | None
    width: int | None


class FoundEntity(NamedEntity):
    """An entity that begins as wanted, and how a query writes it."""

    text: str
    description: str


class FoundRelation(BaseModel):
    """A relation that begins as wanted, and how a query writes it."""

    relation: str
    name: str
    text: str
    description: str


class EntitiesReply(BaseModel):
    """Entities that begin as wanted."""

    entities: list[FoundEntity]


class RelationsReply(BaseModel):
    """Relations that begin as wanted."""

    relations: list[FoundRelation]


class HealthReply(BaseModel):
    """The server answers."""

    status: str


class Example(BaseModel):
    """A question to begin with."""

    title: str
    query: str


class InfoReply(BaseModel):
    """What is served."""

    version: str
    model: str
    operators: list[str]
    calibrated: bool
    data: dict[str, Any]
    limits: dict[str, float]
    examples: list[Example]
