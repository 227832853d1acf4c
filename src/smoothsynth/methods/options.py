"""The method that a call names: a word, an object with its options, or the keywords that these options once were."""

from __future__ import annotations

import difflib
import warnings
from dataclasses import fields
from inspect import signature
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import PlanError
from smoothsynth.methods.adaptive import Adaptive
from smoothsynth.methods.layout import check_one_of
from smoothsynth.methods.minimax import Minimax
from smoothsynth.methods.paper import Paper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Method = Adaptive | Paper | Minimax
METHODS: dict[str, type[Method]] = {"auto": Adaptive, "paper": Paper, "minimax": Minimax}

# Keywords of `plan` and `release` before options were those of a method, and what they are called there.
_OLD = {name: name for name in ("focus", "smoothness", "noise", "candidates", "candidate_count", "fit", "features")} | {
    "chosen_pairs": "tables"
}


def method_with(name: object, options: Mapping[str, Any]) -> Method:
    """Return the method of this name with these options; refuse options that it does not have."""
    check_one_of("method", name, tuple(METHODS))
    found = METHODS[str(name)]
    known = _options(found)
    for option in options:
        if option not in known:
            raise PlanError(f"{option} is not an option of method={name!r}; it has {', '.join(known)}. Leave it out.")
    return found(**options)


def chosen_method(
    method: object, keywords: Mapping[str, Any], *, called: Sequence[Callable[..., Any]], stacklevel: int = 3
) -> tuple[Method, dict[str, Any]]:
    """Return the method that a call names, and those of its further keywords that are no options of a method.

    `called` are the function that was called, and others whose keywords it takes too. Keywords that are now options of a
    method still count, with a warning that says what replaces them; unknown ones are refused in Python's words.
    """
    known = [p.name for one in called for p in signature(one).parameters.values() if p.kind is p.KEYWORD_ONLY]
    rest = {name: value for name, value in keywords.items() if name in known}
    old = {name: value for name, value in keywords.items() if name not in known}
    for name in old:
        if name not in _OLD:
            raise TypeError(f"{called[0].__name__}() got an unexpected keyword argument {name!r}{_meant(name, known)}")
    if isinstance(method, Method):
        _refuse_beside(method, old)
        return method, rest
    found = method_with(method, {_OLD[name]: value for name, value in old.items()})
    for name in old:
        words = f"{name}=... is now method=ss.methods.{type(found).__name__}({_OLD[name]}=...)"
        warnings.warn(words, DeprecationWarning, stacklevel=stacklevel)
    return found, rest


def _refuse_beside(method: Method, old: Mapping[str, Any]) -> None:
    if old:
        raise PlanError(
            f"method=ss.methods.{type(method).__name__}(...) must hold all options; {', '.join(old)} stands beside it. "
            "Write it there, or leave it out."
        )


def facts_of(method: Method) -> dict[str, Any]:
    """Return a method as plain values: its name, and the options that are not the default."""
    given = {field.name: getattr(method, field.name) for field in fields(method)}
    return {"method": method.name, **{name: v for name, v in given.items() if v != getattr(type(method)(), name)}}


def from_facts(facts: Mapping[str, Any]) -> tuple[Method, dict[str, Any]]:
    """Read the method among plain values, and return the others too.

    Studies of earlier versions have the old names, and options that their method does not have and never used.
    """
    rest = {_OLD.get(name, name): value for name, value in facts.items()}
    name = rest.pop("method", "auto")
    options = {option: rest.pop(option) for found in METHODS.values() for option in _options(found) if option in rest}
    check_one_of("method", name, tuple(METHODS))
    return METHODS[name](**{o: value for o, value in options.items() if o in _options(METHODS[name])}), rest


def _options(method: type[Method]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(method))


def _meant(name: str, known: Iterable[str]) -> str:
    """Point to the closest known keyword, or option of a method, if one is close."""
    places = {
        option: f"method=ss.methods.{found.__name__}({option}=...)"
        for found in (Minimax, Paper, Adaptive)
        for option in _options(found)
    }
    close = difflib.get_close_matches(name, [*known, *places], n=1)
    return "".join(f". Did you mean {places.get(word, repr(word))}?" for word in close)
