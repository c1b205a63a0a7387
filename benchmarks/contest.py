"""One job on one data set by several contestants who take turns, and the ratings and peers that contests are about."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
from peers import Peer, hand_over, known_part

import starcast as sc
from starcast import metrics

N_FACTORS = 20
JOBS = {"n_jobs": measure.N_THREADS, "random_state": 0}
BIASED = {
    "n_iters": 60,
    "learning_rate": 0.01,
    "regularization": 0.07,
}  # the best of 24 settings on a tenth of MovieLens 1M's training part
EPOCHS = {"surprise": 20, "lenskit": 10, "implicit": 15}  # each library's default
WORTH = ("nll", "rmse", "bytes")  # what contestants say of their results
Row = dict[str, Any]


class Contest:
    """Contestants of one job; the first to enter is the one that all are compared with."""

    def __init__(self, job: str, data: str) -> None:
        self.job, self.data = job, data
        self._runners: dict[str, Callable[[], float | None]] = {}
        self._about: dict[str, Row] = {}

    def enter(self, who: str, library: str, run: Callable[[], Any], *, same: bool = True, **about: Any) -> None:
        """Enter a contestant; `same`: whether its job is the same as the first one's, `units`: how much of it it does.

        A run that returns a peer's answer is believed in its seconds; every other one is timed.
        """
        self._about[who] = {"library": library, "same": same} | about

        def runner() -> float | None:
            told = run()
            if not isinstance(told, dict) or "seconds" not in told:
                return None
            self.tell(who, **{name: told[name] for name in WORTH if name in told})
            return float(told["seconds"])

        self._runners[who] = runner

    def tell(self, who: str, **about: Any) -> None:
        """Add to what is told about a contestant."""
        self._about[who] |= {
            name: round(value, 4) if isinstance(value, float) else value for name, value in about.items()
        }

    def run(self, n_turns: int) -> list[Row]:
        """Return a row per contestant: its seconds, and how many times longer than the first it takes for a unit."""
        seconds = measure.take_turns(self._runners, n_turns)
        per_unit = {who: [s / self._about[who].get("units", 1) for s in found] for who, found in seconds.items()}
        first = next(iter(seconds))
        return [
            {"job": self.job, "data": self.data, "who": who, "turns": n_turns, "seconds": measure.spread(seconds[who])}
            | {"times_first": measure.ratio(per_unit[who], per_unit[first])}
            | self._about[who]
            for who in seconds
        ]


class Court:
    """The ratings, the peers that have opened them, and models of both sides with 20 factors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.train, self.test, self._file = self._open("1m")
        self.small, self.small_test, self._small_file = self._open("100k")
        self.pairs = self.test.users[self.test.user], self.test.items[self.test.item]
        self.versions: dict[str, str] = {}
        self._peers: dict[tuple[str, bool], Peer] = {}
        self._models: dict[str, Any] = {}

    def _open(self, name: str) -> tuple[sc.Ratings, sc.Ratings, Path]:
        train, test = sc.benchmark_split(sc.load_movielens(name))
        test = known_part(train, test)
        return train, test, hand_over(train, test, self.folder)

    def peer(self, name: str, *, small: bool = False) -> Peer:
        """Return a library that has opened the ratings."""
        if (name, small) not in self._peers:
            self._peers[name, small] = Peer(name, self._small_file if small else self._file)
            self.versions[name] = self._peers[name, small].version
        return self._peers[name, small]

    def fit(self, name: str, n_factors: int = N_FACTORS) -> Row:
        """Fit a peer's model."""
        return self.peer(name).ask("fit", n_factors=n_factors, n_epochs=EPOCHS[name])

    def models(self) -> dict[str, Any]:
        """Return fitted models of ours, and see to it that the peers have theirs."""
        if not self._models:
            draws = measure.pick({"burn_in": 20, "n_draws": 32}, {"burn_in": 1, "n_draws": 16})
            for model in (
                sc.BiasedMF(n_factors=N_FACTORS, **BIASED, **JOBS),
                sc.ResBeMF(n_factors=N_FACTORS, update="gradient", **JOBS),
                sc.OrdinalMF(n_factors=16, n_spread_factors=4, thin=1, **draws, **JOBS),
            ):
                self._models[f"{type(model).__name__}, {N_FACTORS} factors"] = model.fit(self.train)
            for name in EPOCHS:
                self.fit(name)
        return self._models

    def worth(self, model: Any, test: sc.Ratings | None = None) -> dict[str, float]:
        """Return log-loss and error on the test part."""
        test = self.test if test is None else test
        answer = model.predict_proba(test.users[test.user], test.items[test.item])
        return {"nll": metrics.nll(test.values, answer), "rmse": metrics.rmse(test.values, answer.mean())}

    def leave(self) -> None:
        for peer in self._peers.values():
            peer.close()
