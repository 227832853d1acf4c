"""The files of a release folder that describe it: for people (README, codebook) and for catalogues (JSON, CITATION.cff).

Each is a function of the receipt, of which other files there are, and of the sizes and hashes of the rows: `verify` writes
them again and compares byte for byte.

Data Package 2.0: https://datapackage.org;  Croissant 1.0: http://mlcommons.org/croissant/1.0, which is schema.org's Dataset;
DCAT-AP 3.0: https://semiceu.github.io/DCAT-AP/releases/3.0.0;  CITATION.cff 1.2.0: https://citation-file-format.github.io.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from smoothsynth.pipeline.readme import CODEBOOK_FILE, README_FILE, citation, codebook, readme, summary, title
from smoothsynth.pipeline.release import CSV_FILE, ROWS_FILE, Receipt, as_text, sha256
from smoothsynth.schema import Category
from smoothsynth.schema.about import About, read_about

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from smoothsynth.schema import Column


PACKAGE_FILE, CROISSANT_FILE, DCAT_FILE, CITATION_FILE = (
    "datapackage.json",
    "croissant.json",
    "dcat.jsonld",
    "CITATION.cff",
)
METADATA_FILES = frozenset({README_FILE, CODEBOOK_FILE, PACKAGE_FILE, CROISSANT_FILE, DCAT_FILE, CITATION_FILE})
_FORMATS = {ROWS_FILE: ("parquet", "application/vnd.apache.parquet"), CSV_FILE: ("csv", "text/csv")}
# Licences of data that CITATION.cff knows by these names.
_CITED_LICENCES = frozenset(
    {"CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0", "CC-BY-NC-SA-4.0", "CC-BY-ND-4.0", "CC-BY-NC-ND-4.0",
     "ODbL-1.0", "ODC-By-1.0", "PDDL-1.0", "OGL-UK-3.0", "etalab-2.0", "DL-DE-BY-2.0"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RowsFile:
    """A file with all synthetic rows: its name, size and SHA-256."""

    name: str
    size: int
    digest: str


def metadata(receipt: Receipt, folder: Path, names: Collection[str]) -> dict[str, str]:
    """Return the texts of all files that describe a release; `names` are the other files of its folder."""
    files = [
        RowsFile(name, (folder / name).stat().st_size, sha256(folder / name))
        for name in (ROWS_FILE, CSV_FILE)
        if name in names
    ]
    digest = files[0].digest
    texts = {
        README_FILE: readme(receipt, names, digest),
        PACKAGE_FILE: as_text(data_package(receipt, files)),
        CROISSANT_FILE: as_text(croissant(receipt, files)),
        DCAT_FILE: as_text(dcat(receipt, files)),
    }
    if CSV_FILE in names:
        texts[CODEBOOK_FILE] = codebook(receipt.schema)
    if read_about(receipt.schema.about).owner is not None:
        texts[CITATION_FILE] = citation_file(receipt, digest)
    return texts


def _described(receipt: Receipt, *, separator: str = " ") -> str:
    about = read_about(receipt.schema.about)
    return separator.join(filter(None, (about.description, summary(receipt), receipt.promise())))


_TABLE_TYPES = {"category": "string"}
# As Arrow writes moments into CSV files.
_MOMENTS = "%Y-%m-%d %H:%M:%S.%f"


def data_package(receipt: Receipt, files: list[RowsFile]) -> dict[str, Any]:
    """Describe the release as a Data Package 2.0 of one table: its CSV file if there is one."""
    about = read_about(receipt.schema.about)
    name = re.sub(r"[^a-z0-9]+", "-", (about.title or "").lower()).strip("-")
    owner = {"title": about.owner, "roles": ["publisher"], **({"email": about.email} if about.email else {})}
    return {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": name or "synthetic-table",
        "title": title(receipt),
        "description": _described(receipt),
        **({"homepage": about.url} if about.url else {}),
        **({"licenses": [_licence(about)]} if about.licence else {}),
        **({"contributors": [owner]} if about.owner else {}),
        "resources": [_resource(receipt, files[-1])],
    }


def _licence(about: About) -> dict[str, Any]:
    if about.licence_address is None:
        return {"name": "other", "title": about.licence}
    named = {} if about.licence_address == about.licence else {"name": about.licence}
    return {**named, "path": about.licence_address}


def _resource(receipt: Receipt, file: RowsFile) -> dict[str, Any]:
    form, media = _FORMATS[file.name]
    text = file.name == CSV_FILE
    fields = [_field(name, column, as_text=text) for name, column in receipt.schema.columns.items()]
    columns = {
        "$schema": "https://datapackage.org/profiles/2.0/tableschema.json",
        "fields": fields,
        "missingValues": [""],
    }
    return {
        "$schema": "https://datapackage.org/profiles/2.0/dataresource.json",
        "name": "synthetic",
        "type": "table",
        "path": file.name,
        "format": form,
        "mediatype": media,
        # Readers check size and hash of what they read as text, and fail on those of Parquet.
        **({"encoding": "utf-8", "bytes": file.size, "hash": f"sha256:{file.digest}"} if text else {}),
        "schema": columns,
    }


def _field(name: str, column: Column, *, as_text: bool) -> dict[str, Any]:
    facts = column.facts()
    found: dict[str, Any] = {"name": name, "type": _TABLE_TYPES.get(column.kind, column.kind)}
    limits: dict[str, Any] = {"required": not column.nullable}
    if isinstance(column, Category):
        found["type"] = "string" if isinstance(column.levels[0], str) else "integer"
        found["categories"] = limits["enum"] = list(column.levels)
    # Readers of Parquet make NaN of a missing number, which no bound allows.
    elif column.kind != "boolean" and (as_text or not column.nullable):
        limits |= {"minimum": facts["lower"], "maximum": facts["upper"]}
    if column.kind == "datetime" and as_text:
        found["format"] = _MOMENTS
        limits |= {side: f"{limits[side].replace('T', ' ')}.000000" for side in ("minimum", "maximum")}
    return {**found, **{key: facts[key] for key in ("description", "unit") if key in facts}, "constraints": limits}


# The terms that its specification prescribes for version 1.0; those of `cr:` have the names of their keys.
_CROISSANT_TERMS: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
} | {
    term: f"cr:{term}"
    for term in (
        "citeAs", "column", "extract", "field", "fileObject", "fileProperty", "fileSet", "format", "includes",
        "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex", "repeated",
        "replace", "separator", "source", "subField", "transform",
    )
}  # fmt: skip
_CROISSANT_TYPES = {
    "number": "Float",
    "integer": "Integer",
    "boolean": "Boolean",
    "date": "Date",
    "datetime": "DateTime",
}


def croissant(receipt: Receipt, files: list[RowsFile]) -> dict[str, Any]:
    """Describe the release as a schema.org Dataset with Croissant 1.0."""
    about = read_about(receipt.schema.about)
    owner = {"@type": "Organization", "name": about.owner, **({"email": about.email} if about.email else {})}
    return {
        "@context": _CROISSANT_TERMS,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": title(receipt),
        "description": _described(receipt),
        **({"license": about.licence_address or about.licence} if about.licence else {}),
        **({"url": about.url} if about.url else {}),
        **({"creator": owner, "publisher": owner} if about.owner else {}),
        **({"datePublished": about.published} if about.published else {}),
        "citeAs": citation(receipt, files[0].digest),
        "isLiveDataset": False,
        "distribution": [_file_object(file) for file in files],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "name": "rows",
                "description": "The synthetic rows.",
                "field": [_record_field(name, column) for name, column in receipt.schema.columns.items()],
            }
        ],
    }


def _file_object(file: RowsFile) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": file.name,
        "name": file.name,
        "contentUrl": file.name,
        "contentSize": f"{file.size} B",
        "encodingFormat": _FORMATS[file.name][1].replace("vnd.apache.parquet", "x-parquet"),
        "sha256": file.digest,
    }


def _record_field(name: str, column: Column) -> dict[str, Any]:
    whole = isinstance(column, Category) and isinstance(column.levels[0], int)
    kind = "Integer" if whole else _CROISSANT_TYPES.get(column.kind, "Text")
    words = ", ".join(filter(None, (column.description, getattr(column, "unit", None))))
    return {
        "@type": "cr:Field",
        "@id": f"rows/{quote(name, safe='')}",
        "name": name,
        **({"description": words} if words else {}),
        "dataType": f"sc:{kind}",
        "source": {"fileObject": {"@id": ROWS_FILE}, "extract": {"column": name}},
    }


_DCAT_TERMS = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_EU_TYPES = "http://publications.europa.eu/resource/authority/file-type/"
_MEDIA_TYPES = "https://www.iana.org/assignments/media-types/"


def dcat(receipt: Receipt, files: list[RowsFile]) -> dict[str, Any]:
    """Describe the release as a dataset of DCAT-AP 3.0; addresses of files are relative to this one."""
    about = read_about(receipt.schema.about)
    found: dict[str, Any] = {
        "@context": _DCAT_TERMS,
        "@id": "./",
        "@type": "dcat:Dataset",
        "dct:title": title(receipt),
        "dct:description": _described(receipt),
    }
    if about.owner:
        found["dct:publisher"] = {"@type": "foaf:Agent", "foaf:name": about.owner}
    if about.contact:
        mail = {"vcard:hasEmail": {"@id": f"mailto:{about.email}"}} if about.email else {}
        found["dcat:contactPoint"] = {"@type": "vcard:Kind", "vcard:fn": about.contact, **mail}
    if about.url:
        found["dcat:landingPage"] = {"@id": about.url, "@type": "foaf:Document"}
    if about.published:
        found["dct:issued"] = {"@value": about.published, "@type": "xsd:date"}
    found["dct:provenance"] = {"@type": "dct:ProvenanceStatement", "rdfs:label": citation(receipt, files[0].digest)}
    return {**found, "dcat:distribution": [_distribution(file, about) for file in files]}


def _distribution(file: RowsFile, about: About) -> dict[str, Any]:
    form, media = _FORMATS[file.name]
    found: dict[str, Any] = {
        "@type": "dcat:Distribution",
        "dct:title": file.name,
        "dcat:accessURL": {"@id": file.name},
        "dcat:downloadURL": {"@id": file.name},
        "dcat:mediaType": {"@id": f"{_MEDIA_TYPES}{media}"},
        "dct:format": {"@id": f"{_EU_TYPES}{form.upper()}"},
        "dcat:byteSize": {"@value": str(file.size), "@type": "xsd:nonNegativeInteger"},
        "spdx:checksum": {
            "@type": "spdx:Checksum",
            "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
            "spdx:checksumValue": {"@value": file.digest, "@type": "xsd:hexBinary"},
        },
    }
    if about.licence_address:
        found["dct:license"] = {"@id": about.licence_address}
    elif about.licence:
        found["dct:rights"] = {"@type": "dct:RightsStatement", "rdfs:label": about.licence}
    return found


def citation_file(receipt: Receipt, digest: str) -> str:
    """Return CITATION.cff; every value is a text in quotes, as JSON and YAML both write it."""
    about = read_about(receipt.schema.about)
    lines = {
        "cff-version": "1.2.0",
        "message": "Please cite this data set when you use it.",
        "type": "dataset",
        "title": title(receipt),
        "abstract": _described(receipt),
        "date-released": about.published,
        "url": about.url,
        "license": about.licence if about.licence in _CITED_LICENCES else None,
        "license-url": about.licence if about.licence == about.licence_address else None,
    }
    texts = [f"{key}: {_quoted(text)}\n" for key, text in lines.items() if text is not None]
    mail = f"    email: {_quoted(about.email)}\n" if about.email else ""
    texts.append(f"authors:\n  - name: {_quoted(about.owner or '')}\n{mail}")
    words = _quoted(f"SHA-256 of {ROWS_FILE}")
    texts.append(f"identifiers:\n  - type: other\n    value: {_quoted(f'sha256:{digest}')}\n    description: {words}\n")
    return "".join(texts)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
