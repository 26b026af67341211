"""The pages in a real browser: a silent console, nothing wider than a phone, a working slider.

A driver is appended to the page as one more script. It moves the page's controls as a reader would,
and tells what it then finds to the page around it, which the browser prints when it is done. That
page holds the report in a frame as wide as a phone: a headless window is never so narrow.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from testbed.report.comparison import write_comparison_report
from testbed.report.writing import write_report

from .records import write_compared, write_record

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
TIME_LIMIT_S = 120

pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"none of {', '.join(BROWSERS)} is here")

REPORTING = """
const found = {width: document.documentElement.scrollWidth, window: innerWidth};
const state = () => ({
  label: document.getElementById("label").textContent,
  chips: [...document.querySelectorAll("#chips .chip")].map((one) => one.textContent),
  fullest: document.querySelector("#fullest li").textContent,
  strand: document.querySelector('.phone [data-d="NYC>LON"]').style.stroke,
  bar: document.querySelector('.phone [data-s="BAR"]').style.fill,
  current: [...document.querySelectorAll(".thumb")].findIndex((one) => one.ariaCurrent === "true"),
});
"""
DRIVE = """
const slider = document.getElementById("slider");
const move = (to) => { slider.value = to; slider.dispatchEvent(new Event("input")); };
found.max = Number(slider.max);
found.first = state();
move(2);
found.third = state();
document.querySelectorAll(".thumb")[1].click();
found.thumb = state();
document.querySelector("input[value=stretches]").click();
found.times = Number(slider.max) + 1;
move(26 * 4 + 1);
found.time = state();
document.getElementById("theme").click();
found.theme = document.documentElement.dataset.theme;
found.paper = getComputedStyle(document.body).backgroundColor;
"""
TELL = 'parent.postMessage(JSON.stringify(found), "*");'
AROUND = """<!DOCTYPE html>
<link rel="icon" href="data:,"><output id="told"></output>
<script>addEventListener("message", (event) => { told.textContent = event.data; });</script>
<iframe src="driven.html" width="390" height="844" style="border:0"></iframe>
"""


def driven(page: Path, drive: str, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Open a page on a phone with a driver in it; return what it told, and the console's lines."""
    copy = folder / "driven.html"
    script = f"<script>{{{REPORTING}{drive}{TELL}}}</script></body>"
    copy.write_text(page.read_text().replace("</body>", script))
    around = folder / "around.html"
    around.write_text(AROUND)
    command = [
        str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-extensions", f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr",
        "--virtual-time-budget=3000", "--dump-dom", around.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=True)
    told = re.search(r'<output id="told">(.+?)</output>', done.stdout, flags=re.DOTALL)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert told, console
    return json.loads(unescape(told[1])), console


def test_the_report_of_a_run_works(tmp_path: Path) -> None:
    page = write_report(write_record(tmp_path / "run"))
    found, console = driven(page, DRIVE, tmp_path)
    assert console == []
    assert found["window"] == 390
    assert found["width"] <= 390
    assert found["max"] == 5
    assert found["first"]["label"] == "Round 1: exchange"
    assert found["first"]["chips"] == ["AMS FRA LON", "BAR LAX NYC", "SEO SIN TYO"]
    assert found["first"]["strand"] == "none"
    assert found["first"]["bar"] == "var(--c1)"
    assert found["first"]["current"] == 0
    assert found["third"]["label"] == "Round 3: exchange"
    assert found["third"]["chips"] == ["AMS NYC", "LAX TYO"]
    assert found["third"]["strand"] == "var(--u2)"  # 17 %
    assert found["third"]["fullest"] == "AMS.island>AMS17 %"
    assert found["third"]["bar"] == "var(--panel)"  # idle
    assert found["thumb"]["label"] == "Round 2: exchange"
    assert found["thumb"]["current"] == 1
    assert found["times"] == 240
    assert found["time"]["label"] == "26.3 s, Round 3: exchange"
    assert found["time"]["fullest"] == "AMS.island>AMS13 %"
    assert found["theme"] == "dark"
    assert found["paper"] == "rgb(15, 23, 32)"


def test_the_report_of_a_comparison_fits_a_phone(tmp_path: Path) -> None:
    page = write_comparison_report(write_compared(tmp_path / "run", repetitions=1))
    found, console = driven(page, "", tmp_path)
    assert console == []
    assert found["width"] <= 390
