"""A method owns its options; keywords of `plan` and `release` that were options once still count, and warn."""

import inspect
import json
import re

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app
from smoothsynth.federated.coordinator import plan_of, read_study
from smoothsynth.methods.options import facts_of, from_facts

SCHEMA = ss.Schema({name: ss.Number(0, 1) for name in "abcdefgh"})
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
Adaptive, Paper = ss.methods.Adaptive, ss.methods.Paper

# The keyword as it was, and the method that replaces it.
OLD = {
    "focus": ({"focus": "marginals"}, Adaptive(focus="marginals")),
    "smoothness": ({"smoothness": 3}, Adaptive(smoothness=3)),
    "noise": ({"noise": "pure"}, Adaptive(noise="pure")),
    "chosen_pairs": ({"chosen_pairs": 3}, Adaptive(tables=3)),
    "candidates": ({"candidates": "hypercube"}, Adaptive(candidates="hypercube")),
    "candidate_count": ({"method": "auto", "candidate_count": 77}, Adaptive(candidate_count=77)),
    "fit": ({"fit": "linear program"}, Adaptive(fit="linear program")),
    "features": ({"method": "paper", "features": 12}, Paper(features=12)),
    "smoothness of the paper": ({"method": "paper", "smoothness": 3}, Paper(smoothness=3)),
    "candidates of the paper": ({"method": "paper", "candidates": "hypercube"}, Paper(candidates="hypercube")),
    "noise of the paper": ({"method": "paper", "noise": "pure"}, Paper(noise="pure")),
}


def test_a_plan_has_few_arguments():
    arguments = [p for p in inspect.signature(ss.plan).parameters.values() if p.kind is not p.VAR_KEYWORD]
    assert len(arguments) <= 10


@pytest.mark.parametrize("name", OLD)
def test_an_old_keyword_is_an_option_and_says_which(name):
    keywords, method = OLD[name]
    old = next(word for word in keywords if word != "method")
    option = {"chosen_pairs": "tables"}.get(old, old)
    words = f"{old}=... is now method=ss.methods.{type(method).__name__}({option}=...)"
    with pytest.warns(DeprecationWarning, match=f"^{re.escape(words)}$") as told:
        planned = ss.plan(SCHEMA, 1500, **BUDGET, **keywords)
    assert [one.filename for one in told] == [__file__]
    assert planned == ss.plan(SCHEMA, 1500, **BUDGET, method=method)
    assert planned.method == method
    assert planned.design != ss.plan(SCHEMA, 1500, **BUDGET, method=method.name).design


def test_a_release_takes_old_keywords_too():
    rows = pa.table({"x": np.linspace(0, 1, 50)})
    settings = {"schema": ss.Schema({"x": ss.Number(0, 1)}), "epsilon": 9.0, "seed": 1, "rows_per_person": 2}
    with pytest.warns(DeprecationWarning, match="candidates=... is now") as told:
        made = ss.release(rows, candidates="hypercube", synthetic_rows=20, **settings)
    assert [one.filename for one in told] == [__file__]
    assert (made.receipt.candidates, made.receipt.rows_per_person, len(made.to_arrow())) == ("hypercube", 2, 20)


@pytest.mark.parametrize("name", OLD)
def test_an_old_keyword_beside_a_method_with_options_is_refused(name):
    keywords, method = OLD[name]
    with pytest.raises(ss.PlanError, match=rf"method=ss.methods.{type(method).__name__}\(...\) must hold all options"):
        ss.plan(SCHEMA, 1500, **BUDGET, **{**keywords, "method": method})


def test_an_option_of_another_method_is_refused():
    with pytest.raises(ss.PlanError, match="focus is not an option of method='paper'"):
        ss.plan(SCHEMA, 1500, **BUDGET, method="paper", focus="marginals")
    with pytest.raises(ss.PlanError, match="features is not an option of method='auto'"):
        ss.release("no-such-file.csv", schema=SCHEMA, **BUDGET, features=3)


@pytest.mark.parametrize("call", [lambda **k: ss.plan(SCHEMA, 9, **k), lambda **k: ss.release("", schema=SCHEMA, **k)])
@pytest.mark.parametrize(
    ("keyword", "meant"),
    [
        ("focuss", r"\. Did you mean method=ss.methods.Adaptive\(focus=...\)\?$"),
        ("table", r"\. Did you mean method=ss.methods.Adaptive\(tables=...\)\?$"),
        ("feature", r"\. Did you mean method=ss.methods.Paper\(features=...\)\?$"),
        ("row_per_person", r"\. Did you mean 'rows_per_person'\?$"),
        ("zzz", "$"),
    ],
)
def test_an_unknown_keyword_is_refused_with_a_close_one(call, keyword, meant):
    with pytest.raises(TypeError, match=rf"^(plan|release)\(\) got an unexpected keyword argument '{keyword}'{meant}"):
        call(epsilon=1.0, **{keyword: 1})


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (Adaptive, {"focus": "all"}),
        (Adaptive, {"smoothness": 0}),
        (Adaptive, {"noise": "loud"}),
        (Adaptive, {"candidates": "ellipsoid"}),
        (Adaptive, {"candidate_count": 0}),
        (Adaptive, {"fit": "magic"}),
        (Paper, {"candidates": "magic"}),
        (Paper, {"candidate_count": 1.5}),
        (Paper, {"fit": "magic"}),
        (Paper, {"features": 0}),
        (Paper, {"smoothness": True}),
        (Paper, {"noise": "loud"}),
    ],
)
def test_options_that_cannot_be_are_refused(method, options):
    with pytest.raises(ss.PlanError, match=next(iter(options))):
        method(**options)


@pytest.mark.parametrize(
    "method",
    [
        Adaptive(),
        Adaptive(focus="queries", tables=0),
        Adaptive(target="a"),
        Adaptive(target=("a", "b")),
        Adaptive(workload=(("a", "b"), ("b", "c", "d"))),
        Paper(features=3),
    ],
)
def test_a_method_is_read_from_its_plain_values(method):
    facts = json.loads(json.dumps({**facts_of(method), "synthetic_rows": 7}))
    assert from_facts(facts) == (method, {"synthetic_rows": 7})


@pytest.mark.parametrize(
    ("choices", "method"),
    [
        ({"focus": "marginals", "chosen_pairs": 0}, Adaptive(focus="marginals", tables=0)),
        ({"method": "paper", "focus": "balanced", "features": 9, "chosen_pairs": 0}, Paper(features=9)),
    ],
)
def test_the_choices_of_earlier_studies_are_read(choices, method):
    assert from_facts(choices) == (method, {})


def test_sites_plan_with_the_options_of_the_study(tmp_path):
    key = tmp_path / "own.key"
    ss.federated.make_key(key)
    sites = {"north": ss.federated.Site(900, tmp_path / "own.pub")}
    method = Adaptive(focus="marginals", smoothness=4)
    ss.federated.start(tmp_path / "study", schema=SCHEMA, sites=sites, key=key, method=method, **BUDGET)
    study = read_study(tmp_path / "study")
    assert plan_of(study).method == Adaptive(focus="marginals", smoothness=4, tables=0)
    assert plan_of(study).charges == study.charges


def test_the_command_line_refuses_flags_of_another_method(tmp_path):
    SCHEMA.save(tmp_path / "schema.toml")

    def shown(*flags):
        return CliRunner().invoke(app, ["plan", "-s", str(tmp_path / "schema.toml"), "-n", "5000", "-e", "1", *flags])

    assert "focus is not an option" in " ".join(shown("--method", "paper", "--focus", "queries").output.split())
    assert shown("--method", "paper", "--candidates", "hypercube", "--smoothness", "3").exit_code == 0
    planned = ss.plan(SCHEMA, 5000, epsilon=1.0, method=Adaptive(focus="queries"))
    found = json.loads(shown("--focus", "queries", "--json").output)
    assert found.pop("with_delta")["delta"] == 1e-6
    assert found == json.loads(json.dumps(planned.as_dict()))


def test_the_old_name_of_an_error_says_what_replaced_it():
    with pytest.warns(DeprecationWarning, match="FederatedError"):
        assert ss.StudyError is ss.FederatedError
