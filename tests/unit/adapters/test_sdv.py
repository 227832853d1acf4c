"""SDV metadata as a schema and back, and a synthesizer with SDV's habits; against SDV itself where it is installed."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest

import smoothsynth as ss
from smoothsynth.adapters.sdv import SmoothSynthesizer, read_metadata, write_metadata

pytest.importorskip("narwhals", reason="narwhals is not installed: pip install 'smoothsynth[sdv]'")

COLUMNS = {
    "guest": {"sdtype": "id", "regex_format": "[0-9]{3}"},
    "age": {"sdtype": "numerical", "computer_representation": "Int64"},
    "fee": {"sdtype": "numerical"},
    "room": {"sdtype": "categorical"},
    "rewards": {"sdtype": "boolean"},
    "checkin": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
    "paid": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M:%S"},
}
SINGLE = {"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "primary_key": "guest", "columns": COLUMNS}
WHOLE = {"METADATA_SPEC_VERSION": "V1", "tables": {"stays": {"columns": COLUMNS}}, "relationships": []}
GIVEN = {
    "bounds": {
        "age": (0, 120),
        "fee": (0, 500),
        "checkin": ("2020-01-01", "2020-12-31"),
        "paid": ("2020-01-01T00:00:00", "2021-01-01T00:00:00"),
    },
    "levels": {"room": ["basic", "suite"]},
    "nullable": ["fee"],
    "leave_out": ["guest"],
}
SCHEMA = ss.Schema(
    {
        "age": ss.Integer(0, 120),
        "fee": ss.Number(0, 500, nullable=True),
        "room": ss.Category(["basic", "suite"]),
        "rewards": ss.Boolean(),
        "checkin": ss.Date("2020-01-01", "2020-12-31"),
        "paid": ss.Datetime("2020-01-01", "2021-01-01"),
    }
)


@pytest.fixture
def stays():
    rng, n = np.random.default_rng(1), 300
    days = pd.Timestamp("2020-03-01") + pd.to_timedelta(rng.integers(0, 90, n), unit="D")
    return pd.DataFrame(
        {
            "guest": [f"{i:03}" for i in range(n)],
            "age": rng.integers(20, 70, n),
            "fee": np.where(rng.random(n) < 0.3, np.nan, rng.normal(100, 20, n)),
            "room": rng.choice(["basic", "suite"], n, p=[0.8, 0.2]),
            "rewards": rng.random(n) < 0.9,
            "checkin": days.strftime("%d %b %Y"),
            "paid": days + pd.Timedelta(hours=30),
        }
    )


@pytest.mark.parametrize("metadata", [SINGLE, WHOLE], ids=["single table", "whole"])
def test_metadata_is_a_schema(metadata, tmp_path):
    path = tmp_path / "metadata.json"
    path.write_text(json.dumps(metadata))
    assert read_metadata(metadata, **GIVEN) == read_metadata(path, **GIVEN) == SCHEMA


def test_a_table_among_several():
    several = {"tables": {"stays": {"columns": COLUMNS}, "rooms": {"columns": {"ok": {"sdtype": "boolean"}}}}}
    with pytest.raises(ss.SchemaError, match="2 tables"):
        read_metadata(several, **GIVEN)
    assert read_metadata(several, table="rooms") == ss.Schema({"ok": ss.Boolean()})


def test_all_gaps_are_named_at_once():
    with pytest.raises(
        ss.SchemaError, match=r"for age, fee, checkin, paid and levels=\{'room'.* for room.*public knowledge"
    ):
        read_metadata(SINGLE, leave_out=["guest"])


def test_ids_are_refused_with_the_reason():
    with pytest.raises(ss.SchemaError, match=r"'guest'.*belongs to one person.*leave_out=\['guest'\]"):
        read_metadata(SINGLE, **{**GIVEN, "leave_out": []})


def test_false_and_true_are_no_category():
    assert read_metadata({"columns": {"ok": {"sdtype": "categorical"}}}, levels={"ok": [False, True]}) == ss.Schema(
        {"ok": ss.Boolean()}
    )


def test_order_gives_the_levels():
    facts = {"columns": {"size": {"sdtype": "categorical", "order": ["S", "M", "L"]}}}
    assert read_metadata(facts) == ss.Schema({"size": ss.Category(["S", "M", "L"])})


@pytest.mark.parametrize(
    "metadata", [{}, {"columns": []}, {"columns": {"a": 5}}, {"tables": {"a": 5}}, {"tables": {}}, 5, None]
)
def test_what_is_no_metadata(metadata):
    with pytest.raises(ss.SchemaError, match=r"[Mm]etadata"):
        read_metadata(metadata)


def test_a_file_that_is_no_metadata(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("age,name\n77,Eve\n")
    with pytest.raises(ss.SchemaError, match="not JSON") as caught:
        read_metadata(path)
    assert "Eve" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_misspelt_column_is_named():
    with pytest.raises(ss.SchemaError, match="no column 'agee'"):
        read_metadata(SINGLE, **{**GIVEN, "bounds": {"agee": (0, 1)}})


@pytest.mark.parametrize("version", ["V2", "V1", "SINGLE_TABLE_V1"])
def test_there_and_back(version):
    written = json.loads(json.dumps(write_metadata(SCHEMA, version=version)))
    assert read_metadata(written, **{**GIVEN, "leave_out": [], "whole": ["age"]}) == SCHEMA
    assert written["METADATA_SPEC_VERSION"] == version


def test_the_second_version_has_room_for_public_bounds():
    assert read_metadata(write_metadata(SCHEMA), ranges_are_public=True) == SCHEMA
    nullable = ss.Schema({"day": ss.Date("2020-01-01", "2020-12-31", nullable=True)})
    assert read_metadata(write_metadata(nullable), ranges_are_public=True) == nullable


def test_detected_ranges_are_not_taken_for_public():
    detected = {"columns": {"age": {"sdtype": "numerical", "range_min": 17.25, "range_max": 91.5}}}
    with pytest.raises(ss.SchemaError, match="not detected in the data, say ranges_are_public") as caught:
        read_metadata(detected)
    assert "17.25" not in str(caught.value)


def test_versions_are_known():
    with pytest.raises(ss.SchemaError, match="V2, V1, SINGLE_TABLE_V1"):
        write_metadata(SCHEMA, version="V3")


@pytest.mark.parametrize("bounds", [5, (1, 2, 3), ()])
def test_bounds_are_two(bounds):
    with pytest.raises(ss.SchemaError, match="two values"):
        read_metadata({"columns": {"age": {"sdtype": "numerical"}}}, bounds={"age": bounds})


def test_fit_sample_save_load(stays, tmp_path):
    made = SmoothSynthesizer(SINGLE, 3.0, seed=5, **GIVEN)
    with pytest.raises(ss.ReleaseError, match="fit"):
        made.sample(num_rows=10)
    made.fit(stays)
    rows = made.sample(num_rows=200)
    assert list(rows.columns) == list(SCHEMA.names)
    assert len(rows) == 200
    days = pd.to_datetime(rows["checkin"], format="%d %b %Y")
    assert days.between("2020-01-01", "2020-12-31").all()
    assert abs((days.mean() - pd.Timestamp("2020-04-15")).days) < 45
    made.save(tmp_path / "stays.zip")
    again = SmoothSynthesizer.load(tmp_path / "stays.zip")
    assert again.sample(num_rows=200).equals(rows)
    assert again.get_metadata() == write_metadata(SCHEMA)
    assert again.schema == SCHEMA
    assert again.release.receipt == made.release.receipt
    assert [path.name for path in tmp_path.iterdir()] == ["stays.zip"]


def test_what_is_saved_is_the_release_alone(stays, tmp_path):
    detected = json.loads(json.dumps(SINGLE))
    detected["columns"]["fee"] |= {"range_min": 31.25125, "range_max": 164.875125}
    made = SmoothSynthesizer(detected, seed=5, **GIVEN)
    made.fit(stays)
    made.save(tmp_path / "stays.zip")
    with zipfile.ZipFile(tmp_path / "stays.zip") as file:
        parts = {name: file.read(name) for name in file.namelist()}
    described = {"README.md", "datapackage.json", "croissant.json", "dcat.jsonld"}
    assert set(parts) - described == {"synthetic.parquet", "moments.json", "receipt.json", "report.html", "dates.json"}
    assert not any(b"31.25125" in text for text in parts.values())


def test_dates_that_cannot_be_read_are_missing_and_zones_may_differ(tmp_path):
    metadata = {"columns": {"at": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M %z"}}}
    frame = pd.DataFrame({"at": ["2020-03-01 10:00 +0100", "2020-03-01 10:00 -0500", "no date", None] * 60})
    made = SmoothSynthesizer(metadata, 3.0, bounds={"at": ("2020-01-01", "2020-12-31")}, nullable=["at"], seed=1)
    made.fit(frame)
    assert made.sample()["at"].isna().mean() == pytest.approx(0.5, abs=0.2)


def test_a_place_that_cannot_be_written(stays, tmp_path):
    made = SmoothSynthesizer(SINGLE, seed=5, **GIVEN)
    made.fit(stays)
    with pytest.raises(ss.ReleaseError, match="cannot be written"):
        made.save(tmp_path / "none" / "stays.zip")


@pytest.mark.parametrize(
    "harm", ["no zip", "absent", "another file", "a changed receipt", "no dates", "odd dates", "cut"]
)
def test_a_damaged_file_is_refused(stays, tmp_path, harm):
    path = tmp_path / "stays.zip"
    made = SmoothSynthesizer(SINGLE, seed=5, **GIVEN)
    made.fit(stays)
    made.save(path)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    if harm == "another file":
        parts["../outside"] = b"x"
    if harm == "a changed receipt":
        parts["receipt.json"] = parts["receipt.json"].replace(b'"epsilon": 1', b'"epsilon": 2')
    if harm == "no dates":
        del parts["dates.json"]
    if harm == "odd dates":
        parts["dates.json"] = b"[]"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in parts.items():
            file.writestr(name, text)
    if harm == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    if harm == "no zip":
        path.write_bytes(b"PK no zip")
    if harm == "absent":
        path.unlink()
    with pytest.raises(ss.ReleaseError):
        SmoothSynthesizer.load(path)
    assert not (tmp_path.parent / "outside").exists()


@pytest.fixture
def sdv():
    return pytest.importorskip("sdv.metadata", reason="SDV is not installed (it needs PyTorch): pip install sdv")


@pytest.mark.filterwarnings("ignore")
def test_the_real_sdv_takes_the_metadata_and_the_rows(sdv, stays):
    latest = sdv.Metadata.METADATA_SPEC_VERSION
    theirs = sdv.Metadata.load_from_dict(write_metadata(SCHEMA, table="stays", version=latest))
    theirs.validate()
    made = SmoothSynthesizer(theirs, seed=1, **{**GIVEN, "leave_out": [], "whole": ["age"]})
    assert made.schema == SCHEMA
    made.fit(stays)
    theirs.validate_data({"stays": made.sample(num_rows=100)})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", ["V1", "SINGLE_TABLE_V1"])
def test_the_real_sdv_takes_metadata_of_the_first_version(sdv, version):
    theirs = sdv.Metadata.load_from_dict(write_metadata(SCHEMA, version=version))
    theirs.validate()
    assert read_metadata(theirs, **{**GIVEN, "leave_out": [], "whole": ["age"]}) == SCHEMA


@pytest.mark.filterwarnings("ignore")
def test_what_the_real_sdv_detects_can_be_read_and_its_report_takes_the_rows(sdv, stays):
    detected = sdv.Metadata.detect_from_dataframes({"stays": stays})
    # What it guesses of a column is beside the point here.
    detected.update_columns_metadata(
        {n: dict(facts) for n, facts in COLUMNS.items() if n in ("checkin", "paid")}, "stays"
    )
    given = {**GIVEN, "whole": ["age"], "levels": {**GIVEN["levels"], "rewards": [False, True]}}
    with pytest.raises(ss.SchemaError, match="bounds"):
        read_metadata(detected, leave_out=["guest"])
    made = SmoothSynthesizer(detected, seed=1, **given)
    made.fit(stays)
    evaluation = pytest.importorskip("sdv.evaluation")
    if not hasattr(evaluation, "evaluate_quality"):
        pytest.skip("SDV before 2.0 has its quality report elsewhere; its metadata was read all the same")
    kept = ["age", "fee", "room", "rewards"]
    public = write_metadata(ss.Schema({name: SCHEMA.columns[name] for name in kept}), table="stays")
    report = evaluation.evaluate_quality(
        {"stays": stays[kept]},
        {"stays": made.sample(num_rows=300)[kept]},
        sdv.Metadata.load_from_dict(public),
        verbose=False,
    )
    assert report.get_score() > 0.5
