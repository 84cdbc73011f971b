"""Takes a picture of the page: serves a run, asks a question in headless Chromium, saves a PNG.

python scripts/screenshot.py RUN docs/img/page.png
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

QUERY = "?x : borders(France, ?x) & speaks(?x, German) & !uses(?x, Euro)"


def main() -> None:
    """Take the picture."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("run", type=Path, help="a folder that `flexkg train` made")
    options.add_argument("out", type=Path, help="where the PNG goes")
    options.add_argument("--query", default=QUERY)
    options.add_argument("--width", type=int, default=1280)
    options.add_argument("--dark", action="store_true")
    options.add_argument("--open", type=int, default=2, help="the rank of the answer to open, 0 for none")
    given = options.parse_args()
    command = [sys.executable, "-m", "flexkg", "serve", str(given.run), "--port", "0", "--device", "cpu"]
    environment = os.environ | {"FLEXKG_TOKEN": ""}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if "http" not in line:
                sys.exit("the server did not start")
            url = "http" + line.partition("http")[2].split()[0]
            take(url, given)
        finally:
            server.terminate()
    print(given.out)


def take(url: str, given: argparse.Namespace) -> None:
    """Ask the question in a browser and save what it shows."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        sys.exit("needs chromium and chromedriver (Debian packages chromium and chromium-driver)")
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-background-networking", "hide-scrollbars"):
            options.add_argument(f"--{flag}")
        options.add_argument(f"--user-data-dir={profile}")
        browser = webdriver.Chrome(options=options, service=Service(driver))
        try:
            feature = {"name": "prefers-color-scheme", "value": "dark" if given.dark else "light"}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            size = {"width": given.width, "height": 900, "deviceScaleFactor": 1.5, "mobile": given.width < 600}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.get(f"{url}#{quote(given.query, safe='')}")
            rows = "#answers summary"
            WebDriverWait(browser, 60).until(lambda page: page.find_elements(By.CSS_SELECTOR, rows))
            WebDriverWait(browser, 60).until(lambda page: page.find_elements(By.CSS_SELECTOR, "#examples button"))
            if given.open:
                found = browser.find_elements(By.CSS_SELECTOR, rows)
                browser.execute_script("arguments[0].click()", found[min(given.open, len(found)) - 1])
            size["height"] = browser.execute_script("return document.documentElement.scrollHeight")
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            given.out.parent.mkdir(parents=True, exist_ok=True)
            browser.save_screenshot(str(given.out))
        finally:
            browser.quit()


if __name__ == "__main__":
    main()
