"""BetaE's pickles: what they say comes in; what they must not do does not happen."""

from __future__ import annotations

import collections
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flexkg
from flexkg.cli.main import run
from flexkg.errors import DataError
from flexkg.kg.dataset import Dataset
from flexkg.kg.vocabulary import Vocabulary
from flexkg.query.shapes import DE_MORGAN_SHAPES, SHAPES, template_of
from flexkg.sampling.betae_pickles import import_betae
from flexkg.sampling.make import Order, make_workload
from flexkg.sampling.queries import cofinite
from flexkg.sampling.workload import Workload

STRUCTURES: dict[str, Any] = {
    "1p": ("e", ("r",)),
    "2p": ("e", ("r", "r")),
    "3p": ("e", ("r", "r", "r")),
    "2i": (("e", ("r",)), ("e", ("r",))),
    "3i": (("e", ("r",)), ("e", ("r",)), ("e", ("r",))),
    "ip": ((("e", ("r",)), ("e", ("r",))), ("r",)),
    "pi": (("e", ("r", "r")), ("e", ("r",))),
    "2in": (("e", ("r",)), ("e", ("r", "n"))),
    "3in": (("e", ("r",)), ("e", ("r",)), ("e", ("r", "n"))),
    "inp": ((("e", ("r",)), ("e", ("r", "n"))), ("r",)),
    "pin": (("e", ("r", "r")), ("e", ("r", "n"))),
    "pni": (("e", ("r", "r", "n")), ("e", ("r",))),
    "2u": (("e", ("r",)), ("e", ("r",)), ("u",)),
    "up": ((("e", ("r",)), ("e", ("r",)), ("u",)), ("r",)),
    "2u-DM": ((("e", ("r", "n")), ("e", ("r", "n"))), ("n",)),
    "up-DM": ((("e", ("r", "n")), ("e", ("r", "n"))), ("n", "r")),
}
ENTITIES, RELATIONS = 3000, 4


def fill(structure: Any, random: np.random.Generator) -> Any:
    if isinstance(structure, tuple):
        return tuple(fill(part, random) for part in structure)
    limits = {"e": ENTITIES, "r": 2 * RELATIONS}
    return int(random.integers(limits[structure])) if structure in limits else {"n": -2, "u": -1}[structure]


def answers(random: np.random.Generator, least: int = 1) -> set[int]:
    return set(random.integers(0, ENTITIES, random.integers(least, 2500)).tolist())


def dump(path: Path, value: object, protocol: int) -> None:
    path.write_bytes(pickle.dumps(value, protocol))


def make(folder: Path, protocol: int = 3, shapes: tuple[str, ...] = tuple(STRUCTURES), rows: int = 4) -> dict[str, Any]:
    """A folder as published, and what is in it."""
    folder.mkdir()
    random = np.random.default_rng(7)
    dump(folder / "id2ent.pkl", {id: f"/m/{id}" for id in range(ENTITIES)}, protocol)
    dump(folder / "id2rel.pkl", {id: "+-"[id % 2] + f"r{id // 2}" for id in range(2 * RELATIONS)}, protocol)
    (folder / "stats.txt").write_text(f"numentity: {ENTITIES}\nnumrelations: {2 * RELATIONS}")
    made = {}
    for split in ("train", "valid", "test"):
        queries: Any = collections.defaultdict(set)
        tables = {name: collections.defaultdict(set) for name in (("train",) if split == "train" else ("easy", "hard"))}
        for shape in shapes:
            for _ in range(rows):
                query = fill(STRUCTURES[shape], random)
                queries[STRUCTURES[shape]].add(query)
                for table in tables.values():
                    table[query] = answers(random)
        dump(folder / f"{split}-queries.pkl", queries, protocol)
        for name, table in tables.items():
            dump(folder / ("train-answers.pkl" if split == "train" else f"{split}-{name}-answers.pkl"), table, protocol)
        made[split] = queries, tables
    return made


@pytest.mark.parametrize("protocol", range(6))
def test_queries_and_answers_come_in(tmp_path: Path, protocol: int) -> None:
    made = make(tmp_path / "in", protocol)
    workload = import_betae(tmp_path / "in", tmp_path / "w", de_morgan=True)
    assert workload.data == {"name": "in", "checksum": None, "entities": ENTITIES, "relations": RELATIONS}
    for split, (queries, tables) in made.items():
        assert set(workload.shapes(split)) == set(STRUCTURES)
        for shape, structure in STRUCTURES.items():
            found = workload.queries(split, shape)
            assert found.template == {**SHAPES, **DE_MORGAN_SHAPES}[shape]
            expected = {}
            for query in queries[structure]:
                flat = str(query).replace("(", " ").replace(")", " ").replace(",", " ").split()
                expected[tuple(int(text) for text in flat if int(text) >= 0)] = query
            assert len(found) == len(expected)
            for row in range(len(found)):
                # Entities and relations in the order of the text, by merging the two columns as the structure says.
                leaves = [iter(found.entities[row].tolist()), iter(found.relations[row].tolist())]
                order = [text for text in str(structure) if text in "er"]
                query = expected[tuple(next(leaves["er".index(kind)]) for kind in order)]
                for name, table in tables.items():
                    assert found.answers[name].row(row).tolist() == sorted(table[query])


def test_the_forms_without_union_are_left_out(tmp_path: Path) -> None:
    make(tmp_path / "in")
    workload = import_betae(tmp_path / "in", tmp_path / "w")
    assert set(workload.shapes("test")) == set(SHAPES)
    assert set(workload.settings["skipped"]) == {
        f"{split}/{shape}" for split in ("train", "valid", "test") for shape in DE_MORGAN_SHAPES
    }


def test_a_query_without_easy_answers_has_none(tmp_path: Path) -> None:
    made = make(tmp_path / "in", shapes=("1p",), rows=1)
    (query,) = made["test"][0][STRUCTURES["1p"]]
    dump(tmp_path / "in" / "test-easy-answers.pkl", collections.defaultdict(set), 3)
    workload = import_betae(tmp_path / "in", tmp_path / "w")
    assert workload.queries("test", "1p").answers["easy"].members.tolist() == []
    dump(tmp_path / "in" / "test-hard-answers.pkl", {}, 3)
    with pytest.raises(DataError, match="no hard answers to the 1p query"):
        import_betae(tmp_path / "in", tmp_path / "v")
    assert query[0] < ENTITIES


def test_ids_must_be_those_of_the_dataset(tmp_path: Path) -> None:
    def dataset(entities: int, first: str = "/m/0") -> Dataset:
        names = [first, *(f"/m/{id}" for id in range(1, entities))]
        return Dataset(
            "toy", Vocabulary(names), Vocabulary([f"r{id}" for id in range(RELATIONS)]), {"train": [(0, 0, 1)]}
        )

    make(tmp_path / "in", shapes=("1p",))
    workload = import_betae(tmp_path / "in", tmp_path / "w", dataset=dataset(ENTITIES))
    workload.check_data(dataset(ENTITIES))
    assert workload.data["checksum"] == dataset(ENTITIES).checksum
    with pytest.raises(DataError, match=r"has 3,000 entities and 8 directed relations; toy has 3,001 and 8"):
        import_betae(tmp_path / "in", tmp_path / "v", dataset=dataset(ENTITIES + 1))
    with pytest.raises(DataError, match=r"id2ent.pkl calls 0 '/m/0'; in toy it is 'other'"):
        import_betae(tmp_path / "in", tmp_path / "v", dataset=dataset(ENTITIES, "other"))


def test_with_the_dataset_hard_answers_have_their_missing_links(tmp_path: Path) -> None:
    world = flexkg.load("world").dataset
    made = make_workload(world, tmp_path / "ours", Order(splits=("valid", "test"), shapes=("1p", "2i"), count=60))
    ours, folder = Workload.load(tmp_path / "ours"), tmp_path / "in"
    folder.mkdir()
    dump(folder / "id2ent.pkl", dict(enumerate(world.entities.identifiers)), 3)
    directed = [sign + name for name in world.relations.identifiers for sign in "+-"]
    dump(folder / "id2rel.pkl", dict(enumerate(directed)), 3)
    for split in ("valid", "test"):
        queries: dict[Any, Any] = {}
        tables: dict[str, dict[Any, Any]] = {"easy": {}, "hard": {}}
        for shape in made["shapes"]:
            known = ours.queries(split, shape)
            for row, (entities, relations) in enumerate(zip(known.entities, known.relations, strict=True)):
                parts = tuple((int(e), (int(r),)) for e, r in zip(entities, relations, strict=True))
                query = parts if len(parts) > 1 else parts[0]
                queries.setdefault(STRUCTURES[shape], set()).add(query)
                for name, table in tables.items():
                    table[query] = set(known.answers[name].row(row).tolist())
        dump(folder / f"{split}-queries.pkl", queries, 3)
        for name, table in tables.items():
            dump(folder / f"{split}-{name}-answers.pkl", table, 3)
    imported = import_betae(folder, tmp_path / "w", dataset=world)

    def links(workload: Workload, split: str, shape: str) -> dict[Any, list[int]]:
        """By query; the two workloads have them in different orders."""
        found = workload.queries(split, shape)
        assert found.hardness is not None
        rows = np.split(found.hardness, found.answers["hard"].offsets[1:-1])
        ids = np.concatenate([found.entities, found.relations], axis=1).tolist()
        return {tuple(key): row.tolist() for key, row in zip(ids, rows, strict=True)}

    for split in ("valid", "test"):
        assert set(np.concatenate(list(links(imported, split, "1p").values()))) == {1}
        assert links(imported, split, "2i") == links(ours, split, "2i")
    assert import_betae(folder, tmp_path / "v").queries("test", "2i").hardness is None


def test_sizes_come_from_stats_when_names_are_not_there(tmp_path: Path) -> None:
    make(tmp_path / "in", shapes=("1p",))
    (tmp_path / "in" / "id2ent.pkl").unlink()
    assert import_betae(tmp_path / "in", tmp_path / "w").data["entities"] == ENTITIES
    for text, words in (("many", "does not say"), ("numentity: 5\nnumrelations: 3", "not pairs")):
        (tmp_path / "in" / "stats.txt").write_text(text)
        with pytest.raises(DataError, match=words):
            import_betae(tmp_path / "in", tmp_path / "v")
    (tmp_path / "in" / "stats.txt").unlink()
    with pytest.raises(DataError, match=r"nor stats.txt"):
        import_betae(tmp_path / "in", tmp_path / "v")


@pytest.mark.parametrize(
    ("file", "value", "words"),
    [
        ("train-queries.pkl", [], "does not hold queries by structure"),
        ("train-answers.pkl", 5, "does not hold answers by query"),
        ("train-queries.pkl", {"e": set()}, "no structure"),
        ("train-queries.pkl", {("e", ("x",)): set()}, "no structure"),
        ("train-queries.pkl", {("e", ("r",)): 7}, "are not a set"),
        ("train-queries.pkl", {("e", ("r",)): {(0, (1, 2))}}, "is no query of the shape 1p"),
        ("train-queries.pkl", {("e", ("r",)): {("a", ("+b",))}}, "is no query of the shape 1p"),
        ("train-queries.pkl", {("e", ("r",)): {(2**62, (0,))}}, "holds the entity 4611686018427387904"),
        ("train-queries.pkl", {("e", ("r",)): {(0, (8,))}}, "holds the relation 8; there are 8"),
        ("train-queries.pkl", {("e", ("r",)): {(0, (0,))}}, "no train answers to the 1p query"),
        ("train-queries.pkl", {("e", ("r", "n")): {(0, (0, -2))}}, "too many answers to be listed"),
        ("id2ent.pkl", {0: "a", 2: "b"}, "does not map the ids"),
        ("id2ent.pkl", ["a"], "does not map the ids"),
    ],
)
def test_other_things_in_a_pickle_are_refused(tmp_path: Path, file: str, value: object, words: str) -> None:
    make(tmp_path / "in", shapes=("2p",), rows=1)
    dump(tmp_path / "in" / file, value, 3)
    with pytest.raises(DataError, match=words):
        import_betae(tmp_path / "in", tmp_path / "w")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("ids", [{3000}, {-1}, {"a"}, {2**40}, [1, 1], {1: 2}, None])
def test_other_things_among_answers_are_refused(tmp_path: Path, ids: Any) -> None:
    made = make(tmp_path / "in", shapes=("2p",), rows=1)
    (query,) = made["train"][0][STRUCTURES["2p"]]
    dump(tmp_path / "in" / "train-answers.pkl", {query: ids}, 4)
    with pytest.raises(DataError, match="train answers"):
        import_betae(tmp_path / "in", tmp_path / "w")


def test_a_folder_that_is_none_of_betaes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder"):
        import_betae(tmp_path / "none", tmp_path / "w")
    make(tmp_path / "in", shapes=("1p",))
    (tmp_path / "in" / "valid-hard-answers.pkl").unlink()
    with pytest.raises(DataError, match=r"has valid-queries.pkl, but no valid-hard-answers.pkl"):
        import_betae(tmp_path / "in", tmp_path / "w")
    for split in ("train", "valid", "test"):
        (tmp_path / "in" / f"{split}-queries.pkl").unlink()
    with pytest.raises(DataError, match=r"holds no train-queries.pkl"):
        import_betae(tmp_path / "in", tmp_path / "w")


class Payload:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.path}",)


def hostile(marker: Path) -> dict[str, bytes]:
    """Pickles that must not be read, whatever file they stand in."""
    command = f"touch {marker}"
    text = b"X" + len(command).to_bytes(4, "little") + command.encode()
    laughs = b"K\x01\x94" + b"".join(b"(" + b"h%c" % level * 100 + b"t\x94" for level in range(12))
    good = pickle.dumps({("e", ("r",)): {(0, (0,))}})
    return {
        **{f"payload in protocol {version}": pickle.dumps(Payload(marker), version) for version in range(6)},
        "payload in a query": pickle.dumps({("e", ("r",)): {1: Payload(marker)}}),
        "GLOBAL": b"cos\nsystem\n(" + text + b"tR.",
        "STACK_GLOBAL": b"\x8c\x02os\x8c\x06system\x93" + text + b"\x85R.",
        "eval": b"cbuiltins\neval\n(" + text + b"tR.",
        "INST": b"(" + text + b"ios\nsystem\n.",
        "OBJ": b"(cos\nsystem\n" + text + b"o.",
        "NEWOBJ": b"cos\nsystem\n" + text + b"\x85\x81.",
        "BUILD": b"ccollections\ndefaultdict\n)R}" + text + b"K\x01sb.",
        "EXT1": b"\x82\x01.",
        "PERSID": b"P" + command.encode() + b"\n.",
        "BINPERSID": text + b"Q.",
        "a dotted name": b"\x8c\x0bcollections\x8c\x17defaultdict.__init__.__g\x93.",
        "an allowed name called with another": b"ccollections\ndefaultdict\n(cos\nsystem\ntR.",
        "nothing": b"",
        "truncated": good[:-5],
        "random bytes": np.random.default_rng(1).bytes(5000),
        "billion laughs": laughs + b".",
        "billion laughs as a key": b"}" + laughs + b"K\x01s.",
        "deep tuples": b")" + b"\x85" * 100_000 + b".",
        "deep lists": b"]" * 100_000 + b"a" * 99_999 + b".",
        "deep marks": b"(" * 100_000 + b".",
        "huge text": b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
        "huge bytes": b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
        "huge frame": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
        "huge number": b"\x8b\xff\xff\xff\x7f.",
        "huge digits": b"L" + b"9" * 1_000_000 + b"L\n.",
        "huge memo": b"K\x01r\xff\xff\xff\xff.",
    }


@pytest.mark.parametrize("kind", sorted(hostile(Path("x"))))
@pytest.mark.parametrize("file", ["train-queries.pkl", "test-easy-answers.pkl", "id2ent.pkl"])
def test_hostile_pickles_run_nothing_and_write_nothing(
    tmp_path: Path, kind: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = tmp_path / "ran"
    make(tmp_path / "in", shapes=("1p",), rows=1)
    (tmp_path / "in" / file).write_bytes(hostile(marker)[kind])
    before = sorted(tmp_path.rglob("*"))
    assert run(["workload", "import-betae", str(tmp_path / "in"), "--out", str(tmp_path / "deep" / "w")]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")
    assert output.err.count("\n") == 1
    assert file in output.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_hostile_pickle_stays_small_in_memory(tmp_path: Path) -> None:
    make(tmp_path / "in", shapes=("1p",), rows=1)
    code = """
import resource, sys
from flexkg.errors import FlexError
from flexkg.sampling.betae_pickles import import_betae
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    import_betae(sys.argv[1], sys.argv[2])
except FlexError:
    sys.exit((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 > 64)
sys.exit(2)
"""
    for kind in ("billion laughs", "huge text", "deep tuples", "huge memo"):
        (tmp_path / "in" / "train-answers.pkl").write_bytes(hostile(tmp_path / "ran")[kind])
        done = subprocess.run([sys.executable, "-c", code, tmp_path / "in", tmp_path / "w"], check=False)
        assert done.returncode == 0, kind


def test_cofinite_is_what_the_engine_does() -> None:
    for key, expected in {
        "ep": False, "epn": True, "epnp": False, "*p": False, "epep>": True, "epep^": False, "epep=": True,
        "epnepn&2": True, "epnepn&2n": False, "epnep|2": True, "epnep-": True, "epnepn-": False, "epnep>": False,
        "epnepn>": True, "epnep^": True, "epnepn=": True,
    }.items():  # fmt: skip
        assert cofinite(template_of(key)) is expected, key
