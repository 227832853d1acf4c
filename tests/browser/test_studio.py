"""The studio in a real browser: a messy file becomes a sound release, nothing is lost in silence, all by keyboard too."""

import importlib.util
import re
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

import smoothsynth as ss
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.cli.studio.server import Studio
from smoothsynth.cli.studio.walk import Walk

MOST_TABS = 400
# What somebody who knows the table, and not its rows, would say.
PUBLIC = {
    "admitted": {"lower": "2015-01-01", "upper": "2025-12-31"},
    "height": {"lower": "50", "upper": "230"},
    "age": {"lower": "0", "upper": "120"},
    "sex": {"levels": "female\nmale\ndiverse"},
    "cost": {"lower": "0", "upper": "100000"},
    "weight": {"lower": "20", "upper": "250"},
    "diagnosis": {"levels": "\n".join(f"D{i:03d}" for i in range(500))},
    "visits": {"lower": "0", "upper": "60"},
    "score": {"lower": "0", "upper": "10"},
}


@pytest.fixture(scope="session")
def messy_text(tmp_path_factory):
    """The messy table of tests/unit, as bytes."""
    path = Path(__file__).parents[1] / "unit" / "conftest.py"
    spec = importlib.util.spec_from_file_location("messy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module._write(tmp_path_factory.mktemp("messy") / "messy.csv", rows=400).read_bytes()


@pytest.fixture
def place(tmp_path, messy_text, people):
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "messy.csv").write_bytes(messy_text)
    people.head(300)[["age", "visits"]].round(1).to_csv(folder / "people.csv", index=False)
    return folder


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "data.ledger"
    LedgerFile.create(path, ss.Budget(5.0, 1e-6))
    return path


@pytest.fixture
def studio(place, ledger, tmp_path):
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    server = Studio(Walk(place, uploads, ledger))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    server.walk.jobs.wait()
    thread.join()


@contextmanager
def shown(browser, studio, *, width=1280, scheme="light"):
    """Open the studio; the test fails if the page fails, or asks for anything that is not the studio's."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    problems, requests = [], []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text))
    context.on("request", lambda request: requests.append(request.url))
    page.goto(studio.address)
    page.wait_for_selector("#file option", state="attached")
    yield page
    context.close()
    # A browser notes every refusal of a server.
    assert [text for text in problems if not text.startswith("Failed to load resource: the server responded")] == []
    assert [url for url in requests if not url.startswith((studio.address, "data:,"))] == []


def field(page, name, key):
    return page.locator(".column", has=page.get_by_text(name, exact=True)).locator(f"[id$='-{key}']")


def opened(page, name="messy.csv"):
    page.select_option("#file", name)
    page.click("#open button")
    page.wait_for_selector(".column")


def fill(page):
    for name, fields in PUBLIC.items():
        for key, text in fields.items():
            field(page, name, key).fill(text)
    for name in ("lat", "lon"):
        field(page, name, "use").uncheck()


def check(page):
    page.click("#columns-form button.main")
    page.wait_for_selector("#checked:focus")
    page.wait_for_selector("#expected:not([aria-busy]) table")


def review(page, folder="release"):
    page.fill("#folder", folder)
    page.click("#release-form button")
    page.wait_for_selector("dialog[open]")
    return page.inner_text("#review-words")


def assert_every_loss_is_named(report, said):
    losses = 0
    for column in report.columns:
        line = next((text for text in said.splitlines() if text.startswith(f"{column.name}: ")), "")
        named = [float(number) for number in re.findall(r"([\d.]+) %", line)]
        for name in ("missing", "unreadable", "outside", "no_level"):
            if count := getattr(column, name) or 0:
                assert any(abs(share - 100 * count / column.rows) < 0.051 for share in named), (column.name, name, line)
                losses += 1
    return losses


def test_a_messy_file_becomes_a_sound_release(browser, studio, place, ledger):
    with shown(browser, studio) as page:
        opened(page)
        # Nothing is taken from the rows, so nothing can be released yet; each column says what it lacks.
        page.click("#columns-form button.main")
        page.wait_for_selector("[aria-invalid]")
        assert page.evaluate("document.activeElement.id") == field(page, "admitted", "lower").get_attribute("id")
        assert "11 columns need another look" in page.inner_text("#schema-error")
        assert "lower bound is missing" in page.inner_text(".column:has([id$='column-3-lower']) .error")
        fill(page)
        # A decimal comma that is not said is a column that is lost: it is named, and not released.
        field(page, "height", "decimal").select_option("")
        check(page)
        said = review(page)
        naive = ss.check(place / "messy.csv", studio.walk.schema)
        assert naive.mostly_lost == ("height",)
        assert "height: 100.0 % cannot be read" in said
        assert assert_every_loss_is_named(naive, said) >= 5
        assert not page.locator("#spend").is_visible()
        page.keyboard.press("Escape")
        # What was noticed is written into the form by buttons, until nothing is unreadable.
        proposed = page.locator(".findings button:enabled:visible")
        while proposed.count():
            while proposed.count():
                proposed.first.click()
            check(page)
        fixed = ss.check(place / "messy.csv", studio.walk.schema)
        assert fixed.passed
        assert all(not column.unreadable and not column.no_level for column in fixed.columns if column.name != "sex")
        page.select_option("#delta", index=1)
        page.fill("#epsilon", "2")
        said = review(page)
        assert assert_every_loss_is_named(fixed, said) >= 2
        for name in ("patient_id", "name", "country", "lat", "lon"):
            assert f"'{name}'" in said
        assert "epsilon = 2" in page.inner_text("#spend")
        assert LedgerFile(ledger).charges == ()
        page.dblclick("#spend")
        page.wait_for_selector("#released:not([hidden])", timeout=60_000)
        page.click("#verify")
        page.wait_for_selector("#verified table")
        assert page.inner_text("#verified > p") == "Nothing was refuted."
        with page.expect_download() as download:
            page.click("a[href='release.zip']")
        assert download.value.suggested_filename == "release.zip"
        assert "smoothsynth release" in page.inner_text("#command-line")
        with page.context.expect_page() as release_page:
            page.click("a[href='report.html']")
        release_page.value.wait_for_selector("#shapes figcaption")
    made = ss.load(place / "release")
    assert ss.verify(place / "release").passed
    assert set(made.schema.names) == set(PUBLIC) | {"smoker"}
    assert [line.label for line in LedgerFile(ledger).read().lines] == ["release"] * len(made.receipt.charges)
    assert made.receipt.spent.epsilon == pytest.approx(2.0, rel=1e-3)
    # Decimal commas were read: people are about 170 cm tall.
    assert 140 < made.to_pandas()["height"].mean() < 200


class Keyboard:
    """Somebody without a mouse."""

    def __init__(self, page):
        self.page = page

    def to(self, selector):
        """Press Tab until an element has the focus, and it can be seen that it has."""
        for _ in range(MOST_TABS):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("selector => document.activeElement.matches(selector)", selector):
                assert self.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
                return
        raise AssertionError(f"the keyboard never comes to {selector}")

    def press(self, selector, *keys):
        self.to(selector)
        for key in keys:
            self.page.keyboard.press(key)

    def write(self, selector, text):
        self.to(selector)
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.type(text)


def test_the_keyboard_is_enough(browser, studio, place):
    with shown(browser, studio, width=900) as page:
        keyboard = Keyboard(page)
        keyboard.press("#file", "End")
        keyboard.press("#open button", "Enter")
        page.wait_for_selector(".column")
        page.wait_for_selector(".column summary:focus")
        keyboard.write("#column-0-lower", "0")
        keyboard.write("#column-0-upper", "120")
        keyboard.write("#column-1-lower", "0")
        keyboard.write("#column-1-upper", "20")
        page.keyboard.press("Enter")
        page.wait_for_selector("#checked:focus")
        page.wait_for_selector("#expected table")
        before = page.inner_text("#expected")
        keyboard.press("#slider", *["ArrowRight"] * 4)
        assert page.input_value("#epsilon") == "1.6"
        page.wait_for_selector("#expected:not([aria-busy])")
        assert page.inner_text("#expected") != before
        keyboard.press("#folder", "Enter")
        page.wait_for_selector("dialog[open]")
        # The safe button has the focus, and Escape leads back to where one was.
        assert page.evaluate("document.activeElement.id") == "cancel"
        page.keyboard.press("Escape")
        page.wait_for_selector("#release-form button:focus")
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open]")
        keyboard.press("#spend", "Enter")
        page.wait_for_selector("#released:focus", timeout=60_000)
        keyboard.press("#verify", "Enter")
        page.wait_for_selector("#verified:focus")
        keyboard.press("#end", "Enter")
        page.wait_for_selector("text=The studio has ended")
    assert ss.load(place / "release").receipt.budget.epsilon == 1.6


def complaints(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    found = axe.Axe().run(page).response
    assert found["passes"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]]


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_axe_finds_nothing_and_all_fits(browser, studio, width, scheme):
    with shown(browser, studio, width=width, scheme=scheme) as page:
        assert complaints(page) == []
        opened(page)
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        page.click("#columns-form button.main")
        page.wait_for_selector("[aria-invalid]")
        assert complaints(page) == []
        fill(page)
        # Its 500 levels are in the other test, and take longest.
        field(page, "diagnosis", "use").uncheck()
        check(page)
        assert complaints(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.set_viewport_size({"width": 320, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        review(page)
        assert complaints(page) == []
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.querySelector('.banner')).position") == "fixed"


def test_the_walk_survives_a_reload_and_the_picture_is_no_row(browser, studio, place):
    with shown(browser, studio) as page:
        opened(page, "people.csv")
        for name, upper in (("age", "120"), ("visits", "20")):
            field(page, name, "lower").fill("0")
            field(page, name, "upper").fill(upper)
        check(page)
        assert "made up" in page.inner_text("#picture-words")
        drawn = page.get_attribute("#picture path.line", "d")
        page.fill("#epsilon", "one")
        page.wait_for_selector("#budget-error:has-text('Epsilon must be a number')")
        page.fill("#epsilon", "1,0")
        page.wait_for_selector("#budget-error:empty", state="attached")
        # What a column cannot lose has no label on a narrow screen either.
        page.set_viewport_size({"width": 400, "height": 900})
        assert not page.locator("#check-table td[data-label='No level']").first.is_visible()
        page.set_viewport_size({"width": 1280, "height": 900})
        # Other rows of the same number give the same picture.
        lines = (place / "people.csv").read_text().splitlines()
        (place / "people.csv").write_text("\n".join([lines[0], *["50,3"] * (len(lines) - 1)]) + "\n")
        page.reload()
        page.wait_for_selector(".column")
        assert field(page, "age", "upper").input_value() == "120"
        check(page)
        assert page.get_attribute("#picture path.line", "d") == drawn


def test_a_release_is_followed_after_a_reload_and_in_another_tab(browser, studio, place, monkeypatch):
    from smoothsynth.pipeline import run

    go_on, made = threading.Event(), run.release
    monkeypatch.setattr(run, "release", lambda *given, **named: go_on.wait(30) and made(*given, **named))
    # Names that every object of JavaScript has are columns like others.
    (place / "odd.csv").write_text("age,constructor,toString\n" + "40,x,1\n50,y,2\n" * 50)
    with shown(browser, studio) as page:
        opened(page, "odd.csv")
        field(page, "constructor", "use").uncheck()
        page.click("#columns-form button.main")
        page.wait_for_selector("text=2 columns need another look")
        for name in ("age", "toString"):
            field(page, name, "lower").fill("0")
            field(page, name, "upper").fill("120")
        check(page)
        assert "odd.csv" in review(page)
        page.click("#spend")
        page.wait_for_selector("#status:has-text('…')")
        page.reload()
        page.wait_for_selector("#status:has-text('…')")
        assert not page.locator("#released").is_visible()
        go_on.set()
        page.wait_for_selector("#released:not([hidden])", timeout=60_000)
        other = page.context.new_page()
        other.goto(studio.address)
        other.wait_for_selector("#released:not([hidden])")
        opened(other, "people.csv")
        page.click("#columns-form button.main")
        page.wait_for_selector("#schema-error:has-text('people.csv was opened since')")
    assert ss.load(place / "release").schema.names == ("age", "toString")


def test_what_was_not_checked_is_not_lost_without_a_word(browser, studio):
    with shown(browser, studio) as page:
        asked = []
        page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
        opened(page, "people.csv")
        page.reload()
        page.wait_for_selector(".column")
        assert asked == []
        field(page, "age", "lower").fill("0")
        page.reload()
        assert asked == ["beforeunload"]


def test_a_file_from_elsewhere(browser, studio, messy_text, tmp_path):
    elsewhere = tmp_path / "elsewhere.csv"
    elsewhere.write_bytes(messy_text)
    with shown(browser, studio) as page:
        page.set_input_files("#upload", elsewhere)
        page.wait_for_selector("#file option:has-text('elsewhere.csv (upload 1)')", state="attached")
        page.click("#open button")
        page.wait_for_selector(".column")
        assert page.locator(".column").count() == 15
    assert [path.name for path in studio.walk.uploads.iterdir()] == ["1.csv"]


def test_a_file_that_opens_wrongly_is_opened_again_as_it_is_written(browser, studio, place):
    (place / "places.csv").write_text("city, country, zip;visits;notes, free, long\nRome, IT, 1;3;a\nOslo, NO, 2;4;b\n")
    with shown(browser, studio) as page:
        page.select_option("#file", "places.csv")
        page.click("#written summary")
        page.select_option("#delimiter", ";")
        page.click("#open button")
        page.wait_for_selector(".column >> nth=2")
        assert page.locator(".column .name").all_inner_texts() == ["city, country, zip", "visits", "notes, free, long"]
        page.select_option("#file", "messy.csv")
        assert page.input_value("#delimiter") == ""
