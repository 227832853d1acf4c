import csv
import gzip
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from benchmarks.accuracy import paper as accuracy
from benchmarks.accuracy import paper_page as accuracy_page
from benchmarks.accuracy.baselines import BASELINES, PRIVATE_BASELINES
from benchmarks.accuracy.paper_summary import (
    MEASURES,
    OURS,
    PAPER,
    Facts,
    Line,
    arrange,
    at_budget,
    paper_ratios,
    peer_ratios,
)
from rich.progress import Progress

from smoothsynth.paper.printed import printed_table
from smoothsynth.paper.reproduction import available

SIGMAS = (2, 4, 6, 8, 10)
EXTRA = {f"abs_{s}": 0.5 for s in SIGMAS}
WDBC = Facts("wdbc", "WDBC", 569, 30, "mean_concave_points", 0.98)


@pytest.fixture
def folder(tmp_path):
    """A data folder with a small table under the name of a known one."""
    names = ["mean_radius", "mean_concave_points", "worst_area"]
    rows = np.random.default_rng(0).uniform(0.2, 0.6, (80, 3))
    with gzip.open(tmp_path / "wdbc.csv.gz", "wt", encoding="utf-8") as file:
        np.savetxt(file, rows, delimiter=",", header=",".join(names), comments="")
    bounds = "".join(f"{name},0,1\n" for name in names)
    (tmp_path / "wdbc.bounds.csv").write_text("name,lower,upper\n" + bounds, encoding="utf-8")
    return tmp_path


@pytest.fixture
def given(folder):
    data, output = f"--data={folder}", f"--output={folder / 'out'}"
    given = accuracy.parse(["--only=wdbc", "--epsilon=1", "--delta=0", "--rounds=2", "--queries=10", data, output])
    given.output.mkdir()
    return given


def run(given, folder):
    found, _ = available(folder, ("wdbc",))
    with Progress(disable=True) as progress:
        return accuracy.run(found, given, progress=progress)


def open_elements(page):
    """Return what is opened and not closed in its place."""
    stack, void = [], {"meta", "path", "rect", "circle"}

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            stack.extend([tag] if tag not in void else [])

        def handle_startendtag(self, tag, attrs):
            assert tag in void

        def handle_endtag(self, tag):
            assert stack.pop() == tag

    Reader().feed(page)
    return stack


def line(method, figures, *, epsilon=1.0, delta=0.0, status="ok"):
    return Line("wdbc", epsilon, delta, method, figures, figures, figures, 1.0, status)


def figures(value):
    return dict.fromkeys(MEASURES, value)


def test_every_method_is_run_once_a_round(given, folder):
    results = run(given, folder)
    assert len(results) == len({result.job for result in results}) == 2 * (1 + len(BASELINES) + len(PRIVATE_BASELINES))
    assert all(np.isfinite(list(result.figures.values())).all() for result in results)
    with (given.output / "results.csv").open(encoding="utf-8", newline="") as file:
        assert tuple(next(csv.reader(file))) == accuracy.COLUMNS


def test_a_run_goes_on_where_it_was_ended(given, folder, monkeypatch):
    first = run(given, folder)
    path = given.output / "results.csv"
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    carried, real = [], accuracy.carry_out
    monkeypatch.setattr(accuracy, "carry_out", lambda job, *rest: carried.append(job) or real(job, *rest))
    again = run(given, folder)
    assert carried == [first[-1].job]
    assert [result.job for result in again] == [result.job for result in first]
    assert path.read_bytes().count(b"\n") == whole.count(b"\n")


def test_other_queries_are_another_run(given, folder, monkeypatch):
    run(given, folder)
    given.queries, given.rounds = 11, 1
    monkeypatch.setattr(accuracy, "carry_out", lambda job, *_: accuracy.Result(job, figures(0.5) | EXTRA, 0.0))
    assert {result.figures["w1"] for result in run(given, folder)} == {0.5}


def test_the_same_round_scores_baselines_the_same(given, folder):
    given.rounds = 1
    first = {result.job: result.figures for result in run(given, folder) if result.job.method != OURS}
    (given.output / "results.csv").unlink()
    assert first == {result.job: result.figures for result in run(given, folder) if result.job.method != OURS}


def test_quick_is_small_and_never_resumes():
    given = accuracy.parse(["--quick"])
    assert (given.rounds, given.queries, given.epsilon, given.delta) == (2, 1000, [1.0], [0.0, 1e-10])
    assert given.only == ["wdbc", "ctg", "pks", "crm"]
    assert given.fresh


def test_the_whole_grid_is_the_default():
    given = accuracy.parse([])
    assert (given.epsilon, given.delta, given.rounds) == ([0.5, 1.0, 4.0], [0.0, 1e-10, 1e-6], 5)
    assert len(given.only) == 6


def test_peers_are_read_where_data_and_budget_are_target_for(given, tmp_path):
    path = tmp_path / "peers.csv"
    path.write_text(
        "data,epsilon,delta,method,round,rel_2,w1,status\n"
        "wdbc,1.0,0.0,MST,0,0.3,0.2,ok\nwdbc,1.0,0.0,AIM,0,,,stopped after 600 s\n"
        "wdbc,2.0,0.0,MST,0,0.1,0.1,ok\nwdbc,1.0,1e-10,GEM,0,0.1,0.1,ok\nctg,1.0,0.0,MST,0,0.1,0.1,ok\n",
        encoding="utf-8",
    )
    lines = {found.method: found for found in arrange(accuracy.peers(path, given, ["wdbc"]))}
    assert set(lines) == {"MST", "AIM"}
    assert lines["MST"].mean["rel_2"] == 0.3
    assert np.isnan(lines["MST"].mean["corr"])
    assert lines["AIM"].status == "stopped after 600 s"
    assert not lines["AIM"].contends


def test_rounds_are_taken_together():
    jobs = [accuracy.Job("wdbc", 1.0, 0.0, OURS, number, 10) for number in range(2)]
    found = arrange([accuracy.Result(jobs[0], figures(0.1), 1.0), accuracy.Result(jobs[1], figures(0.3), 2.0)])
    assert len(found) == 1
    assert found[0].mean["w1"] == pytest.approx(0.2)
    assert (found[0].least["w1"], found[0].largest["w1"], found[0].seconds) == (0.1, 0.3, 1.5)


def test_ratios_to_the_paper():
    printed = printed_table("ellipsoid", delta=0.0).results["WDBC"].relative
    near = figures(1.0) | {f"rel_{s}": 0.1 * printed[s] for s in SIGMAS}
    summary = paper_ratios([line(OURS, near)], [WDBC])
    assert summary.lines == (("WDBC", "0", *["0.100"] * 5),)
    assert summary.verdict.startswith("5 of 5 cells within 0.5; geometric mean 0.100")
    far = paper_ratios([line(OURS, near | {"rel_2": 0.9 * printed[2]})], [WDBC])
    assert far.lines[0][2] == "0.900 *"
    assert far.verdict.startswith("4 of 5")


def test_no_ratio_where_the_rows_are_not_the_papers():
    pam = Facts("pam", "PAM", 5934, 40, None, 0.0)
    ours = Line("pam", 1.0, 0.0, OURS, figures(0.1), figures(0.1), figures(0.1), 1.0, "ok")
    assert paper_ratios([ours], [pam]).lines == ()
    assert paper_ratios([line(OURS, figures(0.1), epsilon=4.0)], [WDBC]).lines == ()


@pytest.mark.parametrize(
    ("epsilon", "delta", "printed"), [(1, 0, True), (1, 1e-10, True), (4, 0, False), (1, 1e-6, False)]
)
def test_the_paper_stands_only_at_its_own_budgets(epsilon, delta, printed):
    methods = [found.method for found in at_budget([], WDBC, epsilon=epsilon, delta=delta)]
    assert methods == ([PAPER] if printed else [])


def test_ratios_to_the_best_of_the_others():
    lines = [
        line(OURS, figures(0.12)),
        line("MST", figures(0.2)),
        line("AIM", figures(0.3)),
        line("GEM", {}, status="failed"),
        line("at another budget", figures(0.01), epsilon=4.0),
        line("bootstrap (not private)", figures(0.01), epsilon=None, delta=None),
    ]
    cells = peer_ratios(lines, [WDBC]).lines[0]
    assert cells[1] == "1, 0"
    assert cells[2] == "0.600 * = 0.1200 / 0.2000 (MST)"
    assert cells[4] == "0.600 = 0.1200 / 0.2000 (MST)"
    assert cells[5].endswith("no target")


def test_the_bar_stands_beside_the_others_at_its_budget():
    rows = peer_ratios([line(OURS, figures(0.118), delta=1e-10)], [WDBC]).lines
    assert rows[1][1:3] == ("1, 1e-10, bar", "0.500 = 0.1180 / 0.2360 (bar)")


def test_an_axis_puts_figures_in_order_and_in_sight():
    axis = accuracy_page.Axis([0.003, 0.0, float("nan"), 2.0])
    places = [axis.place(value) for value in (0.003, 0.05, 2.0)]
    assert accuracy_page.LEFT <= places[0] < places[1] < places[2] <= accuracy_page.WIDTH
    assert axis.ticks() == pytest.approx([0.01, 0.1, 1.0])
    assert accuracy_page.Axis([0.11, 0.19]).ticks() == pytest.approx([0.1, 0.2])


def test_the_command_prints_and_writes_a_page(folder, monkeypatch, capsys):
    output = folder / "out"
    arguments = ["--data", str(folder), "--only", "wdbc", "ctg", "--rounds", "1", "--queries", "10"]
    monkeypatch.setattr("sys.argv", ["accuracy", *arguments, "--epsilon", "1", "4", "--output", str(output)])
    monkeypatch.setattr(accuracy, "PEERS", folder / "none.csv")
    accuracy.main()
    shown = capsys.readouterr().out
    assert "skipped: ctg is not in" in shown
    assert "epsilon = 4, delta = 1e-06" in shown
    page = (output / "accuracy.html").read_text(encoding="utf-8")
    assert "{{" not in page
    assert open_elements(page) == []
    assert not re.search(r"<script|https?://|src=", page)
    plots = re.findall(r"<figure>.*?</figure>", page)
    assert len(plots) == 3 * len(MEASURES)
    for plot in plots:
        assert plot.count("<g ") >= 2 + len(PRIVATE_BASELINES)
    for method in (OURS, *BASELINES, *PRIVATE_BASELINES):
        assert method in page
