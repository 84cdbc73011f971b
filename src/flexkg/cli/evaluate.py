"""`flexkg evaluate`: how good a run is, on queries whose answers it could not know."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flexkg.cli.output import AsJson, Device, emit, progress, say
from flexkg.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from flexkg.evaluation.evaluate import Evaluation
    from flexkg.evaluation.histogram import Histogram
    from flexkg.evaluation.statistics import Difference
    from flexkg.models import QueryModel
    from flexkg.sampling.queries import QuerySet
    from flexkg.sampling.workload import Workload
    from flexkg.training.folder import RunFolder


class Split(StrEnum):
    """Queries to evaluate on."""

    VALID = "valid"
    TEST = "test"


def evaluate_command(
    run: Annotated[Path, typer.Argument(help="A run folder, made by `flexkg train`.")],
    split: Annotated[Split, typer.Option(help="Which queries.")] = Split.TEST,
    shapes: Annotated[list[str] | None, typer.Option(help="Only these shapes, such as 1p 2i.")] = None,
    workload: Annotated[Path | None, typer.Option(help="A workload folder; one is built without it.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the report goes; RUN/evaluation/SPLIT without it.")] = None,
    baseline: Annotated[bool, typer.Option("--baseline", help="Beside it, guess by relation alone.")] = False,
    compare: Annotated[Path | None, typer.Option(help="Another run on the same queries: paired differences.")] = None,
    histogram: Annotated[
        list[str] | None, typer.Option(help="A query whose scores to draw; `paper` draws the paper's three of FB15k.")
    ] = None,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.AUTO,
    json: AsJson = False,
) -> None:
    """Rank the answers that a run had to predict, and write a report."""
    from flexkg.api import choose_device
    from flexkg.evaluation import compare as comparing
    from flexkg.evaluation import report as reporting
    from flexkg.kg.storage import sha256_file
    from flexkg.models import interpretation
    from flexkg.training.folder import RunFolder

    folder = RunFolder.open(run)
    other = None if compare is None else RunFolder.open(compare)
    place = choose_device(device)
    model = folder.model(place)
    named = _named_histograms(folder, model, histogram or ())
    queries = find_queries(folder, str(split), workload, place, shapes)
    chosen = _chosen(queries, str(split), shapes, model)
    found = _evaluated(model, chosen, place, "evaluating")
    for reason in dict.fromkeys(found.left_out.values()):
        say(f"left out: {', '.join(shape for shape in found.left_out if found.left_out[shape] == reason)} ({reason})")
    if not found.shapes:
        raise DataError(f"There is nothing to evaluate in {queries.folder}.", hint="Name other --shapes or --workload.")
    result: dict[str, Any] = {
        "run": str(run),
        "model": folder.config.model.name,
        "recipe": folder.manifest.get("recipe", ""),
        "data": folder.dataset.name,
        "split": str(split),
        "workload": {"path": str(queries.folder), "checksum": queries.checksum},
        **found.to_dict(),
    }
    if baseline:
        result["baseline"] = _baseline(folder, {shape: chosen[shape] for shape in found.shapes})
    if split is Split.TEST and (paper := _published(folder)):
        result["paper"] = paper
    if other is not None:
        rival = _rival(other, str(split), queries, {shape: chosen[shape] for shape in found.shapes}, place)
        result["compare"] = {"run": str(compare), **_plain(comparing.paired(found.shapes, rival))}
    target = out or run / "evaluation" / str(split)
    result["out"] = str(target)
    by = interpretation(model)
    drawn = [_shape_histogram(model, chosen[shape], by, place) for shape in found.shapes]
    title = f"{result['recipe'] or result['model']} on {result['data']}, {split}"
    pictures = {
        "mrr.svg": reporting.draw_mrr(result, f"{title}: MRR in percent, 95% intervals"),
        "scores.svg": reporting.draw_histograms(drawn, f"{title}: entities by score"),
    }
    if named:
        pictures["histograms.svg"] = reporting.draw_histograms(named, f"{title}: entities by score")
        result["histograms"] = [drawing.to_dict() for drawing in named]
    reporting.write_report(target, result, pictures)
    about = {"run": str(run), "weights": sha256_file(folder.path / "model.safetensors")}
    comparing.save_values(target / "per-query.npz", found.shapes, about)
    emit(result, json, lambda: _render(result))


def find_queries(
    run: RunFolder,
    split: str,
    workload: Path | None,
    device: torch.device,
    shapes: Sequence[str] | None = None,
) -> Workload:
    """The given workload, the run's own, or one that is built for the split into the run's folder.

    `shapes` are those that will be asked for; one that could not be built is an error before anything is.
    """
    from flexkg.config import unnamed_templates
    from flexkg.kg.storage import locked, os_errors
    from flexkg.query.shapes import SHAPES
    from flexkg.sampling.make import Order, make_workload, split_words
    from flexkg.sampling.workload import Workload

    if workload is not None:
        given = Workload.load(workload)
        given.check_data(run.dataset)
        if not given.shapes(split):
            raise DataError(
                f"The workload {workload} has no {split} queries.",
                hint=f"Its splits are {', '.join(given.splits) or 'none'}: name one with --split.",
            )
        return given
    built = run.path / "evaluation" / split / "workload"
    for folder in (run.workload, built):
        if folder.is_dir():
            own = Workload.load(folder)
            if own.shapes(split):
                own.check_data(run.dataset)
                return own
    extra = unnamed_templates(run.config.training.shapes)
    order = Order(
        splits=(split,),
        shapes=(*SHAPES, *extra),
        templates=extra,
        seed=run.config.training.seed,
    )
    can_be_built = order.shapes_of(split)
    for shape in split_words(shapes) or ():
        if shape not in can_be_built:
            raise DataError(f"There is no shape {shape!r}.", hint=f"Choose among {', '.join(can_be_built)}.")
    with os_errors(built):
        built.parent.mkdir(parents=True, exist_ok=True)
    # Who comes second while they are built waits, and has them.
    with locked(built):
        if not built.is_dir():
            say(f"building {split} queries in {built}")
            with progress(f"building {split} queries", "queries") as report:
                make_workload(
                    run.dataset,
                    built,
                    order,
                    device=device,
                    progress=lambda what, done, total: report(done, what, total),
                )
    return Workload.load(built)


def _chosen(queries: Workload, split: str, shapes: Sequence[str] | None, model: QueryModel) -> dict[str, QuerySet]:
    """The queries of the named shapes, which the workload must have and the model must be able to express."""
    from flexkg.models import interpretation
    from flexkg.plan.prepare import prepare
    from flexkg.sampling.make import split_words

    wanted = split_words(shapes)
    if wanted is None:
        return {shape: queries.queries(split, shape) for shape in queries.shapes(split)}
    chosen = {shape: queries.queries(split, shape) for shape in wanted}
    for query_set in chosen.values():
        prepare(query_set.template, interpretation(model))
    return chosen


def _evaluated(model: QueryModel, queries: dict[str, QuerySet], device: torch.device, what: str) -> Evaluation:
    from flexkg.evaluation.evaluate import evaluate

    with progress(what, "queries", sum(map(len, queries.values()))) as report:
        return evaluate(model, queries, device=device, report=report)


def _baseline(run: RunFolder, queries: dict[str, QuerySet]) -> dict[str, float | None]:
    """MRR by shape and its averages of guessing what a relation usually leads to."""
    from flexkg.evaluation.baseline import RelationFrequency
    from flexkg.evaluation.evaluate import AVERAGES, evaluate
    from flexkg.plan.prepare import Interpretation, Union

    guess: Any = RelationFrequency(run.dataset.graph("train"))
    with progress("baseline", "queries", sum(map(len, queries.values()))) as report:
        by = Interpretation(guess.operators, Union.NATIVE)
        found = evaluate(guess, queries, by, report=report, resamples=2)
    means = {shape: values.means()["mrr"] for shape, values in found.shapes.items()}
    return {**means, **{name: found.mean(name) for name in AVERAGES}}


def _published(run: RunFolder) -> dict[str, float | None]:
    """The paper's MRR by shape and its averages, where it has the dataset and the recipe."""
    from flexkg.evaluation.evaluate import AVERAGES
    from flexkg.paper.tables import published

    cells: dict[str, float] = published(run.dataset.name, str(run.manifest.get("recipe", "")))
    averages = {
        name: sum(cells[shape] for shape in shapes) / len(shapes)
        for name, shapes in AVERAGES.items()
        if all(shape in cells for shape in shapes)
    }
    return {**cells, **averages}


def _rival(
    run: RunFolder, split: str, queries: Workload, chosen: dict[str, QuerySet], device: torch.device
) -> dict[str, Any]:
    """What the other run's queries came to: from its report if that is of the same weights and queries, or anew."""
    from flexkg.evaluation.compare import load_values
    from flexkg.evaluation.evaluate import fingerprint
    from flexkg.kg.storage import sha256_file

    queries.check_data(run.dataset)
    kept = run.path / "evaluation" / split / "per-query.npz"
    if kept.is_file():
        values, about = load_values(kept)
        same = all(shape in values and values[shape].fingerprint == fingerprint(chosen[shape]) for shape in chosen)
        if same and about.get("weights") == sha256_file(run.path / "model.safetensors"):
            return values
    return dict(_evaluated(run.model(device), chosen, device, "evaluating the other run").shapes)


def _plain(differences: dict[str, Difference]) -> dict[str, Any]:
    from flexkg.evaluation.evaluate import AVERAGES

    return {
        "shapes": {name: gap.to_dict() for name, gap in differences.items() if name not in AVERAGES},
        **{name: differences[name].to_dict() if name in differences else None for name in AVERAGES},
    }


def _shape_histogram(model: QueryModel, queries: QuerySet, by: Any, device: torch.device) -> Histogram:
    from flexkg.evaluation.histogram import shape_histogram

    return shape_histogram(model, queries, by, device)


def _named_histograms(run: RunFolder, model: QueryModel, texts: Sequence[str]) -> list[Histogram]:
    """Score histograms of queries, with their exact answers in training and beyond."""
    import numpy as np

    from flexkg.api import KnowledgeGraph
    from flexkg.evaluation.histogram import CASE_STUDY, score_histogram

    drawn = []
    graph = KnowledgeGraph(run.dataset)
    wanted: list[tuple[str, Any]] = []
    for text in texts:
        wanted += [(f"{shape}: ", query) for shape, query in CASE_STUDY.items()] if text == "paper" else [("", text)]
    for label, query in wanted:
        try:
            term = graph.parse(query)
        except DataError as error:
            if not label:
                raise
            raise DataError(
                f"`--histogram paper` draws the paper's case study, three queries of FB15k, and {run.dataset.name} "
                f"lacks what they ask for: {error.message}",
                hint="Give a query of this graph instead.",
            ) from None
        known, everything = ({answer.id for answer in graph.answer(term, upto)} for upto in ("train", "test"))
        answers = {"known": known & everything, "held out": everything - known}
        ids = {kind: np.array(sorted(members), np.int64) for kind, members in answers.items()}
        drawn.append(score_histogram(model, term, ids, label + graph.text(term)))
    return drawn


def _render(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from flexkg.evaluation.report import rows

    console = Console(emoji=False)
    beside = [name for name in ("baseline", "paper") if name in result]
    table = Table("shape", title=f"{result['recipe'] or result['model']} on {result['data']}, {result['split']}")
    for column in ("queries", "MRR", "95%", "hits@1", "hits@3", "hits@10", *beside):
        table.add_column(column, justify="right")
    lines = rows(result)
    for number, row in enumerate(lines):
        part = row["shapes"] is not None and row["shapes"] < row["of"]
        cells = [
            row["shape"] + (f" ({row['shapes']} of {row['of']})" if part else ""),
            f"{row['queries']:,}" if row["queries"] is not None else "",
            _percent(row["mrr"]),
        ]
        cells += [f"{_percent(row['ci95_low'])}-{_percent(row['ci95_high'])}"]
        cells += [_percent(row[f"hits@{k}"]) for k in (1, 3, 10)] + [_percent(row[f"{name}_mrr"]) for name in beside]
        last = number + 1 < len(lines) and lines[number + 1]["queries"] is None and row["queries"] is not None
        table.add_row(*cells, end_section=last)
    console.print(table)
    links = [f"{links}: {_percent(row['mrr'])}" for links, row in result["by_missing_links"].items()]
    if links:
        console.print(f"MRR by missing links: {', '.join(links)}", highlight=False)
    for name, gap in {**result.get("compare", {}).get("shapes", {}), **_averages(result)}.items():
        low, high = gap["ci95"]
        console.print(
            f"{name}: {_signed(gap['difference'])} ({_signed(low)} to {_signed(high)}), p = {gap['p']:.3f}",
            highlight=False,
        )
    if result["not_numbers"] or result["constant_scores"]:
        console.print(
            f"{result['not_numbers']:,} scores are not numbers; {result['constant_scores']:,} queries score every "
            "entity alike",
            highlight=False,
        )
    typer.echo(f"{result['queries']:,} queries in {result['seconds']:.1f} s; report in {result['out']}")


def _averages(result: dict[str, Any]) -> dict[str, Any]:
    names = {"mrr": "all", "mrr_epfo": "EPFO", "mrr_negation": "negation"}
    compared = result.get("compare", {})
    return {label: compared[name] for name, label in names.items() if compared.get(name)}


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _signed(value: float) -> str:
    return f"{100 * value:+.2f}"
