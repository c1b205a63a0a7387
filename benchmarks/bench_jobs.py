"""The jobs that people wait for, beside other libraries: fit, predict, recommend, search, read, save and load.

    python benchmarks/bench_jobs.py [fit] [distributions] [predict] [recommend] [search] [read] [keep]

Each library works in a process of its own, in the peers' environment (make peers), on the same ratings with as many
threads as ours may use, one after the other in every turn. Ratios are told turn by turn. Beside every time stands what
the result is worth on the paper's test part (users and items that are in the training part): RMSE of the expected
rating, log-loss of distributions, the share of listed items that their user rated four stars or more there.

Surprise's SVD and LensKit's BiasedMF (alternating least squares) are BiasedMF's kin: the same job. ResBeMF and
OrdinalMF do more (a distribution for every pair). implicit learns from what was rated, not from how: its fit is of its
own kind and stands for context; lists from factors of the same size are the same job. myFM's ordered probit by Gibbs
sampling is OrdinalMF's kin: a distribution averaged over as many draws after as many rounds.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import numpy as np
import polars as pl
from contest import BIASED, EPOCHS, JOBS, N_FACTORS, Contest, Court, Row
from peers import codes_of

import starcast as sc

SINGLE = {"n_draws": 0, "n_iters": 3, "n_factors": 8, "n_spread_factors": 0, "n_company": 0}  # the quickest that wins
SAMPLE = measure.pick(400, 100)  # users that Surprise makes lists for
LEAST_SQUARES = f"BiasedMF by least squares, {N_FACTORS} factors"
IMPLICIT = f"ALS on what was rated, {N_FACTORS} factors"
LARGE, SMALL = "MovieLens 1M", "MovieLens 100K"


def fit(court: Court) -> list[Row]:
    """From ratings to a model."""
    contest, fitted = Contest("fit", LARGE), {}  # type: Contest, dict[str, Any]
    ours = {
        f"BiasedMF, {N_FACTORS} factors, 60 rounds": sc.BiasedMF(n_factors=N_FACTORS, **BIASED, **JOBS),
        f"ResBeMF, {N_FACTORS} factors, gradient": sc.ResBeMF(n_factors=N_FACTORS, update="gradient", **JOBS),
        "ResBeMF, 8 factors, exact": sc.ResBeMF(**JOBS),
        "OrdinalMF, a single fit": sc.OrdinalMF(**SINGLE, **JOBS),
    }
    for who, model in ours.items():
        run = lambda who=who, model=model: fitted.update({who: model.fit(court.train)})  # noqa: E731
        contest.enter(who, "starcast", run, same=who.startswith("BiasedMF"))
    theirs = {
        f"SVD, {N_FACTORS} factors, 20 epochs": ("surprise", N_FACTORS, True),
        "SVD, 100 factors, 20 epochs": ("surprise", 100, False),
        f"{LEAST_SQUARES}, 10 epochs": ("lenskit", N_FACTORS, True),
        f"{IMPLICIT}, 15 epochs": ("implicit", N_FACTORS, False),
    }
    for who, (name, n_factors, same) in theirs.items():
        contest.enter(who, name, lambda name=name, k=n_factors: court.fit(name, k), same=same)
    rows = {row["who"]: row for row in contest.run(measure.pick(5, 1))}
    for who, model in fitted.items():
        rows[who] |= rounded(court.worth(model))
    for who, (name, n_factors, _) in theirs.items():
        if name != "implicit":
            court.fit(name, n_factors)
            rows[who] |= rounded(court.peer(name).ask("predict"))
    return list(rows.values())


def rounded(worth: Row) -> Row:
    return {name: round(worth[name], 4) for name in ("nll", "rmse") if name in worth}


def distributions(court: Court) -> list[Row]:
    """A distribution averaged over draws: OrdinalMF and myFM, as many rounds, as many draws, as many factors."""
    full = [(SMALL, 60, 64, 3), (LARGE, 20, 32, 2)]
    return [row for how in measure.pick(full, [(SMALL, 5, 10, 1)]) for row in draw(court, *how)]


def draw(court: Court, data: str, burn_in: int, n_draws: int, n_turns: int) -> list[Row]:
    train, test = (court.small, court.small_test) if data == SMALL else (court.train, court.test)
    peer, kept = court.peer("myfm", small=data == SMALL), []  # type: Any, list[Any]
    model = sc.OrdinalMF(
        n_factors=N_FACTORS - 4, n_spread_factors=4, n_iters=1, burn_in=burn_in - 1, n_draws=n_draws, thin=1, **JOBS
    )
    name = f"{N_FACTORS} factors, {burn_in} + {n_draws} rounds"
    how = {"n_factors": N_FACTORS, "burn_in": burn_in, "n_draws": n_draws}
    contest = Contest("distributions", data)
    contest.enter(f"OrdinalMF, {name}", "starcast", lambda: kept.append(model.fit(train)))
    contest.enter(f"ordered probit, {name}", "myfm", lambda: peer.ask("fit", **how))
    ours, theirs = contest.run(n_turns)
    return [ours | rounded(court.worth(kept[-1], test)), theirs | rounded(peer.ask("predict"))]


def predict(court: Court) -> list[Row]:
    """From names to an answer for every test pair."""
    contest = Contest("predict", LARGE)
    for who, model in court.models().items():
        run = lambda model=model: model.predict_proba(*court.pairs) and None  # noqa: E731
        contest.enter(who, "starcast", run, same=who.startswith("BiasedMF"), pairs=len(court.test))
        contest.tell(who, **court.worth(model))
    for who, name in ((f"SVD, {N_FACTORS} factors", "surprise"), (LEAST_SQUARES, "lenskit")):
        contest.enter(who, name, lambda name=name: court.peer(name).ask("predict"), pairs=len(court.test))
    return contest.run(measure.pick(7, 2))


def recommend(court: Court) -> list[Row]:
    """The ten best of all unseen items for every user; Surprise, which would take minutes, for some users."""
    contest, lists = Contest("recommend", LARGE), {}  # type: Contest, dict[str, Any]
    everyone, some = list(range(len(court.train.users))), judged_users(court)

    def theirs(who: str, name: str, users: list[int], **how: Any) -> Row:
        told = court.peer(name).ask("recommend", users=users, n=10, **how)
        lists[who] = {user: told["lists"][place] for place, user in enumerate(users)}
        return told

    def lenskit() -> Row:  # the quicker of one process and as many as there are threads
        processes = sorted({1, measure.pick(measure.N_THREADS, 1)})
        told = [theirs(LEAST_SQUARES, "lenskit", measure.pick(everyone, some), n_jobs=n) for n in processes]
        return min(told, key=lambda answer: float(answer["seconds"]))

    svd = f"SVD, {N_FACTORS} factors"
    for who, model in court.models().items():
        run = lambda who=who, model=model: lists.update({who: model.recommend(n=10)})  # noqa: E731
        contest.enter(who, "starcast", run, units=len(everyone))
    contest.enter(svd, "surprise", lambda: theirs(svd, "surprise", some), units=len(some))
    contest.enter(LEAST_SQUARES, "lenskit", lenskit, units=len(measure.pick(everyone, some)))
    contest.enter(IMPLICIT, "implicit", lambda: theirs(IMPLICIT, "implicit", everyone), units=len(everyone))
    rows = contest.run(measure.pick(3, 1))
    for row in rows:
        row["users_per_second"] = measure.digits(row["units"] / row["seconds"]["median"])
        row["liked"] = round(share_liked(court, lists[row["who"]], some), 4)
    return rows + [to_one(court, who, model) for who, model in court.models().items()]


def judged_users(court: Court) -> list[int]:
    """Return some users, by their codes in training, who are in the test part, too."""
    codes = codes_of(court.test.users, court.train.users)[np.unique(court.test.user)]
    return sorted(codes.tolist())[:SAMPLE]


def share_liked(court: Court, lists: Any, users: list[int]) -> float:
    """Return the share of listed items that their user rated with at least four stars in the test part."""
    liked = court.test.values >= 4
    pairs = set(zip(*(side[liked].tolist() for side in court.pairs), strict=True))
    user_names, item_names = court.train.users.tolist(), court.train.items.tolist()
    if isinstance(lists, dict):
        listed = [(user_names[user], item_names[item]) for user in users for item in lists[user]]
    else:
        asked = {user_names[user] for user in users}
        listed = [
            pair for pair in zip(lists["user"].to_list(), lists["item"].to_list(), strict=True) if pair[0] in asked
        ]
    return float(np.mean([pair in pairs for pair in listed]))


def to_one(court: Court, who: str, model: Any) -> Row:
    """One user's list, one user after the other."""
    users = court.train.users[:: measure.pick(30, 200)].tolist()
    model.recommend(users[0])
    took = [measure.clock(lambda user=user: model.recommend(user)) for user in users]
    about = {
        "job": "recommend to one",
        "data": LARGE,
        "who": who,
        "library": "starcast",
        "same": True,
        "turns": len(users),
    }
    return about | {"seconds": measure.spread(took)}


def search(court: Court) -> list[Row]:
    """A grid of eight settings with three folds each, as many processes as threads."""
    grid = {"n_factors": [8, 16], "learning_rate": [0.01, 0.015], "regularization": [0.13, 0.17]}
    theirs = {"n_factors": [8, 16], "lr_all": [0.005, 0.01], "reg_all": [0.02, 0.1], "n_epochs": [20]}
    model, best = sc.BiasedMF(n_iters=60, random_state=0, n_jobs=1), []  # type: Any, list[float]
    how = {"objectives": ["rmse"], "method": "grid", "cv": 3, "n_jobs": measure.N_THREADS, "random_state": 0}
    peer = court.peer("surprise", small=True)
    contest = Contest("search", SMALL)
    run = lambda: best.append(min(float(row["rmse"]) for row in sc.search(model, court.small, grid, **how)))  # noqa: E731
    contest.enter("BiasedMF, 8 settings × 3 folds, 60 rounds", "starcast", run)
    contest.enter(
        "SVD, 8 settings × 3 folds, 20 epochs", "surprise", lambda: peer.ask("search", grid=theirs, n_folds=3)
    )
    rows = contest.run(measure.pick(3, 1))
    return [rows[0] | {"rmse": round(best[-1], 4)}, rows[1]]


def read(court: Court) -> list[Row]:
    """From ratings.dat to a table with coded names; Polars, which codes nothing, reads the rows with one separator."""
    source, plain = measure.data_folder() / "ml-1m" / "ratings.dat", court.folder / "ratings.csv"
    plain.write_bytes(source.read_bytes().replace(b"::", b":"))
    fast, slow = Contest("read", LARGE), Contest("read", LARGE)
    for contest in (fast, slow):
        contest.enter("read_ratings", "starcast", lambda: sc.read_ratings(source) and None)
    bare = lambda: pl.read_csv(plain, separator=":", has_header=False).is_empty() or None  # noqa: E731
    fast.enter("read_csv, no names coded", "polars", bare, same=False)
    slow.enter("Dataset.load_from_file", "surprise", lambda: court.peer("surprise").ask("read", file=str(source)))
    return fast.run(measure.pick(15, 3)) + slow.run(measure.pick(3, 1))[1:]


def keep(court: Court) -> list[Row]:
    """Saving a model and loading it again; the others' files are pickles, but for implicit's."""
    saving, loading = Contest("save", LARGE), Contest("load", LARGE)
    for who, model in court.models().items():
        file, same = court.folder / f"{type(model).__name__}.starcast", who.startswith("BiasedMF")
        model.save(file)
        saving.enter(
            who, "starcast", lambda model=model, file=file: model.save(file), same=same, bytes=file.stat().st_size
        )
        loading.enter(who, "starcast", lambda file=file: sc.load(file) and None, same=same)
    for who, name in ((f"SVD, {N_FACTORS} factors", "surprise"), (LEAST_SQUARES, "lenskit"), (IMPLICIT, "implicit")):
        kept: Row = {}
        run = lambda name=name, kept=kept: kept.update(court.peer(name).ask("keep")) or kept  # noqa: E731
        saving.enter(who, name, run, same=name != "implicit")  # whose files hold neither names nor what was seen
        loading.enter(who, name, lambda kept=kept: {"seconds": kept["load_seconds"]}, same=name != "implicit")
    return saving.run(measure.pick(7, 2)) + loading.run(measure.pick(7, 2))


PARTS: dict[str, Callable[[Court], list[Row]]] = {
    "fit": fit, "distributions": distributions, "predict": predict, "recommend": recommend, "search": search,
    "read": read, "keep": keep,
}  # fmt: skip


def main(parts: list[str]) -> None:
    file = measure.RESULTS / "jobs.json"
    before = json.loads(file.read_text()) if parts and file.exists() else {"parts": {}, "versions": {}}
    done = before["parts"]
    with tempfile.TemporaryDirectory() as folder:
        court = Court(Path(folder))
        for part in parts or PARTS:
            done[part] = PARTS[part](court)
            print(f"{part}: {PARTS[part].__doc__}", flush=True)
        court.leave()
    versions = before["versions"] | court.versions | {"polars": pl.__version__}
    measure.write("jobs", {"versions": versions, "epochs": EPOCHS, "parts": done})


if __name__ == "__main__":
    measure.data_folder()
    main(sys.argv[1:])
