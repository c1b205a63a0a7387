"""Which column holds users, items, ratings and times: the names that people give them."""

from collections.abc import Sequence

from starcast.errors import DataError

ROLES = {
    "user": ["user", "users", "userid", "uid", "reviewer", "reviewerid", "customer", "customerid", "who"],
    "item": [
        "item", "items", "itemid", "iid", "movie", "movieid", "film", "filmid", "anime", "animeid", "book", "bookid",
        "isbn", "product", "productid", "asin", "business", "businessid", "song", "songid", "track", "game", "gameid",
    ],
    "rating": ["rating", "ratings", "score", "stars", "value", "overall", "bookrating", "vote"],
    "timestamp": [
        "timestamp", "unixtime", "unixreviewtime", "ts", "datetime", "createdat", "ratedat", "date", "ratingdate",
        "reviewdate", "when", "time",  # beside a date, a time is one of day
    ],
}  # fmt: skip
TITLES = ["title", "movietitle", "booktitle", "itemtitle", "name", "itemname"]


def column_positions(header: Sequence[str], columns: Sequence[str | int] | None, where: str) -> list[int]:
    """Return the positions of user, item, rating and, if there is one, timestamp.

    `columns` gives them by name or by position; without it the names in the header are recognised.

    >>> column_positions(["movieId", "userId", "rating"], None, "the file")
    [1, 0, 2]
    """
    if columns is None:
        found = [_recognise(header, role) for role in ROLES]
        missing = [role for role, at in zip(ROLES, found, strict=True) if at is None and role != "timestamp"]
        if missing:
            raise DataError(
                f"no column of {where} is recognised as the {' or the '.join(missing)}; there are: "
                f"{', '.join(map(str, header))}. Name them: columns=('USER', 'ITEM', 'RATING')."
            )
        return [at for at in found if at is not None]
    if not isinstance(columns, Sequence) or isinstance(columns, str) or len(columns) not in (3, 4):
        raise DataError(f"columns must name the user, item and rating column (and the timestamp), got {columns!r}.")
    places = [_position(header, column, where) for column in columns]
    if len(set(places)) < len(places):
        raise DataError(f"columns must name different columns, got {list(columns)!r}.")
    return places


def pair_positions(header: Sequence[str]) -> tuple[int, int] | None:
    """Return the positions of the user and the item column, or None if the header does not name both.

    >>> pair_positions(["movieId", "userId"]), pair_positions(["196", "242"])
    ((1, 0), None)
    """
    user, item = _recognise(header, "user"), _recognise(header, "item")
    return None if user is None or item is None else (user, item)


def names_a_role(header: Sequence[str]) -> bool:
    """Tell whether a header names the user or the item.

    >>> names_a_role(["userId", "what"]), names_a_role(["196", "242"])
    (True, False)
    """
    return any(_recognise(header, role) is not None for role in ("user", "item"))


def title_positions(header: Sequence[str]) -> tuple[int, int] | None:
    """Return the positions of the item and the title column, or None if the header does not name both.

    >>> title_positions(["movieId", "title", "genres"]), title_positions(["1", "Toy Story"])
    ((0, 1), None)
    """
    item, title = _recognise(header, "item"), _find(header, TITLES)
    item = _find(header, ["id"]) if item is None else item
    return None if item is None or title is None else (item, title)


def is_rating_name(name: str) -> bool:
    """Tell whether a header field reads like the name of a rating column."""
    return _plain(name) in ROLES["rating"]


def is_time_name(name: str) -> bool:
    """Tell whether a header field reads like the name of a column of times."""
    return _plain(name) in ROLES["timestamp"]


def _recognise(header: Sequence[str], role: str) -> int | None:
    return _find(header, ROLES[role])


def _find(header: Sequence[str], aliases: Sequence[str]) -> int | None:
    names = [_plain(str(name)) for name in header]
    return next((names.index(alias) for alias in aliases if alias in names), None)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _position(header: Sequence[str], column: str | int, where: str) -> int:
    if isinstance(column, int) and not isinstance(column, bool):
        if not 0 <= column < len(header):
            raise DataError(f"{where} has the columns 0 to {len(header) - 1}, got {column}.")
        return column
    column = str(column)
    if column not in header:
        raise DataError(f"{where} has no column {column!r}; there are: {', '.join(map(str, header))}.")
    return list(header).index(column)
