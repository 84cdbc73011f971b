"""What the page is made of: no markup from data, no code from text, nothing from elsewhere."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

PAGE = {file.name: file.read_text(encoding="utf-8") for file in files("flexkg.server").joinpath("page").iterdir()}
FORBIDDEN = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|setHTML|javascript:"
)


@pytest.mark.parametrize("name", sorted(PAGE))
def test_data_cannot_become_markup_or_code(name):
    assert not re.search(FORBIDDEN, PAGE[name])


@pytest.mark.parametrize("name", sorted(name for name in PAGE if name.endswith(".html")))
def test_documents_hold_no_code_and_no_style(name):
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", PAGE[name])
    assert set(re.findall(r'(?:src|href)="([^"]*)"', PAGE[name])) <= {
        "/", "/docs", "/openapi.json", "#query", "/page/icon.svg", "/page/style.css", "/page/app.js", "/page/docs.js",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(name for name in PAGE if name.endswith(".js")))
def test_modules_import_each_other_alone(name):
    for module in re.findall(r'from "([^"]+)"', PAGE[name]):
        assert module.removeprefix("./") in PAGE
    assert PAGE[name].count("\n") <= 400
