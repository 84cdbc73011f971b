"""TSV and CSV: columns, headers, bad lines with their exact numbers, duplicates."""

import gzip
import os
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flexkg.errors import DataError
from flexkg.kg.dataset import SPLITS
from flexkg.kg.ingest import import_files, sources
from importing import GRAPH, TSV, triples, write


@pytest.mark.parametrize(
    "data",
    [
        TSV,
        TSV.rstrip("\n"),
        TSV.replace("\n", "\r\n"),
        TSV.replace("\n", "\r\n").rstrip(),
        "\ufeff" + TSV,
        "\n\n" + TSV.replace("\n", "\n\n"),
        "head\trelation\ttail\n" + TSV,
        "Subject\tPredicate\tObject\r\n" + TSV,
        "\ufeffh\tr\tt\n" + TSV,
    ],
    ids=[
        "plain",
        "no-last-newline",
        "crlf",
        "crlf-no-last",
        "bom",
        "blank-lines",
        "header",
        "header-crlf",
        "bom-header",
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["", "gz"])
def test_tsv_in_all_its_guises(tmp_path, data, packed):
    path = write(tmp_path / "x.tsv", data)
    if packed:
        path = write(tmp_path / "x.tsv.gz", gzip.compress(path.read_bytes()))
    dataset = import_files(path)
    assert triples(dataset) == GRAPH
    assert list(dataset.entities.identifiers) == ["a", "b", "c"]
    assert dataset.report["skipped"] == 0


def test_tsv_has_no_quotes_and_csv_has(tmp_path):
    path = write(tmp_path / "x.tsv", '"Weird Al" Yankovic\tplays\t"accordion\n\'x\tplays\ty,z\n')
    assert triples(import_files(path)) == [('"Weird Al" Yankovic', "plays", '"accordion'), ("'x", "plays", "y,z")]
    path = write(tmp_path / "x.csv", 'a,r,b\n"Paris, Texas",in,"the ""US"""\n"two\nlines",in,x\n')
    assert triples(import_files(path)) == [
        ("a", "r", "b"),
        ("Paris, Texas", "in", 'the "US"'),
        ("two\nlines", "in", "x"),
    ]


@pytest.mark.parametrize(
    ("first", "columns", "expected"),
    [
        ("2014\ta\tr\tb", "2,3,4", ("a", "r", "b")),
        ("a\tr\tb\t2014", "h,r,t,_", ("a", "r", "b")),
        ("b\tr\ta", "t,r,h", ("a", "r", "b")),
        ("b\t2014\tr\ta", "tail,_,relation,head", ("a", "r", "b")),
        ("x\ty\tz\nb\tr\ta", "z,y,x", ("a", "r", "b")),
        ("X\tY\tZ\tW\nb\tr\ta\tq", "z,y,x", ("a", "r", "b")),
        ("t\tr\th\nb\tr\ta", "h,r,t", ("a", "r", "b")),
        ("date\tsubject\tpredicate\tobject\n1\ta\tr\tb", None, ("a", "r", "b")),
        ("date\tsubject\tpredicate\tobject\n1\ta\tr\tb", "2,3,4", ("a", "r", "b")),
        ("source\tedge\ttarget\na\tr\tb", None, ("a", "r", "b")),
    ],
)
def test_columns(tmp_path, first, columns, expected):
    path = write(tmp_path / "x.tsv", first + "\n")
    assert triples(import_files(path, columns=columns)) == [expected]


@pytest.mark.parametrize(
    ("data", "columns", "message"),
    [
        ("a\tr\tb\t2014\n", None, r"x\.tsv has 4 columns \('a', 'r', 'b', '2014'\).*--columns"),
        ("a\tb\n", None, r"x\.tsv has 2 columns instead of three"),
        ("a,r,b\n", None, r"has 1 column instead of three.*commas: name the file \.csv"),
        ("a;r;b\n", None, "semicolons"),
        ("a\tr\tb\n", "1,2,4", r"--columns 1,2,4: .*x\.tsv has the columns 1 to 3"),
        ("a\tr\tb\n", "1,1,2", "three different numbers"),
        ("a\tr\tb\n", "h,r,t,_", r"gives 4 columns, but .*x\.tsv has 3"),
        ("a\tr\tb\n", "who,what,whom", "--columns who,what,whom does not fit"),
        ("a\tr\tb\n", "h,h,t", "does not fit"),
        ("a\tr\tb\n", "", "does not fit"),
    ],
)
def test_wrong_columns(tmp_path, data, columns, message):
    path = write(tmp_path / "x.tsv", data)
    with pytest.raises(DataError, match=message):
        import_files(path, columns=columns)


def test_every_kind_of_bad_line_is_counted_with_its_number(tmp_path):
    lines = [
        b"a\tr\tb",  # 1
        b"only one",  # 2
        b"",
        b"a\tr\tb\tc",  # 4
        b"\tr\tb",  # 5
        b"a\t\tb",  # 6
        b"a\tr\t",  # 7
        b"caf\xe9\tr\tb",  # 8
        b"a\0\tr\tb",  # 9
        "café\tr\tb".encode(),  # 10
        b"\t\t",  # 11
    ]
    for end in (b"\n", b"\r\n"):
        dataset = import_files(write(tmp_path / "x.tsv", end.join(lines) + end))
        assert triples(dataset) == [("a", "r", "b"), ("café", "r", "b")]
        assert dataset.report["skipped"] == 8
        assert dataset.report["blank"] == 1
        assert [(bad["line"], bad["reason"]) for bad in dataset.report["bad_lines"]] == [
            (2, "1 field instead of 3"),
            (4, "4 fields instead of 3"),
            (5, "the head is empty"),
            (6, "the relation is empty"),
            (7, "the tail is empty"),
            (8, "not valid UTF-8"),
            (9, "holds a NUL byte"),
            (11, "the head is empty"),
        ]
        assert dataset.report["bad_lines"][0]["text"] == "only one"
        assert dataset.report["bad_lines"][0]["file"].endswith("x.tsv")


def test_bad_lines_of_csv_with_quotes(tmp_path):
    data = b'h,r,t\n"a",r,b\n"two\nlines",r\n\n"x"y,r,b\n"",r,b\n"caf\xe9",r,b\n"n\0",r,b\n"z",r,b\n'
    dataset = import_files(write(tmp_path / "x.csv", data))
    assert triples(dataset) == [("a", "r", "b"), ("z", "r", "b")]
    assert [(bad["line"], bad["reason"].split(" (")[0]) for bad in dataset.report["bad_lines"]] == [
        (3, "2 fields instead of 3"),
        (6, "not valid CSV"),
        (7, "the head is empty"),
        (8, "not valid UTF-8"),
        (9, "holds a NUL byte"),
    ]


def test_a_quote_that_is_never_closed_is_no_mere_bad_line(tmp_path):
    rows = "".join(f"a{i},r,b\n" for i in range(1000))
    for tail in (rows, rows * 30):
        path = write(tmp_path / "x.csv", 'a,r,b\n"c,r,d\n' + tail)
        with pytest.raises(DataError, match=r"x\.csv line 2: a quoted field is not closed"):
            import_files(path)


def test_line_numbers_hold_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_BLOCK", 50_000)
    rng = random.Random(1)
    lines = [f"e{rng.randrange(5000)}\tr{rng.randrange(9)}\te{rng.randrange(5000)}" for _ in range(60_000)]
    places = sorted(rng.sample(range(60_000), 40))
    for place in places:
        lines[place] = rng.choice(["", "bad", "a\tb", "a\t\tc"])
    expected = [place + 1 for place in places if lines[place]]
    for end, name in (("\n", "x.tsv"), ("\r\n", "y.tsv"), ("\n", "z.csv")):
        text = end.join(lines)
        if name.endswith("csv"):
            text = text.replace("\t", ",").replace("e4999,", '"e4999",')
        dataset = import_files(write(tmp_path / name, text))
        assert dataset.report["skipped"] == len(expected)
        assert [bad["line"] for bad in dataset.report["bad_lines"]] == expected[:10]
        assert dataset.report["blank"] == 40 - len(expected)


def test_too_many_bad_lines_stop_and_leave_nothing(tmp_path):
    path = write(tmp_path / "x.tsv", "a\tr\tb\n" + "bad\n" * 5)
    out = tmp_path / "deep" / "out"
    with pytest.raises(DataError, match=r"more than 4 bad lines .*x\.tsv line 2: 1 field.*--max-errors"):
        import_files(path, out=out, max_errors=4)
    assert not out.parent.exists()
    with pytest.raises(DataError, match="no bad line is allowed"):
        import_files(path, out=out, max_errors=0)
    assert import_files(path, out=out, max_errors=5).report["skipped"] == 5
    with pytest.raises(DataError, match="negative"):
        import_files(path, max_errors=-1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "x.tsv"]


def test_what_is_counted(tmp_path):
    train = write(tmp_path / "train.tsv", "a\tr\tb\na\tr\tb\nb\tr\tb\na\tr\tb\n")
    valid = write(tmp_path / "valid.tsv", "a\tr\tb\na\tr\tb\na\tr\tnew\n")
    test = write(tmp_path / "test.tsv", "a\tr\tb\na\tr\tnew\nb\tother\ta\nb\tother\ta\n")
    dataset = import_files(train, valid, test)
    assert {split: triples(dataset, split) for split in SPLITS} == {
        "train": [("a", "r", "b"), ("b", "r", "b")],
        "valid": [("a", "r", "new")],
        "test": [("b", "other", "a")],
    }
    report = dataset.report
    assert (report["duplicates"], report["repeated_in_later_split"], report["self_loops"]) == (4, 3, 1)
    assert report["unseen"] == {"entities": 1, "relations": 1}


edges = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 3)), max_size=12)


@given(st.tuples(edges.filter(bool), edges, edges))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
def test_splits_are_disjoint_and_nothing_is_lost(tmp_path, parts):
    paths = []
    for number, part in enumerate(parts):
        text = "".join(f"e{h}\tr{r}\te{t}\n" for h, r, t in part) or "\n"
        paths.append(write(tmp_path / f"{number}.tsv", text))
    dataset = import_files(*paths)
    seen = set()
    for part, split in zip(parts, SPLITS, strict=True):
        wanted = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in dict.fromkeys(part)]
        assert triples(dataset, split) == [triple for triple in wanted if triple not in seen]
        seen.update(wanted)
    dropped = sum(map(len, parts)) - len(seen)
    assert dataset.report["duplicates"] + dataset.report["repeated_in_later_split"] == dropped
    assert dataset.report["duplicates"] == sum(len(part) - len(set(part)) for part in parts)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.tsv", b"", "holds no triples"),
        ("x.tsv", b"\n\n", "holds no triples"),
        ("x.tsv", b"head\trelation\ttail\n", "holds no triples"),
        ("x.tsv", b"\t\t\n\t\t\n", "holds no triples; 2 lines could not be read"),
        ("x.tsv", bytes(range(256)) * 50, r"binary file|columns? "),
        ("x.tsv", b"\0\1\2\n" * 50, "looks like a binary file"),
        ("x.tsv", "a\tr\tb\n".encode("utf-16"), "UTF-16, not UTF-8.*iconv"),
        ("x.tsv.gz", b"a\tr\tb\n", "not gzip-compressed"),
        ("x.tsv.gz", gzip.compress(b"a\tr\tb\n" * 9999, mtime=0)[:60], r"x\.tsv\.gz is damaged"),
        ("x.dat", b"hello world", "Cannot tell the format of"),
        ("x.dat", b"", "is empty"),
        ("x.dat", b"\0\1\2", "looks like a binary file"),
    ],
)
def test_files_that_are_no_graph(tmp_path, name, data, message):
    path = write(tmp_path / name, data)
    with pytest.raises(DataError, match=message) as caught:
        import_files(path, out=tmp_path / "out")
    assert name in str(caught.value)
    assert caught.value.hint
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]


def test_paths_that_are_no_file(tmp_path):
    good = write(tmp_path / "x.tsv", TSV)
    with pytest.raises(DataError, match=r"There is no file .*nowhere\.tsv"):
        import_files(tmp_path / "nowhere.tsv")
    with pytest.raises(DataError, match=r"There is no file .*nowhere\.tsv"):
        import_files(good, tmp_path / "nowhere.tsv")
    with pytest.raises(DataError, match=r"is a folder.*PyKEEN"):
        import_files(tmp_path)
    with pytest.raises(DataError, match=r"/dev/null is a pipe or a device, .*read several times. Save it to a file"):
        import_files("/dev/null")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_refused_before_anybody_waits_for_it(tmp_path):
    good, pipe = write(tmp_path / "x.tsv", TSV), tmp_path / "pipe.tsv"
    os.mkfifo(pipe)
    for files in ({"train": pipe}, {"train": good, "valid": pipe}, {"train": good, "names": pipe}):
        with pytest.raises(DataError, match=r"pipe\.tsv is a pipe"):
            import_files(**files)


@pytest.mark.parametrize(
    ("name", "data"),
    [("train.txt", TSV), ("train", TSV), ("x.data", TSV.replace("\t", ",")), ("x.TSV", TSV), ("x.tab", TSV)],
)
def test_the_format_is_guessed_where_the_name_does_not_tell(tmp_path, name, data):
    assert triples(import_files(write(tmp_path / name, data))) == GRAPH


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "LONGEST_LINE", 1000)
    monkeypatch.setattr(sources, "_BLOCK", 100)
    path = write(tmp_path / "x.tsv", "a\tr\tb\n" + "x" * 5000)
    with pytest.raises(DataError, match=r"x\.tsv line 2 is longer than"):
        import_files(path)


def test_an_interrupted_import_leaves_nothing(tmp_path):
    path = write(tmp_path / "x.tsv", TSV)

    def interrupt(what, done, total):
        if what == "Writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_files(path, out=tmp_path / "out", progress=interrupt)
    assert [p.name for p in tmp_path.iterdir()] == ["x.tsv"]


def test_an_existing_folder_is_refused_before_any_work(tmp_path):
    path = write(tmp_path / "x.tsv", TSV)
    import_files(path, out=tmp_path / "out")
    with pytest.raises(DataError, match="exists already"):
        import_files(path, out=tmp_path / "out", progress=lambda *_: pytest.fail("work was done"))
    import_files(path, out=tmp_path / "out", overwrite=True)
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "file", "x")
    with pytest.raises(DataError, match="holds something else"):
        import_files(path, out=tmp_path / "other", overwrite=True)


def test_split_keeps_everything_in_train_and_repeats(tmp_path):
    rng = np.random.default_rng(0)
    rows = {tuple(row) for row in rng.integers(0, [200, 10, 200], (3000, 3)).tolist()}
    path = write(tmp_path / "x.tsv", "".join(f"e{h}\tr{r}\te{t}\n" for h, r, t in sorted(rows)))
    dataset = import_files(path, split="0.8,0.1,0.1", seed=3)
    count = len(rows)
    assert [len(dataset.triples[split]) for split in SPLITS[1:]] == [round(count * 0.1)] * 2
    assert sum(map(len, dataset.triples.values())) == count
    assert len(np.unique(dataset.triples["train"][:, [0, 2]])) == len(dataset.entities)
    assert len(np.unique(dataset.triples["train"][:, 1])) == len(dataset.relations)
    assert import_files(path, split="0.8,0.1,0.1", seed=3).checksum == dataset.checksum
    assert import_files(path, split="0.8,0.1,0.1", seed=4).checksum != dataset.checksum
    # Where training must keep nearly all, the report says what is lacking.
    chain = write(tmp_path / "chain.tsv", "".join(f"e{i}\tr\te{i + 1}\n" for i in range(100)))
    dataset = import_files(chain, split="0.4,0.3,0.3")
    lacking = dataset.report["split"]["lacking"]
    assert sum(lacking.values()) == 60 - len(dataset.triples["valid"]) - len(dataset.triples["test"])
    assert len(np.unique(dataset.triples["train"][:, [0, 2]])) == 101


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("0.9", "1 numbers instead of three"),
        ("a,b,c", "not a list of numbers"),
        ("0.9,0.9,0.1", "does not add up to 1"),
        ("0,0.5,0.5", "something for train"),
        ("1.5,-0.25,-0.25", "does not add up"),
        ("nan,0,1", "does not add up"),
    ],
)
def test_wrong_splits(tmp_path, split, message):
    path = write(tmp_path / "x.tsv", TSV)
    with pytest.raises(DataError, match=message):
        import_files(path, split=split)
    with pytest.raises(DataError, match="divides one file"):
        import_files(path, path, split="0.8,0.1,0.1")


def test_known_identifiers_take_the_first_ids(tmp_path):
    dataset = import_files(write(tmp_path / "x.tsv", TSV), known_entities=["c", "z"], known_relations=["s"])
    assert list(dataset.entities.identifiers) == ["c", "z", "a", "b"]
    assert list(dataset.relations.identifiers) == ["s", "r"]
    assert triples(dataset) == GRAPH
