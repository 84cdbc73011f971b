"""One server for the tests of this folder, and one with narrow limits."""

from __future__ import annotations

import pytest

from serving import Server


@pytest.fixture(scope="package")
def server(small_run):
    with Server(small_run) as running:
        yield running


@pytest.fixture(scope="package")
def strict(small_run, tmp_path_factory):
    """A server that asks for a token, has little patience, and logs what it is asked."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text("a-secret-token\n")
    options = (
        "--token-file",
        str(token),
        "--patience",
        "1",
        "--top",
        "5",
        "--log-queries",
        "--body-bytes",
        "2000",
        "--connections",
        "12",
    )
    with Server(small_run, *options) as running:
        yield running
