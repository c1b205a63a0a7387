"""What a model answers: a probability for every score, for many pairs at once."""

from typing import Any

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.errors import DataError, ParameterError, choose
from starcast.frames import make_aligned_frame

Floats = npt.NDArray[np.float64]
RELIABILITIES = ("mode", "error")


class Distribution:
    """Probabilities, a row per pair and a column per score.

    Parameters
    ----------
    probs : array of shape (pairs, scores)
        Each row adds up to one within 1e-4, and is divided by its sum: what is kept adds up in double precision.
    scores : array of shape (scores,)
        Ascending.

    Examples
    --------
    >>> d = Distribution([[0.1, 0.2, 0.7], [0.4, 0.4, 0.2]], [1, 2, 3])
    >>> d.mode().tolist(), d.median().tolist(), d.mean().round(2).tolist()
    ([3.0, 1.0], [3.0, 2.0], [2.6, 1.8])
    >>> d.reliability().tolist(), d.keep(0.5).tolist()
    ([0.7, 0.4], [True, False])
    """

    def __init__(self, probs: npt.ArrayLike, scores: npt.ArrayLike) -> None:
        try:
            self.probs = np.asarray(probs)
            if self.probs.dtype.kind == "c":
                raise TypeError("complex numbers have no order")
            self.probs = self.probs.astype(np.float64, order="C")  # always a copy
            self.scores = np.asarray(scores, np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"probs and scores must be numbers: {error}.") from None
        self._check()
        normalize(self.probs)

    @classmethod
    def trusted(cls, probs: npt.NDArray[Any], scores: Floats) -> "Distribution":
        """Return a distribution of probabilities that need no check, because a model has just normalised them."""
        answer = cls.__new__(cls)
        answer.probs, answer.scores = probs, scores
        return answer

    def _check(self) -> None:
        if self.scores.ndim != 1 or self.probs.ndim != 2 or self.probs.shape[1] != len(self.scores):
            raise DataError(
                f"probs must have a column per score, got the shapes {self.probs.shape} and {self.scores.shape}."
            )
        if len(self.scores) < 2 or not (np.isfinite(self.scores).all() and (np.diff(self.scores) > 0).all()):
            raise DataError(f"scores must be two or more and ascend, got {self.scores.tolist()}.")
        # Probabilities in single precision, or printed with a few digits, add up to one within this.
        wrong = ~((self.probs >= 0).all(axis=1) & (np.abs(self.probs.sum(axis=1) - 1) < 1e-4))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(
                f"each row of probs must be zero or more and add up to one, got {self.probs[row].tolist()} "
                f"in row {row} ({int(wrong.sum()):,} such of {len(wrong):,})."
            )

    def __len__(self) -> int:
        return len(self.probs)

    def __getitem__(self, rows: Any) -> "Distribution":
        return Distribution(np.atleast_2d(self.probs[rows]), self.scores)

    def __repr__(self) -> str:
        scale = f"{len(self.scores)} scores from {self.scores[0]:g} to {self.scores[-1]:g}"
        return f"Distribution({len(self):,} pairs, {scale})"

    def _repr_html_(self) -> str:
        from starcast.html import distribution_html

        first = Distribution.trusted(self.probs[:10], self.scores)
        figures = (first.probs, first.mode(), first.mean(), first.reliability())
        return distribution_html(len(self), self.scores.tolist(), *(figure.tolist() for figure in figures))

    def mode(self) -> Floats:
        """Return the likeliest score of each pair, the lowest of them if several are as likely."""
        return np.asarray(self.scores[self.probs.argmax(axis=1)])

    def mean(self) -> Floats:
        """Return the expected score of each pair: what minimises the squared error."""
        mean = np.zeros(len(self))
        # Score by score: a matrix product would round a row differently in other company.
        for probs, score in zip(self.probs.T, self.scores, strict=True):
            mean += probs * score
        return mean

    def median(self) -> Floats:
        """Return the lowest score with at least half of the probability at or below it: what minimises the
        absolute error."""
        return self.scores[self._quantile(0.5)]

    def point(self, kind: str = "mode") -> Floats:
        """Return the prediction that ``"mode"``, ``"median"`` or ``"mean"`` names."""
        choose("point", kind, ["mode", "median", "mean"])
        return np.asarray({"mode": self.mode, "median": self.median, "mean": self.mean}[kind]())

    def reliability(self, kind: str = "mode") -> Floats:
        r"""Return how far each prediction can be relied upon, from 0 to 1.

        ``"mode"``: the probability of the likeliest score, as in the paper.
        ``"error"``: :math:`1 - E|s - \text{median}| / (s_\max - s_\min)`, the 1-MAE that the distribution expects of
        its median.

        >>> Distribution([[0.1, 0.2, 0.7]], [1, 2, 3]).reliability("error").round(6).tolist()
        [0.8]
        """
        choose("reliability", kind, RELIABILITIES)
        if kind == "mode":
            return np.asarray(self.probs.max(axis=1))
        return np.asarray(1 - self.absolute_error() / (self.scores[-1] - self.scores[0]))

    def at_least(self, score: float) -> Floats:
        """Return the probability of `score` or more, one number per pair; `score` need not be on the scale.

        >>> Distribution([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]], [1, 2, 3]).at_least(2).round(6).tolist()
        [0.9, 0.5]
        """
        if isinstance(score, bool) or not isinstance(score, (int, float, np.number)) or np.isnan(score):
            raise ParameterError(f"score must be a number, got {score!r}.")
        # Three tenths may be written as .1 + .2, which lies a rounding error above .3.
        least = score - 1e-9 * (self.scores[-1] - self.scores[0])
        total = np.zeros(len(self))
        for probs, each in zip(self.probs.T, self.scores, strict=True):
            if each >= least:
                total += probs
        return np.minimum(total, 1.0)

    def absolute_error(self, point: npt.ArrayLike | None = None) -> Floats:
        """Return the expected absolute error of each point, by default of the median."""
        centre = self.median() if point is None else np.asarray(point, np.float64)
        error = np.zeros(len(self))
        for probs, score in zip(self.probs.T, self.scores, strict=True):
            error += probs * np.abs(score - centre)
        return error

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return the lowest and highest score of the narrowest run of scores with at least `level` of the probability.

        Of several as narrow (in number of scores), the likeliest is taken, then the lowest.

        >>> low, high = Distribution([[0.1, 0.2, 0.4, 0.3]], [1, 2, 3, 4]).interval(0.7)
        >>> low.tolist(), high.tolist()
        ([3.0], [4.0])
        """
        check_fraction(level, "level")
        total = np.concatenate([np.zeros((len(self), 1)), self.probs.cumsum(axis=1, dtype=np.float64)], axis=1)
        low = np.zeros(len(self), int)
        high = np.full(len(self), len(self.scores) - 1)
        todo = np.ones(len(self), bool)
        for width in range(1, len(self.scores) + 1):
            mass = total[:, width:] - total[:, :-width]
            start = mass.argmax(axis=1)
            done = todo & (mass.max(axis=1) >= level - 1e-12)
            low[done], high[done] = start[done], start[done] + width - 1
            todo &= ~done
        return self.scores[low], self.scores[high]

    def entropy(self) -> Floats:
        """Return the entropy of each pair in nats: 0 is certainty, log(scores) ignorance."""
        safe = np.where(self.probs > 0, self.probs, 1)
        return np.asarray(-(self.probs * np.log(safe)).sum(axis=1), np.float64)

    def keep(self, threshold: float, kind: str | None = None) -> npt.NDArray[np.bool_]:
        """Return which pairs are reliable enough: reliability, of the threshold's own kind, at least `threshold`."""
        kind = kind_of(threshold) if kind is None else kind
        return np.asarray(self.reliability(kind) >= check_fraction(threshold, "threshold"))

    def to_frame(self, like: object = None) -> Any:
        """Return a data frame with mode, median, mean, reliability and one column per score, of the kind of `like`.

        In pandas it has the index of `like`, a column or frame with a row per pair.
        """
        columns: dict[str, Any] = {
            "mode": self.mode(),
            "median": self.median(),
            "mean": self.mean(),
            "reliability": self.reliability(),
        }
        columns |= {f"p_{str(score).removesuffix('.0')}": self.probs[:, at] for at, score in enumerate(self.scores)}
        return make_aligned_frame(columns, like)

    def _quantile(self, level: float) -> npt.NDArray[np.intp]:
        # A hair below the level, so that halves that should add up to one half do so in floating point too.
        reached = self.probs.cumsum(axis=1, dtype=np.float64) >= level - 1e-9
        return np.asarray(reached.argmax(axis=1))


def normalize(probs: Floats, n_threads: int = 1) -> Floats:
    """Divide each row by its sum, in place, and return the array; rows that add up to the last bits are left alone.

    >>> normalize(np.array([[0.5, 0.25, 0.5], [0.25, 0.25, 0.5]])).tolist()
    [[0.4, 0.2, 0.4], [0.25, 0.25, 0.5]]
    """
    _native.normalize(probs, n_threads)
    return probs


def kind_of(threshold: float | None) -> str:
    """Return the kind of reliability that a threshold is meant for: "mode", unless it is one that says otherwise."""
    return str(getattr(threshold, "kind", "mode"))


def check_fraction(value: float, name: str) -> float:
    """Return `value` if it lies in 0..1, otherwise raise an error that names it."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value <= 1:
        raise ParameterError(f"{name} must be a number from 0 to 1, got {value!r}.")
    return float(value)
