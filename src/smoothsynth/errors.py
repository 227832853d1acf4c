"""Errors a caller may catch.

Every message says what must hold, what was found and what to do, and never quotes a value of the data.
"""


class SmoothsynthError(Exception):
    """The base of every error that smoothsynth raises on purpose."""


class SchemaError(SmoothsynthError):
    """The public description of the table is incomplete or contradicts itself."""


class DataError(SmoothsynthError):
    """The table cannot be read as the schema describes it."""


class EngineError(SmoothsynthError):
    """The cluster that shall compute the sums is not there, went away, or lacks what it needs."""


class BudgetError(SmoothsynthError):
    """The privacy budget is not a budget, or is not enough."""


class LedgerError(SmoothsynthError):
    """The file that holds what a data set has spent is missing, damaged, newer, or open to others."""


class PlanError(SmoothsynthError):
    """What was asked for cannot be measured or fitted."""


class ReleaseError(SmoothsynthError):
    """A release cannot be written or read."""


class StudyError(SmoothsynthError):
    """A key, a request, or sealed sums are missing, changed, meant for somebody else or counted twice."""
