"""New users and new ratings: how long it takes, and what it is worth beside a fit of everything.

Users held out: a twentieth of all, of whom 20 ratings are given and the others asked for. Ratings absorbed: a tenth,
with every rating of a twentieth of the users and of three items in a hundred among them; another tenth is asked for.

    python benchmarks/bench_new_users.py [model ...]
"""

import copy
import json
import sys
import time
from typing import Any

import measure
import numpy as np

import starcast as sc
from starcast.models import make_model

MODELS = ("ordinalmf", "resbemf", "bemf", "pmf", "biasedmf", "dirmf")
SEEDS = (0, 1, 2)
GIVEN = 20


def main(models: list[str]) -> None:
    file = measure.RESULTS / "new_users.json"
    figures = json.loads(file.read_text()) if file.exists() else {}
    large, small = sc.load_movielens("1m"), sc.load_movielens("100k")
    for name in models or MODELS:
        model = make_model(name, {"random_state": 0}).fit(large)
        figures |= {f"ml-1m {name} {what}": value for what, value in times(model, large).items()}
        figures[f"ml-1m {name} more and more ratings"] = growing(name, large)
        for dataset, ratings in (("ml-100k", small), ("ml-1m", large)):
            seeds = SEEDS[:1] if name == "ordinalmf" and dataset == "ml-1m" else SEEDS  # a minute a fit
            figures[f"{dataset} {name} held-out users, nll"] = mean(
                [held_out_users(name, ratings, seed) for seed in seeds]
            )
            figures[f"{dataset} {name} ratings absorbed, nll"] = mean([absorbed(name, ratings, s) for s in seeds])
        measure.write("new_users", {what: value for what, value in figures.items() if " " in what})


def times(model: Any, ratings: sc.Ratings) -> dict[str, float]:
    """Return milliseconds for one user at a time: to be placed, recommended to, absorbed, explained to."""
    rng = np.random.default_rng(0)
    start, rows = ratings.by_user()
    many = [ratings.take(rng.permutation(rows[start[u] : start[u + 1]])[:GIVEN]) for u in range(0, 6000, 20)]
    lengths = np.diff(start)
    ask: dict[str, list[Any]] = {
        "fold_in": [lambda t=t: model.fold_in(t) for t in many * 3],
        "fold_in and recommend": [lambda t=t: model.fold_in(t).recommend(int(t.users[0])) for t in many],
    }
    stranger = sc.Ratings.from_arrays([10**9] * GIVEN, many[0].items, many[0].values, scores=ratings.scores)
    ask["partial_fit"] = [lambda: copy.copy(model).partial_fit(stranger)] * 5
    for n in (20, 96, 1000, int(lengths.max())):
        user, item = int(ratings.users[np.abs(lengths - n).argmin()]), int(ratings.items[0])
        ask[f"explain, {n} ratings"] = [lambda u=user, i=item: model.explain(u, i)] * (20 if n < 1000 else 2)
    ask["fold_in"][0]()  # the look-up of the items is made at the first question
    found = {}
    for what, calls in ask.items():
        took = sorted(seconds(call) * 1e3 for call in calls)
        found[f"{what}, ms"] = f"min {took[0]:.3f}, median {took[len(took) // 2]:.3f}"
    return found


def held_out_users(name: str, ratings: sc.Ratings, seed: int) -> dict[str, float]:
    """Return the log-loss for users whom the model has not seen: unknown, folded in, and in a fit of everything."""
    new, place = strangers(ratings, seed)
    given, old = ratings.take(new & (place < GIVEN)), ratings.take(~new)
    test = ratings.take(new & (place >= GIVEN) & np.isin(ratings.items[ratings.item], old.items))
    model = make_model(name, {"random_state": seed}).fit(old)
    everything = make_model(name, {"random_state": seed}).fit(ratings.take(~new | (place < GIVEN)))
    return {
        "unknown": loss(model, test),
        "folded in": loss(model.fold_in(given), test),
        "refit": loss(everything, test),
    }


def growing(name: str, ratings: sc.Ratings) -> dict[str, str]:
    """Return log-loss and mean reliability for users of whom ever more ratings are given, on the same test ratings."""
    new, place = strangers(ratings, 0)
    old = ratings.take(~new)
    test = ratings.take(new & (place >= 50) & np.isin(ratings.items[ratings.item], old.items))
    model = make_model(name, {"random_state": 0}).fit(old)
    found = {}
    for n in (1, 5, 20, 50):
        folded = model.fold_in(ratings.take(new & (place < n)))
        answer = folded.predict_proba(test.users[test.user], test.items[test.item])
        nll, reliability = sc.metrics.nll(test.values, answer), float(answer.reliability().mean())
        found[f"{n} given"] = f"nll {nll:.4f}, reliability {reliability:.4f}"
    return found


def strangers(ratings: sc.Ratings, seed: int) -> tuple[Any, Any]:
    """Return which ratings are by users to be held out, and the place of each in its user's shuffled ratings."""
    rng = np.random.default_rng(seed)
    new = np.isin(ratings.user, rng.permutation(len(ratings.users))[: len(ratings.users) // 20])
    rows = rng.permutation(len(ratings))
    rows = rows[np.argsort(ratings.user[rows], kind="stable")]
    place = np.empty(len(ratings), int)
    place[rows] = np.arange(len(rows)) - np.searchsorted(ratings.user[rows], ratings.user[rows])
    return new, place


def absorbed(name: str, ratings: sc.Ratings, seed: int) -> dict[str, float]:
    """Return the log-loss before and after new ratings are absorbed, and of a fit of everything; of new users, too."""
    rng = np.random.default_rng(seed)
    test = rng.random(len(ratings)) < 0.1
    users = rng.permutation(len(ratings.users))[: len(ratings.users) // 20]
    items = rng.permutation(len(ratings.items))[: 3 * len(ratings.items) // 100]
    new = np.isin(ratings.user, users) | np.isin(ratings.item, items)
    more = round(0.1 * (~test).sum()) - int((new & ~test).sum())
    new[rng.permutation(np.flatnonzero(~test & ~new))[: max(0, more)]] = True
    asked, strangers = ratings.take(test), ratings.take(test & np.isin(ratings.user, users))
    model = make_model(name, {"random_state": seed}).fit(ratings.take(~test & ~new))
    found = {"before": loss(model, asked), "before, new users": loss(model, strangers)}
    took = seconds(lambda: model.partial_fit(ratings.take(~test & new)))
    found |= {"partial_fit": loss(model, asked), "partial_fit, new users": loss(model, strangers)}
    everything = make_model(name, {"random_state": seed})
    fitting = seconds(lambda: everything.fit(ratings.take(~test)))
    found |= {"refit": loss(everything, asked), "refit, new users": loss(everything, strangers)}
    return found | {"partial_fit, s": took, "refit, s": fitting}


def loss(model: Any, test: sc.Ratings) -> float:
    return sc.metrics.nll(test.values, model.predict_proba(test.users[test.user], test.items[test.item]))


def seconds(call: Any) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]}


if __name__ == "__main__":
    measure.data_folder()
    main(sys.argv[1:])
