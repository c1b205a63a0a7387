"""The ordinal kernels against plain loops: steps, draws, spread, and that draws come from the posterior."""

import os
import subprocess
import sys

import numpy as np
import pytest

import starcast as sc
from starcast.kernels import Side, fast, make_sides
from starcast.kernels import reference_ordinal as reference
from starcast.kernels.reference import softmax
from starcast.models.chain import Ties, tie_scores
from starcast.models.hierarchy import padded

COUNTS = (0, 1, 15, 16, 17, 300)  # ratings of the rows: none, a lone lane, a whole group and its neighbours, many
SHAPES = [
    (2, [0]), (2, [17]), (3, [1, 0]), (3, [16, 1]), (3, [0, 3]), (5, [16, 3, 0, 1]), (5, [33, 1, 0, 0]), (5, [3]),
    (5, [1, 1, 1, 1, 1]), (8, [17, 0, 3, 0, 0, 0, 0]), (8, [0] * 7), (10, [3] * 9), (10, [33, 16]), (64, [16, 3] + [0] * 7),
    (64, [0, 1] + [0] * 62),
]  # fmt: skip


def over(shapes):
    return pytest.mark.parametrize(("n_scores", "ranks"), shapes, ids=lambda n: str(n).replace("0, 0, 0, ", ""))


by_shape = over(SHAPES[1::2] if "STARCAST_ISA" in os.environ else SHAPES)  # fewer under other instruction sets
by_few_shapes = over(SHAPES[::3])


def slack_of(ranks):
    """Terms halfway between two units fall either way; where factors are as many as others, one unit shows."""
    return 1e-3 if sum(ranks) > 32 else 1e-4


class Problem:
    """Rows with as many ratings as COUNTS says, of forty others, a prior with a full covariance."""

    def __init__(self, n_scores, ranks, scale=0.4, firmness=2.0, counts=COUNTS):
        rng = np.random.default_rng(0)
        counts = [min(count, 60) if len(ranks) > 20 else count for count in counts]  # plain loops take long there
        D = sum(ranks) + len(ranks)
        self.stride = -(-D // 16) * 16
        self.ranks = np.array(ranks, np.int32)
        self.base = rng.normal(size=n_scores).astype(np.float32)
        self.basis = rng.normal(0, min(1, 2 / np.sqrt(len(ranks))), (len(ranks), n_scores)).astype(np.float32)
        root = rng.normal(0, 0.3 / np.sqrt(D), (D, D))
        self.precision = padded(firmness * (np.eye(D) + root @ root.T + root + root.T), self.stride)
        self.rows, self.others = (padded(rng.normal(0, scale, (n, D)), self.stride) for n in (len(counts), 40))
        self.means = padded(rng.normal(0, 0.2, (len(counts), D)), self.stride)
        start = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        other = rng.integers(0, 40, start[-1]).astype(np.int32)
        self.side = Side(start, other, rng.integers(0, n_scores, start[-1]).astype(np.int8))
        self.noise = padded(rng.normal(size=(len(counts), D)), self.stride)
        self.n_columns = D

    def move(self, rows, n_steps=0, noise=None, luck=None, spread=None, n_threads=1):
        """Move the rows in place; return the objective and the draws accepted."""
        luck = None if luck is None else np.asarray(luck, np.float32)
        return fast.move_rows(
            self.side, rows, self.others, self.base, self.basis, self.ranks, self.means, self.precision, n_steps,
            noise, luck, spread, *self.units, n_threads,
        )  # fmt: skip

    @property
    def units(self):
        return Ties(self.base, self.basis, self.ranks).reach(self.others), max(np.diff(self.side.start), default=0)

    def row(self, r):
        """What plain loops need to know of a row, in double precision."""
        mine, D = slice(self.side.start[r], self.side.start[r + 1]), self.n_columns
        others = self.others[self.side.other[mine], :D].astype(float)
        prior = self.means[r, :D].astype(float), self.precision[:, :D].astype(float)
        return others, self.side.score[mine], self.base.astype(float), self.basis.astype(float), self.ranks, *prior

    def bare(self, rows):
        return rows[:, : self.n_columns].astype(float)

    def each(self, function, rows, *more):
        """What plain loops say of each row, from sums in whole units."""
        units = reference.ordinal_units(*self.units, self.basis.astype(float), self.ranks)
        return [
            function(x, *args, *self.row(r), units)
            for r, (x, *args) in enumerate(zip(self.bare(rows), *more, strict=True))
        ]


# One move, against plain loops.


@by_few_shapes
def test_the_reference_has_the_slope_and_the_bend_of_its_value(n_scores, ranks):
    problem = Problem(n_scores, ranks, counts=(0, 5))
    rng = np.random.default_rng(1)
    for r, theta in enumerate(problem.bare(problem.rows)):
        _, slope, bend = reference.ordinal_row(theta, *problem.row(r))
        for _ in range(3):
            way = rng.normal(size=len(theta)) / np.sqrt(len(theta))
            (up, up_slope, _), (down, down_slope, _) = (
                reference.ordinal_row(theta + h * way, *problem.row(r)) for h in (1e-5, -1e-5)
            )
            assert way @ slope == pytest.approx((up - down) / 2e-5, abs=1e-6)
            assert bend @ way == pytest.approx((down_slope - up_slope) / 2e-5, abs=1e-5)
        assert bend == pytest.approx(bend.T)


@by_shape
def test_a_step_is_that_of_plain_loops(n_scores, ranks):
    problem = Problem(n_scores, ranks)
    rows = problem.rows.copy()
    objective, accepted = problem.move(rows, n_steps=1)
    expected = [trial for trial, _ in problem.each(reference.ordinal_step, problem.rows)]
    assert problem.bare(rows) == pytest.approx(np.array(expected), abs=slack_of(ranks))
    values = [value for value, _, _ in problem.each(reference.ordinal_row, rows)]
    assert objective == pytest.approx(sum(values), rel=5e-6)
    assert accepted == 0
    assert not rows[:, problem.n_columns :].any()  # the padding stays empty


@pytest.mark.parametrize(("n_scores", "ranks"), [(2, [1]), (3, [3, 0]), (5, [3, 1, 0, 0]), (10, [16, 3]), (64, [1, 1])])
def test_a_step_that_goes_too_far_is_halved_as_often_as_in_plain_loops(n_scores, ranks):
    problem = Problem(n_scores, ranks, firmness=0.1, counts=(100, 40, 30, 20, 10, 5) * 2)
    problem.rows *= 8  # far out, where the bend is slight and the steps are long
    rows = problem.rows.copy()
    problem.move(rows, n_steps=1)
    expected, halved = zip(*problem.each(reference.ordinal_step, problem.rows), strict=True)
    assert len(set(halved)) > 1
    assert 12 not in halved
    size = np.abs(np.array(expected) - problem.bare(problem.rows)).max(axis=1)
    assert (np.abs(problem.bare(rows) - expected).max(axis=1) < 4e-3 * size).all()


@by_few_shapes
def test_steps_end_at_the_summit(n_scores, ranks):
    problem = Problem(n_scores, ranks)
    problem.move(problem.rows, n_steps=30)
    for r, theta in enumerate(problem.bare(problem.rows)):
        _, slope, bend = reference.ordinal_row(theta, *problem.row(r))
        _, before, _ = reference.ordinal_row(np.zeros_like(theta), *problem.row(r))
        assert slope @ np.linalg.solve(bend, slope) < 2e-5  # what is left to gain, twice
        assert np.abs(slope).max() < 2e-2 * max(1, np.abs(before).max())
    assert problem.bare(problem.rows)[0] == pytest.approx(problem.bare(problem.means)[0], abs=1e-5)  # without ratings


@by_shape
def test_the_spread_is_the_sum_of_the_inverse_bends_before_a_step(n_scores, ranks):
    problem = Problem(n_scores, ranks)
    for n_steps in (0, 1):
        rows, spread = problem.rows.copy(), np.full((problem.n_columns, problem.n_columns), np.nan)
        problem.move(rows, n_steps=n_steps, spread=spread)
        expected = sum(np.linalg.inv(bend) for _, _, bend in problem.each(reference.ordinal_row, problem.rows))
        assert spread == pytest.approx(expected, rel=1e-3, abs=1e-4)


@by_shape
def test_a_draw_ends_where_plain_loops_end_and_is_accepted_as_often(n_scores, ranks):
    problem = Problem(n_scores, ranks)
    problem.move(problem.rows, n_steps=0 if n_scores == 5 else 2)  # from far away, or from near the summit
    trials, odds = zip(*problem.each(reference.ordinal_draw, problem.rows, problem.bare(problem.noise)), strict=True)
    before = [value for value, _, _ in problem.each(reference.ordinal_row, problem.rows)]
    after = [value for value, _, _ in problem.each(reference.ordinal_row, padded(np.array(trials), problem.stride))]
    slack = slack_of(ranks) * (2 + 0.5 * np.abs(odds))
    taken, left = problem.rows.copy(), problem.rows.copy()
    objective, accepted = problem.move(taken, noise=problem.noise, luck=np.array(odds) - slack)
    assert accepted == len(COUNTS)
    assert problem.bare(taken) == pytest.approx(np.array(trials), abs=slack_of(ranks))
    assert objective == pytest.approx(sum(after), rel=5e-6)
    objective, accepted = problem.move(left, noise=problem.noise, luck=np.array(odds) + slack)
    assert accepted == 0
    assert np.array_equal(left, problem.rows)
    assert objective == pytest.approx(sum(before), rel=5e-6)


def test_each_row_has_its_own_luck():
    problem = Problem(5, [3, 1, 0, 0])
    rows = problem.rows.copy()
    luck = np.where(np.arange(6) % 2, -np.inf, np.inf)
    _, accepted = problem.move(rows, noise=problem.noise, luck=luck)
    assert accepted == 3
    assert (rows != problem.rows).any(axis=1).tolist() == [False, True] * 3


def test_steps_come_before_the_draw():
    problem = Problem(5, [16, 3, 0, 1])
    together, apart = problem.rows.copy(), problem.rows.copy()
    luck = np.full(len(COUNTS), -np.inf)
    problem.move(together, n_steps=3, noise=problem.noise, luck=luck)
    problem.move(apart, n_steps=3)
    problem.move(apart, noise=problem.noise, luck=luck)
    assert together == pytest.approx(apart, abs=1e-5)


@by_few_shapes
@pytest.mark.parametrize("is_point", [False, True])
def test_rows_are_placed_around_the_summits_of_all_draws(n_scores, ranks, is_point):
    problem = Problem(n_scores, ranks)
    rng, D, T = np.random.default_rng(3), problem.n_columns, 3
    others = rng.normal(0, 0.4, (40, D, T)).astype(np.float32)
    features, weights = (rng.normal(0, 0.3, size).astype(np.float32) for size in ((6, 4), (T, 4, D)))
    precision = np.stack([problem.precision[:, :D] * (1 + t) for t in range(T)])
    noise = luck = None
    if not is_point:
        noise, luck = rng.standard_normal((T, D), np.float32), np.log(rng.random(T)).astype(np.float32)
    found = [np.full((6, D, T), np.nan, np.float32) for _ in range(2)]
    for n_threads, out in zip((1, 3), found, strict=True):
        ties = problem.base, problem.basis, problem.ranks
        fast.place_rows(problem.side, features, others, weights, precision, *ties, noise, luck, 30, out, n_threads)
    assert np.array_equal(*found)
    for t in range(T):
        problem.others, problem.precision = (
            padded(others[:, :, t], problem.stride),
            padded(precision[t], problem.stride),
        )
        problem.means = padded(features @ weights[t], problem.stride)
        rows = problem.means.copy()
        problem.move(rows, n_steps=30)
        if not is_point:
            problem.move(rows, noise=padded(np.tile(noise[t], (6, 1)), problem.stride), luck=np.full(6, luck[t]))
        assert found[0][:, :, t] == pytest.approx(rows[:, :D], abs=2e-3)


@pytest.mark.parametrize("n_draws", [16, 48])
@by_few_shapes
def test_answers_are_the_mean_over_draws(n_scores, ranks, n_draws):
    problem = Problem(n_scores, ranks)
    rng = np.random.default_rng(2)
    P, Q = (rng.normal(0, 0.5, (n, problem.n_columns, n_draws)).astype(np.float32) for n in (7, 9))
    weights = np.r_[np.full(n_draws - 5, 1 / (n_draws - 5)), np.zeros(5)].astype(
        np.float32
    )  # the last five are padding
    user, item = rng.integers(0, 7, 30).astype(np.int32), rng.integers(0, 9, 30).astype(np.int32)
    probs = np.empty((30, n_scores), np.float32)
    fast.ordinal_proba(user, item, P, Q, problem.base, problem.basis, problem.ranks, weights, probs, 2)
    ties = problem.base.astype(float), problem.basis.astype(float), ranks
    for n in range(0, 30, 7):
        p, q = P[user[n]].astype(float), Q[item[n]].astype(float)
        draws = [softmax(reference.ordinal_logits(p[:, t], q[:, t], *ties)) for t in range(n_draws - 5)]
        assert probs[n] == pytest.approx(np.mean(draws, axis=0), rel=2e-5, abs=1e-7)


# What every move promises.


@pytest.mark.parametrize("firmness", [0.01, 1.0, 1e4])
def test_far_out_nothing_overflows_and_no_step_loses(firmness):
    problem = Problem(5, [16, 3, 0, 1], scale=30.0, firmness=firmness)
    before, rows = problem.move(problem.rows.copy())[0], problem.rows.copy()
    for _ in range(5):
        after, _ = problem.move(rows, n_steps=1)
        assert after >= before
        before = after
    spread = np.empty((problem.n_columns, problem.n_columns))
    after, _ = problem.move(rows, noise=problem.noise, luck=np.zeros(len(COUNTS)), spread=spread)
    assert np.isfinite(after)
    assert np.isfinite(rows).all()
    assert np.isfinite(spread).all()


def test_same_bits_for_any_number_of_threads():
    rng = np.random.default_rng(0)
    problem = Problem(5, [16, 3, 0, 0], counts=rng.integers(0, 60, 2000))  # 60 000 ratings: many chunks
    luck = np.log(rng.random(2000))

    def bits(n_threads):
        rows, spread = problem.rows.copy(), np.empty((problem.n_columns, problem.n_columns))
        climbed = problem.move(rows, n_steps=2, spread=spread, n_threads=n_threads)
        drawn = problem.move(rows, noise=problem.noise, luck=luck, n_threads=n_threads)
        assert 0 < drawn[1] < 2000
        return rows.tobytes(), spread.tobytes(), climbed, drawn

    one = bits(1)
    for n_threads in (2, 3, 7):
        assert bits(n_threads) == one


def test_a_row_does_not_depend_on_those_beside_it():
    problem = Problem(5, [16, 3, 0, 1])
    rows, luck = problem.rows.copy(), np.full(6, -0.1)
    problem.move(rows, n_steps=1, noise=problem.noise, luck=luck)
    for r in range(6):
        alone = Problem(5, [16, 3, 0, 1])
        mine = slice(*alone.side.start[r : r + 2])
        alone.side = Side(np.array([0, mine.stop - mine.start]), *(part[mine] for part in alone.side[1:]))
        alone.means, row = alone.means[r : r + 1], alone.rows[r : r + 1].copy()
        alone.move(row, n_steps=1, noise=problem.noise[r : r + 1], luck=luck[:1])
        assert np.array_equal(row[0], rows[r])


def test_no_rows_are_no_work():
    problem = Problem(5, [3, 0], counts=())
    spread = np.full((5, 5), np.nan)
    assert problem.move(problem.rows, n_steps=2, noise=problem.noise, luck=[], spread=spread, n_threads=4) == (0, 0)
    assert not spread.any()
    none = np.empty(0, np.int32)
    Q = np.zeros((3, 5, 16), np.float32)
    out = np.empty((0, 5), np.float32)
    fast.ordinal_proba(none, none, Q, Q, problem.base, problem.basis, problem.ranks, Q[0, 0], out, 4)


def wrong(**changes):
    problem = Problem(5, [3, 0])
    for name, change in changes.items():
        setattr(problem, name, change(getattr(problem, name)))
    return problem


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base": lambda a: a[:1], "basis": lambda a: np.ascontiguousarray(a[:, :1])}, "between 2 and 64 scores"),
        ({"basis": lambda a: np.zeros((6, 5), np.float32)}, "between 1 basis function and as many as scores"),
        ({"basis": lambda a: np.zeros((2, 6), np.float32)}, "basis must have a column per score"),
        ({"ranks": lambda a: a[:1]}, "ranks must be one per basis function"),
        ({"ranks": lambda a: a - 5}, "ranks must be zero or more"),
        ({"ranks": lambda a: a + 9}, "rows must be padded with zeros to a multiple of 16"),
        ({"others": lambda a: np.zeros((40, 32), np.float32)}, "padded as rows are"),
        ({"others": lambda a: a[:3]}, "a side must point at rows of the other"),
        ({"means": lambda a: a[:3]}, "rows and means must be one per row of the side"),
        ({"precision": lambda a: a[:3]}, "precision must have a row per column"),
        ({"noise": lambda a: a[:3]}, "noise and luck must be one per row"),
        ({"noise": lambda a: None}, "noise and luck come together"),
        ({"side": lambda s: Side(s.start, s.other, s.score + np.int8(5))}, "scores must lie on the scale"),
        ({"side": lambda s: Side(s.start, s.other, s.score - np.int8(1))}, "scores must lie on the scale"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(changes, message):
    problem = wrong(**changes)
    with pytest.raises(ValueError, match=message):
        problem.move(problem.rows, noise=problem.noise, luck=np.zeros(6))


# Draws come from the posterior.


def moments_of(x):
    """Each number, all products of two, and all cubes."""
    return np.hstack([x, x[:, [0, 0, 0, 1, 1, 2]] * x[:, [0, 1, 2, 1, 2, 2]], x**3])


def on_a_grid(row, axes):
    """The points of a grid and their share of the posterior of a row."""
    others, scores, base, basis, ranks, mean, precision = row
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(mean))
    value = -0.5 * (((points - mean) @ precision) * (points - mean)).sum(axis=1)
    assert ranks.tolist() == [1, 0]
    for other, score in zip(others, scores, strict=True):
        eta = points[:, 1:] + other[1:]
        eta[:, 0] += points[:, 0] * other[0]
        logits = base + eta @ basis
        value += logits[:, score] - np.log(np.exp(logits).sum(axis=1))
    weight = np.exp(value - value.max())
    return points, weight / weight.sum()


def test_moves_leave_the_posterior_alone():
    """Three numbers, four ratings and a loose prior: the moments of two thousand chains are those on a grid."""
    n, ratings = 2000, np.array([[1.5, 0.2, -0.1], [-0.7, 0.0, 0.4], [2.0, -0.5, 0.0], [0.4, 0.3, 0.3]])
    problem = Problem(3, [1, 0], counts=(4,) * n)
    problem.base[:], problem.basis = 0, tie_scores(np.full(3, 1 / 3), 1, 0).basis
    problem.others = padded(ratings, 16)
    other, score = np.arange(4, dtype=np.int32), np.array([2, 0, 2, 1], np.int8)
    problem.side = Side(problem.side.start, np.tile(other, n), np.tile(score, n))
    problem.means[:, :3] = (0.5, 0.0, -0.5)
    problem.precision = padded(np.array([[0.5, 0.1, 0.0], [0.1, 0.4, 0.1], [0.0, 0.1, 0.6]]), 16)

    def drawn(rng, is_honest):
        rows, sums, accepted = problem.means.copy(), np.zeros((n, 12)), 0
        for turn in range(60):
            luck = np.log(1 - rng.random(n)) if is_honest else np.full(n, -np.inf)
            accepted += problem.move(rows, noise=rng.standard_normal(rows.shape, np.float32), luck=luck)[1]
            sums += moments_of(problem.bare(rows)) * (turn >= 20)
        return sums / 40, accepted / (60 * n)  # a mean per chain

    points, share = on_a_grid(problem.row(0), [np.linspace(-8, 9, 86), np.linspace(-8, 8, 81), np.linspace(-8, 8, 81)])
    truth = share @ moments_of(points)
    off = []
    for is_honest in (True, False):
        means, accepted = drawn(np.random.default_rng(0), is_honest)
        off.append(np.abs(means.mean(axis=0) - truth) / (means.std(axis=0) / np.sqrt(n)))  # in standard errors
        assert 0.5 < accepted < 0.98 or not is_honest
    assert off[0].max() < 4
    assert off[1].max() > 15  # without refusals they would come from elsewhere


# The same kernel serves a model with a vector per score.


def test_resbemf_to_the_end_is_a_summit_of_the_ordinal_rows():
    ratings, _ = sc.make_ratings(40, 25, n_scores=4, density=0.5, random_state=0)
    model = sc.ResBeMF(
        n_factors=3, regularization=2.0, bias_regularization=0.7, tolerance=0, n_iters=3000, random_state=0, n_jobs=1
    ).fit(ratings)
    ranks, penalty = [3] * 4, np.repeat([2.0, 0.7], [12, 4])
    problem = Problem(4, ranks, counts=(0,) * 40)
    problem.base, problem.basis = model.base_, np.eye(4, dtype=np.float32)
    problem.precision = padded(np.diag(penalty), 16)
    rows = [padded(score_by_score(factors), 16) for factors in (model.user_factors_, model.item_factors_)]
    likelihood = []
    for side, own, others in zip(make_sides(ratings), rows, rows[::-1], strict=True):
        problem.side, problem.others, problem.means = side, others, np.zeros_like(own)
        moved = own.copy()
        before, after = problem.move(moved)[0], problem.move(moved, n_steps=10)[0]
        assert 0 <= after - before < 1e-5 * abs(before)
        assert np.abs(moved - own).max() < 0.01 * np.abs(own).max()
        likelihood.append(before + 0.5 * ((own[:, :16].astype(float) ** 2) @ penalty).sum())
    assert likelihood[0] == pytest.approx(likelihood[1], rel=5e-6)
    prices = sum(0.5 * ((own.astype(float) ** 2) @ penalty).sum() for own in rows)
    assert model.history_[-1] == pytest.approx(likelihood[0] - prices, rel=5e-6)


def score_by_score(planes):
    """Rows of ResBeMF, planes by scores with the biases last, as rows of the ordinal model."""
    return np.hstack([planes[:, :-1].transpose(0, 2, 1).reshape(len(planes), -1), planes[:, -1]])


@pytest.mark.skipif("STARCAST_ISA" in os.environ, reason="this is the run under another instruction set")
@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_lower_instruction_sets_compute_the_same(isa, tmp_path):
    chosen = [
        "-k",
        "plain_loops or spread or answers or bits",
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'own'}",
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", __file__, *chosen],
        env=os.environ | {"STARCAST_ISA": isa},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-2000:]
