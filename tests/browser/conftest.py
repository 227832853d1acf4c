"""A real Chromium, opened on pages from the disk; whatever it says on its console or asks of a network is kept."""

import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest

import smoothsynth as ss

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need the package playwright")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "No Chromium was found (looked for chromium, chromium-browser, google-chrome): run make browser."


def chromium(playwright):
    named = [os.environ.get("SMOOTHSYNTH_CHROMIUM"), *map(shutil.which, NAMES), playwright.chromium.executable_path]
    return next((path for path in named if path and Path(path).is_file()), None)


@pytest.fixture(scope="session")
def browser():
    with sync_api.sync_playwright() as playwright:
        path = chromium(playwright)
        if path is None:
            pytest.skip(MISSING)
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@dataclass
class Visit:
    """An open page, and what went wrong on it."""

    page: object
    problems: list = field(default_factory=list)
    requests: list = field(default_factory=list)

    def until(self, script, argument=None):
        """Wait for a function of the page to be true; Playwright's own way needs eval, which the page forbids."""
        end = time.monotonic() + 60.0
        while not self.page.evaluate(script, argument):
            assert time.monotonic() < end, f"the page never came to {script}"
            time.sleep(0.02)

    def ask(self, expression):
        """Type an expression and return what the page then says: value, low, high."""
        self.page.fill("#expression", "")
        self.until("() => document.getElementById('expression').getAttribute('aria-invalid') === 'true'")
        self.page.fill("#expression", expression)
        self.until(
            "text => document.getElementById('asked').textContent === text.trim() &&"
            " !document.getElementById('expression').hasAttribute('aria-invalid')",
            expression,
        )
        return self.answer()

    def answer(self):
        """Return the value and the interval that the page shows, in full."""
        read = "id => ({...document.getElementById(id).dataset})"
        interval = self.page.evaluate(read, "interval")
        return float(self.page.evaluate(read, "value")["exact"]), float(interval["low"]), float(interval["high"])

    def drawn(self):
        """Wait until the explorer has drawn its first answer, or there is none to draw."""
        self.until("() => document.querySelector('#curve svg') || !document.getElementById('column-0')")
        return self


@pytest.fixture
def visit(browser):
    """Return a function that opens a file; the test fails if the page complained or asked for anything else."""
    opened = []

    def go(path, *, width=1280, height=900, scheme="light", **options):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        page = context.new_page()
        made = Visit(page)
        page.on("console", lambda message: made.problems.append(message.text))
        page.on("pageerror", lambda error: made.problems.append(str(error)))
        page.on("request", lambda request: made.requests.append(request.url))
        page.goto(Path(path).as_uri())
        opened.append((context, made, Path(path).as_uri()))
        return made

    yield go
    for context, made, address in opened:
        context.close()
        assert made.problems == []
        assert set(made.requests) == {address}


@pytest.fixture(scope="session")
def people():
    import numpy as np

    rng = np.random.default_rng(5)
    age = rng.normal(50, 15, 1500)
    return pd.DataFrame(
        {
            "age": age,
            "income": rng.lognormal(9.5 + age / 40, 0.4),
            "visits": rng.poisson(3, 1500),
            "dose (mg)": rng.gamma(2.0, 1.0, 1500),
        }
    )


SCHEMA = ss.Schema(
    {
        "age": ss.Number(0, 120),
        "income": ss.Number(0, 4e5),
        "visits": ss.Integer(0, 20),
        "dose (mg)": ss.Number(0, 12),
    }
)


@pytest.fixture(scope="session")
def folders(people, tmp_path_factory):
    """Release folders: pure epsilon, and with delta, where counts, pairs and waves are measured."""
    place = tmp_path_factory.mktemp("releases")
    budgets = {"pure": (0.5, 0.0), "gaussian": (2.0, 1e-6)}
    for name, (epsilon, delta) in budgets.items():
        ss.release(people, schema=SCHEMA, epsilon=epsilon, delta=delta, seed=7).write(place / name)
    return {name: place / name for name in budgets}
