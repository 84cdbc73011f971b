"""A real browser, and servers for it to open."""

from __future__ import annotations

import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from serving import Server

_FLAGS = (
    "headless=new",
    "no-sandbox",
    "disable-gpu",
    "disable-dev-shm-usage",
    "disable-quic",
    "no-first-run",
    "disable-background-networking",
    "disable-component-update",
    "disable-sync",
)


@pytest.fixture(scope="package")
def server(small_run):
    with Server(small_run) as running:
        yield running


@pytest.fixture(scope="package")
def chromium(tmp_path_factory):
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs Chromium and ChromeDriver (Debian packages chromium and chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in _FLAGS:
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    yield browser
    browser.quit()


class Page:
    """The page in a browser window."""

    def __init__(self, browser, url):
        self.browser = browser
        self.url = url

    def open(self, path="", *, width=1200, height=900, scheme="light", mobile=False):
        """Load it anew."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.browser.get("about:blank")
        self.browser.get_log("browser")
        self.browser.get(self.url + path)
        self.wait(lambda: self.script("return document.body.dataset.ready") == "true")
        return self

    def wait(self, until):
        """What a function gives once it is not empty."""
        return WebDriverWait(self.browser, 30, 0.05).until(lambda _: until())

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.wait(lambda: self.all(selector))[0]

    def text(self, selector):
        return self.one(selector).get_attribute("textContent")

    def texts(self, selector):
        return self.script("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def script(self, code, *arguments):
        return self.browser.execute_script(code, *arguments)

    def press(self, *keys):
        """Keys for whatever has the focus, as from a keyboard."""
        webdriver.ActionChains(self.browser).send_keys(*keys).perform()

    @property
    def focused(self):
        return self.browser.switch_to.active_element

    def messages(self):
        """What the browser complains about."""
        return [entry["message"] for entry in self.browser.get_log("browser")]


@pytest.fixture
def page(chromium, server):
    return Page(chromium, server.url)


@pytest.fixture
def page_of(chromium):
    """The page of another server."""
    return lambda running: Page(chromium, running.url)
