"""A round of every model beside an epoch of scikit-surprise's SVD, on MovieLens 1M; and one pass beside the other.

    python benchmarks/bench_rounds.py

Contest: 8 factors on both sides, all threads; a turn is five rounds of each model and two fits of SVD in its own
process, with one epoch and with six, so that a fifth of their difference is an epoch without the set-up. SVD has one
thread whatever it is given, so the same is told for one thread of ours. What such fits are worth stands beside the
times: log-loss and error on the paper's test part, both sides with their own defaults and 8 factors.

Passes: a table in the shape of MovieLens 10M (8.4 million ratings, 10 scores, 20 factors). A round with no ratings on
one side is the pass of the other; a third of what four take longer than one is a pass without the set-up.
"""

import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import measure
import numpy as np
from peers import Peer, codes_of, hand_over, known_part
from rounds import RUN, TITLES, Rounds, like_movielens

import starcast as sc
from starcast.kernels import fast, instruction_set, make_sides
from starcast.models import make_model
from starcast.models.per_score import pack

N_FACTORS, N_ROUNDS = 8, 5
N_EPOCHS = 20  # of the fit that says what SVD is worth: its default
TURNS = measure.pick(9, 3)
DOORS: dict[str, tuple[str, dict[str, Any]]] = {
    "resbemf": ("resbemf", {"update": "gradient"}), "bemf": ("bemf", {}), "pmf": ("pmf", {}),
    "biasedmf": ("biasedmf", {}), "dirmf": ("dirmf", {}), "exact": ("resbemf", {}),
    "ordinalmf": ("ordinalmf", {"update": "gradient", "n_draws": 0}),
}  # fmt: skip


def contest(train: sc.Ratings, test: sc.Ratings) -> dict[str, Any]:
    """Return milliseconds a round and an epoch, the ratios, and what a fit of each is worth."""
    table = Rounds(train, N_FACTORS)
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Peer("surprise", hand_over(train, test, Path(folder)))) as surprise,
    ):
        jobs: dict[Any, Callable[[], float | None]] = {
            ("svd", n): lambda n=n: float(surprise.ask("fit", n_factors=N_FACTORS, n_epochs=n)["seconds"])
            for n in (1, 6)
        }
        for model in RUN:
            for n in (1, measure.N_THREADS):
                table.run(model, n)  # makes the rows, which is no part of a round
                jobs[model, n] = lambda model=model, n=n: table.run(model, n, N_ROUNDS) and None
        seconds = measure.take_turns(jobs, TURNS)
        surprise.ask("fit", n_factors=N_FACTORS, n_epochs=N_EPOCHS)
        svd = surprise.ask("predict")
        versions = {"scikit-surprise": surprise.version}
    epoch = [(six - one) / 5 for one, six in zip(seconds["svd", 1], seconds["svd", 6], strict=True)]
    rows: dict[str, Any] = {
        "svd": {"title": "Surprise's SVD", "ms": measure.spread(1e3 * s for s in epoch), "rmse": svd["rmse"]}
    }
    for model in RUN:
        alone, together = ([s / N_ROUNDS for s in seconds[model, n]] for n in (1, measure.N_THREADS))
        rows[model] = {
            "title": TITLES[model],
            "ms": measure.spread(1e3 * s for s in together),
            "times_an_epoch": measure.ratio(epoch, together),
            "times_an_epoch_one_thread": measure.ratio(epoch, alone),
            "threads": measure.ratio(alone, together),
        } | worth(model, train, test)
    return {"versions": versions, "n_factors": N_FACTORS, "turns": TURNS, "rounds": rows}


def worth(model: str, train: sc.Ratings, test: sc.Ratings) -> dict[str, float]:
    """Return log-loss and error of a fit with the defaults, and how many rounds it took."""
    if model == "plain":
        return worth_of_gradient(train, test)
    if model not in DOORS:
        return {}
    name, params = DOORS[model]
    limit = {"n_iters": 10} if measure.QUICK else {}
    fitted = make_model(name, {"n_factors": N_FACTORS, "random_state": 0} | params | limit).fit(train)
    row = sc.evaluate(fitted, test, [0.0]).rows[0]
    return {"nll": round(row["nll"], 4), "rmse": round(row["rmse"], 4), "n_rounds": int(getattr(fitted, "n_iter_", 0))}


def worth_of_gradient(train: sc.Ratings, test: sc.Ratings) -> dict[str, float]:
    """Return the same for plain steps, which have no door of their own in single precision."""
    rng, n_rounds = np.random.default_rng(0), measure.pick(200, 20)
    shape = N_FACTORS, len(train.scores)
    P, Q = (pack(rng.normal(0, 0.1, (len(names), *shape)).astype(np.float32)) for names in (train.users, train.items))
    base = np.log(np.bincount(train.score) / len(train)).astype(np.float32)
    values = np.linspace(-1, 1, len(train.scores)).astype(np.float32)
    how = {"learning_rate": 0.004, "regularization": 10.0, "n_rounds": n_rounds, "n_threads": measure.N_THREADS}
    fast.fit_gradient("resbemf", *make_sides(train), P, Q, base, values, N_FACTORS, **how)
    user, item = codes_of(test.users, train.users)[test.user], codes_of(test.items, train.items)[test.item]
    probs = np.empty((len(test), len(train.scores)), np.float32)
    fast.proba(user.astype(np.int32), item.astype(np.int32), P, Q, base, N_FACTORS, False, "softmax", probs, 1)
    answer = sc.Distribution.trusted(probs, train.scores)
    nll, rmse = sc.metrics.nll(test.values, answer), sc.metrics.rmse(test.values, answer.mean())
    return {"nll": round(nll, 4), "rmse": round(rmse, 4), "n_rounds": n_rounds}


def passes() -> dict[str, Any]:
    """Return nanoseconds a rating of the user pass and of the item pass, and their ratio."""
    n = measure.pick(8_400_000, 2_000_000)
    table = Rounds(like_movielens(n, 69_878, 10_677, 10), 20)
    found = {}
    for model in ("resbemf", "plain", "bemf"):
        table.run(model, measure.N_THREADS)  # makes the rows
        jobs = {}
        for which in (0, 1):
            for times in (1, 4):
                run = lambda w=which, t=times, m=model: table.run(m, measure.N_THREADS, t, table.one_sided(w)) and None  # noqa: E731
                jobs[which, times] = run
        seconds = measure.take_turns(jobs, measure.pick(5, 2))
        user, item = ([(b - a) / 3 for a, b in zip(seconds[w, 1], seconds[w, 4], strict=True)] for w in (0, 1))
        found[model] = {
            "title": TITLES[model],
            "user_ns": measure.spread(1e9 * s / n for s in user),
            "item_ns": measure.spread(1e9 * s / n for s in item),
            "apart": measure.spread(max(u / i, i / u) for u, i in zip(user, item, strict=True)),
        }
    return {"n_ratings": n, "n_users": 69_878, "n_items": 10_677, "n_scores": 10, "n_factors": 20, "models": found}


def main() -> None:
    train, test = sc.benchmark_split(sc.load_movielens("1m"))
    test = known_part(train, test)
    figures = {"instruction_set": instruction_set(), "n_ratings": len(train)} | contest(train, test)
    measure.write("rounds", figures | {"passes": passes()})


if __name__ == "__main__":
    measure.data_folder()
    main()
