"""Finds which published test queries come again with their operands in another order, for results/repeats.json."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from flexkg.errors import DataError, FlexError
from flexkg.kg.catalog import home
from flexkg.paper.repeats import find_repeats, read_repeats, write_repeats
from flexkg.paper.runner import Place, open_bench
from flexkg.paper.workloads import read_registry
from flexkg.sampling.workload import Workload
from flexkg.training.listener import Listener

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: list[str] | None = None) -> int:
    """Look through every graph whose published queries are here."""
    parser = argparse.ArgumentParser(description="Find published test queries that come again in another order.")
    parser.add_argument("--source", type=Path, required=True, help="holds DATASET/queries and DATASET/train.tsv.gz")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--work", type=Path, default=home() / "paper")
    given = parser.parse_args(arguments)
    place = Place(given.results, given.work, given.source)
    try:
        if not given.source.is_dir():
            raise DataError(f"There is no folder {given.source}.", hint="Give the folder that holds DATASET/queries.")
        registry, found = read_registry(given.results), read_repeats(given.results)
        if not registry:
            raise DataError(
                f"{given.results} does not say which queries its results are measured with.",
                hint="It lacks workloads.toml: flexkg paper workload DATASET.",
            )
        for name, entry in registry.items():
            if place.published(name) is None:
                print(f"{name}: its published queries are not here")
                continue
            open_bench(name, place, registry, torch.device("cpu"), Listener(say=print))
            repeats = find_repeats(Workload.load(place.workload(name)), entry.published["test"])
            print(f"{name}: {sum(map(len, repeats.rows.values())):,} published test queries come again")
            found.pop(name, None)
            if repeats.rows:
                found[name] = repeats
        write_repeats(given.results, found)
    except FlexError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
