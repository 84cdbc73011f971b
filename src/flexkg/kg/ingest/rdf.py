"""Triples, names and prefixes from N-Triples and Turtle, through pyoxigraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flexkg.errors import DataError, MissingExtra
from flexkg.kg.ingest.records import Batch
from flexkg.kg.ingest.sources import BYTE_ORDER_MARK, TURTLE, blocks, open_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from flexkg.kg.ingest.records import Lexicon, Reading

_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_SCHEMAS = ("http://schema.org/", "https://schema.org/")
# A smaller rank is preferred; further names become aliases.
_NAMES = {
    f"{_RDFS}label": 0,
    f"{_SKOS}prefLabel": 1,
    **dict.fromkeys((f"{schema}name" for schema in _SCHEMAS), 2),
    "http://xmlns.com/foaf/0.1/name": 3,
}
_ALIASES = frozenset({f"{_SKOS}altLabel", *(f"{schema}alternateName" for schema in _SCHEMAS)})
_DESCRIPTIONS = frozenset({f"{_RDFS}comment", *(f"{schema}description" for schema in _SCHEMAS)})
_WELL_KNOWN = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": _RDFS,
    "owl": "http://www.w3.org/2002/07/owl#",
    "skos": _SKOS,
    "schema": "http://schema.org/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    "geo": "http://www.w3.org/2003/01/geo/wgs84_pos#",
    "gn": "http://www.geonames.org/ontology#",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
    "dbr": "http://dbpedia.org/resource/",
    "dbo": "http://dbpedia.org/ontology/",
    "dbp": "http://dbpedia.org/property/",
    "yago": "http://yago-knowledge.org/resource/",
    "obo": "http://purl.obolibrary.org/obo/",
}
_ROWS = 100_000


def read_rdf(path: Path, format: str, reading: Reading, texts: RdfTexts) -> Iterator[Batch]:
    """Batches of triples between resources; labels go to `texts`, other literals are counted and left out."""
    try:
        import pyoxigraph
    except ImportError:
        raise MissingExtra("Reading RDF", "rdf") from None

    literal, blank, named = pyoxigraph.Literal, pyoxigraph.BlankNode, pyoxigraph.NamedNode
    entities: list[str] = []
    relations: list[str] = []
    literals = 0
    read = _turtle if format == TURTLE else _ntriples
    for subject, predicate, object, _ in read(path, reading):
        sort = type(object)
        if sort is named:
            tail = object.value
        elif sort is blank:
            tail = str(object)
        elif sort is literal:
            relation = predicate.value
            if not texts.take(str(subject) if type(subject) is blank else subject.value, relation, object):
                literals += 1
            continue
        else:
            # A quoted triple is no node of our graph either.
            literals += 1
            continue
        entities.append(str(subject) if type(subject) is blank else subject.value)
        entities.append(tail)
        relations.append(predicate.value)
        if len(relations) >= _ROWS:
            yield Batch(entities, relations)
            entities, relations = [], []
    reading.counts["literals"] += literals
    if relations:
        yield Batch(entities, relations)


def _turtle(path: Path, reading: Reading) -> Iterator[Any]:
    """The statements of a whole file: Turtle has no lines to go on with after a mistake."""
    import pyoxigraph

    total = path.stat().st_size
    with open_bytes(path) as (file, raw):
        if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
            file.seek(0)
        parser = pyoxigraph.parse(file, format=pyoxigraph.RdfFormat.TURTLE)
        try:
            for count, statement in enumerate(parser, 1):
                yield statement
                if count % _ROWS == 0:
                    reading.tick(f"Reading {path.name}", raw.tell(), total)
        except SyntaxError as error:
            raise DataError(
                f"{path} is not valid Turtle: {error.msg}.", hint="Correct the file, or convert it to N-Triples."
            ) from None
        except UnicodeDecodeError:
            raise DataError(f"{path} is not UTF-8.", hint="Convert it to UTF-8 first.") from None
        reading.lexicon.prefixes.update(parser.prefixes)


def _ntriples(path: Path, reading: Reading) -> Iterator[Any]:
    """The statements of lines, many at a time; one that is wrong is noted and passed over."""
    for block, first in blocks(path, reading):
        try:
            yield from _parsed(block)
        except (SyntaxError, UnicodeDecodeError):
            # After a mistake the parser may resume anywhere. So it is given every line by itself.
            for number, line in enumerate(block.split(b"\n")[:-1], first):
                try:
                    yield from _parsed(line)
                except UnicodeDecodeError:
                    reading.bad.add(path, number, "not valid UTF-8", line)
                except SyntaxError as error:
                    reason = error.msg.rpartition(": ")[2] or error.msg
                    reading.bad.add(path, number, reason.replace("end of file", "end of the line"), line)


def _parsed(text: bytes) -> list[Any]:
    import pyoxigraph

    return list(pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.N_TRIPLES))


class RdfTexts:
    """Collects labels, aliases and descriptions, preferring English or no language, then the first met."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._name_ranks: dict[str, tuple[int, int]] = {}
        self._description_ranks: dict[str, int] = {}

    def take(self, identifier: str, predicate: str, literal: Any) -> bool:
        """Use the literal if the predicate is one that names or describes; tell whether it is."""
        rank = _NAMES.get(predicate)
        if rank is not None:
            order = (_language_rank(literal.language), rank)
            known = self._name_ranks.get(identifier)
            if literal.value and (known is None or order < known):
                self._name_ranks[identifier] = order
                self._lexicon.names[identifier] = literal.value
            return True
        if predicate in _ALIASES:
            aliases = self._lexicon.aliases.setdefault(identifier, [])
            if literal.value and literal.value not in aliases:
                aliases.append(literal.value)
            return True
        if predicate in _DESCRIPTIONS:
            language = _language_rank(literal.language)
            if literal.value and language < self._description_ranks.get(identifier, 9):
                self._description_ranks[identifier] = language
                self._lexicon.descriptions[identifier] = literal.value
            return True
        return False


def _language_rank(language: str | None) -> int:
    if language is None or language == "en":
        return 0
    return 1 if language.startswith("en-") else 2


def name_by_local_part(lexicon: Lexicon, identifiers: Iterable[str]) -> None:
    """Name each IRI that has no label by what follows its last # or /, and keep the well-known prefixes in use."""
    spaces: set[str] = set()
    for identifier in identifiers:
        cut = max(identifier.rfind("#"), identifier.rfind("/", 0, len(identifier) - 1)) + 1
        if cut and not identifier.startswith("_:"):
            spaces.add(identifier[:cut])
            if cut < len(identifier):
                lexicon.names.setdefault(identifier, identifier[cut:])
    taken = set(lexicon.prefixes.values())
    for prefix, start in _WELL_KNOWN.items():
        if start in spaces and start not in taken:
            lexicon.prefixes.setdefault(prefix, start)
