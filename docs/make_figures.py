"""Remakes the figures of the README and the docs with the current code: python docs/make_figures.py."""

from pathlib import Path

import starcast as sc
from starcast import plots
from starcast.models import MODELS, make_model

IMAGES = Path(__file__).parent / "images"


def error_against_coverage() -> None:
    """The emblem: 1-MAE against coverage on the embedded sample, every model in grey, OrdinalMF in colour."""
    train, test = sc.benchmark_split(sc.load_sample())
    results = sc.Results()
    for name, cls in MODELS.items():
        if cls.EXTRA is not None:
            continue
        seed = {"random_state": 0} if "random_state" in cls().get_params() else {}
        results += sc.evaluate(make_model(name, seed).fit(train), test, [k / 40 for k in range(32)])
    enough = sc.Results([row for row in results if row["coverage"] >= 0.05])
    ax = plots.plot_error_coverage(enough, highlight="OrdinalMF")
    ax.figure.savefig(IMAGES / "error-coverage.png", dpi=160)


def recklessness() -> None:
    """What recklessness does to ResBeMF on the embedded sample."""
    train, test = sc.benchmark_split(sc.load_sample())
    rows = []
    for value in (-1, -0.75, -0.5, -0.25, 0, 0.5, 1, 2, 3, 4):
        model = sc.ResBeMF(recklessness=value, random_state=0).fit(train)
        answer = model.predict_proba(test.users[test.user], test.items[test.item])
        rows.append(
            {
                "recklessness": value,
                "reliability": float(answer.reliability().mean()),
                "accuracy": sc.metrics.accuracy(test.values, answer.mode()),
                "nll": sc.metrics.nll(test.values, answer),
            }
        )
    ax = plots.plot_recklessness(sc.Results(rows))
    ax.figure.savefig(IMAGES / "recklessness.png", dpi=160)


def reliability() -> None:
    """What BeMF says and what happens on the embedded sample, as it is and calibrated."""
    train, test = sc.holdout(sc.load_sample(), test_size=0.2, random_state=0)
    model = sc.BeMF(random_state=0).fit(train)
    curves = {}
    for title, fitted in (("BeMF", model), ("BeMF, calibrated", sc.calibrate(model, train))):
        answer = fitted.predict_proba(test.users[test.user], test.items[test.item])
        curves[title] = sc.metrics.reliability_curve(test.values, answer)
    ax = plots.plot_reliability(curves)
    ax.figure.savefig(IMAGES / "reliability.png", dpi=160)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    error_against_coverage()
    recklessness()
    reliability()
