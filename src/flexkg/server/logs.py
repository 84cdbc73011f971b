"""Logs for programs: one JSON object a line on standard error."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

_LOGGER = logging.getLogger("flexkg.server")


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            line["stack"] = stack(record.exc_info[1])
        return json.dumps(line, ensure_ascii=True, default=str)


def configure() -> None:
    """Send our records, and those of the server below, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, level in (("flexkg.server", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Write a line."""
    _LOGGER.log(level, event, extra={"fields": fields})


def log_fault(id: str, error: BaseException, *, with_message: bool) -> None:
    """Write where an internal fault happened; its message may hold a query, so it is left out unless wanted."""
    fields = {"id": id, "error": type(error).__name__, "stack": stack(error)}
    if with_message:
        fields["message"] = str(error)
    log("internal fault", logging.ERROR, **fields)


def stack(error: BaseException) -> list[str]:
    """The places that an exception passed, innermost last, without its message."""
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
