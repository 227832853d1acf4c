"""A `domain.yaml` of dpsynth, read as a schema.

    age:   {type: NumericalAttribute, min_value: 0, max_value: 120, dtype: int}      Integer(0, 120)
           the same with clip_to_range: false                                        and nullable
    tier:  {type: CategoricalAttribute, possible_values: [FREE, PRO]}                Category, other = the value at
                                                                                     out_of_domain_index (the first)
           possible_values: [false, true]                                            Boolean()
    city:  {type: OpenSetCategoricalAttribute}                                       needs levels, which are given here
    note:  {type: FreeFormTextAttribute}                                             cannot be made; can be left out

Read are type, min_value, max_value, dtype, clip_to_range, possible_values and out_of_domain_index. How dpsynth cuts numbers
into bins (bin_edges, sentinel, interval_handling) and descriptions mean nothing here. The type may be left out, as there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import SchemaError
from smoothsynth.schema import Boolean, Category, Integer, Number, Schema

if TYPE_CHECKING:
    from smoothsynth.schema import Column

# Which key tells the type where it is not said.
_TELLING = {
    "possible_values": "CategoricalAttribute",
    "min_value": "NumericalAttribute",
    "max_tokens": "FreeFormTextAttribute",
}


def read_domain(
    domain: str | Path | Mapping[str, Any],
    *,
    levels: Mapping[str, Sequence[str]] | None = None,
    leave_out: Sequence[str] = (),
) -> Schema:
    """Read a domain.yaml, or a domain as dpsynth has it in memory, as a schema.

    `levels` names the public levels of open-set columns, which dpsynth would look for in the data; values that are none
    of them count at its default value. `leave_out` names columns that the synthetic table shall not have.
    """
    attributes = domain if isinstance(domain, Mapping) else _load(domain)
    unknown = sorted(set(leave_out) - set(attributes))
    if unknown:
        raise SchemaError(f"leave_out names a column that the domain has not: {unknown[0]!r:.80}.")
    found = {name: _facts(name, facts) for name, facts in attributes.items() if name not in leave_out}
    return Schema({name: _column(name, facts, (levels or {}).get(name)) for name, facts in found.items()})


def _load(path: str | Path) -> Mapping[str, Any]:
    try:
        import yaml
    except ImportError:
        raise SchemaError("To read YAML, PyYAML is needed: pip install 'smoothsynth[dpsynth]'") from None
    # The file may be a table named by mistake: errors that quote it are not chained.
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        document, problem = None, getattr(error, "strerror", None) or "it is not plain YAML"
    else:
        problem = "it must say the attributes of columns by name"
    if not isinstance(document, Mapping) or not document:
        raise SchemaError(f"The domain {path} cannot be read: {problem}.")
    return document


def _facts(name: object, attribute: Any) -> dict[str, Any]:
    """Return an attribute as plain values, with its type."""
    if dataclasses.is_dataclass(attribute) and not isinstance(attribute, type):
        return {**dataclasses.asdict(attribute), "type": type(attribute).__name__}
    if attribute is not None and not isinstance(attribute, Mapping):
        raise SchemaError(f"Column {name!r:.80} of the domain must have attributes, such as min_value and max_value.")
    facts = dict(attribute or {})
    told = next((kind for key, kind in _TELLING.items() if key in facts), "OpenSetCategoricalAttribute")
    return {**facts, "type": facts.get("type") or told}


def _column(name: str, facts: Mapping[str, Any], levels: Sequence[str] | None) -> Column:
    if facts["type"] == "NumericalAttribute":
        return _number(name, facts)
    if facts["type"] == "CategoricalAttribute":
        return _category(name, facts)
    if facts["type"] == "OpenSetCategoricalAttribute":
        return _open_set(name, facts, levels)
    raise SchemaError(
        f"Column {name!r}: a {facts['type']!s:.40} cannot be made synthetic here; only numbers, categories and truth values "
        f"can. Leave it out: leave_out=[{name!r}]."
    )


def _number(name: str, facts: Mapping[str, Any]) -> Column:
    lower, upper, dtype = facts.get("min_value"), facts.get("max_value"), facts.get("dtype", "float")
    if dtype not in ("int", "float"):
        raise SchemaError(f"Column {name!r}: dtype must be int or float.")
    nullable = facts.get("clip_to_range", True) is False
    whole = [int(b) if isinstance(b, float) and b.is_integer() else b for b in (lower, upper)]
    return Integer(*whole, nullable=nullable) if dtype == "int" else Number(lower, upper, nullable=nullable)


def _category(name: str, facts: Mapping[str, Any]) -> Column:
    values, place = facts.get("possible_values"), facts.get("out_of_domain_index", 0)
    if not isinstance(values, (list, tuple)) or type(place) is not int or not 0 <= place < len(values):
        raise SchemaError(f"Column {name!r}: possible_values must be a list, and out_of_domain_index a place in it.")
    if all(type(value) is bool for value in values):
        return Boolean()
    if any(type(value) is float for value in values):
        raise SchemaError(
            f"Column {name!r} has numbers with a fraction as categories. Describe it as a NumericalAttribute, or write "
            "the values as text."
        )
    return Category(tuple(values), other=values[place])


def _open_set(name: str, facts: Mapping[str, Any], levels: Sequence[str] | None) -> Column:
    if levels is None:
        raise SchemaError(
            f"Column {name!r} is an open set: its levels would be looked for in the data. Give the public ones, "
            f"levels={{{name!r}: [...]}}, or leave it out: leave_out=[{name!r}]."
        )
    default = facts.get("default_value", "<OOD>")
    known = list(dict.fromkeys([default, *facts.get("public_possible_values", ()), *levels]))
    return Category(tuple(known), other=default)
