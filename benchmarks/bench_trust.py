"""What promises are worth on MovieLens 100K: calibration, thresholds, rating sets, lists. docs/trust.md tells."""

import json
import sys
from typing import Any

import measure
import numpy as np

import starcast as sc
from starcast.models import make_model
from starcast.trust.trial import Trial

DATASET = "ml-100k"
MODELS = ("bayes", "bemf", "biasedmf", "resbemf", "ordinalmf")
TARGETS = ({"accuracy": 0.5}, {"mae": 0.65}, {"coverage": 0.5})
N_DRAWS = 200


def main() -> None:
    ratings = sc.load_dataset(DATASET)
    figures: dict[str, Any] = {}
    if sys.argv[1:] == ["promises"]:  # the others stay as they are, with the commit that they were measured at
        file = measure.RESULTS / "trust.json"
        figures = json.loads(file.read_text()) | promises(ratings) | {"commit of the promises": measure.commit()}
        file.write_text(json.dumps(figures, indent=2) + "\n")
        return
    for name in MODELS:
        figures |= calibration(name, ratings)
    figures |= promises(ratings) | promises_again_and_again(ratings) | rating_sets(ratings) | lists(ratings)
    measure.write("trust", figures)


def make(name: str) -> sc.Model:
    seed = {"random_state": 0} if "random_state" in make_model(name).get_params() else {}
    return make_model(name, seed)


def ask(model: sc.Model, test: sc.Ratings) -> sc.Distribution:
    return model.predict_proba(test.users[test.user], test.items[test.item])


def calibration(name: str, ratings: sc.Ratings) -> dict[str, Any]:
    """Log-loss and calibration error on the paper's test part and on a random fifth, before and after."""
    figures = {}
    for cut, (train, test) in {
        "paper's": sc.benchmark_split(ratings),
        "random": sc.holdout(ratings, test_size=0.2, random_state=0),
    }.items():
        model = make(name).fit(train)
        for state, fitted in (("as it is", model), ("calibrated", sc.calibrate(model, train))):
            answer = ask(fitted, test)
            figures[f"{name}, {cut} split, {state}"] = {
                "nll": round(sc.metrics.nll(test.values, answer), 4),
                "ece": round(sc.metrics.ece(test.values, answer), 4),
            }
    return figures


def paper_parts(ratings: sc.Ratings) -> tuple[sc.Model, sc.Ratings, sc.Ratings]:
    """A calibrated model, ratings it has not seen, cut from the training part as the test part is cut from all, and the
    test part."""
    train, test = sc.benchmark_split(ratings)
    learnt, new = sc.benchmark_split(train, random_state=1)
    return sc.calibrate(make("resbemf"), learnt), new, test


def random_parts(ratings: sc.Ratings) -> tuple[sc.Model, sc.Ratings, sc.Ratings]:
    """A calibrated model of 60 % of the ratings, 20 % to choose with and 20 % to judge by, all drawn at random."""
    train, rest = sc.holdout(ratings, test_size=0.4, random_state=0)
    new, test = sc.holdout(rest, test_size=0.5, random_state=0)
    return sc.calibrate(make("resbemf"), train), new, test


def promises(ratings: sc.Ratings) -> dict[str, Any]:
    """A threshold for each promise, and what came of it on other ratings of the same random draw."""
    model, new, test = random_parts(ratings)
    answer = ask(model, test)
    figures = {}
    for target in TARGETS:
        for options in ({"kind": "mode"}, {"kind": "error"}, {"kind": "mode", "unit": "user"}):
            try:
                found = sc.choose_threshold(model, new, **target, **options)
            except sc.PromiseError as error:
                figures[f"promise {target} {options}"] = str(error)
                continue
            user = test.user if found.unit == "user" else None
            judge = Trial(found.promise, answer.reliability(found.kind), losses(found.promise, answer, test), user)
            came = judge.observed(found)
            shown = {
                name: round(float(getattr(found, name)), 3) for name in ("threshold", "observed", "bound", "coverage")
            }
            shown["came true"] = round(4 * came if found.promise == "mae" else 1 - came, 3)
            figures[f"promise {target} {options}"] = shown
    return figures


def losses(promise: str, answer: sc.Distribution, test: sc.Ratings) -> Any:
    off = np.abs(answer.mode() - test.values)
    return off / 4 if promise == "mae" else (off > 0).astype(float)


def promises_again_and_again(ratings: sc.Ratings) -> dict[str, Any]:
    """How often a promise is kept over random cuts of unseen ratings into those that choose and those that judge."""
    train, rest = sc.holdout(ratings, test_size=0.4, random_state=0)
    model = sc.calibrate(make("resbemf"), train)
    answer, rng, figures = ask(model, rest), np.random.default_rng(0), {}
    for promise, target, risk in (("accuracy", 0.5, 0.5), ("mae", 0.7, 0.7 / 4), ("coverage", 0.5, 0.5)):
        loss = losses(promise, answer, rest)
        kept = {"tested": [], "obvious": []}  # type: dict[str, list[bool]]
        for _ in range(N_DRAWS):
            order = rng.permutation(len(rest))
            few, others = order[:2000], order[2000:]
            trial, judge = (Trial(promise, answer.reliability()[rows], loss[rows]) for rows in (few, others))
            grid = np.arange(1001) / 1000
            found = trial.search(grid, risk)
            good = [theta for theta in grid if len(trial.sample(theta)) and trial.observed(theta) <= risk]
            obvious = max(good) if promise == "coverage" else min(good)
            for how, theta in (("tested", found and found[0]), ("obvious", obvious)):
                if theta is not None:
                    kept[how].append(judge.observed(theta) <= risk)
        figures[f"{promise} {target} kept on unseen ratings, of {N_DRAWS} cuts"] = {
            how: f"{np.mean(values):.2f} of {len(values)}" for how, values in kept.items()
        }
    return figures


def rating_sets(ratings: sc.Ratings) -> dict[str, Any]:
    """Coverage and size of 90 % sets on the paper's test part and on random ratings, by activity."""
    cuts = {"paper's": paper_parts(ratings), "random": random_parts(ratings)}
    figures = {}
    for cut, (model, chosen, judged) in cuts.items():
        for row in sc.conformal(model, chosen, 0.1, by="activity").evaluate(judged):
            shown = {"ratings": row["ratings"], "coverage": round(row["coverage"], 3), "size": round(row["size"], 2)}
            figures[f"90 % sets, {cut} split, {row['group']}"] = shown
    return figures


def lists(ratings: sc.Ratings) -> dict[str, Any]:
    """Reliability minus accuracy among the held-out ratings in lists, and among all."""
    train, test = sc.holdout(ratings, test_size=0.3, random_state=0)
    figures = {}
    for name in ("bemf", "resbemf"):
        model = make(name).fit(train)
        for state, fitted in (("as it is", model), ("calibrated", sc.calibrate(model, train))):
            for n in (10, 50):
                found = sc.list_reliability(fitted, test, n)
                figures[f"lists of {n}, {name} {state}"] = {
                    "listed": found.n_listed, "gap": round(found.gap, 3), "gap of all": round(found.overall_gap, 3),
                    "ece": round(found.listed_ece, 3), "ece of all": round(found.overall_ece, 3),
                }  # fmt: skip
    return figures


if __name__ == "__main__":
    measure.data_folder()
    main()
