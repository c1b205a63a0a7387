"""The paper's search of ResBeMF on a GPU: all settings of one size learn side by side on a fold."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from starcast.ratings import Ratings
from starcast.reproduce.experiment import published_model
from starcast.split import Split

Record = dict[str, Any]  # by number of iterations: the averages, and whether the fit diverged
MOST_NUMBERS = 1 << 28  # of all models' sums together, in double precision: 2 GB


def climb_together(settings: list[list[dict[str, str]]], split: Split, empty: str) -> Iterator[Record]:
    """Yield the record of every ladder of settings; all of one number of factors."""
    from starcast.kernels.gpu.device import cut_ratings, find_device, to_device  # an extra
    from starcast.kernels.gpu.published import Crowd

    train, test = split
    device = find_device()
    sides = cut_ratings(train, device)
    first = published_model("resbemf", settings[0][0])
    first.users_, first.items_, first.scores_ = train.users, train.items, train.scores
    first._start_strict()
    planes = first._P.transpose(0, 2, 1), first._Q.transpose(0, 2, 1)
    question = _Question(test, empty, *(to_device(part, device) for part in (test.user, test.item, test.score)))
    each = max(1, MOST_NUMBERS // (max(map(len, sides)) * first.n_factors * len(train.scores)))
    for begin in range(0, len(settings), each):
        group = settings[begin : begin + each]
        models = [published_model("resbemf", ladder[0]) for ladder in group]
        crowd = Crowd(sides, planes, [m.learning_rate for m in models], [m.regularization for m in models])
        records: list[Record] = [{} for _ in group]
        stops = sorted({int(setting["numIters"]) for ladder in group for setting in ladder})
        for before, stop in itertools.pairwise([0, *stops]):
            crowd.run(stop - before)
            diverged = crowd.diverged()
            for number, ladder in enumerate(group):
                if any(int(setting["numIters"]) == stop for setting in ladder):
                    probs = crowd.proba(number, question.user, question.item)
                    records[number][str(stop)] = question.averages(probs) | {"diverged": diverged[number]}
        yield from records


class _Question:
    """The ratings of a fold's test part, and the averages of :func:`paper_averages` on the device."""

    def __init__(self, test: Ratings, empty: str, user: Any, item: Any, score: Any) -> None:
        import torch

        self.user, self.item, self.empty = user, item, empty
        self._scores = torch.tensor(test.scores, device=user.device)
        self._truth = self._scores[score.long()]
        self._n_ratings = torch.bincount(user, minlength=len(test.users)).double()

    def averages(self, probs: Any, n: int = 20) -> dict[str, float]:
        """Return 1-MAE and coverage averaged over the thresholds, as :func:`paper_averages` does."""
        import torch

        probs = torch.where(probs.isnan() & ~probs[:, :1].isnan(), 0.0, probs)  # as published: see answer_as_published
        reliability, mode = probs.max(1)
        error = (self._scores[mode] - self._truth).abs()
        given = ~reliability.isnan()
        thresholds = torch.tensor(np.arange(n) / (n - 1), device=probs.device)
        reached = torch.searchsorted(thresholds, reliability[given], right=True)
        cell, shape = self.user[given].long() * (n + 1) + reached, (len(self._n_ratings), n + 1)

        def at_least(weights: Any) -> Any:
            """Sum over the ratings of each user that reach each threshold; halves of a star add up exactly."""
            sums = torch.zeros(shape[0] * shape[1], dtype=torch.float64, device=probs.device)
            return sums.index_add_(0, cell, weights).reshape(shape).flip(1).cumsum(1)[:, :-1].flip(1)

        count, errors = at_least(torch.ones_like(error[given])), at_least(error[given])
        tested = self._n_ratings > 0
        coverage = (count[tested] / self._n_ratings[tested, None]).mean(0)
        users = (count > 0).sum(0)
        width = self._scores[-1] - self._scores[0]
        mae = torch.where(count > 0, errors / width / count.clamp(min=1), 0.0).sum(0) / users.clamp(min=1)
        near = torch.where(users > 0, 1 - mae, 1.0 if self.empty == "zero" else 0.0)
        weight = torch.tensor((n - np.arange(n)) / (n * (n + 1) / 2), device=probs.device)
        return {"1-MAE": float(near @ weight), "coverage": float(coverage @ weight)}
