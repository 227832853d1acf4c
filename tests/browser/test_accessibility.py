"""axe-core finds nothing to complain about, in light and dark, on the page and on the owner's page."""

import pytest

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the package axe-playwright-python")


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), pytest.param(1440, "light", marks=pytest.mark.slow), (1440, "dark")]
)
def test_no_violation(visit, folders, scheme, width):
    page = visit(folders["gaussian"] / "report.html", scheme=scheme, width=width).drawn().page
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    found = axe.Axe().run(page)
    assert found.response["passes"]
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found.response["violations"]] == []


def test_an_error_is_announced(visit, folders):
    page = visit(folders["gaussian"] / "report.html", scheme="dark").page
    page.fill("#expression", "avg(agee)")
    page.wait_for_selector("#expression[aria-invalid=true]")
    assert page.get_attribute("#expression-error", "role") == "alert"
    assert "age" in page.inner_text("#expression-error")
    assert axe.Axe().run(page).violations_count == 0
