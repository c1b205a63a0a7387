"""What no other choice beats: Pareto fronts and the volume they win."""

import numpy as np
import numpy.typing as npt

from starcast.errors import DataError, plural

Floats = npt.NDArray[np.float64]


def pareto_mask(points: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return which points no other beats: none is at least as large in every column and larger in one.

    Rows with NaN are not on the front and beat nothing; of equal points all stay.

    >>> pareto_mask([[1, 3], [2, 2], [1, 2], [2, 2], [9, float("nan")]]).tolist()
    [True, True, False, True, False]
    """
    table = _as_points(points)
    mask = np.asarray(~np.isnan(table).any(axis=1), bool)
    rows = np.flatnonzero(mask)
    # Descending in the first column, then in the next: whoever beats a point stands before it.
    rows = rows[np.lexsort(-table[rows].T[::-1])] if table.shape[1] else rows
    sorted_points = table[rows]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (sorted_points[1:] != sorted_points[:-1]).any(axis=1)
    mask[rows] = _unbeaten(sorted_points[is_new])[np.cumsum(is_new) - 1]
    return mask


def _unbeaten(points: Floats) -> npt.NDArray[np.bool_]:
    """Return which of different points in descending order no earlier one beats."""
    n, n_columns = points.shape
    mask = np.ones(n, bool)
    if n_columns == 2:  # one pass: the second column must be larger than all before
        mask[1:] = points[1:, 1] > np.maximum.accumulate(points[:, 1])[:-1]
        return mask
    front, size = np.empty_like(points), 0
    for k, point in enumerate(points):
        mask[k] = not (front[:size] >= point).all(axis=1).any()
        if mask[k]:
            front[size] = point
            size += 1
    return mask


def hypervolume(points: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Return the volume that the points win over the reference: of all that lies above it and below some point.

    Exact, larger is better in every column. Points that are not above the reference in every column win nothing.

    >>> hypervolume([[1, 3], [2, 2], [3, 1]], [0, 0])
    6.0
    >>> hypervolume([[2, 2, 2], [1, 1, 3]], [0, 0, 0])
    9.0
    """
    table, origin = _as_points(points), np.asarray(reference, np.float64)
    if origin.shape != (table.shape[1],) or not np.isfinite(origin).all():
        raise DataError(f"reference must be {plural(table.shape[1], 'finite number')}, got {reference!r}.")
    if np.isinf(table).any():
        raise DataError("points must be finite, got infinity. Leave such rows out.")
    above = table[pareto_mask(table) & (table > origin).all(axis=1)] - origin  # NaN is above nothing
    return float(_volume(above[np.lexsort(-above.T)]))


def _volume(points: Floats) -> float:
    """Return the volume over zero; the points descend in the last column."""
    if len(points) == 0:
        return 0.0
    if points.shape[1] == 1:
        return float(points[:, 0].max())
    ends = points[:, -1]
    slices = ends - np.append(ends[1:], 0.0)
    if points.shape[1] == 2:
        return float(np.maximum.accumulate(points[:, 0]) @ slices)
    volume = 0.0
    for k in np.flatnonzero(slices):  # between two heights, the shadow of all points that reach that high
        shadow = points[: k + 1, :-1]
        shadow = shadow[pareto_mask(shadow)]
        volume += slices[k] * _volume(shadow[np.lexsort(-shadow.T)])
    return volume


def _as_points(points: npt.ArrayLike) -> Floats:
    try:
        table = np.asarray(points, np.float64)
    except (TypeError, ValueError):
        raise DataError("points must be a table of numbers, a row per point and a column per objective.") from None
    if table.ndim != 2:
        raise DataError(f"points must have a row per point and a column per objective, got the shape {table.shape}.")
    return table
