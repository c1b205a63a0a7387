"""Data frames out: of the kind the caller used, Polars where the caller used none.

Polars and Narwhals are imported with the first frame: they take longer than everything else together.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from starcast.errors import DataError

if TYPE_CHECKING:
    import narwhals as nw
    import polars as pl


def make_frame(columns: dict[str, Any], like: object = None) -> Any:
    """Return the columns as a frame of the library that `like` (a frame or a column of one) comes from.

    NaN in a column named ``prediction`` means withheld and becomes a missing value.

    >>> make_frame({"item": [1, 2], "prediction": np.array([4.0, np.nan])})["prediction"].null_count()
    1
    """
    import polars as pl

    frame = pl.DataFrame({name: _column(name, values) for name, values in columns.items()})
    backend = backend_of(like)
    if backend is None:
        return frame
    import narwhals as nw

    if backend is nw.Implementation.POLARS:
        return frame
    series = {
        name: values.to_list() if _needs_list(values, backend) else values.to_numpy()
        for name, values in zip(frame.columns, frame, strict=True)
    }
    return nw.from_dict(series, backend=backend).to_native()  # type: ignore[arg-type]


def _needs_list(values: "pl.Series", backend: "nw.Implementation") -> bool:
    """Tell whether an array could not hold the column; NaN stands for missing numbers in pandas, where a list of
    nothing but None would be no column of numbers."""
    if backend.is_pandas() and values.dtype.is_numeric():
        return False
    return values.dtype.to_python() is str or values.null_count() > 0


def _column(name: str, values: Any) -> "pl.Series":
    import polars as pl

    if isinstance(values, np.ndarray) and values.dtype == object:
        values = values.tolist()
    # Not strict: a parameter may be a number in one row and "auto" in the next.
    return pl.Series(name, values, nan_to_null=name == "prediction", strict=False)


def backend_of(like: object) -> "nw.Implementation | None":
    """Return the frame library of a frame or column, None for lists, arrays and the like."""
    if like is None or isinstance(like, (str, int, np.ndarray, list, tuple)):
        return None
    import narwhals as nw

    native = nw.from_native(like, pass_through=True, allow_series=True)
    implementation: nw.Implementation | None = getattr(native, "implementation", None)
    if type(like).__module__.startswith("pyarrow."):  # Narwhals takes the column of a table, but no array on its own
        return nw.Implementation.PYARROW
    if implementation in (nw.Implementation.PANDAS, nw.Implementation.PYARROW, nw.Implementation.POLARS):
        return implementation
    return None


def read_columns(frame: object) -> "nw.DataFrame[Any]":
    """Return any frame that Narwhals takes, lazy ones collected."""
    import narwhals as nw

    try:
        taken = nw.from_native(frame)  # type: ignore[call-overload]
    except TypeError:
        raise DataError(
            f"ratings must be a data frame (pandas, Polars, PyArrow, DuckDB, …), got {type(frame).__name__}. "
            "For arrays use Ratings.from_arrays, for files read_ratings."
        ) from None
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"the columns of a frame must have different names: {error}") from None
    return taken.collect("polars") if isinstance(taken, nw.LazyFrame) else taken
