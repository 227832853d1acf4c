"""What public objects say of themselves: one line, a small table in a notebook, and the name that was meant."""

import ast
import inspect
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss

SOURCES = Path(ss.__file__).parent
EVIL = "<script>alert('&')</script>\n\"' onload=x"
# Their values are private: what a notebook shows is saved with it.
NOT_SHOWN = {"AttackReport", "CheckReport"}


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.open, self.seen = [], set()
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen |= {tag, *(name for name, _ in attrs)}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    rng, n = np.random.default_rng(5), 300
    table = pa.table({EVIL: rng.normal(0, 1, n), "y": rng.normal(0, 1, n), "sex": rng.choice(["<b>", "m"], n)})
    schema = ss.Schema({EVIL: ss.Number(-5, 5), "y": ss.Number(-5, 5), "sex": ss.Category(["<b>", "m"])})
    release = ss.release(table, schema=schema, epsilon=2.0, delta=1e-6, seed=1)
    folder = release.write(tmp_path_factory.mktemp("made") / "out")
    checked, budget = ss.verify(folder), release.receipt.budget
    return [
        *(schema, ss.plan(schema, n, epsilon=1.0), release, release.receipt, release.receipt.charges[0], budget),
        *(
            release.mean(EVIL),
            release.regress("y", on=[EVIL]),
            release.answer("avg(y) group by sex"),
            release.histogram("y", bins=2)[0],
            checked,
            checked.checks[0],
        ),
        ss.UpdateCost(budget, budget, budget, None),
        *schema.columns.values(),
        *(ss.Integer(0, 5), ss.Boolean(nullable=True), ss.Date("2020-01-01"), ss.Datetime("2020-01-01", "2021-01-01")),
        *(ss.methods.Adaptive(), ss.methods.Paper(), ss.methods.Minimax()),
        ss.Schema({f"{EVIL}{i}": ss.Number("private", "private") for i in range(200)}),
        ss.Category([f"level {EVIL}{i}" for i in range(250)]),
    ]


def test_every_public_object_is_shown(made):
    public = {name for name in ss.__all__ if inspect.isclass(getattr(ss, name)) and not name.endswith("Error")}
    assert {type(one).__name__ for one in made} >= public - NOT_SHOWN
    assert not any(hasattr(getattr(ss, name), "_repr_html_") for name in NOT_SHOWN)


def test_each_is_one_short_line(made):
    for one in made:
        assert "\n" not in repr(one)
        assert len(repr(one)) <= 500, repr(one)


def test_each_is_a_small_table_without_scripts(made):
    for one in made:
        page = one._repr_html_()
        assert not Tags(page).seen & {"script", "b", "onload"}
        assert len(page) < 30_000


def test_a_column_and_a_method_show_the_call_that_makes_them():
    columns = [
        ss.Number(0, 120),
        ss.Number(upper=5.0, transform="log", nullable=True),
        ss.Category(["a", 2], other="a"),
        ss.Date("2020-01-01", "private"),
        ss.Datetime("2020-01-01", "2021-01-01"),
        ss.methods.Adaptive(focus="marginals", tables=0),
    ]
    for one in columns:
        assert eval(f"ss.methods.{one!r}" if "Adaptive" in repr(one) else f"ss.{one!r}", {"ss": ss}) == one  # noqa: S307
    assert repr(columns[0]) == "Number(0, 120)"
    assert repr(columns[1]) == "Number(upper=5.0, transform='log', nullable=True)"
    assert repr(ss.Category(list("abcdefgh"))).endswith("'f', ... 2 more])")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ss.Number(lowr=0), "Number() got an unexpected keyword argument 'lowr'. Did you mean 'lower'?"),
        (lambda: ss.Category(level=["a", "b"]), "Did you mean 'levels'?"),
        (lambda: ss.Boolean(min=0), "It takes nullable, description, null_values."),
        (lambda: ss.Schema({"a": ss.Boolean()}, constraint=["a = 1"]), "Did you mean 'constraints'?"),
        (lambda: ss.Budget(epsilonn=1), "Did you mean 'epsilon'?"),
        (lambda: ss.methods.Adaptive(focuss="marginals"), "Did you mean 'focus'?"),
        (lambda: ss.methods.Paper(candidate="grid"), "Did you mean 'candidates'?"),
    ],
)
def test_a_mistyped_argument_is_answered_with_the_right_one(call, said):
    with pytest.raises(TypeError, match=re.escape(said)):
        call()


def texts(path):
    """Return every text of a module; of one with values in it, what stands around them."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in joined for part in node.values}
    for node in joined:
        yield "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def test_a_message_names_an_option_in_python_too():
    sources = [
        path for path in SOURCES.rglob("*.py") if path.name != "cli.py" and "cli" not in path.relative_to(SOURCES).parts
    ]
    said = [text for path in sources for text in texts(path) if "<style>" not in text]
    # Ledgers are made and raised in a terminal only.
    said = [text for text in said if "in a terminal: smoothsynth" not in text]
    options = [(option, text) for text in said for option in re.findall(r"(?<![\w-])--([a-z][a-z-]+)", text)]
    assert options
    for option, text in options:
        assert f"{option.replace('-', '_')}=" in text, text
