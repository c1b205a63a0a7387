"""Names that come block by block, coded in the order of first appearance."""

import json
from collections.abc import Iterator

import numpy as np

from starcast import _native
from starcast.errors import DataError
from starcast.names import Array, Codes, plain, strings, whole_names

LONGEST = 1 << 16  # names that are written as text at once


class Naming:
    """Gives codes to the names of users or items, 0, 1, 2, … as they first appear.

    >>> naming = Naming("users")
    >>> naming.codes(np.array([7, 3]), True).tolist(), naming.codes(np.array([3, 9]), True).tolist()
    ([0, 1], [1, 2])
    >>> naming.codes(np.array(["3", "ann"], object), True).tolist(), naming.names().tolist()
    ([1, 3], ['7', '3', '9', 'ann'])
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._numbers = np.empty(0, np.int64)
        self._texts: dict[str, int] | None = None  # once one of them is no number
        self._fixed: Array | None = None  # names of a kind that cannot change, as in a column of a data frame

    def __len__(self) -> int:
        return len(self._numbers) if self._texts is None else len(self._texts)

    def codes(self, names: Array, mixes: bool) -> Codes:
        """Return the codes of different names; `mixes` tells whether numbers among them may be taken for text."""
        if len(names) == 0:
            return np.empty(0, np.int32)
        if not mixes:
            self._check_kind(names)
        if names.dtype == object and self._texts is None:
            self._texts = {str(number): code for code, number in enumerate(self._numbers.tolist())}
            self._numbers = np.empty(0, np.int64)
        if self._texts is None:
            n = len(self._numbers)
            both = np.concatenate([self._numbers, names])
            codes, first = _native.code_integers(both)
            self._numbers = both[first]
            return np.asarray(codes[n:], np.int32)
        places = self._texts
        wanted = names.tolist() if names.dtype == object else map(str, names.tolist())
        return np.fromiter((places.setdefault(name, len(places)) for name in wanted), np.int32, len(names))

    def finish(self, ids: str) -> tuple[Array, Codes | None]:
        """Return the names, and new codes for the old where texts such as "7.0" turn out to be whole numbers."""
        names = self.names()
        if ids == "text" or self._texts is None or self._fixed is not None:
            return names, None
        whole, codes = whole_names(list(self._texts), np.arange(len(names), dtype=np.int32))
        return (names, None) if whole.dtype == object else (whole, codes)

    def names(self) -> Array:
        """Return the names in the order of their codes."""
        names = self._numbers if self._texts is None else strings(self._texts)
        if self._fixed is not None and self._fixed.dtype != names.dtype:
            raise self._two_kinds(self._fixed, names)
        return names

    def _check_kind(self, names: Array) -> None:
        if self._fixed is None:
            self._fixed = names[:1]
        elif self._fixed.dtype != names.dtype:
            raise self._two_kinds(self._fixed, names)

    def _two_kinds(self, some: Array, others: Array) -> DataError:
        found = [f"{'str' if a.dtype == object else 'int'} ({plain(a[0])!r})" for a in (some, others)]
        return DataError(
            f"{self.what} must be all strings or all integers, got {', '.join(found)}. Convert them to one type."
        )


def as_json(names: Array) -> Iterator[bytes]:
    """Yield the bytes of ``json.dumps(names.tolist())``, some at a time."""
    yield b"["
    for begin in range(0, len(names), LONGEST):
        yield (b", " if begin else b"") + json.dumps(names[begin : begin + LONGEST].tolist())[1:-1].encode()
    yield b"]"
