"""What goes back to a client: one form for every error, and nothing of the inside."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flexkg.errors import FlexError, LimitError, QueryError, UnsupportedOperator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class RequestError(FlexError):
    """A request that cannot be served, with the HTTP status that says so."""

    kind = "request"

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "request",
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})


@dataclass(frozen=True, slots=True)
class Fault:
    """An error as a client sees it."""

    status: int
    kind: str
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None
    width: int | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def error(self) -> dict[str, Any]:
        """The fields under `error`."""
        return {
            "kind": self.kind,
            "message": self.message,
            "line": self.line,
            "column": self.column,
            "hint": self.hint,
        }

    def body(self) -> bytes:
        """The body of the reply."""
        return to_json({"error": self.error()})


def fault_of(error: BaseException) -> Fault | None:
    """The client's own mistake; None for what is not its fault, which it learns nothing about."""
    match error:
        case RequestError():
            return Fault(error.status, error.kind, error.message, error.hint, headers=tuple(error.headers.items()))
        case QueryError():
            place = error.line, error.column, error.width if error.line is not None else None
            return Fault(400, error.kind, error.message, error.hint, *place)
        case UnsupportedOperator():
            return Fault(400, error.kind, error.message, "POST /v1/answer still gives what the facts prove.")
        case LimitError():
            return Fault(413, error.kind, error.message, error.hint)
    return None


def internal(id: str) -> Fault:
    """What a client learns of a fault of ours: a number under which the log has the rest."""
    return Fault(500, "internal", f"Internal fault {id}.", "The server's log says more under this number.")


def refused(status: int, headers: Mapping[str, str] | None = None) -> Fault:
    """The fault for a status of the framework, such as 404 and 405."""
    known = {404: "There is nothing here.", 405: "This address does not take this method."}
    message = known.get(status, "This request cannot be served.")
    return Fault(status, "request", message, "GET /docs lists what there is.", headers=tuple((headers or {}).items()))


def invalid(errors: Sequence[Any]) -> Fault:
    """The fault for a request whose fields are not what they must be; what was sent is not repeated."""
    first: dict[str, Any] = errors[0] if errors else {"type": "", "loc": (), "msg": ""}
    place = ".".join(str(part) for part in first["loc"][1:])
    if first["type"] == "json_invalid" or not place:
        return Fault(
            422, "request", "The body is not a JSON object with the fields of this address.", "GET /docs lists them."
        )
    kind = {"extra_forbidden": "there is no such field", "missing": "this field is missing"}.get(first["type"])
    return Fault(422, "request", f"{_name(place)}: {kind or _lowered(first['msg'])}.", "GET /docs lists the fields.")


def to_json(content: Any) -> bytes:
    """JSON in UTF-8; what cannot be written in it becomes a question mark."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def _name(place: str) -> str:
    return place if len(place) <= 40 and place.isprintable() else "A field"


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
