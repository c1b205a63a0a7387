"""Every error that Starcast raises for a user's mistake, so that one ``except`` can catch them all.

::

    StarcastError
    ├── DataError            (ValueError)      ratings that cannot be ratings
    ├── ParameterError       (ValueError)      an argument outside what it may be
    ├── UnknownNameError     (LookupError)     a user, item, model or data set that does not exist
    ├── NotFittedError       (ValueError)      a question put to a model before fit
    ├── DivergenceError      (ArithmeticError) a fit whose numbers ran away
    ├── PromiseError         (ValueError)      a promise that no threshold keeps
    ├── FileError            (OSError)         a file that cannot be read or written
    │   ├── FileFormatError                    a file that is not what it should be
    │   └── DownloadError                      a data set that could not be fetched
    ├── ClusterError         (RuntimeError)    a Ray cluster that cannot be reached, or is too small
    └── MissingExtraError    (ImportError)     an optional library that is not installed

    ClusterWarning           (UserWarning)     workers that were lost, and what became of their work
"""

import difflib
from collections.abc import Iterable
from typing import Any


class StarcastError(Exception):
    """What must hold, what was found, what to do."""


class DataError(StarcastError, ValueError):
    """Ratings that cannot be ratings."""


class ParameterError(StarcastError, ValueError):
    """An argument outside what it may be."""


class UnknownNameError(StarcastError, LookupError):
    """A user, item, model or data set that does not exist."""


class NotFittedError(StarcastError, ValueError):
    """A question put to a model before ``fit``."""


class DivergenceError(StarcastError, ArithmeticError):
    """A fit whose numbers ran away."""


class PromiseError(StarcastError, ValueError):
    """A promise that no threshold keeps; `best` is what can be promised instead, at `threshold`, NaN if nothing can."""

    def __init__(
        self,
        promise: str,
        target: float,
        confidence: float,
        n_ratings: int,
        best: float,
        threshold: float,
        coverage: float,
    ) -> None:
        side = "at most" if promise == "mae" else "at least"
        instead = (
            f"{best:.3f}, with θ = {threshold:.3f} and a coverage of {coverage:.1%}" if best == best else "nothing"
        )
        super().__init__(
            f"{promise} of {side} {target:g} cannot be promised with a confidence of {confidence:g} on "
            f"{plural(n_ratings, 'rating')}. The best that can is {instead}. Ask for less, or give more ratings."
        )
        self.promise, self.target, self.confidence = promise, target, confidence
        self.best, self.threshold, self.coverage = best, threshold, coverage
        self._given = (promise, target, confidence, n_ratings, best, threshold, coverage)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given


class FileError(StarcastError, OSError):
    """A file that cannot be read or written."""


class FileFormatError(FileError):
    """A file that is not what it should be."""


class DownloadError(FileError):
    """A data set that could not be fetched."""


class ClusterError(StarcastError, RuntimeError):
    """A cluster that cannot do what it is asked to."""


class ClusterWarning(UserWarning):
    """Workers that were lost, and what became of their work."""


class MissingExtraError(StarcastError, ImportError):
    """An optional library that is not installed."""

    def __init__(self, purpose: str, library: str, extra: str) -> None:
        super().__init__(f"{purpose} needs {library}. Install it with: pip install 'starcast[{extra}]'")
        self._given = (purpose, library, extra)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given


def choose(kind: str, name: object, known: Iterable[str]) -> str:
    """Return `name` if it is one of `known`; otherwise raise an error that lists them and guesses what was meant.

    >>> choose("point", "mode", ["mode", "mean"])
    'mode'
    """
    names = sorted(known)
    if isinstance(name, str) and name in names:
        return name
    guess = difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {guess[0]!r}?" if guess else ""
    raise UnknownNameError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names)}")


def plural(count: int, noun: str) -> str:
    """Return the count with its noun, such as '1 rating' or '1,200 ratings'."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
