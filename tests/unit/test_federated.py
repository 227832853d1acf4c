"""Several owners: the same bits as one table, each bad answer refused in words, and nothing charged for it."""

import json
import re
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import smoothsynth as ss
from smoothsynth import federated as fed
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.federated import coordinator as folders
from smoothsynth.federated import coordinator as verbs
from smoothsynth.private import measure as door
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.sites.answers import add_answers, table_elsewhere
from smoothsynth.private.sites.envelope import seal
from smoothsynth.private.sites.keys import read_key
from smoothsynth.private.sites.protocol import Request, Study, read_request, write_request
from smoothsynth.private.table import open_table
from smoothsynth.queries.transformation import Transformation

ROWS = {"north": 700, "south": 400, "east": 900}
BUDGET = {"epsilon": 2.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(11)
    n = sum(ROWS.values())
    return pd.DataFrame(
        {"age": rng.normal(50, 15, n), "income": rng.lognormal(11, 0.6, n), "visits": rng.poisson(3, n)}
    )


@pytest.fixture(scope="module")
def tables(people):
    ends = np.cumsum(list(ROWS.values()))
    return {name: people[end - ROWS[name] : end] for name, end in zip(ROWS, ends, strict=True)}


@pytest.fixture(scope="module")
def all_keys(tmp_path_factory):
    place = tmp_path_factory.mktemp("keys")
    for name in (*ROWS, "coordinator", "stranger"):
        fed.make_key(place / f"{name}.key")
    return place


@pytest.fixture
def place(tmp_path, all_keys):
    shutil.copytree(all_keys, tmp_path, dirs_exist_ok=True)
    return tmp_path


def begin(place, schema, name="study", **more):
    sites = {site: fed.Site(rows, place / f"{site}.pub") for site, rows in ROWS.items()}
    settings = {**BUDGET, "key": place / "coordinator.key", "seed": 3, **more}
    return fed.start(place / name, schema=schema, sites=sites, **settings)


def answers(place, request, tables, suffix="", **more):
    pub = place / "coordinator.pub"
    return [
        fed.sums(request, table, output=place / f"{name}-{request.stem}{suffix}", key=place / f"{name}.key",
                 coordinator=pub, **more)
        for name, table in tables.items()
    ]  # fmt: skip


def carry_through(place, step, tables, **more):
    while isinstance(step, Path):
        step = fed.add(step.parent, answers(place, step, tables), key=place / "coordinator.key", **more)
    return step


def listing(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.mark.parametrize("budget", [{"epsilon": 2.0, "delta": 1e-6}, {"epsilon": 4.0}])
def test_every_round_has_the_sums_of_one_table(budget, place, schema, people, tables):
    step, rounds = begin(place, schema, **{"delta": 0.0, **budget}), 0
    while isinstance(step, Path):
        request = read_request(step)
        files = answers(place, step, tables)
        total = add_answers(request, files, key=read_key(place / "coordinator.key"))
        asked = request.measurement
        whole = LocalEngine().sums(open_table(people, schema), asked.features, transformation=asked.transformation)
        assert total.unseal() == whole.unseal()
        rounds += 1
        step = fed.add(step.parent, files, key=place / "coordinator.key")
    assert rounds == len(step.moments) == len(step.receipt.charges) > 2
    transformations = [m.measurement.transformation for m in step.moments]
    bases = [transformation.family.basis.name for transformation in transformations if transformation is not None]
    assert "hat cosines" in bases or "hat" in bases, "soft counts are summed too"


@pytest.mark.parametrize("budget", [{"epsilon": 2.0, "delta": 1e-6}, {"epsilon": 4.0}])
def test_without_noise_the_release_is_that_of_one_table_to_the_bit(budget, place, schema, people, tables, monkeypatch):
    monkeypatch.setattr(door, "_draw_noise", lambda count, _measurement: [0] * count)
    made = carry_through(place, begin(place, schema, **{"delta": 0.0, **budget}), tables)
    alone = ss.release(people, schema=schema, seed=3, method=ss.methods.Adaptive(tables=0), **budget)
    assert made.moments == alone.moments
    assert made.to_arrow().equals(alone.to_arrow())
    assert made.receipt == alone.receipt


def test_a_release_of_several_sites_can_be_verified(place, schema, tables):
    made = carry_through(place, begin(place, schema), tables)
    made.write(place / "out")
    found = ss.verify(place / "out")
    assert {check.name: check.outcome for check in found.checks if check.outcome in ("failed", "warning")} == {}
    assert ss.load(place / "out").receipt == made.receipt
    again = fed.add(place / "study", key=place / "coordinator.key")
    assert again.to_arrow().equals(made.to_arrow())


def test_noise_is_drawn_once_for_all_sites(place, schema, tables, monkeypatch):
    drawn, draw = [], door._draw_noise
    monkeypatch.setattr(door, "_draw_noise", lambda count, m: drawn.append(count) or draw(count, m))
    made = carry_through(place, begin(place, schema), tables)
    assert drawn == [len(m.features) for m in made.moments]


def test_a_sealed_file_is_private_and_says_so(place, schema, tables):
    files = answers(place, begin(place, schema), tables)
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        lines = file.read_text().splitlines()
        assert all(line.startswith("PRIVATE") for line in lines)
        assert "Not for release" in lines[0]


def test_a_study_and_its_requests_survive_reading(place, schema):
    request = read_request(begin(place, schema, rows_per_person=2, method=ss.methods.Adaptive(focus="marginals")))
    assert Request.from_dict(json.loads(json.dumps(request.as_dict()))) == request
    assert Study.from_dict(request.study.as_dict()) == request.study
    assert request.study.rows == sum(ROWS.values())
    assert request.study.rows_per_person == request.measurement.rows_per_person == 2
    assert read_request(begin(place, schema, name="other")).study.identity != request.study.identity


# ---- ledgers ----


def ledger_of(place, name, epsilon=5.0, delta=1e-6, **more):
    return place / f"{name}.ledger", LedgerFile.create(place / f"{name}.ledger", ss.Budget(epsilon, delta), **more)


def test_each_site_records_the_whole_study_before_its_first_answer_and_once(place, schema, tables):
    step = begin(place, schema)
    path, file = ledger_of(place, "north")
    planned = read_request(step).study.charges
    while isinstance(step, Path):
        files = [*answers(place, step, {"north": tables["north"]}, ledger=path),
                 *answers(place, step, {n: tables[n] for n in ("south", "east")})]  # fmt: skip
        again = answers(place, step, {"north": tables["north"]}, suffix="-again", ledger=path)
        assert tuple(file.charges) == planned
        assert {line.label for line in file.read().lines} == {read_request(place / "study/request-1.json").study.label}
        step = fed.add(place / "study", [*again, *files[1:]], key=place / "coordinator.key")
    spent = file.read().spent
    assert spent[0] <= BUDGET["epsilon"]
    assert len(file.charges) == len(step.receipt.charges)


def test_a_second_study_is_charged_again(place, schema, tables):
    path, file = ledger_of(place, "north")
    for name in ("one", "two"):
        answers(place, begin(place, schema, name=name), {"north": tables["north"]}, suffix=name, ledger=path)
    assert len({line.label for line in file.read().lines}) == 2


def test_a_site_without_enough_left_does_not_answer(place, schema, tables):
    path, file = ledger_of(place, "north", epsilon=1.0)
    before = path.read_bytes()
    with pytest.raises(ss.BudgetError, match="its total is epsilon = 1"):
        answers(place, begin(place, schema), {"north": tables["north"]}, ledger=path)
    assert path.read_bytes() == before
    assert not (place / "north-request-1").exists()
    path, _ = ledger_of(place, "south", rows_per_person=3)
    with pytest.raises(ss.BudgetError, match="rows_per_person=3"):
        answers(place, place / "study" / "request-1.json", {"south": tables["south"]}, ledger=path)
    assert not file.charges


def test_a_site_whose_table_cannot_be_read_pays_nothing(place, schema, tables):
    path, file = ledger_of(place, "north")
    request = begin(place, schema)
    for data, words in (
        (tables["north"][:-1], "north has 700 rows; this table has 699"),
        (tables["north"].drop(columns="age"), "age"),
        (place / "none.csv", "none.csv"),
    ):
        with pytest.raises(ss.SmoothsynthError, match=words):
            answers(place, request, {"north": data}, ledger=path)
    assert not file.charges
    assert not (place / "north-request-1").exists()


def test_the_charge_stands_if_the_answer_cannot_be_written_and_covers_the_next_try(place, schema, tables, monkeypatch):
    path, file = ledger_of(place, "north")
    request = begin(place, schema)

    def fail(*_args, **_kwargs):
        raise ss.FederatedError("full")

    with monkeypatch.context() as patch:
        patch.setattr(verbs, "write_new", fail)
        with pytest.raises(ss.FederatedError):
            answers(place, request, {"north": tables["north"]}, ledger=path)
    recorded = len(file.charges)
    answers(place, request, {"north": tables["north"]}, ledger=path)
    assert recorded == len(file.charges) == len(read_request(request).study.charges)


def test_the_coordinator_records_the_study_with_the_first_round(place, schema, tables):
    path, file = ledger_of(place, "coordinator")
    step = begin(place, schema)
    planned = read_request(step).study.charges
    step = fed.add(place / "study", answers(place, step, tables), key=place / "coordinator.key", ledger=path)
    assert tuple(file.charges) == planned
    carry_through(place, step, tables, ledger=path)
    assert tuple(file.charges) == planned


def costs_of(charges):
    return [(charge.epsilon, charge.multiplier) for charge in charges]


def test_a_round_that_is_drawn_again_from_a_copied_folder_is_charged_again(place, schema, tables):
    path, file = ledger_of(place, "coordinator", 9.0)
    settings = {"key": place / "coordinator.key", "ledger": path}
    request = fed.add(place / "study", answers(place, begin(place, schema), tables), **settings)
    planned = read_request(request).study.charges
    assert costs_of(file.charges) == costs_of(planned)
    files = answers(place, request, tables)
    shutil.copytree(place / "study", place / "copy")
    fed.add(place / "study", files, **settings)
    assert costs_of(file.charges) == costs_of(planned)
    fed.add(place / "copy", files, **settings)
    assert costs_of(file.charges) == costs_of([*planned, planned[1]])


def test_the_coordinator_is_charged_before_noise_is_drawn(place, schema, tables, monkeypatch):
    path, file = ledger_of(place, "coordinator")
    files = answers(place, begin(place, schema), tables)

    def drawn(*_args):
        assert len(file.charges) == len(read_request(place / "study/request-1.json").study.charges)
        raise ss.FederatedError("drawn")

    with monkeypatch.context() as patch:
        patch.setattr(door, "_draw_noise", drawn)
        with pytest.raises(ss.FederatedError, match="drawn"):
            fed.add(place / "study", files, key=place / "coordinator.key", ledger=path)
    assert {p.name for p in (place / "study").iterdir()} == {"request-1.json"}
    fed.add(place / "study", files, key=place / "coordinator.key", ledger=path)
    planned = read_request(place / "study/request-1.json").study.charges
    assert costs_of(file.charges) == costs_of([*planned, planned[0]]), "round 1 was drawn twice"


def test_a_coordinator_without_enough_left_draws_nothing(place, schema, tables):
    path, file = ledger_of(place, "coordinator", epsilon=1.0)
    files = answers(place, begin(place, schema), tables)
    before = listing(place / "study")
    with pytest.raises(ss.BudgetError, match="No noise was drawn"):
        fed.add(place / "study", files, key=place / "coordinator.key", ledger=path)
    assert listing(place / "study") == before
    assert not file.charges


# ---- bad answers ----


def sealed_by(place, request, name, *, header=None, features=None, key=None):
    """Seal zeros as a site would, with some of what is said about them changed."""
    from smoothsynth.private.sealed import SealedSums

    said = {"study": request.study.identity, "round": str(request.round), "request": request.identity, "site": name}
    features = request.measurement.features if features is None else features
    text = seal([SealedSums(features, [0] * len(features))], {**said, **(header or {})},
                recipient=request.study.coordinator, sender=read_key(place / f"{key or name}.key"))  # fmt: skip
    path = place / f"{name}-made"
    path.write_text(text)
    return path


def tamper(path):
    lines = path.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("PRIVATE   "))
    lines[at] = lines[at][:30] + ("A" if lines[at][30] != "A" else "B") + lines[at][31:]
    path.write_text("\n".join(lines) + "\n")
    return path


def another_request(request):
    seen = Transformation.straight(request.study.schema.dimensions)
    return replace(request, measurement=replace(request.measurement, transformation=seen))


BAD = {
    "tampered": (lambda p, r, f: [tamper(f[0]), *f[1:]], "north-.*not as site north sealed it"),
    "cut off": (lambda p, r, f: [p / "cut", *f[1:]], "not a whole file of sealed sums"),
    "site twice": (lambda p, r, f: [*f, f[1]], "Site south is there twice"),
    "missing": (lambda p, r, f: f[:2], "answer of east to round 1 is missing"),
    "none": (lambda p, r, f: [], "answer of north, south, east to round 1 is missing"),
    "other study": (lambda p, r, f: [sealed_by(p, r, "north", header={"study": "0" * 64}), *f[1:]], "another study"),
    "other round": (lambda p, r, f: [sealed_by(p, r, "north", header={"round": "2"}), *f[1:]], "answers round 2"),
    "other request": (
        lambda p, r, f: [sealed_by(p, r, "north", header={"request": another_request(r).identity}), *f[1:]],
        "another schema, other features or another view",
    ),
    "unknown site": (
        lambda p, r, f: [sealed_by(p, r, "west", key="stranger"), *f[1:]],
        "site west that this study does not have",
    ),
    "a stranger": (lambda p, r, f: [sealed_by(p, r, "north", key="stranger"), *f[1:]], "not as site north sealed it"),
    "another site": (lambda p, r, f: [sealed_by(p, r, "north", key="south"), *f[1:]], "not as site north sealed it"),
    "fewer sums": (
        lambda p, r, f: [sealed_by(p, r, "north", features=r.measurement.features[1:]), *f[1:]],
        "one sum for each feature",
    ),
    "no file": (lambda p, r, f: [p / "none", *f[1:]], "There is no file"),
    "the request itself": (lambda p, r, f: [p / "study" / "request-1.json", *f[1:]], "not a whole file"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_refused_and_nothing_is_charged_drawn_or_written(name, place, schema, tables, monkeypatch):
    spoil, words = BAD[name]
    request = begin(place, schema)
    files = answers(place, request, tables)
    (place / "cut").write_text(files[0].read_text()[:300])
    path, file = ledger_of(place, "coordinator")
    given, before = spoil(place, read_request(request), files), listing(place / "study")
    monkeypatch.setattr(door, "_draw_noise", lambda *_: pytest.fail("noise was drawn"))
    with pytest.raises(ss.FederatedError, match=words):
        fed.add(place / "study", given, key=place / "coordinator.key", ledger=path)
    assert listing(place / "study") == before
    assert not file.charges


def test_answers_of_an_earlier_round_are_refused(place, schema, tables):
    files = answers(place, begin(place, schema), tables)
    fed.add(place / "study", files, key=place / "coordinator.key")
    before = listing(place / "study")
    with pytest.raises(ss.FederatedError, match=r"answers round 1; the study is in round 2.*request-2.json"):
        fed.add(place / "study", files, key=place / "coordinator.key")
    assert listing(place / "study") == before


def test_answers_after_the_last_round_are_refused(place, schema, tables):
    carry_through(place, begin(place, schema), tables)
    with pytest.raises(ss.FederatedError, match="All rounds of this study are done"):
        fed.add(place / "study", [place / "north-request-1"], key=place / "coordinator.key")


def test_a_schema_that_differs_between_sites_is_refused(place, schema, tables):
    request = begin(place, schema)
    columns = dict(schema.columns)
    other = ss.Schema({**columns, "age": ss.Number(0, 100)})
    with pytest.raises(ss.FederatedError, match="column 'age' otherwise"):
        answers(place, request, {"north": tables["north"]}, schema=other)
    with pytest.raises(ss.FederatedError, match="other columns"):
        answers(place, request, {"north": tables["north"]}, schema=ss.Schema({"age": columns["age"]}))
    assert answers(place, request, {"north": tables["north"]}, schema=schema)[0].exists()


# ---- keys and requests ----


def test_only_the_coordinator_can_add(place, schema, tables):
    files = answers(place, begin(place, schema), tables)
    with pytest.raises(ss.FederatedError, match="not that of this study's coordinator"):
        fed.add(place / "study", files, key=place / "north.key")


def test_a_site_answers_its_own_coordinator_only(place, schema, tables):
    request = begin(place, schema)
    with pytest.raises(ss.FederatedError, match="another coordinator"):
        fed.sums(
            request, tables["north"], output=place / "x", key=place / "north.key", coordinator=place / "stranger.pub"
        )
    with pytest.raises(ss.FederatedError, match="not that of any site"):
        fed.sums(request, tables["north"], output=place / "x", key=place / "stranger.key",
                 coordinator=place / "coordinator.pub")  # fmt: skip
    assert not (place / "x").exists()


def test_a_request_with_a_strangers_key_inside_is_refused(place, schema, tables):
    """The attack that matters: somebody on the way puts an own key into the request, to open the answers."""
    request = read_request(begin(place, schema))
    stranger = read_key(place / "stranger.key")
    forged = replace(request, study=replace(request.study, coordinator=stranger.public))
    write_request(place / "forged.json", forged, key=stranger)
    with pytest.raises(ss.FederatedError, match="another coordinator"):
        answers(place, place / "forged.json", {"north": tables["north"]})
    write_request(place / "unsigned.json", request, key=stranger)
    with pytest.raises(ss.FederatedError, match="not as its coordinator signed it"):
        answers(place, place / "unsigned.json", {"north": tables["north"]})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"rows": 700', '"rows": 701', "not as its coordinator signed"),
        ('"upper": 120', '"upper": 12', "not as its coordinator signed"),
        ('"round": 1', '"round": 9', "no round 9"),
        ('"round": 1', '"round": "1"', "no round"),
        ('"format": 1', '"format": 2', "format 1. Update"),
        ('"mark"', '"marc"', "missing or wrong"),
        ('"seed": 3', '"seed": 3, "more": 1', "does not know"),
        ('"epsilon": 2.0', '"epsilon": 1.0', "cost no more than its budget"),
        ('"epsilon": 2.0', '"epsilon": -1.0', "not a whole request"),
        ('"request":', '"requests":', "is not a request"),
        ("{", "", "not a file of a study"),
    ],
)
def test_a_changed_request_is_refused(old, new, words, place, schema, tables):
    request = begin(place, schema)
    text = request.read_text()
    assert old in text
    request.write_text(text.replace(old, new, 1))
    with pytest.raises(ss.FederatedError, match=words):
        answers(place, request, {"north": tables["north"]})


def test_a_round_that_costs_something_else_is_refused(place, schema):
    request = read_request(begin(place, schema))
    with pytest.raises(ss.FederatedError, match="must cost what the study says"):
        replace(request, measurement=replace(request.measurement, multiplier=request.measurement.multiplier / 2))
    with pytest.raises(ss.FederatedError, match="as many rows of a person"):
        replace(request, measurement=replace(request.measurement, rows_per_person=2))


@pytest.mark.parametrize(
    ("sites", "words"),
    [
        ({}, "at least one site"),
        ({"a b": 1}, "up to 40 letters"),
        ({"a": 0}, "at least 1"),
        ({"a": True}, "at least 1"),
        ({"a": 5, "b": 5}, "key of its own"),
    ],
)
def test_bad_sites_are_refused(sites, words, place, schema):
    with pytest.raises(ss.FederatedError, match=words):
        fed.start(
            place / "study", schema=schema, sites={n: fed.Site(r, place / "north.pub") for n, r in sites.items()},
            key=place / "coordinator.key", **BUDGET,
        )  # fmt: skip
    assert not (place / "study").exists()


def test_a_study_needs_a_new_folder(place, schema):
    begin(place, schema)
    with pytest.raises(ss.FederatedError, match="is not empty"):
        begin(place, schema)
    with pytest.raises(ss.FederatedError, match="not the folder of a study"):
        fed.status(place)


def test_the_subspace_iteration_is_refused_in_words(place, schema):
    with pytest.raises(ss.PlanError, match="cannot do the paper's subspace iteration"):
        begin(place, schema, method=ss.methods.Paper(features=9))
    assert read_request(begin(place, schema, method=ss.methods.Paper(candidates="hypercube", features=9))).round == 1


def test_levels_below_nodes_are_refused_in_words(place):
    many = ss.Schema({"code": ss.Category([f"{i:03}" for i in range(300)], parents=[1])})
    with pytest.raises(ss.PlanError, match="cannot count levels below the nodes"):
        begin(place, many)


def test_an_answer_never_replaces_a_file(place, schema, tables):
    request = begin(place, schema)
    answers(place, request, {"north": tables["north"]})
    with pytest.raises(ss.FederatedError, match="exists already"):
        answers(place, request, {"north": tables["north"]})


# ---- crashes between steps ----


def test_a_study_goes_on_after_a_crash_between_moments_and_request(place, schema, tables):
    step = fed.add(place / "study", answers(place, begin(place, schema), tables), key=place / "coordinator.key")
    text = step.read_text()
    step.unlink()
    assert "Round 2" in str(fed.status(place / "study"))
    assert fed.add(place / "study", key=place / "coordinator.key").read_text() == text


def test_two_coordinators_at_once_release_one_round_once(place, schema, tables, monkeypatch):
    files = answers(place, begin(place, schema), tables)
    write = verbs.write_moments

    def late(folder, noisy, *, number):
        write(folder, noisy, number=number)
        write(folder, replace(noisy, integers=tuple(z + 1 for z in noisy.integers)), number=number)

    monkeypatch.setattr(verbs, "write_moments", late)
    with pytest.raises(ss.FederatedError, match=r"its cost is spent.*exists already"):
        fed.add(place / "study", files, key=place / "coordinator.key")
    assert len(folders.read_moments(place / "study")) == 1


def test_damaged_moments_are_refused(place, schema, tables):
    fed.add(place / "study", answers(place, begin(place, schema), tables), key=place / "coordinator.key")
    (place / "study" / "moments-1.json").write_text("{}")
    with pytest.raises(ss.FederatedError, match="is damaged"):
        fed.status(place / "study")


def test_another_version_that_plans_otherwise_cannot_go_on(place, schema, tables, monkeypatch):
    files = answers(place, begin(place, schema), tables)
    planned = folders.plan_of
    monkeypatch.setattr(folders, "plan_of", lambda study: planned(replace(study, rows_per_person=2)))
    with pytest.raises(ss.FederatedError, match="Finish it with that one"):
        fed.add(place / "study", files, key=place / "coordinator.key")


def test_rows_elsewhere_cannot_be_read(schema):
    with pytest.raises(ss.DataError, match="stayed where they are"):
        LocalEngine().sums(table_elsewhere(10, schema), read_features(schema))


def read_features(schema):
    return ss.plan(schema, 10, epsilon=1.0).measurements[0].features


# ---- the page ----


def test_the_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "federated.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    names = {}
    for block in blocks:
        exec(compile(block, "docs/federated.md", "exec"), names)  # noqa: S102
    assert (tmp_path / "out" / "receipt.json").exists()
    assert "Whoever is in the earlier releases too spends both" in capsys.readouterr().out
