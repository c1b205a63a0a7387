"""The fast kernels against reference.py, and what they promise: same bits for any threads, a climbing objective."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from starcast.kernels import fast, make_sides, reference, reference_climb
from starcast.ratings import Ratings

CLOSE = {"rtol": 0, "atol": 1e-6}  # of factors of order one


class Small:
    """Random ratings with factors of order one, packed for the kernels and bare for the reference."""

    def __init__(self, n_scores=5, n_factors=3, biased=False, n_users=23, n_items=17, density=0.4, seed=0, scale=0.5):
        rng = np.random.default_rng(seed)
        rated = rng.random((n_users, n_items)) < density
        rated[3] = False  # a user without ratings
        user, item = (x.astype(np.int32) for x in np.nonzero(rated))
        score = rng.integers(0, n_scores, len(user)).astype(np.int8)
        names = np.arange(n_users), np.arange(n_items), np.arange(1.0, n_scores + 1)
        self.users, self.items = make_sides(Ratings(*names, user, item, score))
        self.n_scores, self.n_factors, self.biased = n_scores, n_factors, biased
        self.P, self.Q = (
            self.pack(rng.normal(0, scale, (n, n_factors + biased, n_scores)).astype(np.float32))
            for n in (n_users, n_items)
        )
        self.base = (rng.normal(0, 0.3, n_scores) if biased else np.zeros(n_scores)).astype(np.float32)
        self.values = np.linspace(-1, 1, n_scores).astype(np.float32)
        self.weights = rng.uniform(0.05, 0.3, n_scores).astype(np.float32)
        self.ratings = np.arange(1, n_scores + 1, dtype=np.float32)

    def pack(self, planes):
        rows = fast.allocate_rows(*planes.shape)
        fast.pack_rows(planes, rows)
        return rows

    def bare(self, rows):
        if rows.ndim == 1:
            return rows.astype(float)
        planes = np.empty((len(rows), self.n_factors + self.biased, self.n_scores), np.float32)
        fast.unpack_rows(rows, planes)
        return planes.astype(float)

    def exact(self, **params):
        params = {"regularization": 0.7, "bias_regularization": 0.3, "n_rounds": 1, "tolerance": -1.0} | params
        return fast.fit_resbemf_exact(
            self.users, self.items, self.P, self.Q, self.base, self.values, self.n_factors, self.biased, **params
        )

    def climb(self, **params):
        params = {"regularization": 0.7, "bias_regularization": 0.3, "n_rounds": 1, "tolerance": -1.0} | params
        return fast.fit_resbemf_gradient(
            self.users, self.items, self.P, self.Q, self.base, self.values, self.weights, self.n_factors, self.biased,
            **params,
        )  # fmt: skip

    def gradient(self, model, values=None, **params):
        return fast.fit_gradient(
            model,
            self.users,
            self.items,
            self.P,
            self.Q,
            self.base,
            self.values if values is None else values,
            self.n_factors,
            **params,
        )

    def proba(self, user, item, link, out):
        fast.proba(user, item, self.P, self.Q, self.base, self.n_factors, self.biased, link, out, 2)


def shapes():
    return pytest.mark.parametrize(
        ("n_scores", "n_factors", "biased"),
        [
            (5, 3, False),
            (5, 8, True),
            (7, 4, True),
            (10, 5, True),
            (9, 4, True),
            (3, 0, True),
            (2, 1, False),
            (5, 11, True),
            (20, 2, True),
            (40, 17, False),
        ],
    )


@shapes()
@pytest.mark.parametrize("recklessness", [0.0, 1.5, -0.8])
def test_exact_round_is_the_reference(n_scores, n_factors, biased, recklessness):
    s = Small(n_scores, n_factors, biased)
    args = [s.bare(x) for x in (s.P, s.Q, s.base, s.values)] + [biased, 0.7, 0.3, recklessness]
    P, Q, base, total = reference.exact_round(s.users, s.items, *args)
    history = s.exact(recklessness=recklessness)
    assert history[0] == pytest.approx(total, rel=1e-6)
    np.testing.assert_allclose(s.bare(s.P), P, atol=4e-6)
    np.testing.assert_allclose(s.bare(s.Q), Q, atol=4e-6)
    np.testing.assert_allclose(s.bare(s.base), base, **CLOSE)
    for rows in (s.P, s.Q):  # the padding stays empty
        assert np.count_nonzero(rows) <= np.count_nonzero(s.bare(rows))


@pytest.mark.parametrize(("n_scores", "n_factors"), [(5, 3), (7, 4), (9, 2), (10, 5), (2, 1), (5, 11), (40, 17)])
@pytest.mark.parametrize("recklessness", [0.0, 0.7])
def test_resbemf_gradient_is_the_reference(n_scores, n_factors, recklessness):
    s = Small(n_scores, n_factors)
    P, Q, v = (s.bare(x) for x in (s.P, s.Q, s.values))
    P = reference.resbemf_pass(s.users, P, Q, v, 0.05, 0.1, recklessness)
    Q = reference.resbemf_pass(s.items, Q, P, v, 0.05, 0.1, recklessness)
    s.gradient("resbemf", learning_rate=0.05, regularization=0.1, recklessness=recklessness)
    np.testing.assert_allclose(s.bare(s.P), P, **CLOSE)
    np.testing.assert_allclose(s.bare(s.Q), Q, **CLOSE)


@shapes()
@pytest.mark.parametrize("recklessness", [0.0, 1.5, -0.8])
def test_climb_is_the_reference(n_scores, n_factors, biased, recklessness):
    s = Small(n_scores, n_factors, biased)
    args = [s.bare(x) for x in (s.P, s.Q, s.base, s.values, s.weights)] + [biased, 0.7, 0.3, recklessness]
    P, Q, base, objectives = reference_climb.climb(s.users, s.items, *args, n_rounds=3)
    assert s.climb(recklessness=recklessness, n_rounds=3) == pytest.approx(objectives, rel=1e-6)
    np.testing.assert_allclose(s.bare(s.P), P, atol=4e-6)
    np.testing.assert_allclose(s.bare(s.Q), Q, atol=4e-6)
    np.testing.assert_allclose(s.bare(s.base), base, **CLOSE)
    assert not s.bare(s.P)[3].any()  # the user without ratings
    for rows in (s.P, s.Q):  # the padding stays empty
        assert np.count_nonzero(rows) <= np.count_nonzero(s.bare(rows))


@pytest.mark.parametrize("n_factors", [2, 8, 20])
def test_climb_over_long_rows_is_the_reference(n_factors):
    s = Small(5, n_factors, True, n_users=9, n_items=220, density=0.6)
    args = [s.bare(x) for x in (s.P, s.Q, s.base, s.values, s.weights)] + [True, 0.7, 0.3]
    P, Q, _, objectives = reference_climb.climb(s.users, s.items, *args, n_rounds=3)
    assert s.climb(n_rounds=3) == pytest.approx(objectives, rel=1e-6)
    np.testing.assert_allclose(s.bare(s.P), P, atol=4e-6)
    np.testing.assert_allclose(s.bare(s.Q), Q, atol=4e-6)


@pytest.mark.parametrize("model", ["climb", "reckless climb", "bemf"])
@pytest.mark.parametrize("n_scores", [5, 10])
def test_users_too_many_for_the_cache_change_nothing(model, n_scores):
    # The same ratings by users among whom there are many without any: items walk them in three windows.
    def few():
        return Small(n_scores, 8, "climb" in model, n_users=600, n_items=7)

    s, many, apart = few(), few(), 230
    start, other, score = many.users
    spread = np.repeat(np.diff(start), apart) * (np.arange(600 * apart) % apart == 0)
    many.users = (np.append(0, np.cumsum(spread)), other, score)
    many.items = (many.items[0], many.items[1] * np.int32(apart), many.items[2])
    planes = np.zeros((600 * apart, 8 + s.biased, n_scores), np.float32)
    planes[::apart] = s.bare(s.P)
    many.P = s.pack(planes)
    for side in (s, many):
        if model == "bemf":
            side.gradient("bemf", regularization=0.1, n_rounds=2)
        else:
            side.climb(n_rounds=2, recklessness=0.5 if model == "reckless climb" else 0.0)
    np.testing.assert_allclose(many.bare(many.Q), s.bare(s.Q), atol=4e-6)
    np.testing.assert_allclose(many.bare(many.P)[::apart], s.bare(s.P), atol=4e-6)


def test_a_climb_that_falls_slows_down_and_goes_on():
    # With a hundredth of the curvature the first steps are far too long.
    s = Small(5, 3, True)
    s.weights *= np.float32(0.01)
    args = [s.bare(x) for x in (s.P, s.Q, s.base, s.values, s.weights)] + [True, 0.7, 0.3]
    *_, slowing = reference_climb.climb(s.users, s.items, *args, n_rounds=4)
    assert slowing[1] < slowing[0]
    assert s.climb(n_rounds=4) == pytest.approx(slowing, rel=1e-4)
    s = Small(5, 3, True)
    s.weights *= np.float32(0.01)
    history = s.climb(n_rounds=100)
    assert np.argmax(history) == 99
    assert (np.diff(history)[50:] > -1e-6 * len(s.users[1])).all()


def test_a_climb_ends_where_the_exact_solver_does():
    s, t = Small(5, 2, True), Small(5, 2, True)
    exact, climbed = s.exact(n_rounds=3000, tolerance=0.0), t.climb(n_rounds=3000, tolerance=1e-7)
    assert len(climbed) < 3000
    assert climbed[-1] == pytest.approx(exact[-1], rel=1e-4)
    P, Q, base, v = (t.bare(x) for x in (t.P, t.Q, t.base, t.values))
    for side, X, Y in ((t.users, P, Q), (t.items, Q, P)):
        for r, (a, b) in enumerate(zip(side[0], side[0][1:], strict=False)):
            g = reference.row_gradient(X[r], Y[side[1][a:b]], side[2][a:b], base, v, True, 0.7, 0.3)
            assert np.abs(g).max() < 0.05


def test_a_climb_stops_by_tolerance():
    s, t = Small(5, 2, True), Small(5, 2, True)
    whole, short = np.array(s.climb(n_rounds=60)), t.climb(n_rounds=60, tolerance=1e-3)
    gains = np.diff(whole)
    assert short == whole[: len(short)].tolist()
    assert 2 < len(short) < 60
    assert (gains[: len(short) - 2] > 1e-3 * abs(whole[1 : len(short) - 1])).all()
    assert gains[len(short) - 2] <= 1e-3 * abs(whole[len(short) - 1])


@pytest.mark.parametrize(("n_scores", "n_factors"), [(5, 3), (8, 8), (10, 6), (3, 1)])
@pytest.mark.parametrize("recklessness", [0.0, 1.0, -1.0])
def test_bemf_round_is_the_reference(n_scores, n_factors, recklessness):
    s = Small(n_scores, n_factors)
    P, Q, v = (s.bare(x) for x in (s.P, s.Q, s.values))
    P = reference.bemf_pass(s.users, P, Q, v, 0.05, 0.1, recklessness)
    loglik = reference.bemf_loglik(s.items, Q, P, v, recklessness)
    Q = reference.bemf_pass(s.items, Q, P, v, 0.05, 0.1, recklessness)
    history = s.gradient("bemf", learning_rate=0.05, regularization=0.1, recklessness=recklessness)
    np.testing.assert_allclose(s.bare(s.P), P, **CLOSE)
    np.testing.assert_allclose(s.bare(s.Q), Q, **CLOSE)
    assert history[0] == pytest.approx(loglik, rel=1e-6)


@pytest.mark.parametrize(("n_scores", "n_factors"), [(5, 3), (8, 8), (10, 6), (3, 1), (40, 3)])
def test_dirmf_round_is_the_reference(n_scores, n_factors):
    s = Small(n_scores, n_factors, n_users=50)  # more than walk side by side
    P, Q = s.bare(s.P), s.bare(s.Q)
    P = reference.dirmf_pass(s.users, P, Q, s.ratings, 0.05, 0.1)
    Q = reference.dirmf_pass(s.items, Q, P, s.ratings, 0.05, 0.1)
    s.gradient("dirmf", values=s.ratings, learning_rate=0.05, regularization=0.1)
    np.testing.assert_allclose(s.bare(s.P), P, **CLOSE)
    np.testing.assert_allclose(s.bare(s.Q), Q, **CLOSE)


@pytest.mark.parametrize("n_scores", [5, 10])
def test_dirmf_reports_the_likelihood_that_it_meets(n_scores):
    s = Small(n_scores, 3, n_users=50)
    P, Q = s.bare(s.P), s.bare(s.Q)
    start, other, score = s.items
    like = [
        reference.logistic((P[u] * Q[i]).sum(0)) for i, n in enumerate(np.diff(start)) for u in other[start[i] :][:n]
    ]
    wanted = sum(np.log(a[r] / a.sum()) for a, r in zip(like, score, strict=True))
    history = s.gradient("dirmf", values=s.ratings, learning_rate=0.0)  # so that all meet the same rows
    assert history[0] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("n_factors", [3, 8, 13, 20, 30, 40, 70])
@pytest.mark.parametrize("biased", [False, True])
def test_point_round_is_the_reference(n_factors, biased):
    s = Small()
    rng = np.random.default_rng(1)
    stride = -(-n_factors // 8) * 8
    X, Y = (np.zeros((n, stride), np.float32) for n in (23, 17))
    X[:, :n_factors], Y[:, :n_factors] = (rng.normal(0, 0.3, (n, n_factors)) for n in (23, 17))
    b, c = (rng.normal(0, 0.3, n).astype(np.float32) if biased else None for n in (23, 17))
    wide = [None if x is None else x.astype(float) for x in (X, Y, b, c)]
    P, p = reference.point_pass(s.users, wide[0], wide[1], wide[2], wide[3], s.ratings, 3.0, 0.02, 0.1)
    Q, q = reference.point_pass(s.items, wide[1], P, wide[3], p, s.ratings, 3.0, 0.02, 0.1)
    fast.fit_point(s.users, s.items, X, Y, b, c, s.ratings, 3.0, 0.02, 0.1)
    np.testing.assert_allclose(X, P, **CLOSE)
    np.testing.assert_allclose(Y, Q, **CLOSE)
    if biased:
        np.testing.assert_allclose(b, p, **CLOSE)
        np.testing.assert_allclose(c, q, **CLOSE)


def test_reference_gradient_is_the_slope_of_the_objective():
    s = Small(5, 3, True)
    P, Q, base, v = (s.bare(x) for x in (s.P, s.Q, s.base, s.values))
    rest = (base, v, True, 0.7, 0.3, 0.9)
    a, b = s.users[0][5:7]
    g = reference.row_gradient(P[5], Q[s.users[1][a:b]], s.users[2][a:b], *rest)
    for k, t in np.ndindex(*g.shape):
        up, down = P.copy(), P.copy()
        up[5, k, t] += 1e-5
        down[5, k, t] -= 1e-5
        slope = (reference.objective(s.users, up, Q, *rest) - reference.objective(s.users, down, Q, *rest)) / 2e-5
        assert g[k, t] == pytest.approx(slope, abs=1e-7)


def test_native_gradient_is_the_slope_of_the_objective():
    s = Small(5, 3)
    P, Q, base, v = (s.bare(x) for x in (s.P, s.Q, s.base, s.values))
    s.gradient("resbemf", learning_rate=0.5, regularization=0.7, recklessness=0.9)
    step = (s.bare(s.P) - P)[5] / 0.5
    for k, t in np.ndindex(*step.shape):
        up, down = P.copy(), P.copy()
        up[5, k, t] += 1e-5
        down[5, k, t] -= 1e-5
        rest = (Q, base, v, False, 0.7, 0.0, 0.9)
        slope = (reference.objective(s.users, up, *rest) - reference.objective(s.users, down, *rest)) / 2e-5
        assert step[k, t] == pytest.approx(slope, abs=1e-5)


def test_bemf_gradient_is_the_slope_of_its_objective():
    s = Small(5, 3)
    P, Q, v = (s.bare(x) for x in (s.P, s.Q, s.values))
    s.gradient("bemf", learning_rate=0.5, recklessness=0.9)
    step = (s.bare(s.P) - P)[5] / 0.5
    for k, t in np.ndindex(*step.shape):
        up, down = P.copy(), P.copy()
        up[5, k, t] += 1e-5
        down[5, k, t] -= 1e-5
        slope = (reference.bemf_loglik(s.users, up, Q, v, 0.9) - reference.bemf_loglik(s.users, down, Q, v, 0.9)) / 2e-5
        assert step[k, t] == pytest.approx(slope, abs=1e-5)


def runs():
    def point(s, biased, n_threads):
        X, Y = (np.random.default_rng(n).normal(0, 0.3, (n, 8)).astype(np.float32) for n in (len(s.P), len(s.Q)))
        b, c = (np.zeros(len(x), np.float32) if biased else None for x in (X, Y))
        return [X, Y, b, c, fast.fit_point(s.users, s.items, X, Y, b, c, s.ratings, 3.0, 0.02, 0.1, 3, n_threads)]

    return {
        "exact": lambda s, t: [s.exact(n_rounds=4, n_threads=t, recklessness=0.2), s.P, s.Q, s.base],
        "climb": lambda s, t: [s.climb(n_rounds=4, n_threads=t), s.P, s.Q, s.base],
        "reckless climb": lambda s, t: [s.climb(n_rounds=4, n_threads=t, recklessness=0.2), s.P, s.Q, s.base],
        "resbemf": lambda s, t: [s.gradient("resbemf", n_rounds=4, n_threads=t), s.P, s.Q],
        "bemf": lambda s, t: [s.gradient("bemf", n_rounds=4, n_threads=t), s.P, s.Q],
        "dirmf": lambda s, t: [s.gradient("dirmf", values=s.ratings, n_rounds=4, n_threads=t), s.P, s.Q],
        "pmf": lambda s, t: point(s, False, t),
        "biasedmf": lambda s, t: point(s, True, t),
    }


@pytest.mark.parametrize("name", runs())
def test_same_bits_for_any_number_of_threads(name):
    def bits(n_threads):
        s = Small(
            5, 10, name == "exact" or "climb" in name, n_users=700, n_items=300, density=0.2
        )  # 42 000 ratings: ten chunks
        return [np.asarray(x).tobytes() for x in runs()[name](s, n_threads) if x is not None]

    one = bits(1)
    for n_threads in (2, 3, 7):
        assert bits(n_threads) == one


@shapes()
@pytest.mark.parametrize("regularization", [1e-3, 0.05, 3.0])
@pytest.mark.parametrize("recklessness", [0.0, 5.0, -5.0])
def test_objective_never_falls(n_scores, n_factors, biased, regularization, recklessness):
    s = Small(n_scores, n_factors, biased, scale=2.0)
    history = np.array(
        s.exact(
            n_rounds=150, regularization=regularization, bias_regularization=regularization, recklessness=recklessness
        )
    )
    assert np.isfinite(history).all()
    assert len(history) == 150
    # Rounding is of the size of the sum's terms, which may cancel: about one nat a rating, more with the spread's term.
    assert (np.diff(history) >= -1e-7 * len(s.users[1]) * (1 + abs(recklessness))).all()


def test_exact_stops_at_a_stationary_point():
    s = Small(5, 2, True)
    s.exact(n_rounds=3000, tolerance=0.0)
    P, Q, base, v = (s.bare(x) for x in (s.P, s.Q, s.base, s.values))
    for side, X, Y in ((s.users, P, Q), (s.items, Q, P)):
        for r, (a, b) in enumerate(zip(side[0], side[0][1:], strict=False)):
            g = reference.row_gradient(X[r], Y[side[1][a:b]], side[2][a:b], base, v, True, 0.7, 0.3)
            assert np.abs(g).max() < 0.02


def test_huge_logits_do_not_overflow():
    s = Small(5, 3, scale=100.0)
    assert np.isfinite(s.exact(n_rounds=5)).all()
    assert np.isfinite(s.P).all()
    assert np.isfinite(s.Q).all()


@pytest.mark.parametrize("link", ["softmax", "logistic"])
@pytest.mark.parametrize("n_scores", [2, 5, 10, 33])
def test_proba_is_the_reference(link, n_scores):
    s = Small(n_scores, 4, link == "softmax")
    user, item = (np.random.default_rng(0).integers(0, n, 50).astype(np.int32) for n in (23, 17))
    pairs, block = np.empty((50, n_scores), np.float32), np.empty((2, 17, n_scores), np.float32)
    s.proba(user, item, link, pairs)
    s.proba(user[:2], None, link, block)
    for n in range(50):
        z = reference.logits(s.bare(s.P)[user[n]], s.bare(s.Q)[item[n]], s.bare(s.base), s.biased)
        p = reference.softmax(z) if link == "softmax" else reference.logistic(z) / reference.logistic(z).sum()
        np.testing.assert_allclose(pairs[n], p, rtol=2e-6, atol=1e-7)
        if n < 2:
            assert (block[n, item[n]] == pairs[n]).all()


@pytest.mark.parametrize("model", ["exact", "bemf"])
def test_recklessness_moves_confidence_monotonically(model):
    confidence = []
    for recklessness in (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0):
        s = Small(5, 3, model == "exact", n_users=200, n_items=80)
        if model == "exact":
            s.exact(recklessness=recklessness, n_rounds=60, regularization=2.0)
        else:
            s.gradient("bemf", recklessness=recklessness, learning_rate=0.01, regularization=1.0, n_rounds=150)
        out = np.empty((200, 80, 5), np.float32)
        s.proba(np.arange(200, dtype=np.int32), None, "softmax" if model == "exact" else "logistic", out)
        confidence.append(out.max(2).mean())
    assert (np.diff(confidence) > 0).all()


def test_callback_sees_every_round_and_can_stop():
    seen = []
    s = Small()
    history = s.exact(n_rounds=10, callback=lambda n, value: seen.append((n, value)) or n == 3)
    assert seen == list(enumerate(history))
    assert len(history) == 4


def test_an_error_in_the_callback_comes_through():
    with pytest.raises(KeyboardInterrupt):
        Small().exact(n_rounds=10, callback=lambda n, value: (_ for _ in ()).throw(KeyboardInterrupt))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_a_signal_interrupts_a_long_fit():
    def interrupt(*_):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.05)  # here, for outside it would end all tests
            Small().exact(n_rounds=10**7)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_wrong_shapes_are_refused():
    s = Small()
    with pytest.raises(ValueError, match="allocate_rows"):
        fast.fit_resbemf_exact(s.users, s.items, s.P, s.Q, s.base, s.values, 9, False, 1.0, 1.0)


@pytest.mark.skipif("STARCAST_ISA" in os.environ, reason="this is the run under another instruction set")
@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_lower_instruction_sets_pass_the_same_tests(isa):
    env = os.environ | {"STARCAST_ISA": isa}
    said = subprocess.run(
        [sys.executable, "-c", "from starcast.kernels import fast; print(fast.isa())"],
        env=env,
        capture_output=True,
        text=True,
    )
    assert said.stdout.strip() in (isa, "baseline")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", __file__, "-p", "no:cacheprovider"],
        env=env,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-2000:]


@pytest.mark.parametrize("model", ["resbemf", "bemf"])
@pytest.mark.parametrize("scale", [0.5, 20.0], ids=["ordinary", "extreme"])
@pytest.mark.parametrize("n_factors", [1, 8, 20])
def test_long_rows_of_five_scores_agree_with_plain_loops(model, scale, n_factors):
    # Rows longer than a strip, and logits far from zero: five scores have a path of their own on some processors.
    s = Small(5, n_factors, n_users=9, n_items=220, density=0.6, scale=scale)
    P, Q, v = (s.bare(x) for x in (s.P, s.Q, s.values))
    step = {"learning_rate": 1e-3, "regularization": 0.1}
    history = s.gradient(model, **step)
    one_pass = reference.resbemf_pass if model == "resbemf" else reference.bemf_pass
    args = (v, 1e-3, 0.1)
    with np.errstate(over="ignore"):  # the plain logistic of -2000 passes through infinity
        P = one_pass(s.users, P, Q, *args)
        Q = one_pass(s.items, Q, P, *args)
    np.testing.assert_allclose(s.bare(s.P), P, atol=1e-6 * max(scale, 1))
    np.testing.assert_allclose(s.bare(s.Q), Q, atol=1e-6 * max(scale, 1))
    assert np.isfinite(history).all()
