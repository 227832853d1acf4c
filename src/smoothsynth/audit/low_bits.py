"""Codes for what hides at the end of a number: residues of integers, last bits of doubles, texts.

Textbook noise on doubles betrays the exact value in bits that no reader looks at (Mironov 2012). Here every
released number is turned into codes whose law must not depend on the table.
"""

from __future__ import annotations

import itertools
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

# Of an integer the residue modulo 16, of a double the last four bits of its mantissa.
RESIDUES = 16


def codes(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Return codes of each column of numbers: for doubles also where the last bit that is set stands."""
    if not np.issubdtype(numbers.dtype, np.floating):
        return np.asarray(np.mod(numbers, RESIDUES), dtype=np.int64)
    doubles = np.ascontiguousarray(numbers, dtype=np.float64)
    return np.concatenate([doubles.view(np.int64) % RESIDUES, last_bit(doubles)], axis=1)


def last_bit(doubles: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return e with  x = odd 2^e;  noise in doubles reaches finer e around 0 than around other sums."""
    fractions, exponents = np.frexp(doubles)
    mantissas = np.abs(fractions * 2.0**53).astype(np.int64)
    trailing = np.frexp((mantissas & -mantissas).astype(np.float64))[1] - 1
    return np.where(mantissas == 0, 0, exponents.astype(np.int64) - 53 + trailing)


def leaf_codes(documents: Sequence[Any], *, width: int) -> NDArray[np.int64]:
    """Return one line for each document of plain values: two codes, the value and its end, for `width` leaves."""
    result = np.full((len(documents), 2 * width), -1, dtype=np.int64)
    for line, document in zip(result, documents, strict=True):
        found = [code for leaf in itertools.islice(leaves(document), width) for code in (_value(leaf), _end(leaf))]
        line[: len(found)] = found
    return result


def leaves(value: Any) -> Iterator[Any]:
    """List the numbers and texts in a document of plain values, in its order."""
    if isinstance(value, dict):
        for name in value:
            yield from leaves(value[name])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def _value(leaf: Any) -> int:
    return zlib.crc32(repr(leaf).encode())


def _end(leaf: Any) -> int:
    if isinstance(leaf, int):
        return leaf % RESIDUES
    return int(np.float64(leaf).view(np.int64)) % RESIDUES if isinstance(leaf, float) else 0
