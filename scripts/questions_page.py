"""Writes docs/questions.md: a dozen questions, what the facts prove and what FLEX alone finds likeliest.

Run it after `make demo`:  python scripts/questions_page.py runs/demo
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import demo
from demo import Question

if TYPE_CHECKING:
    from flexkg.predictor.predictor import Predictor

PAGE = Path(__file__).resolve().parents[1] / "docs" / "questions.md"
SHOWN = 6


MORE = (
    Question("two hops", "Who borders a neighbour of Portugal?", "?x : borders(?y, ?x) & borders(Portugal, ?y)"),
    Question(
        "not, three",
        "Which neighbours of France speak German and do not use the Euro?",
        "?x : borders(France, ?x) & speaks(?x, German) & !uses(?x, Euro)",
    ),
)
# What nothing anchors is for the exact engine alone.
QUESTIONS = (*(question for question in demo.QUESTIONS if question.connective != "exists"), *MORE)
_HEAD = """\
# A dozen questions

Every connective, asked of the run that `make demo` trains on `world`. *Proved* is what follows from all facts; check it
with an atlas. *FLEX alone* is what the model finds likeliest by itself, without looking at the facts: ✓ marks what they
prove. The model learnt from nine tenths of the facts, in minutes on two cores, so it errs. `flexkg ask` puts the two
together: proved answers first, then predictions with probabilities, without what the facts rule out.

This page is made by `python scripts/questions_page.py runs/demo`.
"""


def render(run: Predictor) -> str:
    """The page."""
    parts = [_HEAD]
    for question in QUESTIONS:
        (judged,) = run.judge.judge([run.parse(question.query)])
        likeliest = judged.listed(judged.highest(SHOWN), run.kg.dataset)
        alone = ", ".join(f"{answer.name}{' ✓' if answer.known else ''}" for answer in likeliest)
        proved = run.kg.answer(question.query).names()
        parts.append(
            f"\n## {question.words}\n\n```flexkg\n{question.query}\n```\n\n"
            f"- *{question.connective}*\n- **Proved:** {', '.join(proved)}\n- **FLEX alone:** {alone}\n"
        )
    return "".join(parts)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run folder")
    given = parser.parse_args()
    import flexkg

    PAGE.write_text(render(flexkg.open(given.run, "cpu")), encoding="utf-8")
    print(f"{PAGE.name} written")


if __name__ == "__main__":
    main()
