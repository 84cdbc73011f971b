"""What `build_world.py` changes in the GeoNames and CLDR data, and why; each table is listed when it is applied."""

from __future__ import annotations

# Dissolved territories that GeoNames still lists, and places without any inhabited place of their own.
LEFT_OUT = {
    "AN": "Netherlands Antilles, dissolved in 2010",
    "CS": "Serbia and Montenegro, dissolved in 2006",
    "AQ": "Antarctica: the continent is kept, it is no country",
    "BV": "Bouvet Island, uninhabited",
    "HM": "Heard Island and McDonald Islands, uninhabited",
    "UM": "United States Minor Outlying Islands, no permanent population",
}

# GeoNames writes some names without their accents or with words nobody would type; the old one stays as an alias.
COUNTRY_NAMES = {
    "AX": "Åland Islands",
    "BL": "Saint Barthélemy",
    "BQ": "Caribbean Netherlands",
    "CW": "Curaçao",
    "NL": "Netherlands",
    "PN": "Pitcairn Islands",
    "PS": "Palestine",
    "RE": "Réunion",
    "ST": "São Tomé and Príncipe",
    "TL": "Timor-Leste",
    "VA": "Vatican City",
}

# Usual other names. Congo, Korea and Virgin Islands are truly ambiguous: a query that uses one is asked which is meant.
COUNTRY_ALIASES = {
    "AE": ["UAE"],
    "BA": ["Bosnia"],
    "CD": ["DR Congo", "Congo"],
    "CG": ["Congo"],
    "CI": ["Côte d'Ivoire"],
    "CN": ["People's Republic of China"],
    "CZ": ["Czech Republic"],
    "FK": ["Malvinas"],
    "GB": ["UK", "Great Britain", "Britain"],
    "KP": ["Korea"],
    "KR": ["Korea", "Republic of Korea"],
    "MK": ["Macedonia"],
    "MM": ["Burma"],
    "MO": ["Macau"],
    "NL": ["Holland"],
    "NZ": ["Aotearoa"],
    "RU": ["Russian Federation"],
    "SZ": ["Swaziland"],
    "TL": ["East Timor"],
    "US": ["US", "United States of America", "America"],
    "VA": ["Holy See"],
    "VG": ["Virgin Islands"],
    "VI": ["Virgin Islands"],
}

# Land borders, each as a pair.
BORDERS_ADDED = {
    ("BW", "ZM"): "150 m along the Zambezi at Kazungula; GeoNames lists it on neither side",
}
BORDERS_REMOVED = {
    ("CU", "US"): "Guantánamo Bay is leased; it is Cuban soil",
    ("AL", "RS"): "the border is Kosovo's, which GeoNames lists as a country of its own and as Albania's neighbour",
}

# GeoNames names these capitals in a spelling that no place of the country has.
CAPITALS = {
    "AG": "Saint John’s",
    "BR": "Brasília",
    "CM": "Yaoundé",
    "CO": "Bogotá",
    "CR": "San José",
    "EH": "Laayoune",
    "FO": "Tórshavn",
    "GD": "Saint George's",
    "GG": "Saint Peter Port",
    "GU": "Hagåtña",
    "IO": "Downtown",
    "IS": "Reykjavík",
    "KZ": "Astana",
    "MN": "Ulan Bator",
    "MO": "Macau",
    "MS": "Brades",  # the seat of government since a volcano destroyed Plymouth in 1997
    "NC": "Nouméa",
    "PW": "Ngerulmud",  # the capital since 2006; it lies in the state of Melekeok
    "PY": "Asunción",
    "ST": "São Tomé",
    "TF": "Port-aux-Français",
    "TG": "Lomé",
    "TO": "Nuku‘alofa",
    "VU": "Port-Vila",
    "WF": "Mata-Utu",
}

# Bulgaria has used the euro since 1 January 2026.
CURRENCIES = {"BG": "EUR"}

# A country's language that is plainly an error in the source.
LANGUAGES_REMOVED = {
    ("CU", "pap"): "Papiamento is spoken in Aruba, Bonaire and Curaçao",
    ("QA", "es"): "Spanish is no language of Qatar",
    ("ZW", "nr"): "Zimbabwe's Ndebele is the northern one, nd, which is listed too",
}

# Codes that are another spelling, a dialect or a part of a language listed otherwise.
LANGUAGE_CODES = {
    "bcl": "bik",  # Central Bikol
    "ber": "zgh",  # `Berber` is a family; Morocco's is Standard Moroccan Tamazight
    "bh": "bho",  # Bihari is a group; Bhojpuri is its largest language
    "cmn": "zh",  # Mandarin
    "diq": "zza",  # Southern Zaza
    "fuc": "ff",  # Pulaar
    "nb": "no",  # Bokmål and Nynorsk are the two written forms of Norwegian
    "nn": "no",
    "rmm": "rom",  # Romany of North Macedonia
    "tl": "fil",  # Filipino is standard Tagalog
    "tw": "ak",  # Twi
    "wof": "wo",  # Gambian Wolof
}
LANGUAGES_LEFT_OUT = {
    "cau": "a family, not a language",
    "hna": "Mina of Cameroon, listed for Togo",
    "inc": "a family, not a language",
    "sh": "a withdrawn code",
    "sit": "a family, not a language",
    "sre": "Sara of Borneo, listed for Chad",
    "tut": "a family, not a language",
}

# Languages that CLDR does not name in English, and three that it names like their country.
LANGUAGE_NAMES = {
    "abx": "Inabaknon",
    "akl": "Aklanon",
    "cab": "Garifuna",
    "cbk": "Chavacano",
    "dag": "Dagbani",
    "dta": "Daur",
    "fia": "Nobiin",
    "fud": "Futunan",
    "hns": "Caribbean Hindustani",
    "ibg": "Ibanag",
    "kbp": "Kabiye",
    "kpg": "Kapingamarangi",
    "ktu": "Kituba",
    "kun": "Kunama",
    "lue": "Luvale",
    "mdh": "Maguindanaon",
    "meu": "Motu",
    "mey": "Hassaniya Arabic",
    "miq": "Miskito",
    "mnk": "Mandinka",
    "mns": "Mansi",
    "mrw": "Maranao",
    "msb": "Masbateño",
    "mta": "Cotabato Manobo",
    "na": "Nauruan",
    "nkr": "Nukuoro",
    "nrf": "Norman",
    "pov": "Guinea-Bissau Creole",
    "sgd": "Surigaonon",
    "sov": "Sonsorolese",
    "swk": "Malawi Sena",
    "tkl": "Tokelauan",
    "toi": "Zambian Tonga",
    "tox": "Tobian",
    "tsg": "Tausug",
    "tvl": "Tuvaluan",
    "uli": "Ulithian",
    "wls": "Wallisian",
    "woe": "Woleaian",
    "yka": "Yakan",
}
LANGUAGE_ALIASES = {
    "ak": ["Twi"],
    "bn": ["Bengali"],
    "fa": ["Farsi"],
    "fil": ["Tagalog"],
    "ga": ["Gaelic"],
    "gd": ["Gaelic"],
    "mi": ["Maori"],
    "zh": ["Mandarin"],
    "zgh": ["Berber"],
}
CURRENCY_ALIASES = {"CNY": ["Renminbi"], "GBP": ["Pound Sterling", "Sterling"], "USD": ["Dollar"]}
CONTINENT_NAMES = {
    "AF": "Africa",
    "AN": "Antarctica",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}

# Zones whose country CLDR does not know or, for Kosovo, gives to its neighbour.
ZONE_COUNTRIES = {("CL", "America/Coyhaique"), ("XK", "Europe/Belgrade")}

# Places that are no cities, or have another place's population.
CITIES_LEFT_OUT = {
    "12165956": "Kallakurichi: the population of its district",
    "124878": "Marāgheh: a village with the population of the city of that name",
    "1254745": "Teni: the population of its district",
    "1258393": "Rasapūdipalem: a part of Visakhapatnam with the whole's population",
    "12501153": "Kanayannur: a district around Kochi",
    "1261162": "Nowrangapur: the population of its district",
    "1262111": "Najafgarh: a part of Delhi",
    "2638703": "Saint Peters: a village in Kent with the population of its district",
    "2655775": "Bexley: a part of London",
    "3688452": "Buenaventura: the municipality of the city, which is listed too",
    "4300488": "Meads, Kentucky: a hamlet with the population of a city",
    "4645421": "New South Memphis: a part of Memphis with the whole's population",
    "5139568": "Staten Island: a part of New York City",
    "6947756": "Mendip: a former district",
    "7289169": "Tri-Cities, Washington: three cities, listed one by one too",
}
CITY_NAMES = {"7503195": "Diego Garcia", "2028462": "Ulaanbaatar", "2886242": "Cologne"}
# Other names in English, past and present, that GeoNames has among hundreds of unmarked ones.
CITY_ALIASES = {
    "1273294": ["New Delhi"],
    "1275339": ["Bombay"],
    "1275004": ["Calcutta"],
    "1264527": ["Madras"],
    "1277333": ["Bangalore"],
    "1566083": ["Saigon"],
    "1816670": ["Peking"],
    "1809858": ["Canton"],
    "1298824": ["Rangoon"],
    "1526273": ["Nur-Sultan"],
    "2028462": ["Ulan Bator"],
    "2886242": ["Köln", "Koln"],
    "2660646": ["Geneva"],
    "2711537": ["Gothenburg"],
    "2803138": ["Antwerp"],
    "2797656": ["Ghent"],
    "2925533": ["Frankfurt"],
    "4140963": ["Washington D.C.", "Washington DC"],
    "5128581": ["New York"],
    "703448": ["Kiev"],
    "698740": ["Odessa"],
    "745044": ["Constantinople"],
}
