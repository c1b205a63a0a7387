"""Ratings and times as numbers: the scale that ratings stand on, and each rating's place on it."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from starcast.errors import DataError, plural
from starcast.names import column_values

Floats = npt.NDArray[np.float64]
MOST_SCORES = 127


def make_scale(scores: object) -> Floats:
    """Return an ascending scale of 2 to 127 distinct finite scores.

    >>> make_scale([5, 1, 3]).tolist()
    [1.0, 3.0, 5.0]
    """
    scale = np.unique(as_numbers(scores, "scores"))
    if len(scale) > MOST_SCORES:
        raise DataError(
            f"a scale has at most {MOST_SCORES} scores, got {len(scale):,} from {scale[0]:g} to {scale[-1]:g}. "
            "Round the ratings to a coarser scale first."
        )
    if len(scale) < 2:
        raise DataError(
            f"a scale needs at least two different scores, got only {scale[0]:g}. Pass the whole scale as scores=."
        )
    if not np.isfinite(float(scale[-1]) - float(scale[0])):
        raise DataError(f"a scale must have a finite width, got one from {scale[0]:g} to {scale[-1]:g}. Divide it.")
    return scale


def score_codes(values: Floats, scale: Floats) -> npt.NDArray[np.int8]:
    """Return the place of each rating on the scale."""
    code = np.searchsorted(scale, values)
    off = scale[np.minimum(code, len(scale) - 1)] != values
    if off.any():
        raise DataError(off_scale(values[off][0], int(off.sum()), scale))
    return code.astype(np.int8)


def off_scale(value: float, count: int, scale: Floats, where: str = "") -> str:
    """Return the message for ratings that are not on the scale."""
    listed = ", ".join(_digits(score) for score in scale[:12]) + (", …" if len(scale) > 12 else "")
    found = f"{_digits(value)}{where} ({plural(count, 'such rating')})"
    return f"ratings must be on the scale {listed}; got {found}. Mend them or the scale."


def _digits(value: float) -> str:
    """Return all digits of a number, so that 0.1 + 0.2 does not read as the 0.3 that it is not."""
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


def as_seconds(timestamps: object, n: int) -> npt.NDArray[np.int64]:
    """Return `n` times, numbers or dates, as whole seconds since 1970."""
    times = column_values(timestamps) if hasattr(timestamps, "to_numpy") else np.asarray(timestamps)
    good = times.shape == (n,) and times.dtype.kind in "iufM" and bool(np.isfinite(times).all())  # NaT is not finite
    if good and times.dtype.kind == "M":
        return times.astype("datetime64[s]").astype(np.int64)
    if not good or (np.abs(times.astype(np.float64)) >= 2.0**63).any():
        raise DataError(f"timestamps must be {n:,} finite numbers or dates, got {times.dtype} of shape {times.shape}.")
    return np.array(np.floor(times), np.int64)
