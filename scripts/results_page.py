"""Write docs/results.md and its plots from the files in results/; run it whenever they or a recipe changed."""

from __future__ import annotations

from pathlib import Path

from flexkg.paper.page import results_page

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Write the page and its plots."""
    text, images = results_page(ROOT / "results")
    docs = ROOT / "docs"
    (docs / "results.md").write_text(text, encoding="utf-8")
    for old in (docs / "img").glob("results-*.svg"):
        if old.name not in images:
            old.unlink()
    for name, image in images.items():
        (docs / "img" / name).write_text(image, encoding="utf-8")
    print(f"docs/results.md written, with {len(images)} plots")


if __name__ == "__main__":
    main()
