"""Names of users and items, and the integers that stand for them."""

import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.errors import DataError

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int32]

LARGEST_FLOAT = 2**53  # up to it every whole number has a float of its own
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")  # in the one way that survives a round trip
WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,14})(?:\.0+)?")
LONG = re.compile(r"-?[1-9][0-9]{15,}")  # an integer that may be too large for 64 bits
SPARSEST = 8  # places in a table for every integer name, at most


def code_names(values: object, what: str, ids: str = "auto") -> tuple[Array, Codes]:
    """Return the distinct names in the order of first appearance, and each value's place among them.

    Integers come back as an int64 array, strings as an object array of ``str``. `what` names the values in errors.

    >>> names, codes = code_names(["b", "a", "b"], "users")
    >>> names.tolist(), codes.tolist()
    (['b', 'a'], [0, 1, 0])
    """
    column = as_names(values, what, ids)
    if column.dtype != object:
        codes, first = _native.code_integers(column)
        return column[first], codes
    places: dict[str, int] = {}
    codes = np.fromiter((places.setdefault(name, len(places)) for name in column), np.int32, len(column))
    return strings(places), codes


def as_names(values: object, what: str, ids: str = "auto") -> Array:
    """Return the values as int64 or as an object array of str; anything else is an error.

    A lone string or number counts as one name. Floats that are whole numbers count as integers. With ``ids="text"``
    integers become text.
    """
    array = as_column(values, what)
    if np.ma.is_masked(array):
        raise DataError(f"{what} must not be missing, but {np.ma.getmaskarray(array).sum():,} of {array.size:,} are.")
    if array.ndim != 1:
        raise DataError(f"{what} must be one-dimensional, got the shape {array.shape}.")
    kind = array.dtype.kind
    if kind in "UTO":
        return _uniform(array.astype(object), what, ids)
    names = _integers(array, what)
    return strings(names.tolist()) if ids == "text" else names


def as_column(values: object, what: str) -> Array:
    """Return a sequence of names as an array of any type; a lone string or number counts as one name."""
    if isinstance(values, (str, int, np.integer)) and not isinstance(values, bool):
        values = [values]
    if hasattr(values, "to_numpy"):
        values = exact_values(values, what)
    return values if isinstance(values, np.ndarray) else _array_of(values, what)


def named_rows(column: Array) -> npt.NDArray[np.bool_]:
    """Tell which values of a column can be names: neither missing nor anything but text and whole numbers."""
    hidden = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else np.zeros(len(column), bool)
    kind = column.dtype.kind
    if kind == "f":
        return np.asarray(~hidden & (np.trunc(column) == column) & (np.abs(column) <= LARGEST_FLOAT), bool)
    if kind in "iuU" or set(map(type, column)) == {str}:
        return ~hidden
    named = np.fromiter((_kind(value) in ("str", "int") for value in column), bool, len(column))
    return np.asarray(~hidden & named, bool)


def _integers(array: Array, what: str) -> Array:
    """Return an array of numbers as int64 if all of them are whole."""
    kind = array.dtype.kind
    if kind in "iu":
        if kind == "u" and len(array) and array.max() > np.iinfo(np.int64).max:
            raise DataError(f"{what} must fit in 64 signed bits, got {array.max()}. Give them as strings.")
        return np.ascontiguousarray(array, np.int64)
    if len(array) == 0:
        return np.empty(0, np.int64)
    missing = int(np.isnan(array).sum()) if kind == "f" else 0
    if missing:  # a column of integers with gaps comes as floats with NaN
        raise DataError(f"{what} must not be missing, but {missing:,} of {len(array):,} are.")
    odd = ~named_rows(array) if kind == "f" else np.ones(len(array), bool)
    if odd.any():
        raise DataError(f"{what} must be strings or integers, got {array.dtype} ({array[odd][0].item()!r} first).")
    return array.astype(np.int64)


def column_values(column: Any) -> Array:
    """Return a column of a data frame as an array; PyArrow copies only when it is told that it may."""
    try:
        return np.asarray(column.to_numpy())
    except ValueError:
        return np.asarray(column.to_numpy(zero_copy_only=False))


def exact_values(column: Any, what: str) -> Array:
    """Return a column of a data frame as an array; integers beside missing values as objects.

    NumPy has no missing integers, and floats in their place would be other numbers from 2**53 on.
    """
    import narwhals as nw

    series = nw.from_native(column, allow_series=True, pass_through=True)
    if isinstance(series, nw.Series):
        dtype, gaps, values = str(series.dtype), series.null_count(), series.to_list
    else:  # an array of PyArrow, which Narwhals takes in a table only, or an index of pandas
        dtype, gaps = str(getattr(column, "type", "")), getattr(column, "null_count", 0)
        values = getattr(column, "to_pylist", column.to_numpy)
    if dtype in ("Int128", "UInt128"):
        raise DataError(f"{what} must fit in 64 signed bits, got a column of {dtype}. Cast it to Int64 or to text.")
    if gaps and dtype.lower().removeprefix("u").startswith("int"):
        return np.array(values(), object)
    return column_values(column)


def _array_of(values: object, what: str) -> Array:
    if not isinstance(values, Iterable) or isinstance(values, bytes):
        raise DataError(f"{what} must be a sequence of strings or integers, got {values!r}.")
    column = list(values)
    return np.fromiter(column, object, len(column))


def _uniform(array: Array, what: str, ids: str) -> Array:
    """Return an object array of one type, which must be str or int."""
    if set(map(type, array)) == {str}:  # all but always, and told apart without a loop
        return _encodable(array, what)
    kinds: dict[str, Any] = {}
    for value in array:
        kinds.setdefault(_kind(value), value)
    if not kinds:
        return np.empty(0, np.int64)
    if "missing" in kinds:
        missing = sum(_kind(value) == "missing" for value in array)
        raise DataError(f"{what} must not be missing, but {missing:,} of {len(array):,} are.")
    if set(kinds) == {"str"}:
        return _encodable(strings(array), what)
    if set(kinds) <= {"str", "int"} and ids == "text":
        return _encodable(strings(value if isinstance(value, str) else int(value) for value in array), what)
    if set(kinds) == {"int"}:
        try:
            return array.astype(np.int64)
        except OverflowError:
            raise DataError(f"{what} must fit in 64 signed bits. Give larger ones as strings.") from None
    found = ", ".join(f"{kind} ({value!r})" for kind, value in kinds.items())
    raise DataError(f"{what} must be all strings or all integers, got {found}. Convert them to one type.")


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "str"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return "int"
    if isinstance(value, (float, np.floating)) and value.is_integer() and abs(float(value)) <= LARGEST_FLOAT:
        return "int"
    return "missing" if is_missing(value) else type(value).__name__


def is_missing(value: object) -> bool:
    """Tell whether a value is None, NaN, NaT, or pandas' NA, which will not be compared."""
    if value is None or type(value).__name__ == "NAType":
        return True
    same = value == value
    return isinstance(same, (bool, np.bool_)) and not same


def _encodable(names: Array, what: str) -> Array:
    """Return the names unless one holds half a character, which no file and no data frame could."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        bad = next(name for name in names if any("\ud800" <= letter <= "\udfff" for letter in name))
        raise DataError(f"{what} must be text that UTF-8 can hold, got {bad!r}.") from None
    return names


def strings(values: Iterable[Any]) -> Array:
    """Return an object array of plain ``str``.

    >>> strings(["a", "b"])
    array(['a', 'b'], dtype=object)
    """
    column = [str(value) for value in values]
    array = np.empty(len(column), object)
    array[:] = column
    return array


def is_integer(text: str) -> bool:
    """Tell whether a text is an integer of 64 bits in the one way of writing it that survives a round trip.

    >>> is_integer("7"), is_integer("007"), is_integer(str(2**63 - 1)), is_integer(str(2**63))
    (True, False, True, False)
    """
    return INTEGER.fullmatch(text) is not None and (len(text) < 19 or -(2**63) <= int(text) < 2**63)


def whole_names(names: Sequence[str], codes: Codes) -> tuple[Array, Codes]:
    """Return names that a text file holds, as integers if all are whole numbers, some of them written as 7.0.

    >>> names, codes = whole_names(["7.0", "8", "7"], np.array([0, 1, 2, 0], np.int32))
    >>> names.tolist(), codes.tolist()
    ([7, 8], [0, 1, 0, 0])
    """
    found = [WHOLE.fullmatch(names[0])] if len(names) else [None]
    if found[0] is None or None in (found := [WHOLE.fullmatch(name) for name in names]):
        return strings(names), codes
    numbers = np.array([int(name[1]) for name in found if name], np.int64)
    merged, first = _native.code_integers(numbers)
    return numbers[first], merged[codes]


class Lookup:
    """Finds the codes of names, by what is built at the first question.

    An integer finds the text that it is written as, and such a text the integer: "7" and 7, but not "007" and 7.
    Strings have a dict. Integers have a table from the lowest to the highest where that is not much longer than they
    are many, else a sorted copy.

    >>> Lookup(np.array([30, 10, 20])).codes([10, 99], "users").tolist()
    [1, -1]
    """

    def __init__(self, names: Array) -> None:
        self.names = names
        self._places: dict[Hashable, int] | None = None
        self._has_digits: bool | None = None  # whether some text here could be an integer
        self._table: Codes | None = None  # by distance from the lowest name; -1 at the end
        self._sorted: tuple[Array, Array] | None = None

    def codes(self, queries: object, what: str) -> Codes:
        """Return the code of each query, -1 where it is unknown."""
        return self.find(as_names(queries, what), what)

    def find(self, wanted: Array, what: str) -> Codes:
        """Return the same for names that :func:`as_names` returned."""
        if len(wanted) == 0 or len(self.names) == 0:
            return np.full(len(wanted), -1, np.int32)
        if self.names.dtype == object:
            if self._places is None:
                self._places = {name: code for code, name in enumerate(self.names)}
            places = self._places
            return np.fromiter((places.get(name, -1) for name in self.alike(wanted, what)), np.int32, len(wanted))
        if wanted.dtype != object:
            return self._codes_of_integers(wanted)
        whole = np.fromiter((is_integer(name) for name in wanted), bool, len(wanted))
        if not whole.any() and not any(map(LONG.fullmatch, wanted)):  # an integer too large for 64 bits is only unknown
            raise self._other_kind(wanted, what)
        codes = np.full(len(wanted), -1, np.int32)
        codes[whole] = self._codes_of_integers(wanted[whole].astype(np.int64))
        return codes

    def alike(self, wanted: Array, what: str) -> Array:
        """Return names as the type that the names here have, if each has exactly one form in it.

        Integers become text where some of the names here are integers written as text; text becomes integers where
        all of it is.
        """
        if len(self.names) == 0 or (wanted.dtype == object) == (self.names.dtype == object):
            return wanted
        if wanted.dtype != object:
            if self._has_digits is None:
                self._has_digits = any(map(is_integer, self.names))
            if not self._has_digits:
                raise self._other_kind(wanted, what)
            return strings(wanted.tolist())
        whole = np.fromiter((is_integer(name) for name in wanted), bool, len(wanted))
        if not whole.all():
            raise self._other_kind(wanted[~whole], what)
        return wanted.astype(np.int64)

    def _other_kind(self, wanted: Array, what: str) -> DataError:
        have, got = ("strings", "integers") if self.names.dtype == object else ("integers", "strings")
        return DataError(
            f"{what} are {have} here (such as {plain(self.names[0])!r}), got {got} (such as {plain(wanted[0])!r}). "
            f"Ask with {have}."
        )

    def _codes_of_integers(self, wanted: Array) -> Codes:
        if self._table is None and self._sorted is None:
            self._index_integers()
        if self._table is not None:
            far = (wanted < self._low) | (wanted >= self._low + len(self._table) - 1)
            return self._table[np.where(far, -1, wanted - self._low)]
        assert self._sorted is not None
        names, order = self._sorted
        at = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
        return np.where(names[at] == wanted, order[at], -1).astype(np.int32)

    def _index_integers(self) -> None:
        low, high = int(self.names.min()), int(self.names.max())
        if high - low < SPARSEST * len(self.names) + 1024 and high < np.iinfo(np.int64).max:
            table = np.full(high - low + 2, -1, np.int32)
            table[self.names - low] = np.arange(len(self.names), dtype=np.int32)
            self._low, self._table = low, table  # once it is whole: other threads may be asking
        else:
            order = np.argsort(self.names, kind="stable")
            self._sorted = self.names[order], order

    def parse(self, texts: Sequence[str]) -> list[Any]:
        """Return names typed as text (on a command line, in a URL) as the type that the names have.

        Integers are told by the rule for text files: 7 and 7.0 are the integer 7, 007 and numbers of more than 64 bits
        stay text.
        """
        if self.names.dtype == object:
            return list(texts)
        return [_integer_or_text(text) for text in texts]


def _integer_or_text(text: str) -> int | str:
    if whole := WHOLE.fullmatch(text):
        return int(whole[1])
    is_short = len(text) <= 20  # Python refuses to read thousands of digits
    return int(text) if LONG.fullmatch(text) and is_short and -(2**63) <= int(text) < 2**63 else text


def plain(name: Any) -> Any:
    """Return a name as Python shows it best: 7 rather than np.int64(7)."""
    return name.item() if isinstance(name, np.generic) else name
