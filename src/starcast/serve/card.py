"""How good the forecasts are: a few figures, and what a threshold costs and buys."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast import metrics
from starcast.distribution import Distribution
from starcast.models import Model
from starcast.ratings import Ratings

HELD_OUT, OWN = "held-out ratings", "the model's own forecasts"
MOST = 50_000  # pairs: the accuracy of so many is known to two parts in a thousand
STEPS = 101

Floats = npt.NDArray[np.float64]


def make_card(model: Model, test: Ratings | None = None, seed: int = 0) -> dict[str, Any]:
    """Return the card of a model on ratings it has not seen or, without any, on what its forecasts expect.

    Of more than 50,000 ratings, 50,000 are drawn. Without ratings, pairs are put together from the users and items of
    as many ratings, so that who rates much and what is rated much appear often.
    """
    rng = np.random.default_rng(seed)
    if test is not None and len(test):
        rows = np.arange(len(test)) if len(test) <= MOST else np.sort(rng.choice(len(test), MOST, replace=False))
        answer = model.predict_proba(test.users[test.user[rows]], test.items[test.item[rows]])
        return _card(HELD_OUT, answer, *_seen(test.values[rows], answer))
    answer = model.predict_proba(*_draw_pairs(model, rng))
    return _card(OWN, answer, *_expected(answer))


def _draw_pairs(model: Model, rng: np.random.Generator) -> tuple[Any, Any]:
    n = min(MOST // 5, 4 * len(model.seen_items_))
    user = np.repeat(np.arange(len(model.users_)), np.diff(model.seen_start_))
    return model.users_[rng.choice(user, n)], model.items_[rng.choice(model.seen_items_, n)]


def _seen(truth: Floats, answer: Distribution) -> tuple[dict[str, float], Floats, Floats]:
    error = np.abs(answer.mode() - truth)
    figures = {
        "accuracy": metrics.accuracy(truth, answer.mode()),
        "mae": metrics.mae(truth, answer.mode()),
        "rmse": metrics.rmse(truth, answer.mean()),
        "nll": metrics.nll(truth, answer),
        "ece": metrics.ece(truth, answer),
    }
    return figures, (error == 0).astype(np.float64), error


def _expected(answer: Distribution) -> tuple[dict[str, float], Floats, Floats]:
    """Return the figures that the forecasts expect of themselves; their calibration is nothing they can know."""
    right, error = answer.reliability(), answer.absolute_error(answer.mode())
    spread = (answer.probs * (answer.scores - answer.mean()[:, None]) ** 2).sum(axis=1)
    figures = {
        "accuracy": float(right.mean()),
        "mae": float(error.mean()),
        "rmse": math.sqrt(spread.mean()),
        "nll": float(answer.entropy().mean()),
        "ece": math.nan,
    }
    return figures, right, error


def _card(source: str, answer: Distribution, figures: dict[str, float], right: Floats, error: Floats) -> dict[str, Any]:
    reliability, curve = answer.reliability(), []
    for theta in np.linspace(0, 1, STEPS).round(2).tolist():
        kept = reliability >= theta
        some = bool(kept.any())
        curve.append(
            {
                "threshold": theta,
                "coverage": float(kept.mean()),
                "accuracy": float(right[kept].mean()) if some else None,
                "mae": float(error[kept].mean()) if some else None,
            }
        )
    defined = {name: value if math.isfinite(value) else None for name, value in figures.items()}
    return {"source": source, "n": len(answer), "metrics": defined, "curve": curve}
