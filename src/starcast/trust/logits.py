"""Scales and shifts of the scores' logits and a lift of the mode's, learnt by Newton's method."""

import numpy as np
import numpy.typing as npt

from starcast.recalibration import KNOT, LIFT, SCALE, SHIFT, identity, log_probs, softmax

Floats = npt.NDArray[np.float64]
Scores = npt.NDArray[np.intp]

RIDGE = 10.0  # towards the identity: about as much as that many ratings say
MOST_STEPS = 50  # five to ten are usual
ENOUGH = 1e-8  # a step that gains less than this a rating is the last


def fit_logits(probs: Floats, score: Scores, *, one_scale: bool = False) -> Floats:
    """Return the calibration (its first four rows) under which the scores that were given are likeliest.

    The log-loss with its ridge towards the identity is convex in scales, shifts and lifts, so Newton's method with
    halved steps finds its only minimum. There the reliability is the frequency of being right, on the average and
    around every knot of the lift. With `one_scale` all scores share a scale and nothing else moves: a temperature.
    """
    loss = _Loss(probs, score)
    free = np.repeat([1.0, 0.0, 0.0], loss.n_scores)[:, None] if one_scale else np.eye(3 * loss.n_scores)
    at, value = loss.start, loss.value(loss.start)
    for _ in range(MOST_STEPS):
        gradient, curvature = loss.slopes(at)
        move = free @ np.linalg.solve(free.T @ curvature @ free, free.T @ gradient)
        while (new := loss.value(at - move)) > value and np.abs(move).max() > 1e-9:
            move /= 2
        if not new < value - ENOUGH * len(score):
            break
        at, value = at - move, new
    return loss.calibration(at)


class _Loss:
    """The log-loss of scales, shifts and lifts (one vector after the other), its gradient and its curvature.

    Arrays have a row per score, or per knot, and a column per rating.
    """

    def __init__(self, probs: Floats, score: Scores) -> None:
        self.n_scores = probs.shape[1]
        self.each = np.arange(len(probs))
        self.score, self.mode = score, probs.argmax(axis=1)
        self.logs = log_probs(np.ascontiguousarray(probs.T))
        top = probs.max(axis=1)
        # Reliabilities may all be the same; knots must ascend all the same.
        self.knots = np.quantile(top, np.linspace(0, 1, self.n_scores)) + 1e-9 * np.arange(self.n_scores)
        self.hats = np.stack([np.interp(top, self.knots, hat) for hat in np.eye(self.n_scores)])
        self.start = np.repeat([1.0, 0.0, 0.0], self.n_scores)

    def calibration(self, at: Floats) -> Floats:
        calibration = identity(self.n_scores)
        calibration[[SCALE, SHIFT, LIFT]] = at.reshape(3, -1)
        calibration[KNOT] = self.knots
        return calibration

    def probs(self, at: Floats) -> Floats:
        scale, shift, lift = at.reshape(3, -1, 1)
        logits = scale * self.logs + shift
        logits[self.mode, self.each] += (lift * self.hats).sum(axis=0)
        return softmax(logits)

    def value(self, at: Floats) -> float:
        given = np.maximum(self.probs(at)[self.score, self.each], 1e-300)
        return float(-np.log(given).sum() + RIDGE / 2 * ((at - self.start) ** 2).sum())

    def slopes(self, at: Floats) -> tuple[Floats, Floats]:
        """Return gradient and curvature, the latter the sum of J'(diag(p) - pp')J with J the slopes of the logits."""
        p, logs, hats, mode = self.probs(at), self.logs, self.hats, (self.mode, self.each)
        excess = p.copy()
        excess[self.score, self.each] -= 1
        gradient = np.concatenate([(excess * logs).sum(axis=1), excess.sum(axis=1), hats @ excess[mode]])
        at_mode = np.zeros_like(p)
        at_mode[mode] = p[mode]
        logged, lifted = p * logs, hats * p[mode]
        scale_shift, scale_lift, shift_lift = np.diag(logged.sum(axis=1)), (at_mode * logs) @ hats.T, at_mode @ hats.T
        second = np.block(
            [
                [np.diag((logged * logs).sum(axis=1)), scale_shift, scale_lift],
                [scale_shift, np.diag(p.sum(axis=1)), shift_lift],
                [scale_lift.T, shift_lift.T, lifted @ hats.T],
            ]
        )
        first = np.concatenate([logged, p, lifted])
        return gradient + RIDGE * (at - self.start), second - first @ first.T + RIDGE * np.eye(len(at))
