"""Make a whole workload: published queries where they exist, all one-hop queries, the rest sampled."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flexkg.errors import DataError, FlexError
from flexkg.kg.dataset import SPLITS
from flexkg.query.shapes import SHAPES, template_of
from flexkg.sampling.build import Pair, answer_queries, enumerate_pairs, sample_queries
from flexkg.sampling.hardness import missing_links
from flexkg.sampling.jsonl import read_queries
from flexkg.sampling.protocol import AS_WRITTEN, DEFAULT, PROTOCOLS, PUBLISHED, TRAIN_SHAPES, count_for, usually_trained
from flexkg.sampling.sampler import fingerprints
from flexkg.sampling.workload import check_target, data_of, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from flexkg.kg.dataset import Dataset
    from flexkg.query.terms import Term
    from flexkg.sampling.queries import QuerySet


@dataclass(frozen=True)
class Order:
    """What to make; what is None follows the protocol."""

    splits: tuple[str, ...] = SPLITS
    shapes: tuple[str, ...] | None = None
    train_shapes: tuple[str, ...] | None = None
    count: int | None = None
    cap: int | None = None
    seed: int = 0
    protocol: str = PROTOCOLS[0]
    templates: Mapping[str, Term] | None = None
    queries: Path | None = None
    """Published queries, FOLDER/<split>/<shape>.jsonl.gz, used before any are sampled."""

    def template(self, shape: str) -> Term:
        """The template of a shape's name."""
        known = SHAPES | dict(self.templates or {})
        if shape not in known:
            raise FlexError(
                f"There is no shape {shape!r}.", hint=f"Choose among {', '.join(known)}, or give --templates FILE."
            )
        return known[shape]

    def shapes_of(self, split: str) -> tuple[str, ...]:
        """The shapes of a split: ip, pi, 2u and up are trained only when asked for by name."""
        extra = tuple(self.templates or ())
        if split != "train":
            return (*SHAPES, *extra) if self.shapes is None else self.shapes
        if self.train_shapes is not None:
            return self.train_shapes
        if self.shapes is None:
            return (*TRAIN_SHAPES, *extra)
        only = self.splits == ("train",)
        return tuple(shape for shape in self.shapes if only or shape in TRAIN_SHAPES or shape in extra)


def make_workload(
    dataset: Dataset,
    out: Path,
    order: Order,
    *,
    device: torch.device | str = "cpu",
    overwrite: bool = False,
    progress: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
) -> dict[str, Any]:
    """Write the workload folder and return, for each shape and split, how many queries and how fast."""
    if unknown := set(order.splits) - set(SPLITS):
        raise FlexError(f"There is no split {sorted(unknown)[0]!r}.", hint=f"Choose among {', '.join(SPLITS)}.")
    if order.protocol not in PROTOCOLS:
        raise FlexError(f"There is no protocol {order.protocol!r}.", hint=f"Choose among {', '.join(PROTOCOLS)}.")
    for split in order.splits:
        for shape in order.shapes_of(split):
            order.template(shape)
    if not any(order.shapes_of(split) for split in order.splits):
        raise FlexError("There is no shape to make.", hint="Name some with --shapes, or leave it away for all.")
    if order.queries is not None and not any(
        _has_queries(order.queries, split, shape) for split in order.splits for shape in order.shapes_of(split)
    ):
        raise DataError(
            f"{order.queries} holds no queries of these splits and shapes.",
            hint="It must be laid out as FOLDER/SPLIT/SHAPE.jsonl.gz, such as FOLDER/test/2p.jsonl.gz.",
        )
    check_target(out, overwrite=overwrite)
    begin = time.perf_counter()
    shapes: dict[str, dict[str, Any]] = {}
    settings = {
        "protocol": order.protocol,
        "seed": order.seed,
        "cap": _cap(dataset, order),
        "count": order.count,
        "queries": None if order.queries is None else order.queries.name,
        "device": torch.device(device).type,
    }
    with writing(out, data=data_of(dataset), settings=settings, overwrite=overwrite) as writer:
        for split, queries, source in _query_sets(dataset, order, device, progress):
            writer.add(split, queries)
            seconds = queries.extra["seconds"]
            shapes.setdefault(queries.shape, {})[split] = {
                "queries": len(queries),
                "source": source,
                "queries_per_second": len(queries) / seconds if seconds else None,
                **queries.extra,
            }
        if not shapes:
            raise DataError(
                f"{dataset.name} has no facts to ask these queries about.",
                hint="ip, pi, 2u and up are only evaluated: import the graph with --split, or name --train-shapes.",
            )
    return {"path": str(out), "shapes": shapes, "seconds": time.perf_counter() - begin}


def _query_sets(
    dataset: Dataset, order: Order, device: torch.device | str, progress: Callable[[str, int, int], None]
) -> Iterator[tuple[str, QuerySet, str]]:
    """Valid and test first: what training must not see is known then."""
    protocol = PUBLISHED.get(dataset.name, DEFAULT)
    marks: dict[Term, list[Tensor]] = {}
    pairs = len(dataset.graph("train").pair_entities)
    wanted = {
        (split, shape): order.count or count_for(protocol, split, order.template(shape), pairs)
        for split in order.splits
        for shape in order.shapes_of(split)
        if len(dataset.triples[split])
    }
    done, total = 0, sum(wanted.values())
    for split in sorted(order.splits, key=lambda name: name == "train"):
        if len(dataset.triples[split]) == 0:
            if order.splits == SPLITS and split != "train":
                continue
            raise DataError(f"{dataset.name} has no {split} facts to ask about.", hint="Import it with --split.")
        pair = Pair.of_split(dataset, split, device)
        for shape in order.shapes_of(split):
            count, template = wanted[split, shape], order.template(shape)
            if order.queries is not None and _has_queries(order.queries, split, shape):
                queries, source = _published(dataset, pair, order, split, shape), "published"
            elif shape == "1p":
                queries, source = _some(enumerate_pairs(pair, cap=_cap(dataset, order)), order), "enumerated"
            else:
                avoid = marks.get(template, []) if split == "train" and not usually_trained(template) else []
                queries = sample_queries(
                    pair,
                    shape,
                    template,
                    count,
                    cap=_cap(dataset, order),
                    seed=order.seed,
                    split=split,
                    avoid=torch.cat(avoid) if avoid else None,
                    as_written=order.protocol == AS_WRITTEN,
                    progress=counting(progress, f"{split} {shape}", done, total),
                )
                source = "sampled"
            if split != "train":
                queries = _with_hardness(pair, queries)
                marks.setdefault(template, []).append(fingerprints(queries))
            done += count
            progress(f"{split} {shape}", done, total)
            yield split, queries, source


def _cap(dataset: Dataset, order: Order) -> int:
    return PUBLISHED.get(dataset.name, DEFAULT).cap if order.cap is None else order.cap


def _published(dataset: Dataset, pair: Pair, order: Order, split: str, shape: str) -> QuerySet:
    """Published queries with answers of our own, which must be the published answers where these are given."""
    assert order.queries is not None
    template = order.template(shape)
    key, entities, relations, easy, hard = read_queries(order.queries, split, shape, dataset)
    if template_of(key) != template:
        raise DataError(f"The queries in {order.queries}/{split}/{shape} are not of the shape {shape}.")
    ids = [torch.from_numpy(np.asarray(kind, dtype=np.int64)) for kind in (entities, relations)]
    queries = answer_queries(pair, shape, template, *ids)
    for name, column in (("easy", easy), ("hard", hard)):
        ours = queries.answers.get(name)
        if column is None or ours is None:
            continue
        same = np.array_equal(column.offsets, ours.offsets) and np.array_equal(column.members, ours.members)
        if not same:
            raise DataError(
                f"The {name} answers in {order.queries}/{split}/{shape} are not those of this graph.",
                hint="The queries belong to another dataset, or to another version of it.",
            )
    return queries


def _has_queries(folder: Path, split: str, shape: str) -> bool:
    return any((folder / split / f"{shape}{suffix}").is_file() for suffix in (".jsonl.gz", ".jsonl"))


def _some(queries: QuerySet, order: Order) -> QuerySet:
    """All queries, or a random `count` of them."""
    if order.count is None or order.count >= len(queries):
        return queries
    return queries.take(np.sort(np.random.default_rng(order.seed).choice(len(queries), order.count, replace=False)))


def _with_hardness(pair: Pair, queries: QuerySet) -> QuerySet:
    begin = time.perf_counter()
    links = missing_links(pair, queries)
    queries.extra["hardness_seconds"] = time.perf_counter() - begin
    return replace(queries, hardness=links)


def counting(progress: Callable[[str, int, int], None], what: str, before: int, total: int) -> Callable[[int], None]:
    """Takes how many queries of one set are done, and tells of all: `before` of `total` were done with earlier sets."""
    return lambda done: progress(what, before + done, total)


def split_words(words: Sequence[str] | None) -> tuple[str, ...] | None:
    """Words from options that may be repeated or hold several, with commas or blanks between them."""
    if not words:
        return None
    return tuple(dict.fromkeys(part for word in words for part in word.replace(",", " ").split()))
