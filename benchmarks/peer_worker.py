"""Another library at work in its own environment: a job comes in as a line of JSON, its outcome goes out as one.

    .venv-peers/bin/python benchmarks/peer_worker.py surprise

A job is ``{"job": "fit", …}``, its other entries are arguments of the method of that name; the answer has ``seconds``
of the library's own work, ``megabytes`` that the process grew by at most meanwhile, and what the method says of the
result: predictions are judged here (``rmse``, ``nll``), lists by whoever asked. Peers see the same ratings from one
file and no more threads than the environment grants.
"""

import json
import os
import pickle
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import measure
import numpy as np

Answer = dict[str, Any]
N_THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))


class Peer:
    """The jobs of a library; what it cannot do, it does not have."""

    package = ""
    model: Any = None

    def versions(self) -> Answer:
        return {"version": version(self.package)}

    def open(self, file: str) -> Answer:
        """Take training and test ratings from a file; making the library's own table of them is its `seconds`."""
        data = np.load(file)
        self.train, self.test = (
            [data[f"{part}_{what}"] for what in ("user", "item", "value")] for part in ("train", "test")
        )
        return self.timed(self._take)

    def _take(self) -> None: ...

    def predict(self) -> Answer:
        """Answer every test pair."""
        told: list[Any] = []
        answer = self.timed(lambda: told.append(self._predict()))
        return answer | self.judged(told[0])

    def _predict(self) -> Any: ...

    def judged(self, predictions: Any) -> Answer:
        """Return the error of predictions, or of distributions over the scores."""
        value = self.test[2]
        if predictions.ndim == 1:
            return {"rmse": rmse(predictions, value)}
        scores = np.unique(self.train[2])
        chance = predictions[np.arange(len(value)), np.searchsorted(scores, value)]
        return {"rmse": rmse(predictions @ scores, value), "nll": float(-np.log(chance).mean())}

    def keep(self) -> Answer:
        """Save the model in the library's way, and load it again."""
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "model")
            saved = self.timed(lambda: self._save(file))
            size = sum(part.stat().st_size for part in Path(folder).iterdir())
            loaded = self.timed(lambda: self._load(file))
        return {"seconds": saved["seconds"], "load_seconds": loaded["seconds"], "bytes": size}

    def _save(self, file: str) -> None:
        Path(file).write_bytes(pickle.dumps(self.model))

    def _load(self, file: str) -> None:
        pickle.loads(Path(file).read_bytes())

    def timed(self, run: Callable[[], Any]) -> Answer:
        with measure.Peak() as peak:
            begin = time.perf_counter()
            run()
            seconds = time.perf_counter() - begin
        return {"seconds": seconds, "megabytes": peak.megabytes}


def rmse(predictions: Any, value: Any) -> float:
    return float(np.sqrt(np.mean((predictions - value) ** 2)))


class Surprise(Peer):
    package = "scikit-surprise"

    def _take(self) -> None:
        from surprise import Dataset, Reader

        dataset = Dataset.__new__(Dataset)  # as its loaders do, without a file
        low, high = float(self.train[2].min()), float(self.train[2].max())
        dataset.reader = Reader(rating_scale=(low, high))
        rows = zip(*(side.tolist() for side in self.train), strict=True)
        self.table = dataset.construct_trainset([(u, i, v, None) for u, i, v in rows])

    def read(self, file: str) -> Answer:
        from surprise import Dataset, Reader

        reader = Reader(line_format="user item rating timestamp", sep="::", rating_scale=(1, 5))
        return self.timed(lambda: Dataset.load_from_file(file, reader).build_full_trainset())

    def fit(self, n_factors: int, n_epochs: int) -> Answer:
        from surprise import SVD

        self.model = SVD(n_factors=n_factors, n_epochs=n_epochs, random_state=0)
        return self.timed(lambda: self.model.fit(self.table))

    def _predict(self) -> Any:
        pairs = zip(*(side.tolist() for side in self.test), strict=True)
        return np.array([guess.est for guess in self.model.test(list(pairs))])

    def recommend(self, users: list[int], n: int) -> Answer:
        """As its documentation has it: every unseen item is predicted, and the best are kept."""
        lists: list[list[int]] = []
        items = [self.table.to_raw_iid(i) for i in self.table.all_items()]

        def run() -> None:
            for user in users:
                seen = {self.table.to_raw_iid(i) for i, _ in self.table.ur[self.table.to_inner_uid(user)]}
                guesses = self.model.test([(user, item, 0.0) for item in items if item not in seen])
                best = sorted(guesses, key=lambda guess: guess.est, reverse=True)[:n]
                lists.append([guess.iid for guess in best])

        return self.timed(run) | {"lists": lists}

    def search(self, grid: dict[str, list[Any]], n_folds: int) -> Answer:
        from surprise import SVD, Dataset, Reader
        from surprise.model_selection import GridSearchCV

        dataset = Dataset.__new__(Dataset)
        dataset.reader, dataset.has_been_split = Reader(rating_scale=(1, 5)), False
        rows = zip(*(side.tolist() for side in self.train), strict=True)
        dataset.raw_ratings = [(u, i, v, None) for u, i, v in rows]
        found = GridSearchCV(SVD, grid | {"random_state": [0]}, measures=["rmse"], cv=n_folds, n_jobs=N_THREADS)
        return self.timed(lambda: found.fit(dataset)) | {"rmse": float(found.best_score["rmse"])}


class LensKit(Peer):
    package = "lenskit"

    def _take(self) -> None:
        import pandas as pd
        from lenskit.data import from_interactions_df
        from lenskit.parallel import initialize

        initialize(processes=N_THREADS, threads=N_THREADS, backend_threads=N_THREADS, child_threads=1)
        self.table = from_interactions_df(
            pd.DataFrame(dict(zip(("user_id", "item_id", "rating"), self.train, strict=True)))
        )

    def fit(self, n_factors: int, n_epochs: int) -> Answer:
        from lenskit.als import BiasedMFScorer
        from lenskit.pipeline import topn_pipeline

        scorer = BiasedMFScorer(embedding_size=n_factors, epochs=n_epochs)
        self.model = topn_pipeline(scorer, predicts_ratings=True, n=10)
        return self.timed(lambda: self.model.train(self.table))

    def _predict(self) -> Any:
        import pandas as pd
        from lenskit.batch import predict
        from lenskit.data import ItemListCollection

        frame = pd.DataFrame(dict(zip(("user_id", "item_id", "rating"), self.test, strict=True)))
        asked = ItemListCollection.from_df(frame, ["user_id"])
        told = predict(self.model, asked, n_jobs=1).to_df()
        return frame.merge(told, on=["user_id", "item_id"], how="left")["score"].to_numpy()

    def recommend(self, users: list[int], n: int, n_jobs: int) -> Answer:
        from lenskit.batch import recommend

        told: list[Any] = []
        answer = self.timed(lambda: told.append(recommend(self.model, users, n=n, n_jobs=n_jobs)))
        return answer | {"lists": [told[0].lookup(user_id=user).ids().tolist() for user in users]}


class Implicit(Peer):
    package = "implicit"

    def _take(self) -> None:
        from scipy.sparse import csr_matrix

        self.table = csr_matrix((self.train[2].astype(np.float32), (self.train[0], self.train[1])))

    def fit(self, n_factors: int, n_epochs: int) -> Answer:
        from implicit.cpu.als import AlternatingLeastSquares

        self.model = AlternatingLeastSquares(n_factors, iterations=n_epochs, num_threads=N_THREADS, random_state=0)
        return self.timed(lambda: self.model.fit(self.table, show_progress=False))

    def recommend(self, users: list[int], n: int) -> Answer:
        told: list[Any] = []
        answer = self.timed(lambda: told.append(self.model.recommend(users, self.table[users], N=n)))
        return answer | {"lists": told[0][0].tolist()}

    def _save(self, file: str) -> None:
        self.model.save(file + ".npz")

    def _load(self, file: str) -> None:
        type(self.model).load(file + ".npz")


class MyFM(Peer):
    package = "myfm"

    def _take(self) -> None:
        self.n_users, self.n_items = (
            max(a.max(), b.max()) + 1 for a, b in zip(self.train[:2], self.test[:2], strict=True)
        )
        self.scores, self.score = np.unique(self.train[2], return_inverse=True)
        self.pairs, self.asked = self._one_hot(*self.train[:2]), self._one_hot(*self.test[:2])

    def _one_hot(self, user: Any, item: Any) -> Any:
        from scipy.sparse import csr_matrix

        n = len(user)
        columns = np.stack([user, self.n_users + item], axis=1).ravel()
        return csr_matrix((np.ones(2 * n), columns, np.arange(0, 2 * n + 1, 2)), shape=(n, self.n_users + self.n_items))

    def fit(self, n_factors: int, burn_in: int, n_draws: int) -> Answer:
        from myfm import MyFMOrderedProbit

        self.model = MyFMOrderedProbit(rank=n_factors, random_seed=0)
        groups = [self.n_users, self.n_items]
        rounds = {"n_iter": burn_in + n_draws, "n_kept_samples": n_draws, "group_shapes": groups}
        return self.timed(lambda: self.model.fit(self.pairs, self.score, **rounds))

    def _predict(self) -> Any:
        return self.model.predict_proba(self.asked, n_workers=N_THREADS)


PEERS = {"surprise": Surprise, "lenskit": LensKit, "implicit": Implicit, "myfm": MyFM}


def main() -> None:
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    peer = PEERS[sys.argv[1]]()
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = getattr(peer, job.pop("job"))(**job)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
