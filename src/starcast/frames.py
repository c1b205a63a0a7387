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
    """Return the columns as a frame of the library that `like` (a frame, a column or a pandas index) comes from.

    NaN in a column named ``prediction`` means withheld and becomes a missing value. A frame without rows has the types
    of one with rows; an empty array of objects counts as text.

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
    if backend is nw.Implementation.PYARROW:
        return _as_arrow(frame)
    return _as_pandas(frame)


def make_aligned_frame(columns: dict[str, Any], *questions: object) -> Any:
    """Return the columns as a frame of the first question's kind that has one, a row for each row of the questions.

    In pandas it has the index of the first column or frame that is as long: an answer can be assigned to the frame that
    the question came from, whatever the order of its rows.
    """
    like = first_of_frame(*questions)
    frame = make_frame(columns, like)
    if like is None:
        return frame
    import narwhals as nw

    if not nw.dependencies.is_pandas_dataframe(frame):
        return frame
    is_series, is_frame = nw.dependencies.is_pandas_series, nw.dependencies.is_pandas_dataframe
    asked = [one for one in questions if is_series(one) or is_frame(one)]
    index = next((one.index for one in asked if len(one) == len(frame)), None)
    return frame if index is None else frame.set_axis(index)


def first_of_frame(*questions: object) -> object:
    """Return the first of the arguments that comes from a frame library, None if there is none."""
    return next((question for question in questions if backend_of(question) is not None), None)


def _as_arrow(frame: "pl.DataFrame") -> Any:
    """Return an Arrow table with plain strings, which Polars would make large ones."""
    import pyarrow as pa

    table = frame.to_arrow()
    types = [pa.string() if field.type == pa.large_string() else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, types, strict=True))))


def _as_pandas(frame: "pl.DataFrame") -> Any:
    import narwhals as nw

    series = {
        name: values.to_list() if _needs_list(values) else values.to_numpy()
        for name, values in zip(frame.columns, frame, strict=True)
    }
    # Without rows nothing tells the types, so the schema does; with rows it would turn None into the text "None".
    schema = nw.from_native(frame).schema if frame.is_empty() else None
    return nw.from_dict(series, schema, backend="pandas").to_native()


def _needs_list(values: "pl.Series") -> bool:
    """Tell whether an array could not hold the column; NaN stands for missing numbers in pandas, where a list of
    nothing but None would be no column of numbers."""
    return not values.dtype.is_numeric() and (values.dtype.to_python() is str or values.null_count() > 0)


def _column(name: str, values: Any) -> "pl.Series":
    import polars as pl

    if isinstance(values, np.ndarray) and values.dtype == object:
        if len(values) == 0:
            return pl.Series(name, [], pl.String)
        values = values.tolist()
    # Not strict: a parameter may be a number in one row and "auto" in the next.
    return pl.Series(name, values, nan_to_null=name == "prediction", strict=False)


def backend_of(like: object) -> "nw.Implementation | None":
    """Return the frame library of a frame, a column or a pandas index, None for lists, arrays and the like."""
    if like is None or isinstance(like, (str, int, np.ndarray, list, tuple)):
        return None
    import narwhals as nw

    if nw.dependencies.is_pandas_index(like):  # Narwhals takes columns, but no index
        return nw.Implementation.PANDAS
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
