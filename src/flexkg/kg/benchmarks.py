"""The benchmark graphs that can be fetched: where they come from, and what they must turn out to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Source:
    """One published place of a dataset.

    layout `betae`: an archive with integer ids in `folder` and the pickled names beside them. `triples`: an archive
    with `train.txt` and so on, ids by first appearance in train. `quads`: three files with a date as fourth column, ids
    in alphabetical order; `urls` are then those of train, valid and test.
    checksum: of the archive, `sha256:HEX` or `md5:HEX`, where somebody has published or seen one.
    """

    layout: Literal["betae", "triples", "quads"]
    urls: tuple[str, ...]
    folder: str = ""
    checksum: str | None = None
    max_bytes: int = 200_000_000


@dataclass(frozen=True)
class Benchmark:
    """A dataset of the catalog. Counts and `content` hold however it was obtained, or it is not accepted.

    content: SHA-256 over identifiers and triples, see `catalog.content_checksum`.
    names: an address with lines of identifier, tab, name; the graph is complete without it.
    spelled_out: whether identifiers are `concept_CATEGORY_NAME`, and give names and descriptions by themselves.
    """

    name: str
    about: str
    entities: int
    relations: int
    edges: tuple[int, int, int]
    content: str
    sources: tuple[Source, ...]
    licence: str
    attribution: str
    names: str | None = None
    spelled_out: bool = False

    @property
    def temporal(self) -> bool:
        """Whether the files carry a date, which the static graph leaves out."""
        return any(source.layout == "quads" for source in self.sources)


_BETAE_URL = "http://snap.stanford.edu/betae/KG_data.zip"
# Stated by GNN-QE and by ULTRA, which download the same file.
_BETAE_CHECKSUM = "md5:d54f92e2e6a64d7f525b8fe366ab3f50"
_FREEBASE_NAMES = "https://raw.githubusercontent.com/yao8839836/kg-bert/master/data/FB15K/entity2text.txt"
_ICEWS_URL = "https://raw.githubusercontent.com/mniepert/mmkb/master/TemporalKGs/icews14/icews_2014_{}.txt"


def _betae(folder: str) -> Source:
    return Source("betae", (_BETAE_URL,), folder, _BETAE_CHECKSUM, max_bytes=3_000_000_000)


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            name="fb15k",
            about="Freebase; many relations have an inverse",
            entities=14_951,
            relations=1_345,
            edges=(483_142, 50_000, 59_071),
            content="5aeec566fe2f9ce4092e3794206f88b3b9558eebb1261376e899822f50f180a7",
            sources=(_betae("FB15k-betae"),),
            licence="CC BY (Freebase)",
            attribution="Freebase, by way of Bordes et al. 2013 (FB15k) and Ren and Leskovec 2020 (BetaE).",
            names=_FREEBASE_NAMES,
        ),
        Benchmark(
            name="fb15k-237",
            about="Freebase without inverse relations",
            entities=14_505,
            relations=237,
            edges=(272_115, 17_526, 20_438),
            content="2603fc4e296b92d2e54deaa6884e62b49ff9c7ec91fcc4539d6aba491dda26d6",
            sources=(
                Source("triples", ("https://raw.githubusercontent.com/TimDettmers/ConvE/master/FB15k-237.tar.gz",)),
                _betae("FB15k-237-betae"),
            ),
            licence="CC BY (Freebase)",
            attribution="Freebase, by way of Toutanova and Chen 2015 (FB15k-237) and Ren and Leskovec 2020 (BetaE).",
            names=_FREEBASE_NAMES,
        ),
        Benchmark(
            name="nell995",
            about="NELL: facts read from the web",
            entities=63_361,
            relations=200,
            edges=(114_213, 14_324, 14_267),
            content="37ce84757b05ee0e565fdcbd35f39aaa66e1379691bc45507c1204969e7c0e37",
            sources=(_betae("NELL-betae"),),
            licence="none stated by its publishers",
            attribution="NELL, by way of Xiong et al. 2017 (NELL-995) and Ren and Leskovec 2020 (BetaE).",
            spelled_out=True,
        ),
        Benchmark(
            name="icews14",
            about="ICEWS: events of 2014, without dates",
            entities=7_128,
            relations=230,
            edges=(42_690, 3_804, 3_801),
            content="9301a2c686112621cf88a111ec9df07c04bb5ecf96de8ee6fae318e3067075f2",
            sources=(Source("quads", tuple(_ICEWS_URL.format(split) for split in ("train", "valid", "test"))),),
            licence="none stated; source data under the terms of Harvard Dataverse doi:10.7910/DVN/28075",
            attribution="ICEWS, Boschee et al. 2015, doi:10.7910/DVN/28075, in the split of García-Durán et al. 2018.",
        ),
    )
}
