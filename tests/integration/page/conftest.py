"""Pages in a headless Chromium without a network.

The tests need Chromium and playwright (``pip install -e '.[dev]'``) and are skipped without them.
``COMPILEGATE_CHROMIUM`` names a browser that is not on ``PATH``.
"""

import os
import shutil
from dataclasses import replace

import pytest

from tests.integration.page.pages import HOSTILE, NET
from tests.unit.making import (
    make_break,
    make_capture,
    make_failed_observation,
    make_memory,
    make_observation,
    make_timing,
    make_verdict,
)
from tests.unit.runs import NEW, OLD, write_run

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = os.environ.get("COMPILEGATE_CHROMIUM") or next(
    filter(None, map(shutil.which, NAMES)), ""
)


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium."""
    if not CHROMIUM:
        pytest.skip("no Chromium on this machine: install one, or name it in COMPILEGATE_CHROMIUM")
    reason = "playwright is not installed: pip install playwright"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def show(browser, tmp_path):
    """Opens a page; the test fails if the script logs anything or the page loads another file."""
    contexts, complaints = [], []

    def open_page(pieces, *, width=1280, height=900, scheme="light", fragment=""):
        path = tmp_path / "page.html"
        path.write_text("".join(pieces))
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, offline=True
        )
        context.set_default_timeout(120_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                complaints.append(request.url) if "page.html" not in request.url else None
            ),
        )
        page.goto(f"file://{path}{fragment}")
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def two(tmp_path):
    """Two runs that differ in each way."""

    def run(name, environment, *cases):
        records = [r for o, outcome in cases for r in (o, make_verdict(outcome, case=o.case))]
        return write_run(tmp_path / name, *records, environment=environment)

    def observed(dynamic, speedup=2.0, **changed):
        timing = make_timing(speedup, spread=0.05)
        return make_observation(
            case=NET.format(dynamic), timing=timing, memory=make_memory(), **changed
        )

    broken = replace(
        make_failed_observation("raised", message=HOSTILE, traceback=HOSTILE),
        case=NET.format("static"),
    )
    breaks = make_capture(breaks=(make_break(HOSTILE, "GB0170"),))
    old = [(observed(dynamic), "passed") for dynamic in ("static", "auto", "dynamic")]
    new = [
        (broken, "failed"),
        (observed("auto", 1.25, capture=breaks), "passed"),
        (observed("dynamic", 1.5), "passed"),
    ]
    return run("old.jsonl", OLD, *old), run("new.jsonl", NEW, *new)
