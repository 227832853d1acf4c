"""Noise without entropy, and what is recorded of a release."""

import hashlib
import itertools
import json
import math
import re
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import smoothsynth as ss
from smoothsynth.private import noise

RECORDED = Path(__file__).with_name("recorded")
# The key of hashes that another machine can change by rounding the last digit otherwise.
HASH = "sha256"
# What `verify` allows on another kind of machine: knots in steps of the grid, moments, values.
CLOSE_KNOTS, CLOSE_MOMENT, CLOSE_VALUE = 16, 1 / 50, 1e-6
GRID = 2**16
# Estimates come from long matrix products, whose last digits depend on the number of threads.
ESTIMATED, CLOSE_ESTIMATE, NOTHING = ("answers", "plans"), 1e-9, 1e-12
MOST_SHOWN, ABSENT = 40, "nothing"
# What of a measurement is recorded by itself; epsilon and multiplier are among the charges.
SET_APART = ("purpose", "integers", "view", "choice", "epsilon", "multiplier")


class Draws:
    """Integers of the scale that noise has, each a hash of the number of the call and of its place in it."""

    def __init__(self):
        self._calls = itertools.count()

    def noise(self, count, scale):
        call = next(self._calls)
        return [_hashed(f"{call}/{place}") * math.ceil(scale) // 2**32 for place in range(count)]

    def added(self, sums, scale):
        return [exact + z for exact, z in zip(sums, self.noise(len(sums), scale), strict=True)]

    def pure(self, sums, *, sensitivity, epsilon):
        return self.added(sums, sensitivity / epsilon)

    def gaussian(self, sums, *, sensitivity, multiplier):
        return self.added(sums, sensitivity * multiplier)

    def maxima(self, count, *, sensitivity, multiplier):
        return self.largest(count, sensitivity * multiplier)

    def pure_maxima(self, count, *, sensitivity, epsilon):
        return self.largest(count, sensitivity / epsilon)

    def largest(self, count, scale):
        def named(scores):
            noisy = self.added(scores, scale)
            return sorted(range(len(noisy)), key=lambda place: (-noisy[place], place))[:count]

        return named


def _hashed(text):
    """Return a symmetric integer with a standard deviation of about 2^32: a sum of eight uniform ones."""
    digest = hashlib.sha256(text.encode()).digest()
    words = [int.from_bytes(digest[start : start + 4], "big") for start in range(0, 32, 4)]
    return (2 * sum(words) - 8 * (2**32 - 1)) * 5 // 8


@pytest.fixture(autouse=True)
def draws(monkeypatch):
    """Replace the one noise source: the only place that knows its name and those of its functions."""
    made = Draws()
    for name in ("add_cube_noise", "add_wishart_noise", "add_laplace_noise"):
        monkeypatch.setattr(noise, name, made.pure)
    monkeypatch.setattr(noise, "add_gaussian_noise", made.gaussian)
    monkeypatch.setattr(noise, "noisy_maxima", made.maxima)
    monkeypatch.setattr(noise, "pure_noisy_maxima", made.pure_maxima)
    return made


@pytest.fixture(scope="session")
def machine():
    """Hash what arithmetic gives here to the last digit: where the hash is the same, bits have to be."""
    base = np.arange(1, 90_001, dtype=float).reshape(300, 300) % 97.0 / 97.0
    small = base[:24, :24] @ base[:24, :24].T + np.eye(24)
    results = [base @ base.T, small @ small, np.linalg.eigh(small)[1], np.linalg.solve(small, base[:24, 0])]
    results += [one(base) for one in (np.exp, np.log1p, np.sin, np.cos, np.tanh, np.cbrt, np.cumsum)]
    results += [base.sum(), base.mean(axis=0), np.random.default_rng(7).standard_normal(9), sum([0.1] * 10)]
    results += [math.exp(0.7), math.erfc(1.3), math.lgamma(3.7), np.quantile(base, 0.3)]
    parts = [np.__version__, version("highspy"), *(np.asarray(one).tobytes().hex() for one in results)]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


@pytest.fixture
def as_recorded(request, machine):
    """Compare plain values with those of a file, or write the file with --record."""

    def compare(name, values):
        file = RECORDED / f"{name}.json"
        text = json.dumps({"machine": machine, **values}, indent=1, ensure_ascii=False) + "\n"
        if request.config.getoption("--record"):
            file.write_text(text, encoding="utf-8", newline="\n")
            return
        different = list(differences(json.loads(file.read_text(encoding="utf-8")), json.loads(text)))
        assert not different, "\n".join([f"{name} is not what was recorded:", *different[:MOST_SHOWN]])

    return compare


@pytest.fixture
def golden(as_recorded, tmp_path):
    """Compare a release, the answers to some questions, and rows sampled from it with their record."""

    def compare(name, made, *, ask, sampled=None):
        as_recorded(name, recorded_of(made, made.write(tmp_path / name), ask=ask, sampled=sampled))

    return compare


def recorded_of(made, folder, *, ask, sampled):
    """Return plain values: no path, time or version, and of long lists a hash and a few numbers."""
    loaded = ss.load(folder)
    assert loaded.to_arrow().equals(made.to_arrow())
    checks = ss.verify(folder).checks
    receipt, measured = (json.loads((folder / f"{part}.json").read_text("utf-8")) for part in ("receipt", "moments"))
    return {
        "keys": {"receipt": sorted(set(key_paths(receipt))), "moments": sorted(set(key_paths(measured)))},
        "charges": receipt["charges"],
        "fit": receipt["fit"],
        "columns": receipt["schema"],
        "found": [described(one) for one in measured.get("found", {}).get("rounds", [])],
        "found levels": measured.get("found", {}).get("levels", []),
        "measured": [described(one) for one in measured["moments"]],
        "earlier": [described(one) for one in measured.get("earlier", [])],
        "subspace": shortened(measured["subspace"]) if "subspace" in measured else None,
        "rows": rows_of(made.to_arrow()),
        "sampled": None if sampled is None else rows_of(sampled),
        "answers": {text: answered(loaded, text) for text in ask},
        "verify": {check.name: {"outcome": check.outcome, "sentence": sentence(check)} for check in checks},
    }


def described(noisy):
    """Split a measurement into what was asked, through which knots, and the integers that came out."""
    transformation = noisy["view"] or {}
    asked = {key: value for key, value in noisy.items() if key not in SET_APART}
    return {
        "purpose": noisy["purpose"],
        "rows": noisy["rows"],
        "asked": digest(asked),
        "view": {key: value for key, value in transformation.items() if key != "knots"},
        "knots": shortened(transformation["knots"]) if transformation else None,
        "tables": noisy.get("tables"),
        "integers": shortened(noisy["integers"]),
    }


def shortened(values):
    """Return the hash and the number of nested numbers, and ten or a few more of them, evenly spaced."""
    flat = [leaf for _, leaf in leaves(values)]
    return {HASH: digest(values), "count": len(flat), "some": flat[:: max(1, len(flat) // 10)]}


def rows_of(table):
    """Return the hash of all values, and the first five rows to nine digits."""
    columns = [[name, str(table[name].type), table[name].to_pylist()] for name in table.column_names]
    first = [[rounded(value, 9) for value in row.values()] for row in table.slice(0, 5).to_pylist()]
    return {HASH: digest(columns), "count": table.num_rows, "first": first}


def answered(release, question):
    """Ask by the name of a method and its arguments, or in SQL's words; return the parts of every estimate."""
    if question.startswith("avg"):
        return parts_of(release.answer(question))
    method, *arguments = question.split()
    if method == "quantile":
        return parts_of(release.quantile(arguments[0], float(arguments[1])))
    if method == "histogram":
        return [parts_of(one.share) for one in release.histogram(arguments[0], bins=int(arguments[1]))]
    if method == "regress":
        found = release.regress(arguments[0], on=arguments[1:])
        return {"intercept": parts_of(found.intercept)} | {name: parts_of(one) for name, one in found.slopes.items()}
    return parts_of(getattr(release, method)(*arguments))


def parts_of(estimate):
    return {key: rounded(value, 12) for key, value in estimate.as_dict().items()}


def rounded(value, digits):
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def sentence(check):
    """Leave out the size of files, which is that of the page and of the version of Arrow."""
    return re.sub(r" \([\d,]+ bytes\)", "", check.sentence)


def digest(values):
    return hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()


def key_paths(document, path=""):
    """Yield the path of every key; places in lists do not count."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield f"{path}.{key}"
            yield from key_paths(value, f"{path}.{key}")
    elif isinstance(document, list):
        for value in document:
            yield from key_paths(value, f"{path}[]")


def leaves(document, path=()):
    """Yield every value that is neither a list nor an object, with its path."""
    if not isinstance(document, (dict, list)) or not document:
        yield path, document
        return
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        yield from leaves(value, (*path, key))


def differences(recorded, found):
    """Yield a line for each value that is not what was recorded, with the rules of test_golden.py."""
    same = recorded["machine"] == found["machine"]
    before, after = dict(leaves(recorded)), dict(leaves(found))
    for path in before | after:
        if path == ("machine",):
            continue
        one, other = before.get(path, ABSENT), after.get(path, ABSENT)
        if one != other and not (last_digits(path, one, other) or (not same and excused(path, one, other, recorded))):
            yield f"{'.'.join(map(str, path))}: recorded {one!r:.200}, found {other!r:.200}"


def last_digits(path, one, other):
    """Whether two estimates differ by what the number of threads can do."""
    return path[0] in ESTIMATED and near(one, other, CLOSE_ESTIMATE)


def excused(path, one, other, recorded):
    """Whether a machine that rounds otherwise may differ so: never where no model was asked before."""
    part, last = path[0], path[-1]
    if part in ("keys", "columns", "found", "found levels") or ABSENT in (one, other):
        return False
    if part in ("measured", "earlier"):
        return len(path) > 3 and within_transformations(path[2], last, one, other, measured=recorded[part][path[1]])
    if last == HASH or (part, last) in (("fit", "outcome"), ("verify", "sentence")):
        return True
    return near(one, other, CLOSE_VALUE)


def within_transformations(place, last, one, other, *, measured):
    """Whether knots, and what is measured through them, are as close as `verify` wants them."""
    moment = CLOSE_MOMENT * GRID
    limits = {"knots": CLOSE_KNOTS, "integers": moment * measured["rows"]}
    if not measured["view"] or place not in limits:
        return False
    return last == HASH or (numbers(one, other) and abs(one - other) <= limits[place])


def near(one, other, relative):
    return numbers(one, other) and math.isclose(one, other, rel_tol=relative, abs_tol=NOTHING)


def numbers(*values):
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
