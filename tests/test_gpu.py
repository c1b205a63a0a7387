"""The GPU's kernels against plain loops and the CPU, on a GPU or, without one, in Triton's interpreter."""

import os

import numpy as np
import pytest

import starcast as sc
from starcast.errors import ParameterError
from starcast.kernels import make_sides, reference_climb, strict
from starcast.metrics.averages import paper_averages
from starcast.models.ascent import Ascent
from starcast.models.chain import Chain, tie_scores
from starcast.models.ordinal import settle_ties
from starcast.models.resbemf import curvature_weights, spread_scores
from starcast.reproduce import experiment

if "STARCAST_CI" not in os.environ:  # there, what is missing is a failure
    pytest.importorskip("torch")
    pytest.importorskip("triton")
import torch

from starcast.kernels.gpu import device, lists, ordinal, softmax
from starcast.kernels.gpu.climb import Climb
from starcast.kernels.gpu.published import Crowd
from starcast.reproduce.crowd import climb_together

WHERE = device.find_device()


def few_ratings(n=150, n_scores=5, seed=0):
    """Ratings with a user and an item that have none, and rows of one rating beside rows of many."""
    rng = np.random.default_rng(seed)
    pairs = rng.choice(14 * 9, n // 2, replace=False)
    user, item = (pairs // 9) ** 2 // 14, pairs % 9
    once = np.unique(user * 9 + item)
    names = np.arange(15), np.arange(10), np.arange(1.0, n_scores + 1)
    score = rng.integers(0, n_scores, len(once)).astype(np.int8)
    return sc.Ratings(*names, (once // 9).astype(np.int32), (once % 9).astype(np.int32), score)


def on_device(array):
    return device.to_device(np.asarray(array), WHERE)


def gathered(side, sums):
    total = torch.zeros((sums.shape[0], side.n_rows, sums.shape[2]), dtype=sums.dtype, device=WHERE)
    return total.index_add_(1, side.row.long(), sums[:, : len(side)]).cpu().numpy()


@pytest.mark.parametrize("length", [3, 128])
def test_segments_hold_every_rating_once(length):
    ratings = few_ratings()
    for mine, side in zip(device.cut_ratings(ratings, WHERE, length), make_sides(ratings), strict=True):
        begin, end, row = (part.cpu().numpy() for part in (mine.begin, mine.end, mine.row))
        assert (end - begin <= length).all()
        assert (end > begin).all()
        assert np.concatenate([np.arange(a, b) for a, b in zip(begin, end, strict=True)]).tolist() == [
            *range(len(ratings))
        ]
        assert np.repeat(row, end - begin).tolist() == np.repeat(np.arange(mine.n_rows), np.diff(side.start)).tolist()
        assert mine.other.cpu().numpy().tolist() == side.other.tolist()
        assert mine.score.cpu().numpy().tolist() == side.score.tolist()
        assert sorted(mine.turn.cpu().tolist()) == list(range(len(mine)))
        of_row = mine.of_row.cpu().numpy()
        assert row.tolist() == np.repeat(np.arange(mine.n_rows), np.diff(of_row)).tolist()


@pytest.mark.parametrize(
    ("n_factors", "n_scores", "biased", "tile", "recklessness"),
    [(1, 2, False, 4, 0.0), (5, 5, True, 4, 0.0), (6, 10, True, 1, 0.0), (3, 5, True, 2, 0.4), (0, 3, True, 4, 0.0)],
)
def test_slopes_of_the_softmax_are_those_of_plain_loops(n_factors, n_scores, biased, tile, recklessness):
    ratings, rng = few_ratings(n_scores=n_scores), np.random.default_rng(1)
    shape = (n_factors + biased, n_scores)
    rows = [rng.normal(0, 0.7, (n, *shape)) for n in (15, 10)]
    base, values = rng.normal(0, 1, n_scores), np.linspace(-1, 1, n_scores)
    codes = ratings.user, ratings.item
    for which, side in enumerate(device.cut_ratings(ratings, WHERE, 8)):
        flat = [on_device(part.reshape(1, len(part), -1).astype(np.float32)) for part in rows]
        sums = torch.full((1, len(side), np.prod(shape)), torch.nan, device=WHERE)
        loglik = torch.full((len(side),), torch.nan, device=WHERE)
        softmax.add_slopes(
            side, flat[which], flat[1 - which], on_device(base[None].astype(np.float32)), sums, loglik, n_factors,
            biased=biased, values=on_device(values.astype(np.float32)), recklessness=recklessness, tile=tile,
        )  # fmt: skip
        slopes, total = np.zeros_like(rows[which]), 0.0
        for mine, theirs, score in zip(codes[which], codes[1 - which], ratings.score, strict=True):
            x, y = rows[which][mine], rows[1 - which][theirs].copy()
            z = base + (x[:n_factors] * y[:n_factors]).sum(0)
            if biased:
                z = z + x[-1] + y[-1]
                y[-1] = 1
            p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
            away = values - p @ values
            total += np.log(p[score]) - recklessness * (p @ away**2)
            slopes[mine] += ((np.arange(n_scores) == score) - p - recklessness * p * (away**2 - p @ away**2)) * y
        assert gathered(side, sums)[0] == pytest.approx(slopes.reshape(side.n_rows, -1), abs=2e-5)
        assert float(loglik.sum()) == pytest.approx(total, rel=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, which interprets
def test_published_slopes_pass_over_a_number_that_overflowed():
    ratings = sc.Ratings(
        np.arange(1), np.arange(1), np.arange(1.0, 4), *np.zeros((2, 1), np.int32), np.zeros(1, np.int8)
    )
    users, _ = device.cut_ratings(ratings, WHERE)
    x = on_device(np.array([[[0.0, 1000.0, 0.0]]]))
    sums = torch.full((1, 1, 3), torch.nan, dtype=torch.float64, device=WHERE)
    softmax.add_slopes(users, x, torch.ones_like(x), torch.zeros((1, 3), dtype=torch.float64, device=WHERE), sums, None, 1, published=True)  # fmt: skip
    assert sums.cpu().numpy().ravel().tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(("n_factors", "biased", "recklessness"), [(3, True, 0.0), (5, False, 0.3)])
def test_a_climb_follows_the_reference(n_factors, biased, recklessness):
    ratings, rng = few_ratings(), np.random.default_rng(2)
    prior = ratings.counts() / len(ratings)
    rows = [rng.normal(0, 0.5, (n, n_factors + biased, 5)).astype(np.float32) for n in (15, 10)]
    base = (np.log(prior) if biased else np.zeros(5)).astype(np.float32)
    values, weights = spread_scores(ratings.scores), curvature_weights(prior)
    options = {"biased": biased, "regularization": 1.0, "bias_regularization": 0.1, "recklessness": recklessness}
    climb = Climb(device.cut_ratings(ratings, WHERE, 8), rows, base, values, weights, **options)
    history = climb.run(5, -1.0, lambda done, objective: False)
    *expected, objectives = reference_climb.climb(
        *make_sides(ratings), *(part.astype(float) for part in (*rows, base, values, weights)), n_rounds=5, **options
    )
    assert history == pytest.approx(objectives, rel=1e-6)
    for mine, theirs in zip(climb.state(), expected, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_models_side_by_side_learn_as_the_published_program():
    ratings, rng = few_ratings(), np.random.default_rng(3)
    P, Q = (rng.random((n, 5, 3)) for n in (15, 10))
    settings = [(0.01, 0.05), (0.02, 0.1), (900.0, 0.1)]
    planes = tuple(part.transpose(0, 2, 1) for part in (P, Q))
    crowd = Crowd(device.cut_ratings(ratings, WHERE, 8), planes, *map(list, zip(*settings, strict=True)))
    crowd.run(2)
    crowd.run(1)
    sides = make_sides(ratings)
    for number, (rate, decay) in enumerate(settings[:2]):
        mine = [P.copy(), Q.copy()]
        strict.fit_resbemf(*sides[0], *sides[1], ratings.scores, *mine, 3, rate, decay, 1, False, lambda done: None)
        for found, expected in zip(crowd.planes(number), mine, strict=True):
            assert found.transpose(0, 2, 1) == pytest.approx(expected, abs=1e-13)
    assert crowd.diverged() == [False, False, True]


def test_the_search_side_by_side_measures_what_single_fits_do():
    train, test = few_ratings(), few_ratings(seed=5)
    ladders = [
        [
            {"numIters": stop, "numFactors": "2", "learningRate": rate, "regularization": "0.05"}
            for stop in ("1", "3")[: 1 + (rate == "0.02")]
        ]
        for rate in ("0.02", "0.05")
    ]
    records = list(climb_together(ladders, sc.Split(train, test), "undefined"))
    assert [sorted(record) for record in records] == [["1", "3"], ["1"]]
    for ladder, record in zip(ladders, records, strict=True):
        for setting in ladder:
            model = experiment.published_model("resbemf", setting).fit(train)
            answer, _ = experiment.answer_as_published(model, test)
            expected = paper_averages(test, answer) | {"diverged": False}
            assert record[setting["numIters"]] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("n_factors", "n_spread", "n_biases", "n_scores"),
    [
        (6, 2, 4, 5),
        (5, 0, 3, 5),
        (0, 0, 2, 3),
        (8, 3, 4, 5),
        (11, 14, 9, 10),
        (0, 4, 2, 4),
        (17, 4, 9, 18),
        (3, 0, 1, 2),
    ],
)
def test_slopes_of_the_ordinal_model_are_those_of_plain_loops(n_factors, n_spread, n_biases, n_scores):
    ratings, rng = few_ratings(n_scores=n_scores), np.random.default_rng(4)
    K = n_factors + n_spread
    basis, base = np.linalg.qr(rng.normal(size=(n_scores, n_biases)))[0], rng.normal(size=n_scores)
    rows = [rng.normal(0, 0.7, (n, K + n_biases)) for n in (15, 10)]
    codes = ratings.user, ratings.item
    B = on_device(basis.astype(np.float32))
    for which, side in enumerate(device.cut_ratings(ratings, WHERE, 37)):
        spelt = [ordinal.spell(on_device(part.astype(np.float32)), B, K) for part in rows]
        room = ordinal.Scratch(side, spelt[which], n_biases)
        for _ in range(2):  # what is left of the first time must not matter
            ordinal.slopes(
                side,
                spelt[which],
                spelt[1 - which],
                on_device(base.astype(np.float32)),
                B,
                (n_factors, n_spread),
                room,
            )
        found, told = room.slopes, room.told.sum(0)
        slopes, total, squares = np.zeros_like(rows[which]), 0.0, np.zeros(n_biases)
        for mine, theirs, score in zip(codes[which], codes[1 - which], ratings.score, strict=True):
            x, y = rows[which][mine], rows[1 - which][theirs]
            eta = x[K:] + y[K:]
            eta[0] += x[:n_factors] @ y[:n_factors]
            eta[min(1, n_biases - 1)] += x[n_factors:K] @ y[n_factors:K]
            z = base + basis @ eta
            p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
            total += np.log(p[score])
            g = basis.T @ ((np.arange(n_scores) == score) - p)
            squares += g**2
            slopes[mine] += np.concatenate([g[0] * y[:n_factors], g[min(1, n_biases - 1)] * y[n_factors:K], g])
        assert ordinal.unspell(found, B, K).cpu().numpy() == pytest.approx(slopes, abs=2e-5)
        assert told.cpu().numpy() == pytest.approx([total, *squares], rel=1e-5)


@pytest.mark.parametrize(
    "params",
    [
        {"update": "gradient"},
        {"update": "gradient", "biases": False, "recklessness": 0.2, "early_stopping": True},
        {"update": "paper", "learning_rate": 0.01, "regularization": 0.05},
    ],
)
def test_a_fit_on_the_gpu_answers_as_one_on_the_cpu(params):
    ratings = few_ratings()
    cpu, gpu = (
        sc.ResBeMF(n_factors=3, n_iters=3, tolerance=0, random_state=0, device=where, **params).fit(ratings)
        for where in ("cpu", "cuda")
    )
    pairs = ratings.users[ratings.user], ratings.items[ratings.item]
    assert gpu.predict_proba(*pairs).probs == pytest.approx(cpu.predict_proba(*pairs).probs, abs=1e-5)
    assert gpu.n_iter_ == cpu.n_iter_
    assert gpu.history_ == pytest.approx(cpu.history_, rel=1e-5)


def test_the_exact_update_stays_on_the_cpu():
    with pytest.raises(ParameterError, match='device="cuda" needs update="gradient" or "paper", got update="exact"'):
        sc.ResBeMF(device="cuda").fit(few_ratings())


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_without_a_gpu_the_error_says_so(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(ParameterError, match=r'needs a CUDA device, and PyTorch .* sees none\. Use device="cpu"'):
        sc.ResBeMF(update="gradient", device="cuda").fit(few_ratings())
    assert sc.ResBeMF(update="gradient", device="auto", n_iters=1, n_factors=2).fit(few_ratings()).is_fitted


def planted(n_scores=5):
    return sc.make_ratings(n_users=70, n_items=25, n_scores=n_scores, random_state=0)[0]


@pytest.mark.parametrize("options", [{}, {"threshold": 0.4, "n": 30}, {"exclude_seen": False, "n": 3}])
@pytest.mark.parametrize("update", ["gradient", "paper"])
def test_lists_of_the_gpu_are_those_of_the_cpu(monkeypatch, options, update):
    monkeypatch.setattr(sc.models.ranking, "has_gpu", lambda: True)
    monkeypatch.setattr(lists, "MOST_NUMBERS", 25 * 5 * 32)  # blocks of 32 users
    cpu = sc.ResBeMF(n_factors=3, n_iters=5, update=update, random_state=0).fit(planted())
    expected = cpu.recommend(**options)
    found = cpu.set_params(device="cuda").recommend(**options)
    assert len(found) == len(expected)
    for name in ("user", "rank", "item", "prediction"):
        assert found[name].to_list() == expected[name].to_list()
    for name in ("mean", "reliability"):
        assert found[name].to_numpy() == pytest.approx(expected[name].to_numpy(), abs=1e-5)


def test_ties_are_settled_as_on_the_cpu():
    probs = np.random.default_rng(0).dirichlet(np.ones(5), (40, 7))
    scores = np.arange(1.0, 6)
    mine = lists.settle(on_device(probs.transpose(2, 0, 1)), on_device(scores), 0.8).cpu().numpy().transpose(1, 2, 0)
    assert mine.reshape(-1, 5) == pytest.approx(settle_ties(probs.reshape(-1, 5), scores, 0.8), abs=1e-12)


def test_an_ascent_on_the_gpu_moves_as_one_on_the_cpu():
    ratings = planted()
    ends = []
    for where in ("cpu", "cuda"):
        ascent = Ascent(Chain(ratings, tie_scores(ratings.counts() / len(ratings), 3, 2), 4, 0, 1), where)
        history = [ascent.climb() for _ in range(5)]  # learns its prior twice
        ascent._passes.go_back()
        history.append(ascent.climb())
        ascent.land()
        ends.append((history, ascent._chain.rows))
    (expected, cpu), (found, gpu) = ends
    assert found == pytest.approx(expected, rel=1e-5)
    for mine, theirs in zip(gpu, cpu, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-4)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, which interprets
@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_an_ascent_that_overflowed_goes_back_and_climbs_on(where):
    ratings = planted()
    ascent = Ascent(Chain(ratings, tie_scores(ratings.counts() / len(ratings), 3, 2), 4, 0, 1), where)
    started = ascent.climb()
    before, ascent._length = ascent._length, 1e-38  # steps that no float holds
    history = [ascent.climb() for _ in range(4)]
    assert not np.isfinite(history).all()
    assert ascent._length > 1e-38  # shorter since
    ascent._length = before
    assert [ascent.climb() for _ in range(4)][-1] > started
    ascent.land()
    assert all(np.isfinite(rows).all() for rows in ascent._chain.rows)


def test_ordinalmf_on_the_gpu_answers_and_lists_as_on_the_cpu(monkeypatch):
    monkeypatch.setattr(sc.models.ranking, "has_gpu", lambda: True)
    ratings = planted()
    params = {
        "n_factors": 3,
        "n_spread_factors": 1,
        "n_company": 2,
        "n_iters": 4,
        "update": "gradient",
        "random_state": 0,
    }
    cpu, gpu = (sc.OrdinalMF(n_draws=0, device=where, **params).fit(ratings) for where in ("cpu", "cuda"))
    pairs = ratings.users[ratings.user], ratings.items[ratings.item]
    assert gpu.predict_proba(*pairs).probs == pytest.approx(cpu.predict_proba(*pairs).probs, abs=1e-4)
    drawn = sc.OrdinalMF(n_draws=3, burn_in=2, thin=1, **params).fit(ratings)
    expected = drawn.recommend(n=4)
    found = drawn.set_params(device="cuda").recommend(n=4)
    assert (found["item"].to_numpy() == expected["item"].to_numpy()).mean() > 0.98  # but for ties within rounding
    assert found["mean"].to_numpy() == pytest.approx(expected["mean"].to_numpy(), abs=1e-4)


def test_newtons_steps_stay_on_the_cpu():
    with pytest.raises(ParameterError, match='device="cuda" needs update="gradient", got update="exact"'):
        sc.OrdinalMF(device="cuda").fit(few_ratings())
