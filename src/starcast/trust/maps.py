"""Maps from what models say to what happens, learnt from answers and the ratings that came true."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from starcast.recalibration import identity, log_probs, recalibrate
from starcast.trust.logits import fit_logits

Floats = npt.NDArray[np.float64]
Scores = npt.NDArray[np.intp]

METHODS = ("none", "temperature", "vector", "isotonic")  # from the simplest to the freest
N_LEVELS = 50  # bins of a cumulative probability, as many ratings in each
MOST_COMPARED = 100_000  # held-out ratings that decide between methods; the chosen one learns from all
SMOOTHING = 5.0  # ratings in each bin that happened as foretold, so that no bin is certain


@dataclass(frozen=True)
class Choice:
    """The method with the lowest held-out log-loss, its map (None: leave the answers alone), and what it gains."""

    method: str
    calibration: Floats | None
    gain: float


def fit_map(probs: Floats, score: Scores, method: str) -> Floats | None:
    """Return the calibration of one of METHODS that was learnt from the answers and the scores that were given.

    "none" is None. "isotonic" moves the cumulative probabilities first and then, as "vector", the logits: maps that
    were learnt one by one leave differences that are too bold.
    """
    if method == "none":
        return None
    if method != "isotonic":
        return fit_logits(probs, score, one_scale=method == "temperature")
    cuts = _fit_cuts(probs, score)
    moved = recalibrate(probs, np.concatenate([identity(probs.shape[1]), cuts]))
    return np.concatenate([fit_logits(moved, score), cuts])


def choose_map(probs: Floats, score: Scores, group: Scores, methods: Sequence[str] = METHODS) -> Choice:
    """Return the best of the methods by cross-validation over the groups.

    Each group is judged by a map that was learnt from the others. A method must gain more than one standard error over
    the best of those before it, the simpler ones.
    """
    some = np.unique(np.linspace(0, len(score) - 1, MOST_COMPARED).astype(np.intp))
    sample = probs[some], score[some], group[some]
    plain = loss = _held_out_losses(*sample, "none")
    best = "none"
    for method in methods:
        rival = plain if method == "none" else _held_out_losses(*sample, method)
        gain = loss - rival
        if gain.mean() > gain.std() / np.sqrt(len(gain)) or best not in methods:
            best, loss = method, rival
    return Choice(best, fit_map(probs, score, best), float(plain.mean() - loss.mean()))


def _held_out_losses(probs: Floats, score: Scores, group: Scores, method: str) -> Floats:
    loss = np.empty(len(score))
    for part in np.unique(group):
        held = group == part
        calibration = fit_map(probs[~held], score[~held], method)
        answer = probs[held] if calibration is None else recalibrate(probs[held], calibration)
        loss[held] = -np.take_along_axis(log_probs(answer), score[held, None], axis=1)[:, 0]
    return loss


# Monotone maps of the cumulative probabilities.


def _fit_cuts(probs: Floats, score: Scores) -> Floats:
    """Return the rows of a calibration from CUTS on: knots, then values, a column per score."""
    below = probs.cumsum(axis=1)
    cuts = np.ones((2, N_LEVELS + 2, probs.shape[1]))
    for s in range(probs.shape[1] - 1):
        knots, values = _fit_cut(np.minimum(below[:, s], 1), score <= s)
        cuts[0, : len(knots), s], cuts[1, : len(values), s] = knots, values
    cuts[:, 0] = 0
    return np.concatenate(cuts)


def _fit_cut(stated: Floats, happened: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    edges = np.unique(np.quantile(stated, np.linspace(0, 1, N_LEVELS + 1)[1:-1]))
    level = np.searchsorted(edges, stated, side="right")
    count = np.bincount(level, minlength=len(edges) + 1)
    full = count > 0
    count = count[full]
    mean = np.bincount(level, stated, len(edges) + 1)[full] / count
    weight = (count + SMOOTHING).astype(np.float64)
    share = (np.bincount(level, happened, len(edges) + 1)[full] + SMOOTHING * mean) / weight
    return np.concatenate([[0], mean]), np.concatenate([[0], _ascending(share, weight)])


def _ascending(values: Floats, weight: Floats) -> Floats:
    """Return the nearest values, by weighted squares, that never fall: neighbours that do are pooled.

    >>> _ascending(np.array([1.0, 3.0, 2.0]), np.array([1.0, 1.0, 1.0])).tolist()
    [1.0, 2.5, 2.5]
    """
    pools: list[tuple[float, float, int]] = []  # mean, weight, length
    for value, w in zip(values.tolist(), weight.tolist(), strict=True):
        pool = (value, w, 1)
        while pools and pools[-1][0] >= pool[0]:
            mean, before, length = pools.pop()
            total = before + pool[1]
            pool = ((mean * before + pool[0] * pool[1]) / total, total, length + pool[2])
        pools.append(pool)
    return np.repeat([mean for mean, _, _ in pools], [length for _, _, length in pools])
