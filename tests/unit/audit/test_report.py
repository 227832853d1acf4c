import json
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from smoothsynth.audit import run
from smoothsynth.audit.case import Finding
from smoothsynth.audit.run import as_terminal_table
from smoothsynth.cli.main import app

BELOW = Finding("noise", "0 / 1", "numbers", claimed=1.0, delta=0.0, reach=1.0, bound=0.9, trials=2_000)
ABOVE = replace(BELOW, mechanism="printed", bound=1.9, delta=1e-6)
GOOD = run.Report(ours=(BELOW,), printed=(ABOVE,), alpha=1e-6, seconds=1.0)
LEAKING = replace(GOOD, ours=(BELOW, replace(ABOVE, mechanism="ours")))
WEAK = replace(GOOD, printed=(ABOVE, replace(ABOVE, delta=1e-10, bound=0.5)))


def test_a_report_passes_if_ours_keep_their_claims_and_the_printed_ones_are_caught():
    assert GOOD.passed
    assert not LEAKING.passed
    assert [finding.mechanism for finding in LEAKING.exceeding] == ["ours"]
    assert not WEAK.passed
    assert WEAK.missed == ("printed",)
    # One look that catches is enough.
    assert replace(GOOD, printed=(ABOVE, replace(ABOVE, look="rows", bound=0.1))).passed


def test_the_table_has_a_line_for_each_case_and_a_column_for_each_look():
    findings = [BELOW, replace(BELOW, look="low bits", bound=0.25), ABOVE]
    console = Console(width=150, record=True)
    console.print(as_terminal_table(findings, title="Ours", verdicts=("below", "ABOVE")))
    lines = console.export_text().splitlines()
    assert sum("0 / 1" in line for line in lines) == 2
    assert any("0.90" in line and "0.25" in line and "below" in line and "2,000" in line for line in lines)
    assert any("1.90" in line and "ABOVE" in line for line in lines)


@pytest.mark.parametrize(("report", "code"), [(GOOD, 0), (LEAKING, 3), (WEAK, 3)])
def test_the_command_says_and_returns_what_was_found(monkeypatch, report, code):
    asked = []
    monkeypatch.setattr(run, "run", lambda **settings: asked.append(settings["trials"]) or report)
    shown = CliRunner().invoke(app, ["audit", "--quick"])
    assert shown.exit_code == code
    assert "caught" in shown.output
    assert ("was not caught" in shown.output) == (report is WEAK)
    as_json = CliRunner().invoke(app, ["audit", "--trials", "1234", "--json"])
    assert as_json.exit_code == code
    assert json.loads(as_json.stdout)["passed"] == (code == 0)
    assert asked == [run.QUICK_TRIALS, 1234]
