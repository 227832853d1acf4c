"""The files that describe a release: for people and for catalogues, each a function of the receipt and the rows' files."""

import csv
import datetime as dt
import io
import json
import shutil

import pyarrow as pa
import pytest
import yaml

import smoothsynth as ss
from smoothsynth.errors import ReleaseError, SchemaError
from smoothsynth.pipeline.metadata import METADATA_FILES
from smoothsynth.pipeline.readme import readme
from smoothsynth.pipeline.release import as_text, sha256
from smoothsynth.verification.folder import read_evidence
from smoothsynth.verification.verify import _CHECKS, _tried

ABOUT = {
    "title": "Visits to a <clinic>",
    "description": "One row for each\n visit.",
    "owner": "Example Clinic",
    "licence": "CC-BY-4.0",
    "contact": "data@example.org",
    "url": "https://example.org/visits",
    "published": dt.date(2025, 1, 31),
}
COLUMNS = {
    "age": ss.Number(0, 120, unit="years", description="Age at the  visit", nullable=True),
    "a|`b`": ss.Integer(0, 9, description="![x](http://example.org) | <i>"),
    "sex": ss.Category(["f", "m"], description="Sex"),
    "ward": ss.Category([1, 2]),
    "well": ss.Boolean(description="Well again"),
    "seen": ss.Datetime("2020-01-01T00:00:00", "2024-12-31T23:59:59", description="When"),
}
CITATION = "CITATION.cff"


def made(about, columns=COLUMNS):
    rows = 60
    cells = {
        "age": [float(i) for i in range(rows)],
        "a|`b`": [i % 9 for i in range(rows)],
        "sex": ["f", "m"] * 30,
        "ward": [1, 2] * 30,
        "well": [True, False] * 30,
        "seen": [dt.datetime(2021, 1, 1) + dt.timedelta(days=i) for i in range(rows)],
    }
    return ss.release(pa.table(cells), schema=ss.Schema(columns, about=about), epsilon=3.0, seed=1)


@pytest.fixture(scope="module")
def told():
    return made(ABOUT)


@pytest.fixture(scope="module")
def whole(told, tmp_path_factory):
    return told.write(tmp_path_factory.mktemp("told") / "out")


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "out")


def document(folder, name):
    return json.loads((folder / name).read_text(encoding="utf-8"))


def outcome(folder, name="metadata"):
    check = next(check for known, check, _ in _CHECKS if known == name)
    return _tried(name, check, read_evidence(folder))[0].outcome


def reseal(folder, change=lambda hashes: None):
    receipt = document(folder, "receipt.json")
    change(receipt["sha256"])
    receipt["sha256"] = {name: sha256(folder / name) for name in sorted(receipt["sha256"])}
    (folder / "receipt.json").write_bytes(as_text(receipt).encode())


def test_everything_is_there_and_verifies(whole, told):
    assert {path.name for path in whole.iterdir()} >= METADATA_FILES | {"synthetic.csv", "synthetic.parquet"}
    assert ss.verify(whole).passed
    assert ss.verify(whole)["metadata"].outcome == "passed"
    assert ss.load(whole).schema == told.schema


def test_without_csv_and_owner(tmp_path):
    folder = made({}).write(tmp_path / "out", csv=False)
    found = {path.name for path in folder.iterdir()}
    assert not found & {"synthetic.csv", "codebook.csv", CITATION}
    assert found >= METADATA_FILES - {"codebook.csv", CITATION}
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert text.startswith("# Synthetic table of 60 rows and 6 columns\n")
    assert not any(f"`{name}`" in text for name in ("synthetic.csv", "codebook.csv", CITATION))
    assert document(folder, "datapackage.json")["resources"][0]["path"] == "synthetic.parquet"
    assert outcome(folder) == "passed"


@pytest.mark.parametrize("name", sorted(METADATA_FILES))
def test_a_changed_file_is_refuted_even_with_its_hash(folder, name):
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write(" \n")
    reseal(folder)
    assert outcome(folder) == "failed"
    assert outcome(folder, "hashes") == "passed"


@pytest.mark.parametrize("name", sorted(METADATA_FILES))
def test_all_are_there_or_none(folder, name):
    (folder / name).unlink()
    reseal(folder, lambda hashes: hashes.pop(name))
    assert outcome(folder) == "failed"


def test_a_folder_without_them_loads_and_verifies(folder):
    for name in METADATA_FILES:
        (folder / name).unlink()
    reseal(folder, lambda hashes: [hashes.pop(name) for name in METADATA_FILES])
    assert ss.verify(folder).passed
    assert ss.verify(folder)["metadata"].outcome == "note"
    assert ss.load(folder).table.num_rows == 60


def test_those_of_another_version_are_not_compared(folder):
    receipt = document(folder, "receipt.json")
    receipt["software"] = "smoothsynth 9.9.9"
    (folder / "receipt.json").write_bytes(as_text(receipt).encode())
    assert outcome(folder) == "warning"


def test_a_file_that_is_too_large_is_not_read(folder):
    with (folder / "README.md").open("r+b") as file:
        file.truncate(2**25 + 1)
    with pytest.raises(ReleaseError, match=r"README\.md has 33,554,433 bytes"):
        ss.load(folder)


def test_the_readme_is_text_and_no_markup(whole):
    text = (whole / "README.md").read_text(encoding="utf-8")
    assert text.startswith("# Visits to a \\<clinic\\> (synthetic)\n\nOne row for each visit.\n")
    assert "![x](" not in text
    assert "<i>" not in text
    row = next(line for line in text.splitlines() if line.startswith("| `` a"))
    assert row == "| `` a\\|`b` `` | !\\[x\\](http://example.org) \\| \\<i\\> | integer, 0 to 9 |"
    assert "number, 0 to 120 years; may be missing" in text
    assert 'read.csv("synthetic.csv"' in text
    assert "Data > From Text/CSV" in text
    for name in (path.name for path in whole.iterdir() if path.name != "README.md"):
        assert f"`{name}`" in text


def test_the_codebook_has_every_column_and_level(whole):
    lines = list(csv.DictReader(io.StringIO((whole / "codebook.csv").read_text(encoding="utf-8"))))
    assert [line["column"] for line in lines] == ["age", "a|`b`", "sex", "sex", "ward", "ward", "well", "seen"]
    assert [line["level"] for line in lines][2:6] == ["f", "m", "1", "2"]
    assert lines[0] == {
        "column": "age", "description": "Age at the visit", "type": "number", "unit": "years", "lower": "0",
        "upper": "120", "missing": "yes", "level": "",
    }  # fmt: skip


def test_the_data_package_describes_the_csv_file(whole):
    package = document(whole, "datapackage.json")
    assert (package["name"], package["homepage"]) == ("visits-to-a-clinic", ABOUT["url"])
    assert package["licenses"] == [{"name": "CC-BY-4.0", "path": "https://spdx.org/licenses/CC-BY-4.0"}]
    assert package["contributors"] == [{"title": "Example Clinic", "roles": ["publisher"], "email": "data@example.org"}]
    (table,) = package["resources"]
    assert table["bytes"] == (whole / "synthetic.csv").stat().st_size
    assert table["hash"] == f"sha256:{sha256(whole / 'synthetic.csv')}"
    fields = {field["name"]: field for field in table["schema"]["fields"]}
    assert list(fields) == list(COLUMNS)
    assert fields["age"] == {
        "name": "age", "type": "number", "description": "Age at the visit", "unit": "years",
        "constraints": {"required": False, "minimum": 0, "maximum": 120},
    }  # fmt: skip
    assert fields["ward"]["type"] == "integer"
    assert fields["sex"]["constraints"]["enum"] == ["f", "m"]
    moment = (whole / "synthetic.csv").read_text().splitlines()[1].split(",")[-1]
    assert dt.datetime.strptime(moment, fields["seen"]["format"]).year == 2021


def test_croissant_and_dcat_name_the_files(whole):
    told = document(whole, "croissant.json")
    assert told["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    assert (told["license"], told["datePublished"]) == ("https://spdx.org/licenses/CC-BY-4.0", "2025-01-31")
    assert {file["name"]: file["sha256"] for file in told["distribution"]} == {
        name: sha256(whole / name) for name in ("synthetic.parquet", "synthetic.csv")
    }
    assert [field["name"] for field in told["recordSet"][0]["field"]] == list(COLUMNS)
    assert len({field["@id"] for field in told["recordSet"][0]["field"]}) == len(COLUMNS)
    dcat = document(whole, "dcat.jsonld")
    assert dcat["dct:title"] == "Visits to a <clinic> (synthetic)"
    assert [one["dcat:accessURL"]["@id"] for one in dcat["dcat:distribution"]] == ["synthetic.parquet", "synthetic.csv"]


def test_the_citation_is_yaml(whole):
    found = yaml.safe_load((whole / CITATION).read_text(encoding="utf-8"))
    assert (found["cff-version"], found["type"], found["license"]) == ("1.2.0", "dataset", "CC-BY-4.0")
    assert found["authors"] == [{"name": "Example Clinic", "email": "data@example.org"}]
    assert found["date-released"] == "2025-01-31"


def test_the_page_says_it_as_text(whole):
    page = (whole / "report.html").read_text(encoding="utf-8")
    assert '<h1 id="promise-title">Visits to a &lt;clinic&gt; (synthetic)</h1>' in page
    assert "<p>One row for each visit.</p>" in page
    assert "Owner: Example Clinic" in page


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"titel": "x"}, "some of title, description"),
        ({"title": "a\x1b[31m"}, "title must be plain text"),
        ({"title": "\u202ex"}, "title must be plain text"),
        ({"title": ""}, "title must be plain text"),
        ({"title": 3}, "title must be plain text"),
        ({"title": "x" * 201}, "at most 200 letters; it has 201"),
        ({"url": "javascript:alert(1)"}, "url must be an address"),
        ({"published": "31.1.2025"}, "published must be a day"),
        ("x", "must be a section"),
    ],
)
def test_what_cannot_be_said_is_refused(about, words):
    with pytest.raises(SchemaError, match=words):
        ss.Schema({"x": ss.Number(0, 1)}, about=about)


@pytest.mark.parametrize("words", [{"unit": "x" * 51}, {"description": "a\0b"}, {"description": ""}, {"unit": 3}])
def test_what_cannot_be_said_of_a_column_is_refused(words):
    with pytest.raises(SchemaError, match=next(iter(words))):
        ss.Schema({"x": ss.Number(0, 1, **words)})


def test_a_schema_file_says_all_of_it():
    schema = ss.Schema(COLUMNS, about=ABOUT)
    assert ss.Schema.parse(schema.to_toml()) == schema
    assert ss.Schema.from_facts(json.loads(json.dumps(schema.facts()))) == schema
    assert schema != ss.Schema(COLUMNS)
    assert "about" not in ss.Schema(COLUMNS).facts()


def test_a_release_is_not_lost_for_its_description(told, tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("no room")

    monkeypatch.setattr("smoothsynth.pipeline.metadata.metadata", fail)
    with pytest.warns(RuntimeWarning, match="could not be described: no room"):
        folder = told.write(tmp_path / "out")
    assert ss.verify(folder).passed


def test_codes_stay_text_in_r_and_spreadsheets():
    columns = {
        "zip": ss.Category(["01", "02", "x"]),
        'a "b"\\': ss.Category(["T", "F"]),
        "gene": ss.Category(["SEPT2", "TP53"]),
        "sex": ss.Category(["female", "male"]),
        "ward": ss.Category([1, 2]),
        "cost": ss.Number(0, 1e6),
    }
    rows = {"zip": ["01"], 'a "b"\\': ["T"], "gene": ["TP53"], "sex": ["male"], "ward": [1], "cost": [1.0]}
    release = ss.release(pa.table({k: v * 40 for k, v in rows.items()}), schema=ss.Schema(columns), epsilon=1, seed=1)
    text = readme(release.receipt, {"synthetic.csv"}, "0" * 64)
    assert 'colClasses = c("zip" = "character", "a \\"b\\"\\\\" = "character", "gene" = "character"))' in text
    assert 'take text in `zip`, `a "b"\\`, `gene` for formulas, numbers or days' in text
    assert "number, 0 to 1000000 |" in text
