"""Ratings and times as numbers: the scale that ratings stand on, and each rating's place on it."""

import datetime
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.errors import DataError, plural
from starcast.names import column_values, exact_values, plain

Floats = npt.NDArray[np.float64]
MOST_SCORES = 127


def make_scale(scores: object) -> Floats:
    """Return an ascending scale of 2 to 127 distinct finite scores.

    Scores that differ by no more than the rounding of single precision are one, the one with the fewest digits.

    >>> make_scale([5, 1, 3]).tolist(), make_scale([0.1 + 0.2, 0.3, 0.5]).tolist()
    ([1.0, 3.0, 5.0], [0.3, 0.5])
    """
    scale = _without_noise(np.unique(as_numbers(scores, "scores")))
    if len(scale) > MOST_SCORES:
        raise DataError(
            f"a scale has at most {MOST_SCORES} scores, got {len(scale):,} from {scale[0]:g} to {scale[-1]:g}. "
            f"{coarser_advice(scale)}"
        )
    if len(scale) < 2:
        raise DataError(
            f"a scale needs at least two different scores, got only {scale[0]:g}. Pass the whole scale as scores=."
        )
    if not np.isfinite(float(scale[-1]) - float(scale[0])):
        raise DataError(f"a scale must have a finite width, got one from {scale[0]:g} to {scale[-1]:g}. Divide it.")
    return scale


def _without_noise(scale: Floats) -> Floats:
    """Return ascending scores, those that only rounding makes different as one."""
    if len(scale) > 10 * MOST_SCORES:  # a continuous scale, not a noisy one
        return scale
    with np.errstate(over="ignore"):
        near = np.diff(scale) <= _noise(np.maximum(np.abs(scale[1:]), np.abs(scale[:-1])), scale)
    if not near.any():
        return scale
    groups = np.split(scale, np.flatnonzero(~near) + 1)
    return np.array([min(group.tolist(), key=lambda score: len(repr(score))) for group in groups])


def _noise(scores: Floats, scale: Floats) -> Floats:
    """Return the difference that the rounding of single precision makes at each score.

    It goes by the score, not by the largest one: an outlier must not make one of all the others. At 0, where sums that
    should be 0 are not, it is that of 1, or of the largest score if that is less.
    """
    floor = min(1.0, float(np.abs(scale).max()))
    return np.asarray(1e-7 * np.maximum(np.abs(scores), floor))


def coarser_advice(scale: Floats) -> str:
    """Return what to do about a scale that is too long, with a shorter one for the same ratings."""
    low, high = float(np.floor(scale[0])), float(np.ceil(scale[-1]))
    n = int(high - low) if 4 <= high - low <= 20 else 10
    scores = ", ".join(f"{low + k * (high / n - low / n):g}" for k in range(n + 1))
    return f'Pass a coarser scale and round to it: scores=[{scores}] with off_scale="nearest".'


def score_codes(values: Floats, scale: Floats, rule: str = "error") -> npt.NDArray[np.int8]:
    """Return the place of each rating on the scale; `rule` is `off_scale` of :meth:`starcast.Ratings.from_arrays`."""
    code, off = place_on(values, scale, rule)
    if off.any():
        raise DataError(off_scale(values[off][0], int(off.sum()), scale))
    return code


def place_on(values: Floats, scale: Floats, rule: str) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
    """Return the place of each rating on the scale, and which ratings have none."""
    code = np.minimum(np.searchsorted(scale, values), len(scale) - 1)
    off = scale[code] != values
    if off.any():
        with np.errstate(over="ignore"):
            code[off], off[off] = _place_between(values[off], scale, code[off], rule)
    return code.astype(np.int8), off


def _place_between(
    values: Floats, scale: Floats, upper: npt.NDArray[np.intp], rule: str
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    lower = np.maximum(upper - 1, 0)
    code = np.where(values - scale[lower] <= scale[upper] - values, lower, upper)
    good = np.abs(values - scale[code]) <= _noise(scale[code], scale)
    if rule == "nearest":  # what lies beyond the ends by more than half a step is no rating on this scale
        good |= (values >= 1.5 * scale[0] - 0.5 * scale[1]) & (values <= 1.5 * scale[-1] - 0.5 * scale[-2])
    return code, ~good


def off_scale(value: float, count: int, scale: Floats, where: str = "") -> str:
    """Return the message for ratings that are not on the scale."""
    listed = ", ".join(_digits(score) for score in scale[:12]) + (", …" if len(scale) > 12 else "")
    found = f"{_digits(value)}{where} ({plural(count, 'such rating')})"
    return f"ratings must be on the scale {listed}; got {found}. Mend them or the scale."


def _digits(value: float) -> str:
    """Return all digits of a number."""
    return str(float(value)).removesuffix(".0")


def nearest(values: Floats, scale: Floats) -> npt.NDArray[np.int8]:
    """Return the place of the score that is nearest to each value, the lower one if two are as near."""
    return np.asarray(np.abs(values[:, None] - scale).argmin(axis=1), np.int8)


def as_numbers(values: object, what: str) -> Floats:
    """Return a column of at least one finite number; anything else is an error that calls it `what`."""
    if hasattr(values, "to_numpy"):
        values = column_values(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "cmM":  # NumPy would make numbers of them somehow
        raise DataError(f"{what} must be numbers, got {values.dtype}.")
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():  # NumPy would take what lies under the mask
        raise DataError(f"{what} must not be missing, but {values.mask.sum():,} of {values.size:,} are.")
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(_not_numbers(values, what)) from None
    if numbers.ndim != 1:
        raise DataError(f"{what} must be one-dimensional, got the shape {numbers.shape}.")
    if len(numbers) == 0:
        raise DataError(f"{what} must hold at least one number, got none.")
    bad_rows = np.flatnonzero(~np.isfinite(numbers))
    if len(bad_rows):
        raise DataError(
            f"{what} must be finite, got {numbers[bad_rows[0]]} at position {bad_rows[0]:,} "
            f"({len(bad_rows):,} such of {len(numbers):,})."
        )
    return numbers


def _not_numbers(values: object, what: str) -> str:
    column = values if isinstance(values, (Sequence, np.ndarray)) and not isinstance(values, str) else [values]
    bad = [value for value in column if not _is_number(value)]
    return f"{what} must be numbers, got {bad[0]!r:.60} ({len(bad):,} such)."


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def finite_rows(values: object) -> npt.NDArray[np.bool_]:
    """Tell which values of a column are finite numbers."""
    column = column_values(values) if hasattr(values, "to_numpy") else values
    if isinstance(column, np.ndarray) and column.dtype.kind in "cmM":
        return np.zeros(column.shape, bool)
    if isinstance(column, np.ma.MaskedArray):
        return ~np.ma.getmaskarray(column) & finite_rows(column.data)
    try:
        return np.isfinite(np.asarray(column, np.float64))
    except (TypeError, ValueError, OverflowError):
        good = [_is_number(value) and math.isfinite(float(value)) for value in column]  # type: ignore[attr-defined]
        return np.array(good, np.bool_)


def as_seconds(timestamps: object, n: int) -> npt.NDArray[np.int64]:
    """Return `n` times, numbers or dates, as whole seconds since 1970."""
    times = as_times(timestamps)
    if times.shape != (n,):
        raise DataError(f"timestamps must be {n:,} numbers or dates, got {times.dtype} of shape {times.shape}.")
    seconds, good = read_times(times)
    if not good.all():
        at = int(np.flatnonzero(~good)[0])
        raise DataError(
            f"timestamps must be numbers of seconds or dates, got {plain(times[at])!r:.60} at position {at:,} "
            f"({int((~good).sum()):,} such of {n:,}). Write dates as 2005-09-06 or 2005-09-06T12:30:00Z, or give no "
            "timestamps."
        )
    return seconds


def as_times(timestamps: object) -> npt.NDArray[Any]:
    """Return a column of times as an array; dates with a time zone are moved to UTC."""
    if getattr(getattr(timestamps, "dtype", None), "tz", None) is not None:  # pandas would give objects
        return np.asarray(timestamps.to_numpy("datetime64[us]"))  # type: ignore[attr-defined]
    if hasattr(timestamps, "to_numpy"):
        return exact_values(timestamps, "timestamps")
    try:
        times = timestamps if isinstance(timestamps, np.ndarray) else np.asarray(timestamps, None)
    except ValueError:  # lists of different lengths
        times = np.array([timestamps], object)
    if times.dtype.kind in "US" and not isinstance(timestamps, np.ndarray):  # numbers among texts became text
        times = np.array(timestamps, object)
    return times


def read_times(times: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return times as whole seconds since 1970, and which could be read.

    Numbers from 1e11 on are milliseconds, from 1e14 on microseconds, from 1e17 on nanoseconds: 1e11 seconds are the
    year 5138, 1e11 milliseconds the year 1973. The native reader of text has the same rule.

    >>> read_times(np.array([1125964800, 1125964800000]))[0].tolist()
    [1125964800, 1125964800]
    """
    kind = times.dtype.kind
    if times.ndim != 1 or kind not in "MiufOUT":
        return np.zeros(times.shape, np.int64), np.zeros(times.shape, bool)
    if kind == "M":
        good = ~np.isnat(times)
        return np.where(good, times, np.datetime64(0, "s")).astype("datetime64[s]").astype(np.int64), good
    if kind in "iuf":
        good = np.isfinite(times) & (np.abs(times.astype(np.float64)) < 9e18)
        whole = np.floor(times) if kind == "f" else times
        number = np.where(good, whole, np.zeros(1, times.dtype)).astype(np.int64)
        unit = np.ones(len(number), np.int64)
        for limit in (10**11, 10**14, 10**17):
            unit[(number >= limit) | (number < -limit)] *= 1000
        return number // unit, good
    column = times.astype(object)
    seconds, read = _native.parse_times(column.tolist())
    good = read.astype(bool)
    for at in np.flatnonzero(~good).tolist():  # what is no text
        second = _seconds(column[at])
        if second is not None:
            seconds[at], good[at] = second, True
    return seconds, good


def _seconds(value: object) -> int | None:
    """Return a time that is an object as whole seconds since 1970, or None."""
    if isinstance(value, datetime.datetime) and value == value:  # pandas' NaT is one, too
        moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return math.floor(moment.timestamp())
    if isinstance(value, datetime.date) and value == value:
        return (value.toordinal() - datetime.date(1970, 1, 1).toordinal()) * 86400
    if isinstance(value, (int, float, np.number, np.datetime64)) and not isinstance(value, (bool, complex)):
        seconds, good = read_times(np.array([value]))
        return int(seconds[0]) if good[0] else None
    return None
