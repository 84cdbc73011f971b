"""`flexkg bench serving` on a small run: it asks, counts and finds no error."""

from __future__ import annotations

import json

import pytest

from flexkg.cli.main import run


@pytest.mark.slow
def test_serving_is_measured(small_run, capsys):
    assert run(["bench", "serving", "--run", str(small_run), "--seconds", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    figures = result["figures"]
    assert (result["name"], figures["data"], figures["dimension"]) == ("serving", "world", 16)
    assert list(figures["clients"]) == ["1", "32"]
    for row in figures["clients"].values():
        assert row["errors"] == 0
        assert row["requests"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
    assert figures["memory_mb"] > 100
