"""Requests made up from the OpenAPI description, right ones and wrong ones, get the replies that it promises."""

from __future__ import annotations

import os
import subprocess
import sys


def test_schemathesis_finds_nothing(server, tmp_path):
    options = ["--max-examples", "15", "--seed", "1", "--generation-database", "none", "--no-color"]
    # That a text is a good question cannot be said in a schema, so good requests may be refused.
    checks = ["--phases", "examples,coverage,fuzzing", "--exclude-checks", "positive_data_acceptance"]
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}openapi.json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCHEMATHESIS")}
    done = subprocess.run(
        [*command, *options, *checks],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "No issues found" in done.stdout
    assert "internal fault" not in server.log()
    assert server.get("/health").status == 200
