import re

import pytest

import smoothsynth as ss
from smoothsynth.report import browser_data as embedding
from smoothsynth.report import contents

KINDS = ["pure", "gaussian"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_opens_offline_and_draws_everything(visit, folders, kind):
    page = visit(folders[kind] / "report.html").drawn().page
    assert page.title() == "A synthetic table of 1,500 rows and 4 columns"
    assert page.locator("#shapes svg").count() == 4
    assert page.locator("#curve svg path").count() == 2
    assert page.locator(".bar-cell svg").count() == page.locator("#questions tbody tr").count() >= 6
    assert page.locator("#scatter .dots").bounding_box()["width"] > 200
    assert page.locator("#matrix path").count() >= 2


def test_the_content_security_policy_lets_nothing_else_run(visit, folders):
    opened = visit(folders["pure"] / "report.html")
    opened.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s); }"
    )
    assert opened.page.evaluate("window.ran") is None
    assert any("Content Security Policy" in text for text in opened.problems)
    opened.problems.clear()


def test_sliders_change_the_answer_and_the_expression(visit, folders):
    opened = visit(folders["gaussian"] / "report.html")
    page, settled = (
        opened.page,
        "() => document.getElementById('asked').textContent === document.getElementById('expression').value",
    )
    opened.until(settled)
    before, expression = opened.answer(), page.input_value("#expression")
    page.focus("#centre-0")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    opened.until(settled)
    moved = opened.answer()
    assert page.input_value("#expression") != expression
    assert moved != before
    page.focus("#width-0")
    page.keyboard.press("End")
    opened.until(settled)
    wide = opened.answer()
    assert wide[0] > moved[0]
    page.select_option("#column-1", label="visits")
    assert page.is_visible("#centre-1")
    opened.until(settled)
    assert "visits" in page.inner_text("#asked")
    assert opened.answer()[0] < wide[0]


def test_the_curve_goes_through_the_answer(visit, folders):
    page = visit(folders["gaussian"] / "report.html").page
    page.wait_for_selector("#curve circle")
    place = page.evaluate(
        """() => {
        const dot = document.querySelector('#curve circle'), line = document.querySelector('#curve .line');
        const points = line.getAttribute('d').slice(1).split('L').map(p => p.split(' ').map(Number));
        const x = Number(dot.getAttribute('cx')), k = points.findIndex(p => p[0] >= x);
        const [a, b] = [points[k - 1], points[k]];
        return [Number(dot.getAttribute('cy')), a[1] + (x - a[0]) / (b[0] - a[0]) * (b[1] - a[1])];
    }"""
    )
    assert place[0] == pytest.approx(place[1], abs=1.0)


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), (390, "dark"), (768, "light"), (1440, "light"), (1920, "dark")]
)
def test_nothing_overflows(visit, folders, width, scheme):
    page = visit(folders["gaussian"] / "report.html", width=width, scheme=scheme).drawn().page
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    beyond = page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, pre') && !e.closest('svg'))
        .filter(e => e.getBoundingClientRect().right > window.innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
    )
    assert beyond == []


def test_light_and_dark_differ_and_the_button_overrides(visit, folders):
    page = visit(folders["pure"] / "report.html", scheme="dark").page
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.click("#theme")
    light = page.evaluate(ground)
    assert dark != light
    page.click("#theme")
    assert page.evaluate(ground) == dark
    assert page.inner_text("#theme") == "Theme: dark"


def test_everything_is_reached_by_keyboard(visit, folders):
    page = visit(folders["gaussian"] / "report.html").page
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
            )
        )
    assert reached[0] == "skip"
    assert {"theme", "column-0", "centre-0", "width-0", "expression", "pair-x", "pair-y"} <= set(reached)
    page.focus("#centre-0")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_pairs_can_be_chosen(visit, folders):
    page = visit(folders["gaussian"] / "report.html").page
    before = page.inner_text("#pair-caption")
    page.select_option("#pair-x", label="visits")
    page.select_option("#pair-y", label="dose (mg)")
    after = page.inner_text("#pair-caption")
    assert after != before
    assert "visits and dose (mg): correlation" in after
    page.locator("[data-pair]").first.click()
    assert "age and income" in page.inner_text("#pair-caption")
    page.locator("#matrix").scroll_into_view_if_needed()
    box = page.locator("#matrix").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + 4)
    assert page.inner_text("#matrix-caption").startswith("dose (mg) and age: correlation")


def test_without_scripts_the_text_is_complete(visit, folders):
    page = visit(folders["pure"] / "report.html", java_script_enabled=False).page
    text = page.inner_text("main")
    for words in ("Scripts are switched off", "differentially private", "What this release cannot tell you", "SHA-256"):
        assert words in text
    assert page.locator("#questions tbody tr").count() >= 6
    assert page.locator("#shapes svg").count() == 4
    assert (
        page.locator("#scatter svg").count()
        == page.locator("#matrix").count()
        == page.locator("#shares svg").count()
        == 1
    )


def test_it_prints(visit, folders):
    page = visit(folders["gaussian"] / "report.html", scheme="dark").page
    document = page.pdf(format="A4")
    assert document.startswith(b"%PDF")
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", document)) <= 14
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(
        "[...document.querySelectorAll('.controls, .contents')].every(e => getComputedStyle(e).display === 'none')"
    )


def test_reduced_motion_is_respected(visit, folders):
    page = visit(folders["pure"] / "report.html", reduced_motion="reduce").page
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "<script>window.ran = 1</script>",
    "'\"><svg onload=window.ran=1>",
    "{{script}} ${window.ran = 1} \\u003c &lt; --> ]]>",
    "\u202eright to left\u2028\n\t\x00",
)


def test_hostile_column_names_are_text(visit, tmp_path):
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(1)
    schema = ss.Schema({name: ss.Number(-1e6, 1e6) for name in HOSTILE})
    rows = pa.table({name: rng.normal(0, 3e5, 800) for name in HOSTILE})
    ss.release(rows, schema=schema, epsilon=4.0, delta=1e-6, seed=1).write(tmp_path / "out")
    opened = visit(tmp_path / "out" / "report.html").drawn()
    page = opened.page
    assert page.evaluate("window.ran") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert page.evaluate("[...document.querySelectorAll('#shapes h3')].map(h => h.textContent)") == [
        name.replace("\x00", "") for name in HOSTILE
    ]
    page.select_option("#column-1", index=2)
    opened.until("() => document.getElementById('asked').textContent.includes('window.ran')")
    assert page.evaluate("window.ran") is None
    assert page.inner_text("#expression-error") == ""


@pytest.mark.parametrize("columns", [1, 2])
def test_the_smallest_tables(visit, tmp_path, columns):
    import numpy as np
    import pyarrow as pa

    names = ["huge", "whole"][:columns]
    schema = ss.Schema({"huge": ss.Number(-1.7e308, 1.7e308), "whole": ss.Integer(0, 1)})
    schema = ss.Schema({name: schema.columns[name] for name in names})
    rows = pa.table({"huge": np.linspace(-1, 1, 40) * 1e308, "whole": [0, 1] * 20})
    ss.release(rows.select(names), schema=schema, epsilon=1.0, seed=1).write(tmp_path / "out")
    page = visit(tmp_path / "out" / "report.html").drawn().page
    assert page.locator("#shapes svg").count() == columns


def test_a_table_too_large_for_the_page_says_so(visit, folders, tmp_path, monkeypatch):
    release = ss.load(folders["gaussian"])
    monkeypatch.setattr(
        contents, "embed", lambda made, names, **_: embedding.embed(made, names, most_bytes=2 * 4 * 500)
    )
    release.write(tmp_path / "out")
    opened = visit(tmp_path / "out" / "report.html").drawn()
    assert "500 of its 1,500 rows" in opened.page.inner_text("#ask")
    value, low, high = opened.ask("avg(age)")
    exact = release.answer("avg(age)")
    assert value != exact.value
    assert low <= exact.high
    assert exact.low <= high
    assert high - low > exact.high - exact.low
    assert "from 500 of 1,500 synthetic rows" in opened.page.inner_text("#answer-note")
    assert "ss.load" in opened.page.text_content("#command")
