"""Parquet, RDF, PyKEEN folders and names files."""

import gzip
import sys

import duckdb
import pytest

from flexkg.errors import DataError, MissingExtra
from flexkg.kg.dataset import Dataset
from flexkg.kg.ingest import import_files
from importing import triples, write


def parquet(path, select):
    duckdb.sql(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    return path


def test_parquet_plain_and_packed(tmp_path):
    path = parquet(tmp_path / "x.parquet", "SELECT 'e' || i AS a, 'r' AS b, i + 1 AS c FROM range(120000) t(i)")
    dataset = import_files(path)
    assert triples(dataset)[:2] == [("e0", "r", "1"), ("e1", "r", "2")]
    assert [row[0] for row in triples(dataset)] == [f"e{i}" for i in range(120_000)]
    packed = write(tmp_path / "y.parquet.gz", gzip.compress(path.read_bytes()))
    assert import_files(packed).checksum == dataset.checksum
    odd = tmp_path / "odd[1]*?.parquet"
    path.rename(odd)
    assert import_files(odd).checksum == dataset.checksum


def test_parquet_columns_by_name(tmp_path):
    path = parquet(tmp_path / "x.parquet", "SELECT 'b' AS object, 1 AS n, 'a' AS subject, 'r' AS predicate")
    assert triples(import_files(path)) == [("a", "r", "b")]
    assert triples(import_files(path, columns="object,predicate,subject")) == [("b", "r", "a")]
    assert triples(import_files(path, columns="t,_,h,r")) == [("a", "r", "b")]
    with pytest.raises(DataError, match="whose columns is: object, n, subject, predicate"):
        import_files(path, columns="x,y,z")


def test_parquet_bad_rows_and_junk(tmp_path):
    rows = "('a', 'r', 'b'), (NULL, 'r', 'b'), ('a', '', 'b'), ('c', 'r', 'd')"
    path = parquet(tmp_path / "x.parquet", f"SELECT * FROM (VALUES {rows}) t(h, r, t)")
    dataset = import_files(path)
    assert triples(dataset) == [("a", "r", "b"), ("c", "r", "d")]
    assert [(bad["line"], bad["reason"]) for bad in dataset.report["bad_lines"]] == [
        (2, "the head is empty"),
        (3, "the relation is empty"),
    ]
    for junk in (b"PAR1 junk", b"", path.read_bytes()[:100]):
        broken = write(tmp_path / "junk.parquet", junk)
        with pytest.raises(DataError, match=r"junk\.parquet cannot be read as Parquet"):
            import_files(broken)


TURTLE = """
@prefix ex: <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
ex:FR rdfs:label "Frankreich"@de, "France"@en, "La France"@fr ;
  skos:altLabel "Hexagon" ; rdfs:comment "Land"@de, "a country"@en ;
  ex:borders ex:DE, ex:BE ; ex:population 68 .
ex:DE skos:prefLabel "Germany" ; ex:capital [ ex:in ex:DE ] .
ex:borders rdfs:label "shares a border with" .
ex:BE a ex:Country .
"""


@pytest.mark.parametrize("packed", [False, True], ids=["", "gz"])
def test_turtle(tmp_path, packed):
    path = write(tmp_path / "x.ttl", TURTLE)
    if packed:
        path = write(tmp_path / "x.ttl.gz", gzip.compress(path.read_bytes()))
    dataset = import_files(path, out=tmp_path / "out")
    dataset = Dataset.load(tmp_path / "out")
    assert sum(map(len, dataset.triples.values())) == 5
    assert dataset.report["literals"] == 1
    entities, relations = dataset.entities, dataset.relations
    (france,) = entities.find("France")
    assert entities.identifier(france) == "http://example.org/FR"
    assert entities.find("ex:FR") == entities.find("Hexagon") == [france]
    assert entities.description(france) == "a country"
    assert entities.find("Germany") == entities.find("ex:DE")
    assert entities.name(entities.find("ex:BE")[0]) == "BE"
    assert relations.find("shares a border with") == relations.find("ex:borders")
    assert relations.find("rdf:type") == relations.find("type") != []
    assert any(identifier.startswith("_:") for identifier in entities.identifiers)
    assert dataset.prefixes["ex"] == "http://example.org/"
    assert set(dataset.prefixes) == {"ex", "rdf", "rdfs", "skos"}


def test_a_syntax_error_in_turtle_says_where(tmp_path):
    path = write(tmp_path / "x.ttl", "@prefix a: <http://x/> .\na:a a:b a:c .\na:a a:b ; .\n")
    with pytest.raises(DataError, match=r"x\.ttl is not valid Turtle: .*line 3 column 9"):
        import_files(path)


def test_bad_lines_of_ntriples_are_passed_over(tmp_path):
    lines = [
        "<http://x/a> <http://x/r> <http://x/b> .",
        "nonsense",
        "# a comment",
        '<http://x/a> <http://x/age> "3" .',
        "<http://x/a> <http://x/r> <not an iri> .",
        "",
        "_:n <http://x/r> <http://x/a> .",
        "<http://y/a> <http://x/r> _:n .",
    ]
    path = write(tmp_path / "x.nt", "\n".join(lines))
    dataset = import_files(path)
    assert triples(dataset) == [
        ("http://x/a", "http://x/r", "http://x/b"),
        ("_:n", "http://x/r", "http://x/a"),
        ("http://y/a", "http://x/r", "_:n"),
    ]
    assert [bad["line"] for bad in dataset.report["bad_lines"]] == [2, 5]
    assert dataset.report["literals"] == 1
    assert len(dataset.entities.find("a")) == 2
    with pytest.raises(DataError, match=r"x\.nt line 2"):
        import_files(path, max_errors=0)
    with pytest.raises(DataError, match="--columns does not apply"):
        import_files(path, columns="1,2,3")


def test_rdf_of_literals_only_or_of_junk_is_no_graph(tmp_path):
    path = write(tmp_path / "x.nt", '<http://x/a> <http://x/age> "3" .\n')
    with pytest.raises(DataError, match="holds no triples"):
        import_files(path)
    for name in ("x.nt", "x.ttl"):
        path = write(tmp_path / name, b"\xff\xfe\xfd\n\xff\n" * 3)
        with pytest.raises(DataError, match=name):
            import_files(path)


def test_rdf_without_its_package(tmp_path, monkeypatch):
    path = write(tmp_path / "x.nt", "<http://x/a> <http://x/r> <http://x/b> .\n")
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(MissingExtra, match='pip install "pyoxigraph>='):
        import_files(path)


def pykeen(folder, rows, entities, relations):
    def packed(name, text):
        write(folder / name, gzip.compress(text.encode()))

    packed("numeric_triples.tsv.gz", "head\trelation\ttail\n" + "".join(f"{h}\t{r}\t{t}\n" for h, r, t in rows))
    packed("entity_to_id.tsv.gz", "id\tlabel\n" + "".join(f"{i}\t{text}\n" for i, text in enumerate(entities)))
    packed("relation_to_id.tsv.gz", "id\tlabel\n" + "".join(f"{i}\t{text}\n" for i, text in enumerate(relations)))
    # What PyKEEN pickles there must not be opened.
    write(folder / "base.pth", b"cos\nsystem\n(S'false'\ntR.")
    return folder


def test_pykeen_folders(tmp_path):
    entities = ["a", '"say ""b"""', "c"]
    train = pykeen(tmp_path / "train", [(2, 0, 1), (0, 1, 2)], entities, ["r", "s"])
    test = pykeen(tmp_path / "run" / "training_triples", [(1, 1, 2)], entities, ["r", "s"]).parent
    dataset = import_files(train, test=test)
    assert triples(dataset) == [("c", "r", 'say "b"'), ("a", "s", "c")]
    assert triples(dataset, "test") == [('say "b"', "s", "c")]
    broken = pykeen(tmp_path / "broken", [(0, 0, 7)], entities, ["r"])
    with pytest.raises(DataError, match="holds the id 7, which has no label"):
        import_files(broken)
    (broken / "entity_to_id.tsv.gz").unlink()
    with pytest.raises(DataError, match=r"entity_to_id\.tsv\.gz is missing.*CoreTriplesFactory"):
        import_files(broken)
    write(broken / "entity_to_id.tsv.gz", gzip.compress(b"what\tever\n"))
    with pytest.raises(DataError, match="not a table of ids and labels"):
        import_files(broken)


GRAPH = "Q1\tP1\tQ2\n"
NAMES = {
    "n.tsv": "id\tentity\tname\tdescription\twikidata_id\n"
    "0\tQ1\tGeorgia\tcountry\tx\n1\tQ2\tTbilisi\t\ty\n2\tQ9\tno\t\t\n",
    "n.csv": "entity,name,description,aliases\n"
    'Q1,"Georgia",country,"Sakartvelo|GE"\nQ2,Tbilisi,,\nP1,capital,,\nQ9,no,,\n',
    "two.tsv": "Q1\tGeorgia\nQ2\tTbilisi\nP1\tcapital\nQ9\tno\n",
    "n.txt": "Identifier\tLabel\nQ1\tGeorgia\nQ2\tTbilisi\nQ9\tno\n",
}


@pytest.mark.parametrize("name", NAMES)
def test_names(tmp_path, name):
    graph = write(tmp_path / "x.tsv", GRAPH)
    dataset = import_files(graph, names=write(tmp_path / name, NAMES[name]))
    assert list(dataset.entities.names) == ["Georgia", "Tbilisi"]
    assert list(dataset.entities.identifiers) == ["Q1", "Q2"]
    assert dataset.report["unknown_names"] == 1
    if "country" in NAMES[name]:
        assert dataset.entities.description(0) == "country"
    if "GE" in NAMES[name]:
        assert dataset.entities.find("GE") == dataset.entities.find("Sakartvelo") == [0]
    if "P1" in NAMES[name]:
        assert dataset.relations.find("capital") == [0]


def test_names_from_parquet_over_rdf_labels(tmp_path):
    graph = write(tmp_path / "x.ttl", '<http://x/a> <http://x/r> <http://x/b> ; <http://schema.org/name> "old" .')
    names = parquet(tmp_path / "n.parquet", "SELECT 'http://x/a' AS entity, 'new' AS name, NULL AS description")
    dataset = import_files(graph, names=names)
    assert list(dataset.entities.names) == ["new", "b"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("n.tsv", "", "is empty"),
        ("n.tsv", "id\tentity\n0\tQ1\n", "no column of names"),
        ("n.tsv", "a\tb\tc\td\te\n", "5 columns and no header"),
        ("n.csv", 'entity,name\n"Q1,Georgia\n', "line 2: a quoted field is not closed"),
        ("n.nt", "<http://x/a> <http://x/r> <http://x/b> .\n", "is N-Triples"),
    ],
)
def test_wrong_names_files(tmp_path, name, data, message):
    graph = write(tmp_path / "x.tsv", GRAPH)
    with pytest.raises(DataError, match=message):
        import_files(graph, names=write(tmp_path / name, data))
    with pytest.raises(DataError, match="no file"):
        import_files(graph, names=tmp_path / "nowhere.tsv")


def test_bad_lines_of_names_files_are_counted(tmp_path):
    graph = write(tmp_path / "x.tsv", GRAPH)
    data = b"entity\tname\nQ1\tGeorgia\tmore\n\n\tx\nQ2\t\xff\nQ2\tTbilisi\n"
    dataset = import_files(graph, names=write(tmp_path / "n.tsv", data))
    assert [(bad["line"], bad["reason"]) for bad in dataset.report["bad_lines"]] == [
        (2, "3 fields instead of 2"),
        (4, "the entity is empty"),
        (5, "not valid UTF-8"),
    ]
    assert list(dataset.entities.names) == ["Q1", "Tbilisi"]
    csv = write(tmp_path / "n.csv", 'entity,name\n"Q1"x,Georgia\n"Q2","Tbi\nlisi"\nQ1\n')
    report = import_files(graph, names=csv).report
    assert [bad["line"] for bad in report["bad_lines"]] == [2, 5]
