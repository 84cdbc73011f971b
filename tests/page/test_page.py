"""The page in a real browser, from the first key to the last answer."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from selenium.webdriver.common.keys import Keys

import flexkg
from flexkg.api import KnowledgeGraph
from flexkg.kg.dataset import Dataset
from flexkg.kg.vocabulary import Vocabulary
from serving import Server

FRANCE = "?x : borders(France, ?x)"
NEIGHBOURS = ["Andorra", "Belgium", "Germany", "Italy", "Luxembourg", "Monaco", "Spain", "Switzerland"]
SWISS = "?x : borders(France, ?x) & speaks(?x, German) & !uses(?x, Euro)"


def asked(page, query, **options):
    page.open(f"#{quote(query, safe='')}", **options)
    page.one("#answers summary")
    return page


def to(page, selector):
    """Press Tab until the focus is there."""
    for _ in range(80):
        if page.script("return document.activeElement.matches(arguments[0])", selector):
            return page.focused
        page.press(Keys.TAB)
    return pytest.fail(f"Tab never reaches {selector}")


def test_ask_with_completion_by_keyboard_alone(page):
    page.open()
    to(page, "#query")
    page.press("?x : bord")
    page.wait(lambda: page.texts("#choices li span:first-child") == ["borders"])
    page.press(Keys.TAB)
    assert page.one("#query").get_property("value") == "?x : borders("
    page.press("fran")
    page.wait(lambda: "France" in page.texts("#choices li span:first-child"))
    for _ in range(page.texts("#choices li span:first-child").index("France") + 1):
        page.press(Keys.ARROW_DOWN)
    chosen = page.one("#query").get_attribute("aria-activedescendant")
    assert page.one(f"#{chosen}").get_attribute("aria-selected") == "true"
    page.press(Keys.ENTER)
    assert page.one("#query").get_property("value") == "?x : borders(France"
    page.press(", ?x)", Keys.ESCAPE, Keys.ENTER)
    page.wait(lambda: len(page.all("#answers > li")) == 10)
    assert sorted(page.texts("#answers > li .name")[:8]) == NEIGHBOURS
    assert page.texts("#answers .badge") == ["known"] * 8 + ["predicted"] * 2
    assert re.fullmatch(r"8 known answers, about \d+\.\d in all\.", page.text("#summary"))
    assert page.text("#state").startswith("10 answers shown: 8 known answers")
    assert all(re.fullmatch(r"\d+\.\d %|< 0\.1 %", text) for text in page.texts("#answers .chance")[8:])
    width = "return getComputedStyle(arguments[0]).width"
    bars = page.all("#answers .bar")
    full = page.script(width, bars[0])
    page.wait(lambda: page.script(width, page.all("#answers .bar span")[0]) == full)
    # On with Tab to the first answer, which Enter opens.
    first = to(page, "#answers summary")
    page.press(Keys.ENTER)
    name = page.texts("#answers .name")[0]
    assert page.script("return arguments[0].parentElement.open", first)
    assert page.texts("#answers li:first-child .facts code") == [f"borders(France, {name})"]
    # A predicted answer says what would have to hold.
    [missing] = page.texts("#answers > li:nth-child(10) .missing code")
    assert missing.replace('"', "") == f"borders(France, {page.texts('#answers .name')[9]})"
    assert page.messages() == []


def test_the_graph_shows_every_step(page, server):
    asked(page, SWISS)
    steps = {step["label"]: step for step in server.post("/v1/ask", query=SWISS, explain=True).json()["steps"]}
    assert (
        sorted(page.texts("#graph .node .label"))
        == sorted(steps)
        == sorted(["France", "borders(..., ?)", "German", "speaks(?, ...)", "Euro", "uses(?, ...)", "not", "and"])
    )
    assert len(page.all("#graph .edge")) == 7
    assert page.texts("#graph .node.root .label") == ["and"]
    best = [answer["name"] for answer in steps["and"]["answers"][:3]]
    assert page.texts("#graph .node.root .answer") == [name if len(name) <= 15 else name[:14] + "…" for name in best]
    boxes = [box.rect for box in page.all("#graph .node .box")]
    for index, one in enumerate(boxes):
        for other in boxes[index + 1 :]:
            apart = one["x"] + one["width"] <= other["x"] + 0.5 or other["x"] + other["width"] <= one["x"] + 0.5
            above = one["y"] + one["height"] <= other["y"] + 0.5 or other["y"] + other["height"] <= one["y"] + 0.5
            assert apart or above, "two boxes lie on each other"
    node = to(page, '#graph .node[aria-label^="borders"]')
    page.press(Keys.ENTER)
    assert "open" in node.get_attribute("class")
    assert "8 known" in page.text("#node p")
    assert page.texts("#node li .name") == [answer["name"] for answer in steps["borders(..., ?)"]["answers"]]


def test_what_was_rewritten_can_be_seen(page):
    asked(page, "?x : capital(France, ?x) | capital(Spain, ?x)")
    assert page.text("#notes li").startswith("Rewritten: ")
    assert page.texts("#graph .node.root .label") == ["or"]
    page.one("#view-computed").click()
    assert page.one("#view-computed").get_attribute("aria-pressed") == "true"
    assert page.texts("#graph .node.root .label") == ["capital(..., ?)", "capital(..., ?)"]


def test_the_histogram_counts_everything(page):
    asked(page, FRANCE)
    picture = page.one("#histogram svg")
    assert picture.get_attribute("aria-label").startswith("Histogram of the scores of 4381 entities, 8 of them known")
    counts = [int(re.search(r": (\d+) entities", title)[1]) for title in page.texts("#histogram .others title")]
    assert sum(counts) == 4381


def test_mistakes_are_marked_as_they_are_typed(page):
    page.open()
    page.one("#query").click()
    page.press("?x : borders(Frnace, ?x)")
    page.wait(lambda: page.texts("#marks mark") == ["Frnace"])
    assert page.text("#problem").startswith("line 1, column 14There is no entity 'Frnace'.")
    assert "Did you mean France" in page.text("#problem")
    assert page.one("#query").get_attribute("aria-invalid") is not None
    box = page.script("return arguments[0].getBoundingClientRect().toJSON()", page.one("#query"))
    mark = page.script("return arguments[0].getBoundingClientRect().toJSON()", page.one("#marks mark"))
    assert box["left"] < mark["left"] < mark["right"] < box["right"]
    assert box["top"] < mark["top"] < mark["bottom"] < box["bottom"]
    page.script("arguments[0].setSelectionRange(13, 19)", page.one("#query"))
    page.press("France", Keys.ESCAPE)
    page.wait(lambda: page.texts("#marks mark") == [] and page.text("#problem") == "")


def test_a_mistake_on_a_later_line_behind_odd_characters(page):
    page.open()
    page.one("#query").click()
    page.script("arguments[0].value = '?x :\\n  borders(\"\U0001f600\U0001f600\", ?x)'", page.one("#query"))
    page.press(" ")
    page.wait(lambda: page.texts("#marks mark") == ['"\U0001f600\U0001f600"'])
    page.press(Keys.ENTER)
    page.wait(lambda: "line 2, column 11" in page.text("#problem"))
    assert page.one("#result").is_displayed() is False


def test_examples_and_the_way_back(page):
    page.open()
    examples = page.all("#examples button")
    assert len(examples) >= 5
    examples[1].click()
    page.wait(lambda: page.texts("#answers .name"))
    first = page.one("#query").get_property("value")
    assert first == examples[1].get_attribute("title")
    examples[2].click()
    page.wait(lambda: page.one("#query").get_property("value") != first and page.text("#state") != "Asking…")
    page.browser.back()
    page.wait(lambda: page.one("#query").get_property("value") == first)


def test_on_a_phone(page, tmp_path):
    asked(page, SWISS, width=375, height=740, mobile=True)
    assert page.script("return document.scrollingElement.scrollWidth") <= 375
    assert page.script("return document.querySelector('#graph').scrollWidth") <= 375
    assert page.texts("#answers .name")[0] == "Switzerland"
    columns = [page.one(selector).rect["x"] for selector in ("#answers", "#graph", "#histogram")]
    assert max(columns) - min(columns) < 5, "everything is below each other"
    lefts = [box.rect["x"] for box in page.all("#graph .node .box")]
    assert max(lefts) < 200
    assert page.browser.save_screenshot(str(tmp_path / "phone.png"))


def luminance(colour):
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_the_light_and_in_the_dark(page, scheme):
    asked(page, FRANCE, scheme=scheme)
    style = "const s = getComputedStyle(document.querySelector(arguments[0])); return s[arguments[1]]"
    paper = luminance(page.script(style, ".card", "backgroundColor"))
    assert (paper < 0.1) == (scheme == "dark")
    for selector in ("#answers .name", "#summary", "#answers .chance", ".quiet"):
        ink = luminance(page.script(style, selector, "color"))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, selector
    for selector in (".badge.known", ".badge.predicted", "#ask"):
        ink, ground = (luminance(page.script(style, selector, key)) for key in ("color", "backgroundColor"))
        assert (max(ink, ground) + 0.05) / (min(ink, ground) + 0.05) >= 4.5, selector


def test_everything_that_acts_has_a_name(page):
    asked(page, SWISS)
    nodes = page.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    acting = {"button", "link", "textbox", "combobox", "img", "image", "DisclosureTriangle", "listbox"}
    found = [node for node in nodes if not node.get("ignored") and node.get("role", {}).get("value") in acting]
    assert {node["role"]["value"] for node in found} >= {"button", "textbox", "combobox", "link"}
    nameless = [node for node in found if not node.get("name", {}).get("value", "").strip()]
    assert nameless == []


def test_nothing_comes_from_elsewhere(page):
    asked(page, SWISS)
    names = page.script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert len(names) > 8
    assert all(name.startswith(page.url) for name in names)
    assert page.messages() == []


def test_the_description_of_the_routes(page):
    page.open("docs")
    assert "POST /v1/ask" in page.texts("#routes h2")
    assert len(page.all("#routes section")) == 8
    assert page.messages() == []


@pytest.fixture(scope="module")
def odd_run(tmp_path_factory):
    """A graph whose names would do harm as markup."""
    names = [f"<img src=x onerror=\"document.title='harm'\">{number}" for number in range(8)]
    relations = Vocabulary(["<script>document.title='harm'</script>"])
    triples = [(head, 0, (head + step) % 8) for head in range(8) for step in (1, 2)]
    kg = KnowledgeGraph(Dataset("<b>odd</b>", Vocabulary(names), relations, {"train": triples}))
    settings = {"model.dim": 4, "training.steps": 1, "training.batch_size": 4, "training.negatives": 2}
    folder = tmp_path_factory.mktemp("odd") / "run"
    flexkg.train(kg, "flex-small", folder, settings={**settings, "training.shapes": ["1p"]}, device="cpu")
    return folder


def test_names_are_never_markup_and_a_token_is_asked_for(page_of, odd_run):
    with Server(odd_run, FLEXKG_TOKEN="open-sesame") as running:
        page = page_of(running)
        page.browser.get(running.url)
        page.wait(lambda: page.one("#token-dialog").is_displayed())
        page.press("open-sesame", Keys.ENTER)
        page.wait(lambda: page.script("return document.body.dataset.ready") == "true")
        assert page.text("#about").startswith("flex on <b>odd</b>: 8 entities")
        page.one("#examples button").click()
        page.wait(lambda: page.texts("#answers .name"))
        assert all(name.startswith("<img src=x") for name in page.texts("#answers .name"))
        # Without a validation split there are no probabilities, and the page says scores.
        assert any(text.startswith("score ") for text in page.texts("#answers .chance"))
        page.one("#answers summary").click()
        page.all("#graph .node")[0].click()
        page.one("#query").click()
        page.press(Keys.END, " <")
        page.wait(lambda: page.texts("#marks mark"))
        page.script("const q = document.querySelector('#query'); q.value = '?x : <scr'")
        assert page.all("main img, main script, main b") == []
        assert page.browser.title == "flexkg"
