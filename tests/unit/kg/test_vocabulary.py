"""What a text may mean and how an id is written."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flexkg.errors import DataError
from flexkg.kg.vocabulary import Vocabulary


@pytest.fixture
def places() -> Vocabulary:
    return Vocabulary(
        ["http://x/GE", "http://x/US-GA", "http://x/FR", "Paris", "http://x/P"],
        ["Georgia", "Georgia", "France", "", "Paris"],
        ["country in Asia", "state", None, None, None],
        {2: ["Republic", "La France"], 1: ["Republic"]},
        prefixes={"x": "http://x/", "us": "http://x/US-"},
    )


def test_an_identifier_wins_then_names_then_aliases(places):
    assert places.find("http://x/GE") == [0]
    assert places.find("x:GE") == [0]
    assert places.find("us:GA") == places.find("x:US-GA") == [1]
    assert places.find("Georgia") == [0, 1]
    assert places.find("Paris") == [3]
    assert places.find("Republic") == [1, 2]
    assert places.find("La France") == [2]
    assert places.find("y:GE") == places.find("x:") == places.find("") == places.find("georgia") == []


def test_text_leads_back(places):
    assert [places.text(id) for id in range(5)] == ["x:GE", "us:GA", "France", "Paris", "x:P"]


def test_describe(places):
    assert places.describe(0) == "Georgia [x:GE], country in Asia"
    assert places.describe(1) == "Georgia [us:GA], state"
    assert places.describe(2) == "France [x:FR]"
    assert places.describe(3) == "Paris"


def test_columns(places):
    assert len(places) == 5
    assert list(places.names) == ["Georgia", "Georgia", "France", "Paris", "Paris"]
    assert places.name(3) == "Paris"
    assert places.description(0) == "country in Asia"
    assert places.description(3) is None
    assert list(places.aliases_of(2)) == ["Republic", "La France"]
    assert list(places.aliases_of(0)) == []
    assert places.get("Paris") == 3
    assert places.get("Georgia") is None
    assert places.ambiguous_count == 4


def test_with_prefixes_leaves_the_first_alone(places):
    other = places.with_prefixes({})
    assert other.find("x:GE") == []
    assert other.text(0) == "http://x/GE"
    assert places.text(0) == "x:GE"


def test_suggestions(places):
    assert places.suggest("georgia") == ["Georgia"]
    assert places.suggest("FRANCE")[0] == "France"
    assert places.suggest("Frnace")[0] == "France"
    assert places.suggest("Fra")[0] == "France"
    assert places.suggest("republik") == ["Republic"]
    assert places.suggest("x:UG-GA") == ["x:US-GA"]
    assert places.suggest("") == places.suggest("zzzzzzzz") == []
    assert len(places.suggest("a" * 1_000_000)) == 0


def test_completion_ignores_case_and_prefers_names(places):
    assert places.complete("geo", 10) == [0, 1]
    assert places.complete("GEO", 1) == [0]
    assert places.complete("http://x/f", 10) == [2]
    assert places.complete("la f", 10) == [2]
    assert places.complete("zz", 10) == []
    assert len(places.complete("", 3)) == 3


def test_duplicates_and_wrong_lengths_are_refused():
    with pytest.raises(DataError, match="'a' stands for two"):
        Vocabulary(["a", "b", "a"]).find("a")
    with pytest.raises(ValueError, match="1 texts for 2"):
        Vocabulary(["a", "b"], ["x"])
    with pytest.raises(ValueError, match="alias"):
        Vocabulary(["a"], aliases={3: ["x"]})


def test_lazy_words_are_counted():
    words = Vocabulary(["a", "b"])._words
    assert Vocabulary.lazy(2, lambda: words).find("b") == [1]
    with pytest.raises(DataError, match="2 entries instead of 3"):
        Vocabulary.lazy(3, lambda: words).find("b")


letters = st.text("ab:", min_size=1, max_size=3)


@given(
    st.lists(letters, unique=True, min_size=1, max_size=8),
    st.data(),
    st.dictionaries(st.text("ab", max_size=1), st.text("ab:", max_size=2), max_size=3),
)
def test_text_always_leads_back_to_its_id_alone(identifiers, data, prefixes):
    names = data.draw(st.lists(letters | st.just(""), min_size=len(identifiers), max_size=len(identifiers)))
    ids = st.integers(0, len(identifiers) - 1)
    aliases = data.draw(st.dictionaries(ids, st.lists(letters, max_size=2), max_size=4))
    vocabulary = Vocabulary(identifiers, names, aliases=aliases, prefixes=prefixes)
    for id, identifier in enumerate(identifiers):
        assert vocabulary.find(vocabulary.text(id)) == [id]
        assert vocabulary.find(identifier) == [id]
        assert id in vocabulary.complete(vocabulary.name(id), 100)
        assert vocabulary.suggest(vocabulary.name(id).upper(), 100) != []


def test_suggestions_over_a_hundred_thousand_names_are_quick():
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdeilmnorst", k=rng.randint(3, 9))) for _ in range(5_000)]
    names = list(dict.fromkeys(" ".join(rng.choices(words, k=rng.randint(1, 4))) for _ in range(100_000)))
    vocabulary = Vocabulary(names)
    vocabulary.suggest("warm up")
    wrong = next(name for name in names if len(name) > 12)
    wrong = wrong[:4] + wrong[5] + wrong[4] + wrong[6:]
    begin = time.perf_counter()
    found = vocabulary.suggest(wrong)
    # The aim is 50 ms; the margin is for a busy machine.
    assert time.perf_counter() - begin < 0.5
    assert found
