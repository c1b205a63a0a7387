"""The strict kernels against plain loops, and for any number of threads against themselves."""

import numpy as np
import pytest

from starcast.kernels import published as reference
from starcast.kernels import strict

MODELS = ("resbemf", "bemf", "dirmf", "pmf", "biasedmf")
PER_SCORE = ("resbemf", "bemf", "dirmf")
RATES = {
    "resbemf": (0.02, 0.05),
    "bemf": (0.02, 0.1),
    "dirmf": (0.3, 0.001),
    "pmf": (0.05, 0.1),
    "biasedmf": (0.05, 0.1),
}


@pytest.mark.parametrize("n_scores", [2, 5, 8, 10, 20, 40])
@pytest.mark.parametrize("model", MODELS)
def test_kernel_equals_plain_loops(model, n_scores):
    ratings, values, P, Q = problem(model, n_scores)
    p, q = P.copy(), Q.copy()
    assert fit(model, ratings, values, P, Q, n_iters=4) == -1
    for _ in range(4):
        getattr(reference, model)(ratings, values, p, q, *RATES[model])
    assert np.abs(P - p).max() < 1e-12
    assert np.abs(Q - q).max() < 1e-12


@pytest.mark.parametrize("n_threads", [2, 3, 7, 64])
@pytest.mark.parametrize("model", MODELS)
def test_threads_do_not_change_a_bit(model, n_threads):
    ratings, values, P, Q = problem(model, 5, n_users=40, n_items=30)
    p, q = P.copy(), Q.copy()
    fit(model, ratings, values, P, Q, n_iters=20)
    fit(model, ratings, values, p, q, n_iters=20, n_threads=n_threads)
    assert P.tobytes() == p.tobytes()
    assert Q.tobytes() == q.tobytes()


@pytest.mark.parametrize("model", ["resbemf", "pmf", "biasedmf"])
def test_first_bad_iteration_is_the_one_of_plain_loops(model):
    ratings, values, P, Q = problem(model, 5)
    p, q = P.copy(), Q.copy()
    expected = -1
    with np.errstate(all="ignore"):
        for iteration in range(1, 61):
            getattr(reference, model)(ratings, values, p, q, 3.0, 0.5)
            if not (np.isfinite(p).all() and np.isfinite(q).all()):
                expected = iteration
                break
    assert 0 < expected < 60
    assert fit(model, ratings, values, P, Q, n_iters=60, rates=(3.0, 0.5)) == expected


def test_divergence_goes_on_unless_told_to_stop():
    for stop, n_calls in ((False, 60), (True, None)):
        ratings, values, P, Q = problem("resbemf", 5)
        calls = []
        diverged = fit(
            "resbemf",
            ratings,
            values,
            P,
            Q,
            n_iters=60,
            rates=(3.0, 0.5),
            stop_on_divergence=stop,
            callback=calls.append,
        )
        assert calls == list(range(1, (n_calls or diverged) + 1))
        assert not (np.isfinite(P).all() and np.isfinite(Q).all())


def test_error_in_callback_ends_the_fit():
    ratings, values, P, Q = problem("pmf", 5)

    def refuse(iteration):
        if iteration == 3:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fit("pmf", ratings, values, P, Q, n_iters=10, callback=refuse)


def test_interrupt_ends_the_fit(ctrl_c):
    ratings, values, P, Q = problem("pmf", 5)
    ctrl_c(fit, "pmf", ratings, values, P, Q, n_iters=10**9)


@pytest.mark.parametrize("kind", ["softmax", "logistic"])
def test_probabilities_equal_plain_loops(kind):
    _, _, P, Q = problem("resbemf", 5)
    user, item = np.array([0, 3, 3], np.int32), np.array([1, 0, 4], np.int32)
    out = np.empty((3, 5))
    getattr(strict, f"{kind}_probs")(P, Q, user, item, out)
    expected = [getattr(reference, f"{kind}_probs")(P[u], Q[i]) for u, i in zip(user, item, strict=True)]
    assert np.abs(out - expected).max() < 1e-15


def test_overflow_is_undefined_as_published():
    P, Q = np.full((1, 2, 1), 30.0), np.full((1, 2, 1), 30.0)
    out = np.empty((1, 2))
    strict.softmax_probs(P, Q, np.zeros(1, np.int32), np.zeros(1, np.int32), out)
    assert np.isnan(out).all()


def test_row_without_ratings_is_left_alone_where_published():
    ratings, values, P, Q = problem("resbemf", 5)
    ratings = [(u, i, r) for u, i, r in ratings if u != 2]
    before = P[2].copy()
    fit("resbemf", ratings, values, P, Q, n_iters=3)
    assert np.array_equal(P[2], before)


def test_shapes_are_checked():
    ratings, values, P, Q = problem("resbemf", 5)
    with pytest.raises(ValueError, match="a row per user and per item"):
        fit("resbemf", ratings, values, np.ascontiguousarray(P[:-1]), Q, n_iters=1, n_users=len(P))
    with pytest.raises(ValueError, match="n_threads must be one or more"):
        fit("resbemf", ratings, values, P, Q, n_iters=1, n_threads=0)
    with pytest.raises(ValueError, match="a vector per score"):
        fit("resbemf", ratings, values[:-1], P, Q, n_iters=1)


def problem(model, n_scores, n_users=7, n_items=6, n_factors=3, seed=0):
    random = np.random.default_rng(seed)
    rated = np.argwhere(random.random((n_users, n_items)) < 0.6)
    ratings = [(int(u), int(i), int(random.integers(n_scores))) for u, i in rated]
    shape = (n_scores, n_factors) if model in PER_SCORE else (n_factors + (model == "biasedmf"),)
    values = np.linspace(0.5, 5.0, n_scores)
    return ratings, values, random.random((n_users, *shape)), random.random((n_items, *shape))


def fit(model, ratings, values, P, Q, n_iters, rates=None, n_users=None, n_threads=1, **options):
    u, i, r = (np.array(column) for column in zip(*ratings, strict=True))
    sides = (*rows(u, i, r, n_users or len(P)), *rows(i, u, r, len(Q)))
    return getattr(strict, f"fit_{model}")(
        *sides, values, P, Q, n_iters, *(rates or RATES[model]), n_threads, **options
    )


def rows(row, other, score, n_rows):
    order = np.lexsort([other, row])
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))])
    return start, other[order].astype(np.int32), score[order].astype(np.int8)
