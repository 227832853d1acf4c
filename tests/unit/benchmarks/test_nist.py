"""benchmarks/accuracy/nist.py: NIST's score and rules on made-up people, and what is said when the data are not there."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from benchmarks.accuracy import nist

from smoothsynth.model.edits import keep_edits

ROWS = 400
RNG = np.random.default_rng(0)
AGE = RNG.integers(0, 90, ROWS)
CHILD = AGE < 15
PEOPLE = pd.DataFrame(
    {
        "AGEP": AGE.astype(str),
        "SEX": RNG.choice(["1", "2"], ROWS),
        "MSP": np.where(CHILD, "N", RNG.choice(["1", "6"], ROWS)),
        "RAC1P": RNG.choice(["1", "2"], ROWS),
        "HOUSING_TYPE": "1",
        "OWN_RENT": RNG.choice(["1", "2"], ROWS),
        "EDU": np.where(AGE < 3, "N", np.where(CHILD, "2", "9")),
        "PINCP_DECILE": np.where(CHILD, "N", RNG.choice(["0", "9"], ROWS)),
        "DVET": "N",
        "DEYE": "2",
    }
)
FACTS = {name: {"values": sorted(PEOPLE[name].unique())} for name in PEOPLE.columns if name != "AGEP"}
FACTS |= {"HOUSING_TYPE": {"values": [1, 2, 3]}, "OWN_RENT": {"values": [0, 1, 2]}, "DVET": {"values": ["N", "1"]}}
FACTS |= {"DEYE": {"values": [1, 2]}}


@pytest.fixture(scope="module")
def real():
    return nist.prepared(PEOPLE, nist.schema_of(FACTS, list(PEOPLE.columns)))


def test_the_score_is_a_thousand_less_half_the_mean_distance(real):
    score = nist.KMarginal(real)
    assert score(real[::-1].reset_index(drop=True)) == pytest.approx(1000.0)
    blind = real.assign(DEYE="1")
    # Each of the 9 pairs with that column, of 45, shares no cell with the real one.
    assert score(blind) == pytest.approx(1000.0 * (1 - 9 / 45))


def test_with_regions_every_table_has_the_region(real):
    where = real.assign(PUMA=np.where(np.arange(ROWS) % 2, "A", "B"))
    moved = where.assign(PUMA="C")
    assert nist.KMarginal(where)(moved) == pytest.approx(0.0)


def test_numbers_are_ranked_into_twenty_bins_of_the_real_values():
    edges = nist._ranked_bins(pd.Series([*range(100), 501]), own=501)
    assert len(edges) == 20
    place = nist._places(pd.Series([*range(100), 501], name="POVPIP", dtype=float))
    assert place(pd.Series([0.0, 99.0, 100.0, 501.0, np.nan])).tolist() == [1, 20, 21, 21, 0]


def test_rules_find_each_kind_of_contradiction(real):
    assert nist.contradictions(real) == (0.0, 0.0)
    adult = real[real["AGEP"] > 20].reset_index(drop=True)
    for wrong in ({"AGEP": 10}, {"MSP": "N"}, {"OWN_RENT": "0"}, {"HOUSING_TYPE": "2"}):
        assert nist.contradictions(adult.assign(**wrong)) == (100.0, 100.0)
    assert nist.contradictions(adult.assign(INDP="170", INDP_CAT="N")) == (100.0, 100.0)
    assert nist.contradictions(adult.assign(NOC="3", NPF="3")) == (100.0, 100.0)
    assert nist.contradictions(adult.assign(NOC="3", NPF="4")) == (0.0, 0.0)
    both = nist.contradictions(adult.assign(MSP="N", OWN_RENT="0"))
    assert both == (100.0, 200.0)


def test_rows_that_keep_the_rules_of_the_schema_have_no_contradiction():
    """The rules in the schema and the rules that count contradictions are written twice: one is held against the other."""
    more = {"NOC": ["N", "0", "1", "11"], "NPF": ["N", "2", "13"], "INDP": ["N", "170"], "INDP_CAT": ["N", "0"]}
    more |= {"DPHY": ["N", "1"], "DREM": ["N", "2"], "EDU": ["N", *map(str, range(1, 13))]}
    facts = {**FACTS, **{name: {"values": levels} for name, levels in more.items()}}
    schema = nist.schema_of(facts, [*PEOPLE.columns, *(set(more) - {"EDU"}), "PINCP"], rules=True)
    points = schema.snap(np.random.default_rng(0).uniform(-1.0, 1.0, (500, schema.dimensions)))
    assert nist.contradictions(nist.frame_of(points, schema))[0] > 90.0
    kept = keep_edits(schema, points, generator=np.random.default_rng(1))
    assert nist.contradictions(nist.frame_of(kept, schema)) == (0.0, 0.0)


def test_the_command_prints_ours_beside_the_archive(tmp_path, capsys):
    with gzip.open(tmp_path / "nist_tx2019.csv.gz", "wt") as file:
        PEOPLE.to_csv(file, index=False)
    (tmp_path / "nist_tx2019.json").write_text(json.dumps({"schema": FACTS}))
    archive = "lib,alg,eps,fs,tgt,nf,kmarg,inc\ns,mst,1,demographic-focused,tx2019,9,933,18.4\n"
    (tmp_path / "nist_archive.csv").write_text(archive + "s,mst,5,demographic-focused,tx2019,9,965,5.8\n")
    nist.main(["--data", str(tmp_path), "--sets", "demographic", "--rounds", "1", "--rules"])
    shown = capsys.readouterr().out
    assert "nist_ma2019 is not in" in shown
    assert "smoothsynth, with rules" in shown
    assert "933" in shown
    assert "965" not in shown
