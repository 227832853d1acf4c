"""Columns of days and of moments in time, as numbers: days or seconds since 1970 began (UTC)."""

from __future__ import annotations

import datetime
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth._display import shown_as_call
from smoothsynth.errors import arguments_in_words
from smoothsynth.schema import valued

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray


_FIRST_DAY = datetime.date(1970, 1, 1)
_FIRST_SECOND = datetime.datetime(1970, 1, 1)
Day = datetime.date | str | None
Moment = datetime.datetime | datetime.date | str | None


@arguments_in_words
@shown_as_call
@dataclass(frozen=True, slots=True)
class Date:
    """A column of days between two public bounds, or "private" ones; days outside are moved to the bound.

    `date_format`, such as "%d.%m.%Y" or several, says how days are written in text; without it they are ISO 8601.
    """

    lower: Day = None
    upper: Day = None
    _: KW_ONLY
    nullable: bool = False
    description: str | None = None
    date_format: str | Sequence[str] | None = None
    null_values: Sequence[str | float] = ()

    kind = "date"
    map = None

    def __post_init__(self) -> None:
        valued.tidy_options(self)
        object.__setattr__(self, "lower", _day(self.lower))
        object.__setattr__(self, "upper", _day(self.upper))

    @property
    def dimensions(self) -> int:
        """The number of coordinates: the value, and whether it is missing."""
        return valued.dimensions(self)

    @property
    def roles(self) -> tuple[str, ...]:
        """What each coordinate is."""
        return valued.roles(self)

    @property
    def bounds(self) -> tuple[float, float]:
        """The two bounds in days since 1970."""
        return valued.span(*(b if b == valued.PRIVATE else _days(b) for b in (self.lower, self.upper)))

    def problem(self) -> str | None:
        """Say what is wrong with the bounds, in words, or None."""
        return _problem(self.lower, self.upper, datetime.date, "a day such as 2020-01-31") or valued.shared_problem(
            self
        )

    def facts(self) -> dict[str, Any]:
        """Return what a schema file says of this column."""
        return valued.facts(self, _iso(self.lower), _iso(self.upper))

    def to_unit(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Map days (or numbers of days since 1970) to the cube; a missing one goes to the centre."""
        return valued.to_unit(valued.plain(values, self.kind), self)

    def from_unit(self, unit: NDArray[np.float64]) -> NDArray[np.datetime64]:
        """Map a coordinate to the nearest day."""
        return valued.whole_from_unit(unit, self).astype(np.int64).astype("datetime64[D]")

    def snap(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Move a coordinate to that of the nearest day."""
        return valued.to_unit(valued.whole_from_unit(unit, self), self)

    def levels(self, most: int) -> NDArray[np.float64] | None:
        """Return the coordinates of the days between the bounds if there are at most `most`."""
        return valued.whole_levels(self, most)

    def arrow_type(self) -> pa.DataType:
        """Return the type of the column in a release."""
        import pyarrow as pa

        return pa.date32()


@arguments_in_words
@shown_as_call
@dataclass(frozen=True, slots=True)
class Datetime:
    """A column of moments in time between two public bounds, released to the second; others are moved to the bound.

    A bound may be "private": the release finds it, at a cost that the plan shows.
    Moments with a time zone are turned into UTC, and those without are taken as they are.
    """

    lower: Moment = None
    upper: Moment = None
    _: KW_ONLY
    nullable: bool = False
    description: str | None = None
    date_format: str | Sequence[str] | None = None
    null_values: Sequence[str | float] = ()

    kind = "datetime"
    map = None

    def __post_init__(self) -> None:
        valued.tidy_options(self)
        object.__setattr__(self, "lower", _moment(self.lower))
        object.__setattr__(self, "upper", _moment(self.upper))

    @property
    def dimensions(self) -> int:
        """The number of coordinates: the value, and whether it is missing."""
        return valued.dimensions(self)

    @property
    def roles(self) -> tuple[str, ...]:
        """What each coordinate is."""
        return valued.roles(self)

    @property
    def bounds(self) -> tuple[float, float]:
        """The two bounds in seconds since 1970."""
        return valued.span(*(b if b == valued.PRIVATE else _seconds(b) for b in (self.lower, self.upper)))

    def problem(self) -> str | None:
        """Say what is wrong with the bounds, in words, or None."""
        found = _problem(self.lower, self.upper, datetime.datetime, "a moment such as 2020-01-31T12:00:00")
        return found or valued.shared_problem(self)

    def facts(self) -> dict[str, Any]:
        """Return what a schema file says of this column."""
        return valued.facts(self, _iso(self.lower), _iso(self.upper))

    def to_unit(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Map moments (or numbers of seconds since 1970) to the cube; a missing one goes to the centre."""
        return valued.to_unit(valued.plain(values, self.kind), self)

    def from_unit(self, unit: NDArray[np.float64]) -> NDArray[np.datetime64]:
        """Map a coordinate to the nearest second."""
        return (valued.whole_from_unit(unit, self).astype(np.int64) * 1_000_000).astype("datetime64[us]")

    def snap(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Move a coordinate to that of the nearest second."""
        return valued.to_unit(valued.whole_from_unit(unit, self), self)

    def levels(self, most: int) -> NDArray[np.float64] | None:
        """Return the coordinates of the seconds between the bounds if there are at most `most`."""
        return valued.whole_levels(self, most)

    def arrow_type(self) -> pa.DataType:
        """Return the type of the column in a release."""
        import pyarrow as pa

        return pa.timestamp("us")


def _day(bound: Any) -> Any:
    """Return a bound as a day if it is one; what is wrong with others is said by `problem`."""
    if isinstance(bound, str):
        try:
            return datetime.date.fromisoformat(bound)
        except ValueError:
            return bound
    if isinstance(bound, datetime.datetime):
        return bound.date() if bound.time() == datetime.time() else bound
    return bound


def _moment(bound: Any) -> Any:
    """Return a bound as a moment without a zone, in whole seconds, if it is one."""
    if isinstance(bound, str):
        try:
            bound = datetime.datetime.fromisoformat(bound[:-1] + "+00:00" if bound[-1:] in "Zz" else bound)
        except ValueError:
            return bound
    if isinstance(bound, datetime.date) and not isinstance(bound, datetime.datetime):
        return datetime.datetime(bound.year, bound.month, bound.day)
    if isinstance(bound, datetime.datetime) and bound.tzinfo is not None:
        try:
            return bound.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        except OverflowError:
            return bound
    return bound


def _problem(lower: Any, upper: Any, kind: type, example: str) -> str | None:
    for side, bound in (("lower", lower), ("upper", upper)):
        if bound is None:
            return f"the {side} bound is missing; write {side} = ... in its section"
        if isinstance(bound, str) and bound == valued.PRIVATE:
            continue
        if type(bound) is not kind or (isinstance(bound, datetime.datetime) and (bound.tzinfo or bound.microsecond)):
            return f'the {side} bound must be {example}, or "{valued.PRIVATE}", not {valued.shown(bound)}'
    if valued.PRIVATE not in (lower, upper) and lower >= upper:
        return f"lower = {lower} must be before upper = {upper}"
    return None


def _days(day: Any) -> float:
    return float((day - _FIRST_DAY).days)


def _seconds(moment: Any) -> float:
    return (moment - _FIRST_SECOND) / datetime.timedelta(seconds=1)


def _iso(bound: Any) -> str:
    return str(bound) if isinstance(bound, str) else str(bound.isoformat())


def number_of(text: str, kind: str) -> float | None:
    """Return a day or a moment in ISO 8601 as its days or seconds since 1970; None if the text is neither."""
    read = _day(text) if kind == "date" else _moment(text)
    return None if isinstance(read, str) else (_days if kind == "date" else _seconds)(read)


def day_at(days: int) -> datetime.date:
    """Return the day that is so many days after 1970 began."""
    return _FIRST_DAY + datetime.timedelta(days=days)


def moment_at(seconds: int) -> datetime.datetime:
    """Return the moment that is so many seconds after 1970 began."""
    return _FIRST_SECOND + datetime.timedelta(seconds=seconds)


# The first and the last day and second that a calendar has, in numbers.
CALENDAR = {
    "date": (_days(datetime.date.min), _days(datetime.date.max)),
    "datetime": (_seconds(datetime.datetime.min), _seconds(datetime.datetime.max.replace(microsecond=0))),
}


def nearest(number: float, kind: str) -> datetime.date:
    """Return the day or moment nearest to so many days or seconds since 1970: ends of intervals may lie beyond all."""
    first, last = CALENDAR[kind]
    known = round(min(max(number, first), last))
    return day_at(known) if kind == "date" else moment_at(known)
