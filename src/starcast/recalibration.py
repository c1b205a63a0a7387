"""What a calibrated model does to its answers: one small array maps distributions to distributions."""

from typing import Any

import numpy as np
import numpy.typing as npt

from starcast import _native

Floats = npt.NDArray[np.float64]

SCALE, SHIFT, KNOT, LIFT, CUTS = range(5)  # rows of a calibration; those from CUTS on are there for isotonic maps only
LEAST = 1e-12  # a probability of zero has no logarithm; this one cannot be told from it
LARGEST = 1e6  # of what a file may hold: beyond it, logits overflow


def recalibrate(probs: npt.NDArray[Any], calibration: Floats, n_threads: int = 1) -> Floats:
    r"""Return distributions, one a row, moved by a calibration.

    .. math:: p_s' \propto p_s^{a_s} \exp\bigl(b_s + c(p_m)\,1[s = m]\bigr), \qquad m = \arg\max_s p_s

    A calibration has a column per score. Its rows are the scales :math:`a`, the shifts :math:`b`, and the knots and
    values of the piecewise linear lift :math:`c` of the mode. Where more rows follow, the cumulative probabilities
    :math:`P(r \le s)` are moved first: the first half of these rows are knots, the second half values of the piecewise
    linear, monotone map of the cut above each score (the last column is not used). Each map was learnt alone, so two
    may cross; their running maximum keeps the order. A hundredth of the distribution that came is mixed in, so that
    nothing is made impossible that was possible.

    >>> recalibrate(np.array([[0.8, 0.2]]), identity(2) * [[0.5], [1], [1], [1]]).round(3).tolist()
    [[0.667, 0.333]]
    """
    moved = np.array(probs, np.float64, order="C")
    _native.recalibrate(moved, np.ascontiguousarray(calibration, np.float64), n_threads)
    return moved


def softmax(logits: Floats) -> Floats:
    """Return the probabilities of logits with a row per score: a layout in which both sums run along memory."""
    weights = np.exp(logits - logits.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def identity(n_scores: int) -> Floats:
    """Return the calibration that changes nothing."""
    ones, zeros = np.ones(n_scores), np.zeros(n_scores)
    return np.stack([ones, zeros, np.linspace(1 / n_scores, 1, n_scores), zeros])


def log_probs(probs: npt.NDArray[Any]) -> Floats:
    """Return logarithms, finite ones of zeros too."""
    return np.log(np.maximum(probs.astype(np.float64, copy=False), LEAST))


def is_sound(calibration: npt.NDArray[Any]) -> bool:
    """Tell whether any distribution comes out as one: what a model file is asked before it is trusted."""
    calibration = calibration.astype(np.float64)
    cuts = calibration[CUTS:]
    rises = (np.diff(calibration[KNOT]) >= 0).all() if len(calibration) >= CUTS else False
    levels = cuts.reshape(2, -1, calibration.shape[1]) if len(cuts) % 2 == 0 else np.full((2, 2, 1), -1.0)
    steady = ((levels >= 0) & (levels <= 1)).all() and (np.diff(levels, axis=1) >= 0).all()
    return bool(rises and steady and (np.abs(calibration) <= LARGEST).all())
