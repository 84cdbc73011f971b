"""The published graphs: ids, counts and shared names come out as their description says."""

import gzip
import os
from pathlib import Path

import pytest

from flexkg.kg.dataset import SPLITS, Dataset
from flexkg.kg.ingest import import_files

DATA = Path(os.environ.get("FLEXKG_TEST_DATA", Path(__file__).parents[3] / ".." / "shared" / "data")).resolve()

# nell995: 16,171 rows share their name, but 8 of these share the empty one and are called by their identifiers.
COUNTS = {
    "fb15k": (14_951, 1_345, [483_142, 50_000, 59_071], 1803 + 225 + 222, None, (0.776, 0.313)),
    "fb15k-237": (14_505, 237, [272_115, 17_526, 20_438], 1625 + 90 + 91, 497, (None, None)),
    "nell995": (63_361, 200, [114_213, 14_324, 14_267], 30 + 4 + 8, 16_171 - 8, (0.206, 0.132)),
}


def column(path: Path, name: str) -> list[str]:
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    place = lines[0].split("\t").index(name)
    return [line.split("\t")[place] for line in lines[1:]]


@pytest.mark.parametrize("name", COUNTS)
def test_a_published_graph(name, tmp_path):
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}; set FLEXKG_TEST_DATA to a folder that holds {name}")
    files = [folder / f"{split}.tsv.gz" for split in SPLITS]
    import_files(*files, names=folder / "entities.tsv.gz", out=tmp_path / "out", max_errors=0)
    dataset = Dataset.load(tmp_path / "out")
    entities, relations, edges, loops, ambiguous, leak = COUNTS[name]
    info = dataset.info()
    assert (info["entities"], info["relations"]) == (entities, relations)
    assert list(info["edges"].values()) == edges
    assert info["self_loops"] == dataset.report["self_loops"] == loops
    assert ambiguous is None or info["ambiguous_names"] == ambiguous
    assert info["unseen"] == {"entities": 0, "relations": 0}
    assert (dataset.report["duplicates"], dataset.report["repeated_in_later_split"]) == (0, 0)
    identifiers, given = (column(folder / "entities.tsv.gz", name) for name in ("entity", "name"))
    assert list(dataset.entities.identifiers) == identifiers
    assert list(dataset.entities.names) == [name or text for name, text in zip(given, identifiers, strict=True)]
    forwards = column(folder / "relations.tsv.gz", "relation")[0::2]
    assert [f"+{text}" for text in dataset.relations.identifiers] == forwards
    for found, expected in zip(info["leak"].values(), leak, strict=True):
        assert expected is None or found == pytest.approx(expected, abs=0.0006)


def test_icews14_needs_its_date_column_left_out():
    folder = DATA / "icews14"
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}; set FLEXKG_TEST_DATA to a folder that holds icews14")
    files = [folder / f"{split}.tsv.gz" for split in SPLITS]
    dataset = import_files(
        *files, columns="h,r,t,_", max_errors=0, known_entities=column(folder / "entities.tsv.gz", "entity")
    )
    assert (len(dataset.entities), len(dataset.relations)) == (7_128, 230)
    assert list(dataset.entities.identifiers) == column(folder / "entities.tsv.gz", "entity")
    dropped = dataset.report["duplicates"] + dataset.report["repeated_in_later_split"]
    assert sum(map(len, dataset.triples.values())) + dropped == 72_826 + 8_941 + 8_963
