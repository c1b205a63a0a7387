"""What the service refuses, and how it says so."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from starcast.errors import ParameterError, StarcastError, UnknownNameError


@dataclasses.dataclass(frozen=True)
class Limits:
    """How much one request may ask for, and how much a worker does at a time.

    Parameters
    ----------
    pairs, n, ratings : int
        The most pairs of a prediction, items of a list, ratings of a stranger.
    body_bytes : int
        The longest body.
    concurrent : int
        Long questions that a worker answers at a time; the next is told to come back.
    connections : int
        Connections that a worker holds at a time; the next wait in the queue.
    seconds : float
        What an answer may take, and what a client may take to send its question.
    """

    pairs: int = 1000
    n: int = 500
    ratings: int = 1000
    body_bytes: int = 1 << 20
    concurrent: int = 128
    connections: int = 1000
    seconds: float = 30.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not 0 < value < math.inf:
                raise ParameterError(f"the limit {name} must be more than 0 and finite, got {value!r}.")

    def public(self) -> dict[str, int]:
        """Return those that a client should know."""
        return {"pairs": self.pairs, "n": self.n, "ratings": self.ratings, "body_bytes": self.body_bytes}

    def check(self, name: str, count: int) -> None:
        """Refuse a request that asks for more than `name` allows."""
        most = getattr(self, name)
        if count > most:
            noun = {"n": "n", "pairs": "the number of pairs", "ratings": "the number of ratings"}[name]
            raise RefusalError(
                422, "too_many", f"{noun} must be at most {most:,}, got {count:,}. Ask in several requests."
            )


class RefusalError(StarcastError):
    """An answer that is not given: a status, a short code for programs, a sentence for people."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = dict(headers or {})

    @classmethod
    def of(cls, error: StarcastError) -> "RefusalError":
        """Return the refusal that an error of the library amounts to."""
        if isinstance(error, cls):
            return error
        if isinstance(error, UnknownNameError):
            return cls(404, "unknown_name", str(error))
        return cls(422, "bad_request", str(error))

    def body(self) -> dict[str, Any]:
        """Return what is sent."""
        return {"error": {"code": self.code, "message": self.message}}


def busy(message: str, code: str = "busy") -> RefusalError:
    """Return the refusal of a request that may be sent again in a second."""
    return RefusalError(503, code, message, {"retry-after": "1"})
