"""JSON lines in and out: an identity for our own, the published ones bit by bit, and every mistake with its line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flexkg.errors import DataError
from flexkg.kg.dataset import Dataset
from flexkg.kg.vocabulary import Vocabulary
from flexkg.query import terms as t
from flexkg.query.betae import from_nested, to_nested
from flexkg.query.shapes import SHAPES
from flexkg.sampling import query_files as files
from flexkg.sampling.jsonl import export_jsonl, first_difference, import_jsonl, read_queries
from flexkg.sampling.queries import Column, cofinite
from flexkg.sampling.query_files import read_file
from flexkg.sampling.workload import Workload
from laws import strategies as laws

PUBLISHED = Path(__file__).resolve().parents[4] / "shared" / "data"


def dataset_of(entities: int = 6, relations: int = 2, seed: int = 0) -> Dataset:
    random = np.random.default_rng(seed)
    edges = np.unique(
        np.stack([random.integers(0, n, 5 * entities) for n in (entities, relations, entities)], axis=1), axis=0
    )
    edges = edges[random.permutation(len(edges))]
    cut = len(edges) * 2 // 3, len(edges) * 5 // 6
    triples = dict(zip(("train", "valid", "test"), np.split(edges, cut), strict=True))
    return Dataset(
        "toy",
        Vocabulary([f"e{id}" for id in range(entities)]),
        Vocabulary([f"r{id}" for id in range(relations)]),
        triples,
    )


def write(folder: Path, name: str, lines: list[Any]) -> None:
    path = folder / f"{name}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))


def naive(dataset: Dataset, split: str, query: list[Any]) -> set[int]:
    parts = [
        dataset.triples[name] for name in ("train", "valid", "test")[: ("train", "valid", "test").index(split) + 1]
    ]
    edges = frozenset(map(tuple, np.concatenate(parts).tolist()))
    graph = laws.Graph(len(dataset.entities), len(dataset.relations), edges)
    return set(laws.naive_answers(from_nested(query, entity=int, relation=int), graph))


QUERIES = {
    "2p": [[0, [0, 1]], [1, [2, 3]], [2, [1, 0]]],
    "2i": [[[0, [0]], [1, [1]]], [[2, [3]], [4, [0]]]],
    "pni": [[[0, [0, 1, -2]], [1, [2]]], [[5, [0, 0, -2]], [1, [3]]]],
    "imp": [[[0, [0]], [1, [1]], [-4]], [[2, [3]], [4, [0]], [-4]]],
    "not": [[0, [1, -2]], [3, [0, -2]]],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for shape, queries in QUERIES.items():
        for split in ("train", "valid", "test"):
            write(tmp_path / "in", f"{split}/{shape}", [{"q": query} for query in queries])
    return tmp_path / "in"


def test_answers_are_those_of_the_graphs(folder: Path, tmp_path: Path) -> None:
    dataset = dataset_of()
    workload = import_jsonl(folder, dataset, tmp_path / "w")
    workload.check_data(dataset)
    everything = set(range(len(dataset.entities)))
    for shape, queries in QUERIES.items():
        assert workload.queries("train", shape).complement == (shape in ("imp", "not"))
        for split, smaller in (("valid", "train"), ("test", "valid")):
            found = workload.queries(split, shape)
            assert found.hardness is not None
            for row, query in enumerate(queries):
                small, large = naive(dataset, smaller, query), naive(dataset, split, query)
                easy = set(found.answers["easy"].row(row).tolist())
                assert (everything - easy if found.complement else easy) == small
                assert set(found.answers["hard"].row(row).tolist()) == large - small


def test_what_is_exported_can_be_imported_again(folder: Path, tmp_path: Path) -> None:
    dataset = dataset_of()
    first = import_jsonl(folder, dataset, tmp_path / "w")
    for answers in (False, True):
        for split in first.splits:
            counts = export_jsonl(first, split, tmp_path / f"out{answers}", answers=answers)
            assert counts == {shape: len(queries) for shape, queries in QUERIES.items()}
        again = import_jsonl(tmp_path / f"out{answers}", dataset, tmp_path / f"again{answers}")
        assert again.checksum == first.checksum
    lines = gzip.decompress((tmp_path / "outFalse" / "train" / "2i.jsonl.gz").read_bytes()).decode().splitlines()
    assert lines[0] == '{"q":[[0,[0]],[1,[1]]]}'
    record = json.loads(gzip.decompress((tmp_path / "outTrue" / "test" / "imp.jsonl.gz").read_bytes()).splitlines()[0])
    assert list(record) == ["q", "easy", "hard", "complement"]
    with pytest.raises(DataError, match="holds something else"):
        export_jsonl(first, "test", tmp_path / "outTrue")


@given(laws.graphs(), st.data())
@settings(max_examples=25)
def test_any_template_goes_out_and_comes_back(graph: laws.Graph, data: st.DataObject) -> None:
    edges = sorted(graph.edges)
    triples = {"train": edges[::3], "valid": edges[1::3], "test": edges[2::3]}
    dataset = Dataset(
        "toy",
        Vocabulary([f"e{id}" for id in range(graph.num_entities)]),
        Vocabulary([f"r{id}" for id in range(graph.num_relations)]),
        {split: np.array(rows, np.int32).reshape(-1, 3) for split, rows in triples.items()},
    )
    term = data.draw(laws.terms(graph.num_entities, graph.num_relations, 4).filter(lambda x: not isinstance(x, t.Any)))
    with TemporaryDirectory() as name:
        folder = Path(name)
        for split in triples:
            write(folder / "in", f"{split}/any", [{"q": to_nested(term)}])
        first = import_jsonl(folder / "in", dataset, folder / "w")
        for split in triples:
            export_jsonl(first, split, folder / "out", answers=True)
        again = import_jsonl(folder / "out", dataset, folder / "again")
        assert again.checksum == first.checksum
        column = first.queries("test", "any").answers["hard"].row(0).tolist()
        assert first.queries("train", "any").complement == cofinite(term)
    everything = laws.Graph(graph.num_entities, graph.num_relations, frozenset(edges))
    known = laws.Graph(graph.num_entities, graph.num_relations, frozenset(edges[::3] + edges[1::3]))
    assert set(column) == laws.naive_answers(term, everything) - laws.naive_answers(term, known)


@pytest.mark.parametrize(
    ("name", "lines", "words"),
    [
        ("train/2p", [{"q": [0, [0, 1]]}, {"q": [6, [0, 1]]}], r"2p.jsonl.gz line 2: there is no entity 6"),
        ("train/2p", [{"q": [0, [0, 1]]}, {"q": [1, [0, 4]]}], r"line 2: there is no relation 4"),
        (
            "train/2p",
            [{"q": [0, [0, 1]]}, {"q": [0, [1, 1]]}, {"q": [0, [0, 1]]}],
            r"line 3: the query of line 1 again",
        ),
        ("train/2p", [{"q": [0, [0, 1]]}, {"q": [0, [0]]}], r"line 2: The query has another shape"),
        ("train/3p", [{"q": [0, [0, 1]]}], r"line 1: the query does not have the shape that the file is named"),
        ("train/2p", [{"q": ["a", ["+r", "-r"]]}], r"line 1: The ids of the query are not whole"),
        ("train/2p", [{"q": [0, [2**40, 1]]}], r"line 1: The ids of the query go from"),
        ("train/2p", ['{"q": [0, [0, 1]]', ""], r"line 1 is not valid JSON"),
        ("train/2p", [[0, [0, 1]]], r'line 1: There is no "q"'),
        ("train/2p", ["", {"q": [0, [0, 1]], "hard_answers": []}], r"line 2: There is a field 'hard_answers'"),
        ("train/2p", ["[" * 100_000], r"line 1 is"),
        ("train/2p", [], "holds no queries"),
        ("train/2p", [{"q": [0, [0, 1]], "easy": [], "hard": []}], "does not belong to this split"),
        ("train/2p", [{"q": [0, [0, 1]], "answers": [6]}], "answers holds 6, which is no entity"),
        ("train/2p", [{"q": [0, [0, 1]], "answers": [1, 1]}], "answers holds 1 twice"),
        ("train/2p", [{"q": [0, [0, 1]], "answers": 5}], "The ids of answers are not whole numbers"),
        ("train/2p", [{"q": [0, [0, 1]], "answers": [True]}], "The ids of answers are not whole numbers"),
        ("train/2p", [{"q": [0, [0, 1]], "answers": [0]}, {"q": [1, [0, 1]]}], "line 2: .*same lists"),
        ("train/not", [{"q": [0, [0, -2]], "answers": [0]}], 'line 1: "complement" is wrong: the answers are too many'),
        ("train/1p", [{"q": [0, [0]], "answers": [0], "complement": True}], '"complement" is wrong: the answers can'),
    ],
)
def test_mistakes_are_named_with_file_and_line(tmp_path: Path, name: str, lines: list[Any], words: str) -> None:
    write(tmp_path / "in", name, lines)
    with pytest.raises(DataError, match=words):
        import_jsonl(tmp_path / "in", dataset_of(), tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_answers_that_are_not_those_of_the_graph_are_an_error(tmp_path: Path) -> None:
    dataset = dataset_of()
    queries = [[head, [relation]] for head in range(6) for relation in range(4)]
    lines = []
    for query in queries:
        small, large = naive(dataset, "valid", query), naive(dataset, "test", query)
        lines.append({"q": query, "easy": sorted(small, reverse=True), "hard": sorted(large - small)})
    write(tmp_path / "good", "test/1p", lines)
    import_jsonl(tmp_path / "good", dataset, tmp_path / "w")
    place = next(number for number, line in enumerate(lines) if len(line["easy"]) > 1)
    lines[place]["easy"].pop()
    write(tmp_path / "bad", "test/1p", lines)
    with pytest.raises(
        DataError, match=rf"1p.jsonl.gz line {place + 1}: easy is not what the graph toy gives: \d is mis"
    ):
        import_jsonl(tmp_path / "bad", dataset, tmp_path / "v")
    assert not (tmp_path / "v").exists()


def test_de_morgan_forms_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "in", "test/2u", [{"q": [[0, [0]], [1, [1]], [-1]]}])
    write(tmp_path / "in", "test/2u-DM", [{"q": [[[0, [0, -2]], [1, [1, -2]]], [-2]]}])
    workload = import_jsonl(tmp_path / "in", dataset_of(), tmp_path / "w")
    assert workload.shapes("test") == ["2u"]
    assert workload.settings["skipped"] == ["test/2u-DM"]
    both = import_jsonl(tmp_path / "in", dataset_of(), tmp_path / "both", de_morgan=True)
    assert both.shapes("test") == ["2u", "2u-DM"]
    sets = [both.queries("test", shape).answers["easy"].row(0).tolist() for shape in both.shapes("test")]
    assert sets[0] == sets[1]


def test_no_folder_no_queries_and_two_of_a_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder"):
        import_jsonl(tmp_path / "none", dataset_of(), tmp_path / "w")
    with pytest.raises(DataError, match="holds no queries"):
        import_jsonl(tmp_path, dataset_of(), tmp_path / "w")
    write(tmp_path, "train/1p", [{"q": [0, [0]]}])
    with pytest.raises(DataError, match=r"no train/2p\.jsonl\.gz"):
        read_queries(tmp_path, "train", "2p")
    (tmp_path / "train" / "1p.jsonl").write_text('{"q": [0, [0]]}')
    with pytest.raises(DataError, match="both there"):
        read_queries(tmp_path, "train", "1p")


@pytest.mark.parametrize("data", [b"not gzip", gzip.compress(b"x" * 5000)[:30]], ids=["not gzip", "cut off"])
def test_a_damaged_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "1p.jsonl.gz").write_bytes(data)
    with pytest.raises(DataError, match="cannot be unpacked"):
        read_queries(tmp_path, "train", "1p")


rows = st.lists(st.tuples(*[st.integers(0, 2**31 - 1)] * 4), min_size=1, max_size=6)


@given(rows, st.sampled_from(sorted(SHAPES)), st.sampled_from(["{}", '{{"q": {}}}', '{{"q":{},"easy":[1],"hard":[]}}']))
def test_reading_all_lines_at_once_is_reading_them_one_by_one(
    ids: list[tuple[int, ...]], shape: str, form: str
) -> None:
    nested = json.dumps(to_nested(SHAPES[shape], entity=lambda id: f"e{id}", relation=lambda id: f"r{id}"))
    lines = []
    for row in ids:
        text = nested
        for kind in "er":
            for slot in range(4):
                text = text.replace(f'"{kind}{slot}"', str(row[slot]))
        lines.append(form.format(text))
    data = "\n".join(lines).encode()
    at_once = files._read_alike(Path("x"), data)
    if form.startswith("{}"):
        assert at_once is None
        return
    one_by_one = files._read_lines(Path("x"), data)
    if "easy" in form:
        assert at_once is None
        return
    assert at_once is not None
    assert at_once.key == one_by_one.key
    for name in ("entities", "relations", "lines"):
        np.testing.assert_array_equal(getattr(at_once, name), getattr(one_by_one, name))


@pytest.mark.parametrize(
    "data",
    [
        b'{"q":[1,[-2]]}\n{"q":[1,[-1]]}',
        b'{"q":[1,[2]]}\n{"q":[,[2]]}',
        b'{"q":[01,[2]]}',
        b'{"q":[1,[2]]}\n\n',
        b'{"q":[1,[99999999999999999999]]}',
        b"",
        b"\n",
    ],
)
def test_odd_lines_are_left_to_the_careful_reader(data: bytes) -> None:
    assert files._read_alike(Path("x"), data) is None


def test_first_difference() -> None:
    one = Column(np.array([0, 1, 1, 3]), np.array([4, 5, 6], np.int32))
    for offsets, members, row in (
        ([0, 1, 1, 3], [4, 5, 6], None),
        ([0, 1, 1, 3], [4, 5, 7], 2),
        ([0, 1, 1, 3], [3, 5, 6], 0),
        ([0, 1, 2, 3], [4, 5, 6], 1),
        ([0, 1, 2, 3], [3, 5, 6], 0),
        ([0, 1, 1, 2], [4, 5], 2),
    ):
        assert first_difference(one, Column(np.array(offsets), np.array(members, np.int32))) == row


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the benchmark data is not here")
@pytest.mark.slow
def test_published_queries_come_back_byte_by_byte(tmp_path: Path) -> None:
    from flexkg.kg.benchmarks import BENCHMARKS
    from flexkg.kg.prepare import from_folder

    dataset = from_folder(PUBLISHED / "nell995", BENCHMARKS["nell995"])
    source = PUBLISHED / "nell995" / "queries"
    workload = import_jsonl(source, dataset, tmp_path / "w", de_morgan=True)
    assert isinstance(workload, Workload)
    for split in workload.splits:
        export_jsonl(workload, split, tmp_path / "out")
        for path in sorted((source / split).iterdir()):
            ours = gzip.decompress((tmp_path / "out" / split / path.name).read_bytes())
            assert ours == gzip.decompress(path.read_bytes()), path
            assert len(read_file(path).lines) == workload.count(split, path.name.removesuffix(".jsonl.gz"))
