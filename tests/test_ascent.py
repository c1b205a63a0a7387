"""Gradient rounds of the ordinal model: slopes, steps and sums against plain loops, and what a climb comes to."""

import os
import subprocess
import sys

import numpy as np
import pytest

import starcast as sc
from starcast.errors import ParameterError, UnknownNameError
from starcast.kernels import Side, fast
from starcast.kernels import reference_ordinal as reference
from starcast.models import ascent as module
from starcast.models.ascent import Ascent
from starcast.models.chain import Chain, tie_scores

# Ratings of rows: none, few beside few, a lone lane, sixteen and its neighbours, a strip and its neighbours, many.
COUNTS = (0, 1, 2, 0, 1, 15, 16, 17, 63, 64, 65, 3, 200, 1)
SHAPES = [
    (5, [8, 4, 0, 0]), (5, [16, 4, 0, 0]), (5, [8, 0, 0, 0]), (5, [0, 0, 0, 0]), (5, [4, 40]), (5, [20, 12, 0, 0]),
    (2, [4]), (3, [4, 4]), (10, [16, 4] + [0] * 7), (10, [12, 4] + [0] * 7), (40, [8, 4] + [0] * 7),
]  # fmt: skip
by_shape = pytest.mark.parametrize(
    ("n_scores", "ranks"),
    SHAPES[::3] if "STARCAST_ISA" in os.environ else SHAPES,
    ids=lambda x: str(x).replace(", 0", ""),
)


class Problem:
    """Rows with as many ratings as COUNTS says of thirty others, and as many of those, in the kernel's layout."""

    def __init__(self, n_scores, ranks, scale=0.4, mirrored=True):
        rng = np.random.default_rng(0)
        D = sum(ranks) + len(ranks)
        self.n_columns, self.stride = D, -(-D // 16) * 16
        self.ranks = np.array(ranks, np.int32)
        self.base = rng.normal(size=n_scores).astype(np.float32)
        ties = tie_scores(np.full(n_scores, 1 / n_scores), 1, 1)
        self.basis = ties.basis[: len(ranks)].copy()
        if not mirrored:
            self.basis += rng.normal(0, 0.3, self.basis.shape).astype(np.float32)
        start = np.concatenate([[0], np.cumsum(COUNTS, dtype=np.int64)])
        other = rng.integers(0, 30, start[-1]).astype(np.int32)
        score = rng.integers(0, n_scores, start[-1]).astype(np.int8)
        order = np.argsort(other, kind="stable")
        back = np.concatenate([[0], np.cumsum(np.bincount(other, minlength=30))]).astype(np.int64)
        row = np.repeat(np.arange(len(COUNTS)), COUNTS).astype(np.int32)
        self.sides = Side(start, other, score), Side(back, row[order], score[order])
        self.rows = [self.wide(rng.normal(0, scale, (n, D))) for n in (len(COUNTS), 30)]
        self.features = [rng.normal(size=(n, 3)).astype(np.float32) for n in (len(COUNTS), 30)]
        self.weights = self.wide(rng.normal(0, 0.2, (3, D)))
        root = rng.normal(0, 0.3 / np.sqrt(D), (D, D))
        self.precision = np.eye(self.stride, dtype=np.float32)
        self.precision[:D, :D] = 2 * (np.eye(D) + root @ root.T + root + root.T)
        self.bend, self.doubt = (self.wide(rng.uniform(0.1, 0.5, (1, D)))[0] for _ in range(2))

    def wide(self, rows):
        out = np.zeros((len(rows), self.stride), np.float32)
        out[:, : self.n_columns] = rows
        return out

    def kernel(self, n_threads=1):
        return fast.OrdinalAscent(
            *self.sides, *self.rows, *self.features, self.base, self.basis, self.ranks, n_threads
        )  # fmt: skip

    def slopes(self, which, n_threads=1):
        out, squares = np.full_like(self.rows[which], np.nan), np.full(len(self.ranks), np.nan)
        return self.kernel(n_threads).slopes(which, out, squares), out, squares

    def expected(self, which):
        """What plain loops say of each row."""
        side, rows, others = self.sides[which], self.rows[which], self.rows[1 - which]
        found = []
        for r, theta in enumerate(rows[:, : self.n_columns].astype(float)):
            mine = slice(side.start[r], side.start[r + 1])
            met = others[side.other[mine], : self.n_columns].astype(float)
            scale = self.base.astype(float), self.basis.astype(float), self.ranks
            found.append(reference.ordinal_slope(theta, met, side.score[mine], *scale))
        return [np.array(part) for part in zip(*found, strict=True)]

    def move(self, kernel, which, is_asked=True):
        squares, moments = np.empty(len(self.ranks)), np.empty((3, self.stride))
        told = kernel.move(
            which, self.weights, self.precision, self.bend, self.doubt, 1.5, 0.5, is_asked, squares, moments
        )
        rows = np.empty_like(self.rows[which])
        kernel.rows(which, rows)
        return told, squares, moments, rows


# The slope of the likelihood.


@pytest.mark.parametrize(("n_scores", "ranks"), SHAPES[1::3])
def test_the_reference_has_the_slope_of_its_value(n_scores, ranks):
    problem, rng = Problem(n_scores, ranks), np.random.default_rng(1)
    others = problem.rows[1][:5, : problem.n_columns].astype(float)
    row = others, rng.integers(0, n_scores, 5), problem.base.astype(float), problem.basis.astype(float), problem.ranks
    theta = problem.rows[0][0, : problem.n_columns].astype(float)
    _, slope, _ = reference.ordinal_slope(theta, *row)
    for c in range(problem.n_columns):
        up, down = (reference.ordinal_slope(theta + h * (np.arange(len(theta)) == c), *row)[0] for h in (1e-5, -1e-5))
        assert slope[c] == pytest.approx((up - down) / 2e-5, abs=1e-6)


@by_shape
@pytest.mark.parametrize("mirrored", [True, False])
def test_slopes_are_those_of_plain_loops(n_scores, ranks, mirrored):
    problem = Problem(n_scores, ranks, mirrored=mirrored)
    for which in (0, 1):
        loglik, slopes, squares = problem.slopes(which)
        values, expected, expected_squares = problem.expected(which)
        assert slopes[:, : problem.n_columns] == pytest.approx(expected, rel=2e-4, abs=2e-4)
        assert not slopes[:, problem.n_columns :].any()
        assert loglik == pytest.approx(values.sum(), rel=1e-5)
        assert squares == pytest.approx(expected_squares.sum(axis=0), rel=1e-4)


@pytest.mark.parametrize("scale", [3.0, 10.0, 100.0])
@pytest.mark.parametrize(("n_scores", "ranks"), [SHAPES[0], SHAPES[-2]])
def test_slopes_far_out_are_those_of_plain_loops(n_scores, ranks, scale):
    problem = Problem(n_scores, ranks, scale=scale)
    loglik, slopes, _ = problem.slopes(0)
    values, expected, _ = problem.expected(0)
    size = np.abs(expected).max()
    assert slopes[:, : problem.n_columns] == pytest.approx(expected, abs=2e-4 * size)
    assert loglik == pytest.approx(values.sum(), rel=1e-4)


# The step.


@by_shape
def test_steps_are_those_of_plain_loops(n_scores, ranks):
    problem = Problem(n_scores, ranks)
    kernel, D = problem.kernel(), problem.n_columns
    rows = problem.rows[0][:, :D].astype(float)
    velocity = np.zeros_like(rows)
    counts = np.array(COUNTS)
    for _ in range(2):  # the second time with a velocity
        values, slopes, squares = problem.expected(0)
        (loglik, price), told, moments, moved = problem.move(kernel, 0)
        prior = problem.precision[:D, :D].astype(float), problem.bend[:D].astype(float), problem.doubt[:D].astype(float)
        means = problem.features[0].astype(float) @ problem.weights[:, :D].astype(float)
        ends = [
            reference.ordinal_glide(*part, *prior, 1.5, 0.5)
            for part in zip(rows, velocity, slopes, counts, means, strict=True)
        ]
        rows, velocity, sure, prices = (np.array(part) for part in zip(*ends, strict=True))
        assert moved[:, :D] == pytest.approx(rows, rel=1e-3, abs=1e-4)
        assert not moved[:, D:].any()
        assert (loglik, price) == pytest.approx((values.sum(), prices.sum()), rel=1e-5)
        assert told == pytest.approx(squares.sum(axis=0), rel=1e-4)
        expected = [counts @ rows**2, counts @ sure, sure.sum(axis=0)]
        assert moments[:, :D] == pytest.approx(np.array(expected), rel=1e-3)
        problem.rows[0] = moved
    (loglik, _), *_ = problem.move(kernel, 0, is_asked=False)
    assert loglik == 0


def test_the_curvature_is_that_of_plain_loops():
    chain = Chain(tiny(), tie_scores(np.array([0.1, 0.2, 0.3, 0.25, 0.15]), 3, 1), 2, 0, 1)
    ascent = Ascent(chain)
    for _ in range(2):
        ascent.climb()
    n, place = len(chain.sides[0].other), ascent._place
    for which in (0, 1):
        square, spread = ascent._passes.moments[1 - which][:2, place] / n
        bend, doubt = reference.ordinal_bend(ascent._passes.variance, square, spread, chain.ties.ranks)
        assert ascent._passes._bend(ascent._passes.moments[1 - which][0] / n)[place] + doubt == pytest.approx(
            bend, rel=1e-5
        )
        assert ascent._doubt(which)[place] == pytest.approx(doubt, rel=1e-5)


def test_sums_are_those_of_matrix_products():
    problem = Problem(5, [16, 4, 0, 0])
    out = np.full((3 + problem.stride, problem.stride), np.nan)
    problem.kernel().sums(1, out)
    rows, features = problem.rows[1].astype(float), problem.features[1].astype(float)
    assert out == pytest.approx(np.hstack([features, rows]).T @ rows, rel=1e-4, abs=1e-4)


def test_rows_go_back_to_where_they_were_kept_and_rest():
    problem = Problem(5, [8, 4, 0, 0])
    kernel = problem.kernel()
    kernel.keep()
    first = problem.move(kernel, 0)[3]
    problem.move(kernel, 0)
    kernel.go_back()
    assert np.array_equal(problem.move(kernel, 0)[3], first)


@by_shape
def test_threads_do_not_change_bits(n_scores, ranks):
    problem = Problem(n_scores, ranks)
    for which in (0, 1):
        one, three = problem.slopes(which, 1), problem.slopes(which, 3)
        assert one[0] == three[0]
        assert np.array_equal(one[1], three[1])
        assert np.array_equal(one[2], three[2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranks": np.array([3, 4, 0, 0], np.int32)}, "multiples of 4"),
        ({"ranks": np.array([4, 4, 4, 0], np.int32)}, "0 but for the first two"),
        ({"base": np.zeros(4, np.float32)}, "basis must have"),
        ({"features": [np.zeros((3, 3), np.float32)] * 2}, "one per row"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    problem = Problem(5, [4, 4, 0, 0])
    vars(problem).update(change)
    with pytest.raises(ValueError, match=message):
        problem.kernel()


# The climb.


def tiny():
    ratings, _ = sc.make_ratings(80, 60, density=0.3, confidence=3.0, random_state=0)
    return ratings


def test_the_prior_is_learnt_from_sums_as_from_rows():
    chains = [Chain(tiny(), tie_scores(np.full(5, 0.2), 4, 2), 2, 0, 1) for _ in range(2)]
    spread = np.diag(np.linspace(1, 2, 10))
    rows = np.random.default_rng(0).normal(size=(80, 10))
    features = chains[0].priors[0].features
    chains[0].priors[0].learn(rows, spread)
    chains[1].priors[0].learn_from(features.T @ rows, rows.T @ rows, spread)
    away = rows - features @ chains[0].priors[0].weights
    for a, b in zip(*(vars(chain.priors[0]).values() for chain in chains), strict=True):
        assert a == pytest.approx(b, rel=1e-5, abs=1e-6)
    assert np.linalg.inv(chains[0].priors[0].precision).trace() * (80 + 12) == pytest.approx(
        np.sum(away**2) + spread.trace(), rel=0.02
    )


def test_a_climb_by_the_gradient_answers_better_than_one_by_newtons_steps():
    ratings, _ = sc.make_ratings(300, 150, density=0.2, confidence=2.0, random_state=1)
    train, test = sc.holdout(ratings, test_size=0.2, random_state=0)
    loss = {}
    for update in ("exact", "gradient"):
        model = sc.OrdinalMF(n_draws=0, update=update, random_state=0, n_jobs=1).fit(train)
        loss[update] = sc.evaluate(model, test, [0.0]).rows[0]["nll"]
    assert loss["gradient"] < loss["exact"]


def test_steps_that_are_too_long_are_shortened_until_they_gain(monkeypatch):
    ratings = tiny()
    good = sc.OrdinalMF(n_draws=0, update="gradient", random_state=0, n_jobs=1).fit(ratings)
    monkeypatch.setattr(module, "LENGTH", 0.02)
    wild = sc.OrdinalMF(n_draws=0, update="gradient", n_iters=80, random_state=0, n_jobs=1).fit(ratings)
    assert np.isfinite(wild.user_draws_).all()
    pairs = ratings.users[ratings.user], ratings.items[ratings.item]
    loss = [-np.log(m.predict_proba(*pairs).probs[np.arange(len(ratings)), ratings.score]).mean() for m in (good, wild)]
    assert loss[1] < loss[0] + 0.1


def test_draws_go_on_where_the_gradient_ends():
    ratings = tiny()
    same = {"n_draws": 16, "burn_in": 5, "thin": 1, "random_state": 0, "n_jobs": 1}
    model = sc.OrdinalMF(update="gradient", n_iters=9, **same).fit(ratings)
    assert model.n_iter_ == 9 + 5 + 16
    assert model.user_draws_.shape[2] == 16
    assert sc.OrdinalMF(**same).fit(ratings).n_iter_ == 6 + 5 + 16


def test_more_numbers_than_the_kernel_takes_are_refused():
    with pytest.raises(ParameterError, match=r"up to 1024 factors and biases, got 1036\. Ask for fewer"):
        sc.OrdinalMF(n_factors=1026, update="gradient").fit(tiny())


def test_an_unknown_update_is_refused():
    with pytest.raises(UnknownNameError, match=r"unknown update 'newton'.*exact, gradient"):
        sc.OrdinalMF(update="newton").fit(tiny())


@pytest.mark.skipif("STARCAST_ISA" in os.environ, reason="this is the run under another instruction set")
@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_lower_instruction_sets_compute_the_same(isa, tmp_path):
    chosen = ["-k", "plain_loops or products or bits", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'own'}"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", __file__, *chosen],
        env=os.environ | {"STARCAST_ISA": isa},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-2000:]
