"""A model against test ratings."""

from collections.abc import Sequence

from starcast import metrics
from starcast.distribution import Distribution
from starcast.models.base import Model
from starcast.ratings import Ratings
from starcast.results import Results

THRESHOLDS = tuple(k / 10 for k in range(10))


def evaluate(
    model: Model,
    test: Ratings,
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    relevant: float | None = None,
    empty: str = "undefined",
) -> Results:
    """Return one row per threshold with the paper's measures there and, the same in each row, those without threshold.

    `relevant` and `empty` are those of :func:`starcast.metrics.paper_measures`.
    """
    answer = answer_for(model, test)
    at = metrics.paper_measures(test, answer, thresholds, relevant=relevant, empty=empty)
    overall = overall_measures(test, answer)
    return Results(
        [
            {"model": type(model).__name__, "threshold": threshold}
            | {name: float(values[k]) for name, values in at.items()}
            | overall
            for k, threshold in enumerate(thresholds)
        ]
    )


def answer_for(model: Model, test: Ratings) -> Distribution:
    """Return the model's distribution for every rating of the table, on the scale of the model."""
    return model.predict_proba(test.users[test.user], test.items[test.item])


def overall_measures(test: Ratings, answer: Distribution) -> dict[str, float]:
    """Return the measures of a whole distribution, over all ratings alike."""
    truth = test.values
    return {
        "nll": metrics.nll(truth, answer),
        "brier": metrics.brier(truth, answer),
        "rps": metrics.rps(truth, answer),
        "rmse": metrics.rmse(truth, answer.mean()),
        "ece": metrics.ece(truth, answer),
        "aurc": metrics.aurc(truth, answer),
        "aurc_mae": metrics.aurc(truth, answer, "absolute"),
    }
