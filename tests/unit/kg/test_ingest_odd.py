"""Files that are nearly right: marks, unclosed quotes, long fields; one bad line costs one line."""

import pytest

from flexkg.errors import DataError
from flexkg.kg.ingest import import_files, sources
from importing import write

MARK = b"\xef\xbb\xbf"


def lines_of(count: int) -> list[str]:
    return [f"<http://x/e{i}> <http://x/r> <http://x/e{i + 1}> ." for i in range(count)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('<http://x/a> <http://x/name> "not closed .', "Unexpected end of the line"),
        ("<http://x/a> <http://x/r> <http://x/b>", "Triples must be followed by a dot"),
        ("<http://x/a> <http://x/r>", ""),
        ("<a> <b> <c> .", "No scheme found in an absolute IRI"),
        ('<http://x/a> <http://x/r> "half \\uD800" .', ""),
        (b"<http://x/a> <http://x/r> <http://x/\xff> .", ""),
    ],
)
def test_a_bad_line_of_ntriples_costs_one_line(tmp_path, bad, reason):
    rows = [line.encode() for line in lines_of(200)]
    rows[10] = bad if isinstance(bad, bytes) else bad.encode()
    dataset = import_files(write(tmp_path / "x.nt", b"\n".join(rows)), max_errors=1)
    assert len(dataset.triples["train"]) == 199
    [found] = dataset.report["bad_lines"]
    assert found["line"] == 11
    assert reason in found["reason"]
    assert found["reason"]


def test_bad_lines_are_found_in_every_block(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_BLOCK", 512)
    rows = lines_of(300)
    for place in (0, 7, 150, 299):
        rows[place] = '"'
    dataset = import_files(write(tmp_path / "x.nt", "\r\n".join(rows)))
    assert [bad["line"] for bad in dataset.report["bad_lines"]] == [1, 8, 151, 300]
    assert len(dataset.triples["train"]) == 296
    assert dataset.report["literals"] == 0


@pytest.mark.parametrize("name", ["x.nt", "x.ttl"])
def test_a_mark_before_the_first_triple_is_no_part_of_it(tmp_path, name):
    text = "\n".join(lines_of(3)).encode()
    assert (
        import_files(write(tmp_path / name, MARK + text)).checksum
        == import_files(write(tmp_path / name, text)).checksum
    )


def test_the_first_row_of_a_csv_may_hold_line_breaks(tmp_path):
    dataset = import_files(write(tmp_path / "x.csv", '"a\nb",r,c\nx,r,"y\n\nz"\n'))
    assert [dataset.entities.identifier(id) for id in range(4)] == ["a\nb", "c", "x", "y\n\nz"]
    headed = import_files(write(tmp_path / "h.csv", 'head,relation,tail,"a\nnote"\na,r,b,n\nc,"r",,\n'))
    assert len(headed.triples["train"]) == 1
    assert [bad["line"] for bad in headed.report["bad_lines"]] == [4]
    with pytest.raises(DataError, match=r"first row of .*open\.csv is not valid CSV.*Close every quote"):
        import_files(write(tmp_path / "open.csv", '"a,r,b\nx,r,y\n'))


@pytest.mark.parametrize("text", ['"{}",says,d\n', 'a,says,{}\n"b, c",says,d\n', "a,says,{}\nb,says,d\n"])
def test_a_csv_may_have_long_fields(tmp_path, text):
    dataset = import_files(write(tmp_path / "x.csv", text.format("x" * 200_000)))
    assert max(len(dataset.entities.identifier(id)) for id in range(len(dataset.entities))) == 200_000
    assert dataset.report["bad_lines"] == []


def test_blank_lines_inside_a_quoted_name_are_kept(tmp_path):
    facts = write(tmp_path / "x.tsv", "a\tr\tb\n")
    names = write(tmp_path / "names.csv", 'entity,name,description\n\na,Anna,"one\n\ntwo"\n\nb,Bob,\n\n')
    dataset = import_files(facts, names=names)
    assert dataset.report["bad_lines"] == []
    assert [dataset.entities.name(id) for id in range(2)] == ["Anna", "Bob"]
    assert dataset.entities.description(0) == "one\n\ntwo"
