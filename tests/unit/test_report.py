import base64
import hashlib
import json
import re
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth import report
from smoothsynth.answer.estimate import Estimate
from smoothsynth.cli.main import app
from smoothsynth.model.contradictions import Contradiction
from smoothsynth.private.owner import compare
from smoothsynth.report.browser_data import embed
from smoothsynth.report.columns import drawn, shapes
from smoothsynth.report.contents import contents, file_hashes, spending
from smoothsynth.report.limits import correlations
from smoothsynth.report.page import render
from smoothsynth.report.questions import Question, on_points, score


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    age = rng.normal(50, 15, 3000)
    return pa.table({"age": age, "income": rng.lognormal(9.5 + age / 40, 0.4), "visits": rng.poisson(3, 3000)})


SCHEMA = ss.Schema({"age": ss.Number(0, 120), "income": ss.Number(0, 1e6), "visits": ss.Integer(0, 20)})


@pytest.fixture(scope="module")
def pure(rows):
    return ss.release(rows, schema=SCHEMA, epsilon=1.0, seed=7)


@pytest.fixture(scope="module")
def gaussian(rows):
    return ss.release(rows, schema=SCHEMA, epsilon=4.0, delta=1e-6, seed=7)


@pytest.fixture(scope="module")
def folder(gaussian, tmp_path_factory):
    return gaussian.write(tmp_path_factory.mktemp("release") / "out")


def test_a_release_folder_has_its_page_and_the_receipt_its_hash(folder):
    receipt = json.loads((folder / "receipt.json").read_text())
    page = (folder / "report.html").read_bytes()
    assert receipt["sha256"]["report.html"] == hashlib.sha256(page).hexdigest()
    assert len(page) < 3_000_000
    ss.load(folder)
    (folder / "report.html").write_bytes(page + b" ")
    with pytest.raises(ss.ReleaseError, match=r"report\.html' is not the file"):
        ss.load(folder)
    (folder / "report.html").write_bytes(page)


def test_the_page_can_be_drawn_again_to_the_byte(folder, tmp_path):
    assert run("report", folder, "-o", tmp_path / "again.html").exit_code == 0
    assert (tmp_path / "again.html").read_bytes() == (folder / "report.html").read_bytes()


def test_the_policy_names_exactly_the_script_and_the_style(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; ")
    for tag, kind in (("script", "script-src"), ("style", "style-src")):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"(src|href)=[\"'](?!#|data:,)", page)
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg|http-equiv", "", page)


def test_the_page_says_what_was_promised_and_spent(folder, gaussian):
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert gaussian.receipt.promise() in text
    for name, digest in file_hashes(folder).items():
        assert name in text
        assert digest in text
    for charge in gaussian.receipt.charges:
        assert charge.purpose in text.replace("&#x27;", "'")


def test_shares_add_up(pure, gaussian):
    for release in (pure, gaussian):
        shares = [s.share for s in spending(release)]
        assert sum(shares) == pytest.approx(1.0)
        assert len(shares) == len(release.receipt.charges)
    epsilons = [c.epsilon for c in pure.receipt.charges]
    assert [s.share for s in spending(pure)] == pytest.approx([e / sum(epsilons) for e in epsilons])


def test_pairs_that_were_not_measured_are_not_visible(rows):
    means = ss.release(
        rows, schema=SCHEMA, epsilon=1.0, seed=7, method=ss.methods.Paper(candidates="hypercube", features=3)
    )
    found = correlations(means, SCHEMA.names)
    off = ~np.eye(3, dtype=bool)
    assert not found.measured[off].any()
    assert not found.visible[off].any()
    said = {limit.title: limit.text for limit in contents(means, {}).limits}
    assert said["How columns go together"].startswith("None of the 3 pairs")


def test_the_limits_of_soft_counts_are_said(rows):
    counted = ss.release(rows, schema=SCHEMA, epsilon=60.0, seed=7)
    (stage,) = [m for m in counted.moments if m.measurement.family.name == "rank histogram"]
    said = {limit.title: limit.text for limit in contents(counted, {}).limits}
    assert (
        f"{stage.measurement.family.cells} hat functions of ranks were measured"
        in said["Spikes, gaps and round numbers"]
    )
    # A row moves one count by 1, where it moves a mean by 2.
    least = max(2, round(min(1.96 * stage.deviations.min(), 0.98 * counted.moments[0].deviations.min()) * 3000))
    assert f"fewer than about {least:,} of" in said["Small groups"]
    assert [("a count is a share of the rows" in one.noise) for one in spending(counted)].count(True) == sum(
        m.measurement.family.shares for m in counted.moments
    )


@pytest.mark.slow
def test_the_noise_of_a_correlation_is_that_of_many_releases(rows):
    """The deviation over releases is what is stated; twice or half of it would fail."""
    rows = rows.slice(0, 600)
    made = [ss.release(rows, schema=SCHEMA, epsilon=8.0, delta=1e-6, seed=1) for _ in range(40)]
    values, noise = [], []
    for release in made:
        scores = next(m for m in release.moments if "products" in m.measurement.purpose)
        r = next(k for k, f in enumerate(scores.features) if f.terms == (((0, 1), (1, 1)),))
        seen = scores.measurement.transformation.of(release.unit_rows()).std(axis=0)
        values.append((scores.values[r] - scores.of(scores_rows(rows))[r]) / (seen[0] * seen[1]))
        noise.append(correlations(release, SCHEMA.names).noise[0, 1])
    assert np.std(values) == pytest.approx(np.mean(noise), rel=0.4)


def scores_rows(rows):
    return SCHEMA.to_unit({name: rows[name].to_numpy().astype(float) for name in SCHEMA.names})


def test_a_strong_correlation_is_visible_and_first(gaussian):
    found = correlations(gaussian, SCHEMA.names)
    assert found.visible[0, 1]
    assert found.strongest(1) == [(0, 1)]
    np.testing.assert_allclose(found.values, np.corrcoef(gaussian.unit_rows().T), atol=1e-12)


def test_rows_are_embedded_to_the_bit_when_they_fit(gaussian):
    held = embed(gaussian, SCHEMA.names, most_bytes=10**6)
    assert held.whole
    columns = np.frombuffer(held.data, "<f8").reshape(3, -1)
    for name, values in zip(SCHEMA.names, columns, strict=True):
        np.testing.assert_array_equal(values, gaussian.table[name].to_numpy())


def test_larger_tables_are_rounded_and_then_thinned(gaussian):
    rounded = embed(gaussian, SCHEMA.names, most_bytes=3000 * 3 * 2)
    assert (rounded.encoding, len(rounded.chosen), rounded.whole) == ("uint16", 3000, False)
    unit = np.frombuffer(rounded.data, "<u2").reshape(3, -1) / 65535 * 2 - 1
    np.testing.assert_allclose(unit.T, gaussian.unit_rows(), atol=1.6e-5)
    visits = SCHEMA.columns["visits"].from_unit(unit[2])
    np.testing.assert_array_equal(visits, gaussian.table["visits"].to_numpy())
    thinned = embed(gaussian, SCHEMA.names, most_bytes=100 * 3 * 2)
    assert len(thinned.chosen) == 100
    assert len(thinned.data) == 100 * 3 * 2
    assert np.all(np.diff(thinned.chosen) == 30)


def test_bins_of_whole_numbers_hold_equally_many(gaussian):
    visits = shapes(gaussian, 3)[2]
    values = gaussian.table["visits"].to_numpy()
    assert 8 <= len(visits.counts) <= 21
    np.testing.assert_array_equal(visits.counts, np.bincount(values, minlength=21)[: len(visits.counts)])


def test_nothing_of_the_page_needs_private_rows():
    for path in Path(report.__file__).parent.glob("*.py"):
        assert not re.search(r"import.*\bprivate\b|from smoothsynth\.private", path.read_text()), path


def test_names_are_escaped(tmp_path):
    name = "</script><b onclick='x'>&amp;\"{{data}}"
    rows = pa.table({name: np.linspace(0, 1, 50), "b": np.linspace(0, 1, 50)})
    schema = ss.Schema({name: ss.Number(0, 1), "b": ss.Number(0, 1)})
    release = ss.release(rows, schema=schema, epsilon=1.0, seed=1)
    page = render(contents(release, {}))
    assert "<b onclick" not in page
    assert page.count("</script>") == 2
    data = json.loads(re.search(r'id="release-data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["columns"][0]["name"] == name


@pytest.mark.parametrize(
    ("columns", "count"),
    [(120, 600), *(pytest.param(*size, marks=pytest.mark.slow) for size in ((100, 4000), (3, 150_000)))],
)
def test_large_tables_stay_below_three_megabytes(columns, count):
    rng = np.random.default_rng(2)
    names = [f"column_{k}" for k in range(columns)]
    rows = pa.table({name: rng.uniform(size=count) for name in names})
    schema = ss.Schema({name: ss.Number(0, 1) for name in names})
    release = ss.release(rows, schema=schema, epsilon=1.0, delta=1e-6, seed=1)
    page = render(contents(release, {}))
    assert 1_000_000 < len(page.encode()) < 3_000_000
    assert ("100 of 120 columns are shown." in page) == (columns == 120)


def test_the_owners_page_is_kept_apart(folder, rows, tmp_path):
    pa.csv = __import__("pyarrow.csv").csv
    private = tmp_path / "rows.csv"
    pa.csv.write_csv(rows, private)
    refused = run("report", folder, "--with-private", private, "-o", folder / "owner.html")
    assert refused.exit_code == 1
    assert "inside a release folder" in refused.stderr
    assert not (folder / "owner.html").exists()
    inner = tmp_path / "other"
    assert run("report", folder, "--with-private", private, "-o", inner / "owner.html").exit_code == 1
    shown = run("report", folder, "--with-private", private, "-o", tmp_path / "owner.html")
    assert shown.exit_code == 0, shown.output
    owner = tmp_path / "owner.html"
    assert stat.S_IMODE(owner.stat().st_mode) == 0o600
    text = owner.read_text(encoding="utf-8")
    assert text.count("NOT FOR RELEASE") >= 3
    assert "<title>NOT FOR RELEASE" in text
    assert text.count('class="number real" data-label="unreadable"') == 3
    data = json.loads(re.search(r'id="release-data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["private"]["correlations"][0] == pytest.approx(np.corrcoef(scores_rows(rows).T)[0, 1])
    assert "NOT FOR RELEASE" not in (folder / "report.html").read_text(encoding="utf-8")
    again = run("report", folder, "--with-private", private, "-o", owner)
    assert "exists already" in again.stderr
    assert run("report", folder, "-o", owner, "--force").exit_code == 0
    assert "NOT FOR RELEASE" not in owner.read_text(encoding="utf-8")


def test_the_owner_must_name_the_table_of_the_release(folder, rows, tmp_path):
    pa.parquet = __import__("pyarrow.parquet").parquet
    pa.parquet.write_table(rows.slice(0, 2999), tmp_path / "rows.parquet")
    shown = run("report", folder, "--with-private", tmp_path / "rows.parquet", "-o", tmp_path / "owner.html")
    assert shown.exit_code == 1
    assert "made from 3,000 rows; this table has 2,999" in shown.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "rows.parquet"]


def test_a_page_is_not_put_over_a_folder_or_a_file(folder, tmp_path):
    assert "is a folder" in run("report", folder, "-o", tmp_path).stderr
    assert run("report", folder, "-o", tmp_path / "missing" / "page.html").exit_code == 1
    assert run("report", tmp_path, "-o", tmp_path / "page.html").exit_code == 1


def test_a_constant_correlates_with_nothing():
    """A warning had ended the owner's report where no two cells of a column differ."""
    schema = ss.Schema({"x": ss.Number(-1, 1), "y": ss.Number(-1, 1)})
    told = Estimate(0.0, 0.0, 0.0, 0.95, 0.0, 0.0, 0.0, 0.0, "estimated")
    question = Question("corr", "corr(x, y)", told, (-1.0, 1.0))
    rows = np.column_stack([np.linspace(-1, 1, 5), np.full(5, 0.5)])
    assert on_points(question, schema)(rows) == 0.0


def test_columns_of_every_kind(tmp_path):
    import datetime

    rng = np.random.default_rng(4)
    schema = ss.Schema(
        {
            "sex": ss.Category(["female", "male", "</script>"]),
            "income": ss.Number(10, 1e6, transform="log"),
            "smoker": ss.Boolean(),
            "admitted": ss.Date("2020-01-01", "2021-12-31"),
            "weight": ss.Number(30, 200, nullable=True),
            "stage": ss.Integer(1, 4, nullable=True),
        }
    )
    rows = pa.table(
        {
            "sex": rng.choice(["female", "male"], 900),
            "income": rng.lognormal(10, 1, 900),
            "smoker": rng.random(900) < 0.3,
            "admitted": [datetime.date(2020, 1, 1) + datetime.timedelta(int(k)) for k in rng.integers(0, 700, 900)],
            "weight": [None if k % 9 == 0 else 70.0 for k in range(900)],
            "stage": rng.integers(1, 5, 900),
        }
    )
    release = ss.release(rows, schema=schema, epsilon=4.0, delta=1e-6, seed=1)
    said = contents(release, {})
    assert [shape.name for shape in said.shapes] == ["income", "smoker", "admitted"]
    seen = {column.name: column for column in said.drawn}
    assert list(seen) == list(schema.names)
    assert sum(one.value for one in seen["sex"].shares.values()) == pytest.approx(1.0)
    assert all(one.half_width > 0 for one in seen["sex"].shares.values())
    assert seen["admitted"].mean.scale == "date"
    assert seen["weight"].missing.value == pytest.approx(1 / 9, abs=0.05)
    assert said.correlations.values.shape == (6, 6)
    asked = " ".join(question.expression for question in said.questions)
    for words in (
        "avg(sex = '",
        "avg(smoker",
        "weight is null",
        "admitted < '202",
        "where sex = '",
        "median(income)",
    ):
        assert words in asked
    stored = {question.expression: question.answer for question in said.stored}
    assert stored["avg(weight)"].value == pytest.approx(70.0, abs=2.0)
    assert stored["avg(income where sex = 'male')"] == release.answer("avg(income where sex = 'male')")
    page = release.write(tmp_path / "out") / "report.html"
    text = page.read_text(encoding="utf-8").split('<script type="application/json"')[0]
    # Every chart stands in the page before any script runs.
    assert text.count("<figure>") == text.count("<figcaption>") == 6
    assert text.count("<svg") == 6 + len(said.questions) + 3 + 3
    assert "<canvas" not in text
    from pyarrow import parquet

    parquet.write_table(rows, tmp_path / "rows.parquet")
    shown = run("report", tmp_path / "out", "--with-private", tmp_path / "rows.parquet", "-o", tmp_path / "owner.html")
    assert shown.exit_code == 0, shown.stderr
    text = (tmp_path / "owner.html").read_text(encoding="utf-8")
    assert "Private rows: 11.1 % missing." in text
    assert "Private rows: 0 % missing." in text
    # Three levels and two truth values have a line each, and every column of numbers or days a curve.
    assert text.count('class="real-line"') >= 3 + 2 + 2
    found = compare(
        rows,
        schema,
        rows=900,
        kernels=[],
        questions=[],
        correlation=lambda points: np.eye(1),
        levels=[("sex", ("male", "female")), ("smoker", ("true", "false"))],
    )
    females, smokers = rows["sex"].to_pylist().count("female") / 900, np.mean(rows["smoker"].to_pylist())
    np.testing.assert_allclose(found.shares[0], [1.0 - females, females])
    np.testing.assert_allclose(found.shares[1], [smokers, 1.0 - smokers])
    assert found.missing == {"weight": pytest.approx(1 / 9), "stage": 0.0}
    assert "How the private cells were read" in text
    assert ">11.1 %<" in text
    assert "How the private cells" not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_an_axis_spans_the_rows_and_not_the_bounds():
    rng = np.random.default_rng(4)
    schema = ss.Schema({"bmi": ss.Number(0, 1000), "day": ss.Date("1900-01-01", "2100-01-01")})
    days = np.datetime64("2020-01-01") + rng.integers(0, 900, 900)
    rows = pa.table({"bmi": rng.normal(25, 4, 900), "day": days})
    bmi, day = contents(ss.release(rows, schema=schema, epsilon=20.0, delta=1e-6, seed=1), {}).drawn
    assert bmi.shape.ends[1] < 300.0
    assert day.shape.ends[1] - day.shape.ends[0] < 25_000


def test_the_score_counts_narrow_intervals(rows, gaussian):
    found = contents(gaussian, {})
    assert found.score.questions == 3 * 3 + 3
    text = f"<strong>{100 * found.score.narrow / 12:.0f} %</strong> of 12 smooth questions"
    assert text in render(found)
    scarce = ss.release(rows.slice(0, 300), schema=SCHEMA, epsilon=0.01, seed=7)
    assert score(scarce, drawn(scarce, 3)).narrow < found.score.narrow <= 12


def test_columns_that_are_always_missing_are_drawn():
    schema = ss.Schema(
        {
            "age": ss.Number(0, 9, nullable=True),
            "sex": ss.Category(["f", "m"], nullable=True),
            "day": ss.Date("2020-01-01", "2020-12-31", nullable=True),
        }
    )
    rows = pa.table(
        {"age": pa.nulls(400, pa.float64()), "sex": pa.nulls(400, pa.string()), "day": pa.nulls(400, pa.date32())}
    )
    page = render(contents(ss.release(rows, schema=schema, epsilon=100.0, delta=1e-6, seed=1), {}))
    assert page.count("<figcaption>") == 3


def test_without_a_column_of_numbers_there_is_still_a_page():
    schema = ss.Schema({"sex": ss.Category(["female", "male"]), "site": ss.Category(["a", "b", "c"])})
    rows = pa.table({"sex": ["female", "male"] * 100, "site": ["a", "b", "c", "a"] * 50})
    page = render(contents(ss.release(rows, schema=schema, epsilon=2.0, seed=1), {}))
    assert '<section id="ask" aria-labelledby="ask-title">' in page
    assert "avg(site = &#x27;a&#x27;)" in page


def test_a_release_is_not_lost_for_its_page(pure, tmp_path, monkeypatch):
    def fails(*_):
        raise ArithmeticError("no such colour")

    monkeypatch.setattr("smoothsynth.report.page.render", fails)
    with pytest.warns(RuntimeWarning, match="could not be drawn: no such colour"):
        pure.write(tmp_path / "out")
    assert "report.html" not in {path.name for path in (tmp_path / "out").iterdir()}
    assert ss.load(tmp_path / "out").receipt == pure.receipt


def test_names_are_written_as_the_language_reads_them():
    from smoothsynth.answer.language import Column, parse
    from smoothsynth.report.questions import quoted

    for name in ("age", "case", "And", 'odd "name"', "dose (mg)", "1st", "é", "avg"):
        assert parse(quoted(name)) == Column(name)


def test_days_at_the_ends_of_the_calendar_are_drawn():
    """The interval of a mean may lie beyond the last day that there is; the usual "for ever" is 9999-12-31."""
    days, seconds = ("0001-01-01", "9999-12-31"), ("2020-01-01T00:00:00", "2020-01-01T00:00:59")
    schema = ss.Schema({"until": ss.Date(*days), "at": ss.Datetime(*seconds)})
    cells = {"until": ["9999-12-31"] * 60, "at": [f"2020-01-01T00:00:{i % 60:02d}" for i in range(60)]}
    release = ss.release(pa.table(cells), schema=schema, epsilon=1.0, seed=1)
    until = release.answer("avg(until)")
    assert until.high > 2932896.0
    assert "high=9999-12-31" in repr(until)
    page = render(contents(release, {}))
    assert "and 9999-12-31" in page or "to 9999-12-31" in page
    # Within one day the ticks of an axis are times.
    assert re.search(r">00:00:\d\d</text>", page)


def test_warnings_of_a_narrow_page_have_their_labels(gaussian):
    found = Contradiction(("age", "visits"), "cell of a table", released=0.2, noise=0.01, found=0.1, far=9.0)
    page = render(replace(contents(gaussian, {}), contradictions=(found,)))
    assert {"What", "Released", "In the rows"} <= set(re.findall(r'data-label="([^"]*)"', page))


def test_the_page_names_only_functions_that_its_script_knows(gaussian):
    listed = re.search(r"<p>Numbers, (.*?)</p>", render(contents(gaussian, {})))[1].partition(";")[2].partition(";")[0]
    assert "greatest" in listed
    assert not {"corr", "correlation", "median", "quantile"} & set(listed.replace(",", "").split())


def test_bounds_that_were_found_are_a_limit(rows):
    schema = ss.Schema({"income": ss.Number(0, "private"), "age": ss.Number(0, 120)})
    release = ss.release(rows, schema=schema, epsilon=4.0, seed=1)
    (said,) = [one.text for one in contents(release, {}).limits if one.title == "Values beyond bounds that were found"]
    assert "the bounds of income: noisy counts" in said
    known = ss.release(rows, schema=SCHEMA, epsilon=4.0, seed=1)
    assert "Nobody named" not in render(contents(known, {}))
