"""Items by what people call them: titles, years, and a search that forgives."""

import bisect
import re
import unicodedata
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from starcast.models import Model

YEAR = re.compile(r"^(.*\S)\s*\((\d{4})(?:\s*[-–]\s*(?:\d{4})?)?\)\s*$", re.DOTALL)
WORD = re.compile(r"\w+")


class Entry(NamedTuple):
    """What is shown of an item."""

    title: str
    year: int | None


class Catalogue:
    """The items and users of a model, to be found by words."""

    def __init__(self, model: Model) -> None:
        self.items: list[Any] = model.items_.tolist()
        self.counts: list[int] = model.item_counts_.tolist()
        titles = [""] * len(self.items) if model.titles_ is None else model.titles_.tolist()
        entries = [
            split_title(title) if title else Entry(str(name), None)
            for name, title in zip(self.items, titles, strict=True)
        ]
        self.entries: dict[Hashable, Entry] = dict(zip(self.items, entries, strict=True))
        self.item_places = _places(self.items, model._item_known)
        self._by_count = sorted(range(len(self.items)), key=lambda code: -self.counts[code])
        self._words = _Index(
            (code, words_of(f"{title} {name}"))
            for code, (name, title) in enumerate(zip(self.items, titles, strict=True))
        )
        self._plain = [" ".join(sorted(words_of(entry.title))) for entry in entries]
        self.users: list[Any] = model.users_.tolist()
        self.user_counts: list[int] = np.diff(model.seen_start_).tolist()
        self.user_places = _places(self.users, model._user_known)
        self._users = _Index((code, [self._name(code)]) for code in range(len(self.users)))
        self._busiest = sorted(range(len(self.users)), key=lambda code: -self.user_counts[code])

    def entry(self, item: Any) -> Entry:
        """Return title and year of an item, known or not."""
        return self.entries.get(item) or Entry(str(item), None)

    def find_items(self, query: str, limit: int, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
        """Return a page of the items whose titles have all words of the query, and how many there are.

        Titles that are the query come first, then those that are rated most.
        """
        words = words_of(query)
        if words:
            whole = " ".join(sorted(words))
            found = self._words.find(words)
            order = sorted(found, key=lambda code: (self._plain[code] != whole, -self.counts[code], code))
        else:
            order = self._by_count if not query.strip() else []
        return [self._item(code) for code in order[offset : offset + limit]], len(order)

    def find_users(self, query: str, limit: int) -> tuple[list[dict[str, Any]], int]:
        """Return the users whose names begin with the query, and how many: who is called so first, then the busiest."""
        text = query.strip().casefold()
        order = self._busiest
        if text:
            found = self._users.find([text])
            order = sorted(found, key=lambda code: (self._name(code) != text, -self.user_counts[code], code))
        rows = [{"user": self.users[code], "n_ratings": self.user_counts[code]} for code in order[:limit]]
        return rows, len(order)

    def _name(self, user: int) -> str:
        return str(self.users[user]).casefold()

    def _item(self, code: int) -> dict[str, Any]:
        name = self.items[code]
        title, year = self.entries[name]
        return {"item": name, "title": title, "year": year, "n_ratings": self.counts[code]}


def _places(names: list[Any], known: npt.NDArray[np.bool_]) -> dict[Hashable, int]:
    return {name: code for code, (name, is_known) in enumerate(zip(names, known.tolist(), strict=True)) if is_known}


class _Index:
    """Words in their order, so that all that begin alike stand together."""

    def __init__(self, rows: Iterable[tuple[int, list[str]]]) -> None:
        pairs = sorted({(word, code) for code, words in rows for word in words})
        self._words = [word for word, _ in pairs]
        self._codes = [code for _, code in pairs]

    def find(self, beginnings: list[str]) -> set[int]:
        """Return the codes that have, for each beginning, a word with it."""
        found: set[int] | None = None
        for text in sorted(set(beginnings), key=len, reverse=True):
            begin = bisect.bisect_left(self._words, text)
            end = bisect.bisect_right(self._words, text + "\U0010ffff")
            here = set(self._codes[begin:end])
            found = here if found is None else found & here
            if not found:
                break
        return found or set()


def split_title(title: str) -> Entry:
    """Return a title without its year, and the year.

    >>> split_title("Matrix, The (1999)")
    Entry(title='Matrix, The', year=1999)
    >>> split_title("2001")
    Entry(title='2001', year=None)
    """
    match = YEAR.match(title)
    return Entry(match[1], int(match[2])) if match else Entry(title, None)


def words_of(text: str) -> list[str]:
    """Return the words of a text in small letters without accents; an apostrophe joins.

    >>> words_of("Amélie's (2001)")
    ['amelies', '2001']
    """
    bare = unicodedata.normalize("NFKD", text.casefold().replace("'", "").replace("’", ""))
    return WORD.findall("".join(letter for letter in bare if not unicodedata.combining(letter)))
