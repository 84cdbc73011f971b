"""Write docs/results.md, its plots and the README's summary from the files in results/.

Run it whenever they or a recipe changed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from flexkg.paper.page import results_page

ROOT = Path(__file__).resolve().parents[1]

BEGIN, END = "<!-- by scripts/results_page.py -->\n", "<!-- to here -->\n"


def with_summary(readme: str, page: str) -> str:
    """The README with what the page says at a glance in its place."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"README.md has no lines {BEGIN.strip()!r} and {END.strip()!r} to write between.")
    glance = page.partition("## FLEX at a glance\n")[2].partition("\n#")[0].strip()
    return f"{before}{begin}\n{glance}\n\n{end}{after}"


def main() -> None:
    """Write all of it."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    text, images = results_page(ROOT / "results")
    docs, readme = ROOT / "docs", ROOT / "README.md"
    summary = with_summary(readme.read_text(encoding="utf-8"), text)
    (docs / "results.md").write_text(text, encoding="utf-8")
    for old in (docs / "img").glob("results-*.svg"):
        if old.name not in images:
            old.unlink()
    for name, image in images.items():
        (docs / "img" / name).write_text(image, encoding="utf-8")
    readme.write_text(summary, encoding="utf-8")
    print(f"docs/results.md written, with {len(images)} plots, and README.md")


if __name__ == "__main__":
    main()
