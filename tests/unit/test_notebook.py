"""What a notebook shows of a release and of a plan: parsed as HTML, escaped, small, without scripts."""

from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.report.notebook import MOST_COLUMNS

VOID = {"br", "hr", "img", "input", "link", "meta"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


EVIL = "<script>alert('&')</script>\"' onload=x"


@pytest.fixture
def mixed():
    rng, n = np.random.default_rng(2), 300
    table = pa.table(
        {
            EVIL: rng.normal(0, 1, n),
            "sex": rng.choice(["<b>", "m"], n),
            "ok": rng.random(n) < 0.3,
            "day": (np.datetime64("2020-01-01") + rng.integers(0, 300, n)).astype("datetime64[D]"),
            "weight": pa.array(rng.normal(70, 9, n), mask=rng.random(n) < 0.5),
        }
    )
    schema = ss.Schema(
        {
            EVIL: ss.Number(-5, 5),
            "sex": ss.Category(["<b>", "m"]),
            "ok": ss.Boolean(),
            "day": ss.Date("2020-01-01", "2021-01-01"),
            "weight": ss.Number(0, 200, nullable=True),
        }
    )
    return ss.release(table, schema=schema, epsilon=3.0, delta=1e-6, seed=1)


def test_a_release(mixed):
    page = Page(mixed._repr_html_())
    assert "epsilon 3, delta 1e-06, protecting one row" in page.text
    assert f"epsilon {mixed.receipt.spent.epsilon:.6g}" in page.text
    assert "<script>alert('&')</script>" in page.text
    assert page.tags.count("svg") == page.tags.count("path") == 5
    assert "number 0 to 200, may be missing" in page.text


@pytest.mark.parametrize("shown", ["release", "plan"])
def test_it_is_inert(mixed, shown):
    plan = ss.plan(mixed.schema, 300, epsilon=1.0, delta=1e-6)
    page = Page(mixed._repr_html_() if shown == "release" else plan._repr_html_())
    assert set(page.tags) <= {"div", "table", "thead", "tbody", "tr", "th", "td", "span", "svg", "path", "rect"}
    names = {name for _, name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")} | (names & {"href", "src", "id", "class"})
    colours = {value for _, name, value in page.attributes if name in ("fill", "stroke", "color")}
    assert colours == {"currentColor"}


def test_the_bars_are_the_distribution(mixed):
    page = Page(mixed._repr_html_())
    paths = [value for tag, name, value in page.attributes if (tag, name) == ("path", "d")]
    heights = [float(step.split("v-")[1].split("h")[0]) for step in paths[1].split("M")[1:]]
    shares = [np.mean([cell == level for cell in mixed.table["sex"].to_pylist()]) for level in ("<b>", "m")]
    assert heights[0] / heights[1] == pytest.approx(shares[0] / shares[1], rel=0.02)


def test_a_plan(schema):
    plan = ss.plan(schema, 20_000, epsilon=1.0, delta=1e-6)
    page = Page(plan._repr_html_())
    assert "20,000 rows x 3 columns" in page.text
    assert "no data was read" in page.text
    noises = [float(np.max(m.deviations(plan.rows))) for m in plan.measurements]
    bars = [float(value) for tag, name, value in page.attributes if (tag, name) == ("rect", "width")]
    assert len(bars) == len(noises) > 1
    assert np.argmax(bars) == np.argmax(noises)
    expected = np.maximum(1.0, 144 * np.array(noises) / max(noises))
    assert np.allclose(bars, expected, atol=0.06)


def test_it_is_small_however_wide_the_table_is():
    names = [f"{'&' * 60}{i}" for i in range(120)]
    schema = ss.Schema({name: ss.Category([f"{'<' * 30}{k}" for k in range(30)]) for name in names[:40]})
    table = pa.table({name: ["<" * 30 + "1"] * 200 for name in names[:40]})
    text = ss.release(table, schema=schema, epsilon=1.0, seed=1)._repr_html_()
    assert len(text.encode()) < 60_000
    assert f"and {40 - MOST_COLUMNS} more" in Page(text).text
