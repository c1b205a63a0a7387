"""A table of rows: model, parameters, threshold, metric values."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starcast.errors import choose
from starcast.frames import make_frame


class Results:
    """Rows of figures, each a mapping from column to value; a column that a row lacks is missing there.

    >>> table = Results([{"model": "item", "nll": 1.36}]) + Results([{"model": "bayes", "nll": 1.27}])
    >>> table["nll"]
    [1.36, 1.27]
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        self.rows = [dict(row) for row in rows]
        self.columns = list(dict.fromkeys(column for row in self.rows for column in row))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, column: str) -> list[Any]:
        choose("column", column, self.columns)
        return [row.get(column) for row in self.rows]

    def __add__(self, other: "Results") -> "Results":
        return Results(self.rows + other.rows)

    def __repr__(self) -> str:
        return f"Results({len(self)} rows: {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        from starcast.html import results_html
        from starcast.objectives import known_direction

        ways = {column: way for column in self.columns if (way := known_direction(column)) is not None}
        return results_html("Results", [], {column: self[column][:50] for column in self.columns}, ways, len(self))

    def where(self, **wanted: Any) -> "Results":
        """Return the rows that have the given values.

        >>> len(Results([{"model": "item"}, {"model": "bayes"}]).where(model="item"))
        1
        """
        return Results([row for row in self.rows if all(row.get(name) == value for name, value in wanted.items())])

    def to_frame(self, like: object = None) -> Any:
        """Return the table as a data frame of the kind of `like`, Polars by default."""
        return make_frame({column: self[column] for column in self.columns}, like)

    def to_csv(self) -> str:
        """Return the table as CSV text."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()
