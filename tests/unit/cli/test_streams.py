"""What a terminal, a pipe, a full disk or a closed stream makes of the command, as real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from flexkg.cli.main import run
from flexkg.cli.output import in_markup, visible

QUERY = "?x : !borders(France, ?x)"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "flexkg", *arguments]


def begin(*arguments: str, **more) -> subprocess.Popen[str]:
    return subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, text=True, **more)


@pytest.mark.parametrize("options", [["--limit", "4000"], ["--limit", "4000", "--json"]])
def test_a_reader_that_goes_is_no_failure(options):
    process = begin("answer", "world", QUERY, *options, stdout=subprocess.PIPE)
    process.stdout.close()
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")  # noqa: PTH110 - a device
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_is_named(options):
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        process = begin("answer", "world", QUERY, *options, stdout=full)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err.startswith("error: Cannot use standard output: No space left on device.")
    assert err.count("\n") == 1


def test_streams_may_be_closed():
    line = f"{sys.executable} -m flexkg answer world '?x : borders(France, ?x)' --json >&- <&-"
    done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("flexkg.cli.main", ["answer", "world", QUERY]),
        ("typer", ["answer", "world", QUERY]),
        ("flexkg.api", ["answer", "world", QUERY]),
        ("numpy.linalg", ["models", "gqe", "--data", "world"]),
        ("numpy.matrixlib", ["models", "gqe", "--data", "world"]),
        ("torch._C", ["models", "gqe", "--data", "world"]),
        ("torch.functional", ["models", "gqe", "--data", "world"]),
    ],
)
def test_an_interrupt_at_any_time_ends_with_a_word(module, arguments):
    """While parts are loaded at the start, and later when a command needs them."""
    code = f"""
import os, signal, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Watch())
sys.argv = ["flexkg", *{arguments!r}]
from flexkg.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.slow
def test_an_interrupt_while_torch_loads_is_not_swallowed(small_run):
    """C code of modules that are being loaded loses an exception, takes it for another, or aborts."""
    code = """
import os, sys
from flexkg.__main__ import main
sys.argv[0] = "flexkg"
os.write(2, b"begun\\n")
main()
"""
    line = [sys.executable, "-c", code, "ask", str(small_run), "?x : borders(Portugal, ?x)", "--json"]

    def asked(delay: float | None) -> tuple[int, str, str]:
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr.readline() == "begun\n"
        if delay is not None:
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    begin = time.monotonic()
    whole = asked(None)
    seconds = time.monotonic() - begin
    assert whole[0] == 0
    found = [asked(0.05 + seconds * part / 12) for part in range(12)]
    assert [one for one in found if one not in (whole, (130, "", "interrupted\n"))] == []
    assert sum(code == 130 for code, _, _ in found) >= 4


def test_an_interrupt_while_a_module_loads_leaves_nothing_behind(tmp_path):
    (tmp_path / "late.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('went on')\n")
    code = """
import sys
from pathlib import Path
import flexkg.cli.main
from flexkg.__main__ import main
from flexkg.kg.storage import atomic_file, atomic_folder

def write():
    with atomic_file("file") as file, atomic_folder("folder") as folder:
        file.write_text("half")
        (folder / "part").write_text("half")
        try:
            import late
        except BaseException:
            print("swallowed")

flexkg.cli.main.main = write
main()
"""
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["late.py"]


def test_names_cannot_steer_a_terminal(tmp_path, capsys):
    (tmp_path / "x.tsv").write_text("urn:key:1\tex:book:of\turn:house:2\nurn:key:1\tex:book:of\tred\x1b[31m[bold]\n")
    assert run(["data", "import", "--train", str(tmp_path / "x.tsv"), "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert run(["answer", str(tmp_path / "out"), "?x : ex:book:of(urn:key:1, ?x)"]) == 0
    out = capsys.readouterr().out
    assert "?x : ex:book:of(urn:key:1, ?x)" in out
    assert "urn:house:2" in out
    assert r"red\x1b[31m[bold]" in out
    assert "\x1b" not in out
    assert visible("東京\u3000é\u2028") == "東京\u3000é\\u2028"
    for mark in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069":
        assert visible(f"שלום{mark}x") == f"שלום\\u{ord(mark):04x}x"


def test_names_in_errors_cannot_steer_a_terminal(tmp_path, capsys):
    given = ["--train", str(tmp_path / "red\u202e\x1b[31m.tsv"), "--out", str(tmp_path / "out")]
    assert run(["data", "import", *given]) == 2
    assert capsys.readouterr().err == f"error: There is no file {tmp_path}/red\\u202e\\x1b[31m.tsv. Check the path.\n"
    assert in_markup("a[/red]\n") == "a\\[/red]\\n"


def test_a_folder_may_be_called_anything(tmp_path, capsys):
    folder = tmp_path / "a[" / "red]"
    folder.parent.mkdir()
    (tmp_path / "x.tsv").write_text("a\tr\tb\n")
    assert run(["data", "import", "--train", str(tmp_path / "x.tsv"), "--out", str(folder)]) == 0
    assert run(["models", "--data", str(folder)]) == 0
    assert run(["models", "gqe", "--data", str(folder)]) == 0
    assert "a[/red]" in "".join(capsys.readouterr().out.split())  # however the title is folded


def test_file_names_need_not_be_utf8(tmp_path):
    source, out = (os.fsdecode(os.fsencode(tmp_path) + name) for name in (b"/a\xff.tsv", b"/out\xff"))
    with open(source, "w") as file:  # noqa: PTH123 - pathlib would do as well
        file.write("a\tr\tb\n")
    done = subprocess.run(
        command("data", "import", "--train", source, "--out", out, "--json"),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"out\udcff" in done.stdout
    shown = subprocess.run(command("data", "info", out), capture_output=True, timeout=120, check=False)
    assert shown.returncode == 0
