"""The owner's page compares with the private rows, and says on every screen that it is not for release."""

import stat

import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app


@pytest.fixture(scope="module")
def owners(folders, people, tmp_path_factory):
    place = tmp_path_factory.mktemp("owner")
    people.to_csv(place / "people.csv", index=False)
    arguments = ["report", folders["gaussian"], "--with-private", place / "people.csv", "-o", place / "owner.html"]
    shown = CliRunner().invoke(app, [str(a) for a in arguments])
    assert shown.exit_code == 0, shown.output
    assert "NOT FOR RELEASE" in shown.output
    return place / "owner.html"


def test_the_file_is_for_its_owner_only(owners):
    assert stat.S_IMODE(owners.stat().st_mode) == 0o600


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark")])
def test_every_screen_says_so(visit, owners, width, scheme):
    page = visit(owners, width=width, scheme=scheme).drawn().page
    assert page.title().startswith("NOT FOR RELEASE")
    for section in page.locator("main section").all():
        section.scroll_into_view_if_needed()
        assert page.evaluate(
            """() => { const b = document.querySelector('.banner').getBoundingClientRect();
            const seen = document.elementFromPoint(b.left + b.width / 2, b.top + b.height / 2);
            const wide = b.top === 0 && b.width === document.documentElement.clientWidth;
            return wide && seen.textContent.startsWith('NOT FOR RELEASE'); }"""
        )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('.banner')).position") == "fixed"


def test_it_compares(visit, owners, people):
    page = visit(owners).drawn().page
    assert page.locator("#shapes .real-line").count() == 4
    first = page.locator("#questions tbody tr").first
    assert float(first.locator("td.real").inner_text().replace(",", "")) == pytest.approx(
        people["age"].clip(0, 120).mean(), rel=0.02
    )
    assert (
        page.locator("#questions tbody tr").count()
        == page.get_by_text("inside", exact=True).count() + page.locator(".missed").count()
    )
    page.locator("[data-pair]").first.click()
    assert "Private rows: 0." in page.inner_text("#pair-caption")


def test_columns_of_every_type_are_compared(visit, tmp_path):
    import pandas as pd

    rows = pd.DataFrame(
        {"sex": ["f", "m", "m"] * 200, "day": ["2020-01-31", "2021-06-30", None] * 200, "ill": [True, False] * 300}
    )
    rows.to_csv(tmp_path / "rows.csv", index=False)
    day = ss.Date("2020-01-01", "2021-12-31", nullable=True)
    schema = {"sex": ss.Category(["f", "m"]), "day": day, "ill": ss.Boolean()}
    ss.release(tmp_path / "rows.csv", schema=schema, epsilon=5.0, seed=1).write(tmp_path / "out")
    arguments = ["report", tmp_path / "out", "--with-private", tmp_path / "rows.csv", "-o", tmp_path / "owner.html"]
    assert CliRunner().invoke(app, [str(a) for a in arguments]).exit_code == 0
    page = visit(tmp_path / "owner.html").drawn().page
    figures = {
        name: page.locator("#shapes figure").filter(has=page.get_by_role("heading", name=name)) for name in schema
    }
    assert {name: one.locator(".real-line").count() for name, one in figures.items()} == {"sex": 2, "day": 1, "ill": 2}
    assert "Private rows: 33.3 % missing" in figures["day"].inner_text()
    assert "How the private cells were read" in page.inner_text("#columns")


def test_it_is_accessible_too(visit, owners):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    page = visit(owners).drawn().page
    assert [v["id"] for v in axe.Axe().run(page).response["violations"]] == []
