"""The application: routes, each a few lines over the service."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from flexkg.errors import FlexError
from flexkg.server import schemas
from flexkg.server.batching import Batcher
from flexkg.server.guard import Guard
from flexkg.server.metrics import Metrics
from flexkg.server.replies import Fault, RequestError, fault_of, invalid, refused, to_json
from flexkg.server.service import Question, Service, Wish, too_slow
from flexkg.server.settings import Settings
from flexkg.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from flexkg.predictor.predictor import Predictor

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_STATUSES = {
    400: "The query cannot be read, or the model has no operator for it.",
    401: "The token is missing or wrong.",
    403: "The server does not go by the name in Host.",
    408: "The body did not arrive in time.",
    413: "The body or the query is larger than allowed.",
    422: "A field is missing or wrong, or the answer took too long.",
    429: "Too many requests at once.",
    500: "Our fault; the log says more under the number in the message.",
}


def create_app(predictor: Predictor, settings: Settings | None = None) -> FastAPI:
    """The application that serves a run."""
    settings = settings or Settings()
    metrics = Metrics()
    service = Service(predictor, settings.limits)
    batcher: Batcher[Question, bytes] = Batcher(service.work, settings.limits.batch, metrics.batch)
    metrics.waiting.set_function(lambda: batcher.waiting)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await batcher.close()

    app = FastAPI(
        title="flexkg",
        description="Answers logical questions over an incomplete knowledge graph.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    _Routes(service, batcher, metrics, settings).add(app)
    _add_page(app)
    app.add_exception_handler(FlexError, _known)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    return app


class _Routes:
    """The routes of the interface."""

    def __init__(
        self, service: Service, batcher: Batcher[Question, bytes], metrics: Metrics, settings: Settings
    ) -> None:
        self._service = service
        self._batcher = batcher
        self._metrics = metrics
        self._limits = settings.limits

    def add(self, app: FastAPI) -> None:
        """Put them into an application."""
        app.get("/health", responses=_documented(schemas.HealthReply, 403, 429))(self.health)
        app.get("/metrics", responses=_METRICS)(self.metrics)
        app.get("/v1/info", responses=_documented(schemas.InfoReply))(self.info)
        app.get("/v1/entities", responses=_documented(schemas.EntitiesReply))(self.entities)
        app.get("/v1/relations", responses=_documented(schemas.RelationsReply))(self.relations)
        app.post("/v1/ask", responses=_documented(schemas.AskReply))(self.ask)
        app.post("/v1/answer", responses=_documented(schemas.AnswerReply))(self.answer)
        app.post("/v1/check", responses=_documented(schemas.CheckReply))(self.check)

    async def health(self) -> Response:
        """Whether the server answers."""
        return _json(b'{"status":"ok"}')

    async def metrics(self) -> Response:
        """Figures for Prometheus."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def info(self) -> Response:
        """What is served: model, data, limits, example questions."""
        return _json(await self._work(Question(Wish.INFO)))

    async def entities(self, prefix: str = "", limit: Annotated[int, Query(ge=1)] = 10) -> Response:
        """Entities whose name, alias or identifier begins with `prefix`, whatever the case."""
        self._check_prefix(prefix, limit)
        found = await asyncio.to_thread(self._service.entities, prefix, limit)
        return _json(to_json({"entities": found}))

    async def relations(self, prefix: str = "", limit: Annotated[int, Query(ge=1)] = 10) -> Response:
        """Relations whose name or identifier begins with `prefix`, whatever the case."""
        self._check_prefix(prefix, limit)
        found = await asyncio.to_thread(self._service.relations, prefix, limit)
        return _json(to_json({"relations": found}))

    async def ask(self, body: schemas.AskRequest, request: Request) -> Response:
        """Ranked answers, known and predicted; with `explain` how they came about."""
        _note(request, body.query)
        self._within("top", body.top, self._limits.top)
        term = await asyncio.to_thread(self._service.read, body.query, explained=body.explain)
        wish = Wish.EXPLAINED if body.explain else Wish.RANKED
        return _json(await self._work(Question(wish, term, body.top)))

    async def answer(self, body: schemas.AnswerRequest, request: Request) -> Response:
        """Exact answers from known facts."""
        _note(request, body.query)
        self._within("limit", body.limit, self._limits.listed)
        term = await asyncio.to_thread(self._service.read, body.query, exact=True)
        return _json(await self._work(Question(Wish.EXACT, term, body.limit)))

    async def check(self, body: schemas.CheckRequest, request: Request) -> Response:
        """Whether a question can be asked, for marking mistakes while somebody types."""
        _note(request, body.query)
        return _json(to_json(await asyncio.to_thread(self._service.check, body.query)))

    async def _work(self, question: Question) -> bytes:
        try:
            return await self._batcher.submit(question, alone=question.alone, seconds=self._limits.seconds)
        except TimeoutError:
            raise too_slow(self._limits) from None

    def _check_prefix(self, prefix: str, limit: int) -> None:
        self._within("limit", limit, self._limits.completions)
        if len(prefix) > self._limits.prefix_characters:
            raise RequestError(413, f"prefix: {self._limits.prefix_characters:,} characters are allowed.", kind="limit")

    def _within(self, name: str, value: int, most: int) -> None:
        if value > most:
            raise RequestError(413, f"{name} is larger than {most:,}, the most that is allowed.", kind="limit")


def _documented(reply: type, *statuses: int) -> dict[int | str, dict[str, Any]]:
    errors: dict[int | str, dict[str, Any]] = {
        status: {"model": schemas.ErrorReply, "description": text}
        for status, text in _STATUSES.items()
        if not statuses or status in statuses
    }
    return {200: {"model": reply}, **errors}


_METRICS: dict[int | str, dict[str, Any]] = {
    **_documented(schemas.HealthReply, 401, 403, 429),
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus's text format."},
}


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _note(request: Request, query: str) -> None:
    """Leave the query for the log, which writes it only if told to."""
    request.scope["flexkg"]["query"] = query


def _add_page(app: FastAPI) -> None:
    """Serve the page's files, read once: index.html at /, docs.html at /docs, the rest under /page/."""
    for file in files("flexkg.server").joinpath("page").iterdir():
        kind = _TYPES.get("." + file.name.rpartition(".")[2])
        if kind is None:
            continue
        path = {"index.html": "/", "docs.html": "/docs"}.get(file.name, f"/page/{file.name}")
        app.add_route(path, _static(file.read_bytes(), kind), methods=["GET"], include_in_schema=False)


def _static(content: bytes, kind: str) -> Any:
    async def serve(_: Request) -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return serve


def _reply(request: Request, fault: Fault) -> Response:
    request.scope["flexkg"]["kind"] = fault.kind
    return Response(fault.body(), fault.status, dict(fault.headers), "application/json")


async def _known(request: Request, error: Exception) -> Response:
    fault = fault_of(error)
    if fault is None:
        raise error
    return _reply(request, fault)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:  # a body that the framework cannot even begin to read
        return _reply(request, invalid([]))
    return _reply(request, refused(error.status_code, error.headers))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _reply(request, invalid(error.errors()))
