"""Where exact sums are computed: one file for each engine, all with the same kernel.

Which engine sums a table: the one that is named, or the one whose frames the data is.

An engine of a cluster is a module of this folder with

    LIBRARY                      the package whose frames it takes
    open_frame(data, columns, persons)   a source of rows for such a frame; of persons, the rows that are taken, `taken` in
                                 number, with a column TAKEN (private/persons.py), and `averaged`, the most of a person
    open_engine(cluster, data)   the engine: on the cluster of such a frame, at an address, or the one in use;
                                 if it has a method `read`, that makes a frame of a table at an address
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import PlanError
from smoothsynth.private.engines.local import LocalEngine

if TYPE_CHECKING:
    from smoothsynth.private.sealed import Engine


def cluster_engines() -> dict[str, Any]:
    """Return the engines of clusters by their names; none of their libraries is imported for that."""
    names = (info.name for info in pkgutil.iter_modules(__path__))
    found = {name: import_module(f"{__name__}.{name}") for name in names}
    return {name: module for name, module in found.items() if hasattr(module, "LIBRARY")}


def frames_of(data: object) -> Any:
    """Return the engine whose frame this is, by the package that its type comes from; None for all other data."""
    library = type(data).__module__.split(".")[0]
    return next((module for module in cluster_engines().values() if library == module.LIBRARY), None)


def open_engine(
    engine: str | Engine | None, data: object, *, cluster: str | None = None, memory: str | int | None = None
) -> Engine:
    """Return the engine that is asked for, by default the one that the data belongs to.

    `memory` is for the local engine; a cluster has its own settings for that.
    """
    if engine is not None and not isinstance(engine, str):
        return engine
    known, own = cluster_engines(), frames_of(data)
    chosen = known.get(engine, None) if engine else own
    if chosen is None and engine not in (None, "local"):
        raise PlanError(f"The engine must be local, {' or '.join(known)}; it is {engine!r}.")
    if own not in (None, chosen):
        raise PlanError(
            f"A {own.LIBRARY} frame is summed by its own engine. Leave out engine={engine!r}, or pass a path."
        )
    if chosen is not None:
        return chosen.open_engine(cluster, data if own else None)
    if cluster is not None:
        raise PlanError("The local engine has no cluster. Name the engine too, such as engine='spark'.")
    return LocalEngine(memory=memory)


def read_address(data: object, engine: Engine) -> object:
    """Let the cluster read a table that is named by an address (hdfs://, s3://); return all other data as it is."""
    read = getattr(engine, "read", None)
    return read(data) if read is not None and isinstance(data, str) and "://" in data else data
