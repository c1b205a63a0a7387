"""Moves by questions and answers: what shards say, added up, moves rows as one machine with all ratings does."""

import dataclasses
import pickle

import numpy as np
import pytest
from small import make

from starcast.distributed.moves import Ask, Part, Units, add_up, drive
from starcast.distributed.ordinal_moves import OrdinalMoves
from starcast.distributed.point_moves import PointMoves
from starcast.distributed.score_moves import BeMFMoves, ResBeMFMoves
from starcast.kernels import Side, fast, make_sides
from starcast.kernels import reference_ordinal as reference
from starcast.models.chain import Chain, tie_scores
from starcast.ratings import Ratings

N_USERS, N_ITEMS = 90, 31
BARE = 5  # an item without ratings


class Table:
    """Random ratings, cut by ranges of users into shards: each has its own users and all items."""

    def __init__(self, n_shards, n_scores=5, seed=0):
        rng = np.random.default_rng(seed)
        rated = rng.random((N_USERS, N_ITEMS)) < np.linspace(0.1, 0.9, N_ITEMS)
        rated[3], rated[:, BARE] = False, False
        user, item = (codes.astype(np.int32) for codes in np.nonzero(rated))
        lean = rng.normal(0, 1, N_ITEMS)[item] + rng.normal(0, 1, N_USERS)[user] + rng.normal(0, 1, len(user))
        score = np.clip(np.round(lean + n_scores / 2), 0, n_scores - 1).astype(np.int8)
        self.names = np.arange(N_USERS), np.arange(N_ITEMS), np.arange(1.0, n_scores + 1)
        self.ratings = Ratings(*self.names, user, item, score)
        self.users, self.items = make_sides(self.ratings)
        self.counts = np.diff(self.items.start)
        self.cuts = np.linspace(0, N_USERS, n_shards + 1).astype(int)
        self.shards = []
        for begin, end in zip(self.cuts, self.cuts[1:], strict=False):
            here = (user >= begin) & (user < end)
            names = (np.arange(end - begin), *self.names[1:])
            own = (user[here] - begin).astype(np.int32), item[here], score[here]
            self.shards.append(make_sides(Ratings(*names, *own))[1])

    def answer(self, moves, others, first=0):
        """What all shards say, each knowing its own others."""
        packed = [moves.pack(others[begin:end]) for begin, end in zip(self.cuts, self.cuts[1:], strict=False)]

        def answer(ask):
            return add_up([moves.look(side, ask, own, first) for side, own in zip(self.shards, packed, strict=True)])

        return answer

    def whole(self, moves, rows, others, *how):
        """What one machine makes of the rows, and what it reports."""
        packed = moves.pack(rows)
        moved = moves.whole(self.items, packed, moves.pack(others), *how)
        return moves.unpack(packed), moved


def resbemf(n_factors=4, biased=True, recklessness=0.0, n_scores=5, regularization=0.7, **params):
    rng = np.random.default_rng(1)
    base = rng.normal(0, 0.3, n_scores).astype(np.float32)
    values = np.linspace(-1, 1, n_scores).astype(np.float32)
    return ResBeMFMoves(n_factors, values, biased, regularization, 0.3, recklessness, base, **params)


def planes(n, moves, scale=0.5, seed=2):
    shape = n, moves.n_factors + moves.biased, len(moves.values)
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


RESBEMF = {
    "plain": resbemf(),
    "no biases": resbemf(biased=False),
    "biases alone": resbemf(n_factors=0),
    "bold": resbemf(recklessness=0.8),
    "cautious": resbemf(recklessness=-0.6),
    "ten scores": resbemf(n_scores=10),
    "two blocks": resbemf(n_factors=11),
    "three blocks": resbemf(n_factors=24, n_scores=3),
    "two threads": resbemf(n_threads=2),
}


@pytest.mark.parametrize("n_shards", [1, 2, 3, 4])
@pytest.mark.parametrize("name", RESBEMF)
def test_resbemf_moves_as_one_machine_does(name, n_shards):
    moves = RESBEMF[name]
    table = Table(n_shards, len(moves.values))
    rows, others = planes(N_ITEMS, moves), planes(N_USERS, moves, seed=3)
    expected, report = table.whole(moves, rows, others)
    moved = drive(moves.move(rows, table.counts), table.answer(moves, others))
    np.testing.assert_allclose(moved.rows, expected, atol=2e-4)
    np.testing.assert_allclose([moved.loglik, moved.penalty], [report.loglik, report.penalty], rtol=1e-5)
    assert not moved.rows[BARE].any()


@pytest.mark.parametrize("n_factors", [6, 12])
def test_resbemf_halves_steps_as_one_machine_does(n_factors):
    """Far from home some steps are too long: more is asked about fewer rows."""
    moves = resbemf(n_factors=n_factors, regularization=0.05)
    table, asked = Table(3), []
    rows, others = planes(N_ITEMS, moves, scale=1.2), planes(N_USERS, moves, scale=1.2, seed=3)
    answer = table.answer(moves, others)

    def noting(ask):
        asked.append(ask)
        return answer(ask)

    moved = drive(moves.move(rows, table.counts), noting)
    n_blocks = -(-n_factors // 8)
    assert {ask.want for ask in asked[n_blocks:]} == ({"value"} if n_blocks == 1 else {"value", "curve"})
    assert len(asked) > n_blocks + 1
    assert any(0 < len(ask.rows) < N_ITEMS - 1 for ask in asked)
    np.testing.assert_allclose(moved.rows, table.whole(moves, rows, others)[0], atol=2e-3)


@pytest.mark.parametrize("n_factors", [3, 10])
@pytest.mark.parametrize("recklessness", [0.0, 0.5])
def test_resbemf_rows_that_never_gain_stay(n_factors, recklessness):
    """Where every answer says that nothing gained, all are asked about six times and stay where they are."""
    moves = resbemf(n_factors=n_factors, recklessness=recklessness)
    table, asked = Table(2), []
    rows, others = planes(N_ITEMS, moves), planes(N_USERS, moves, seed=3)
    rows[BARE] = 0
    answer = table.answer(moves, others)

    def discouraging(ask):
        asked.append(ask)
        is_home = np.array_equal(ask.rows, rows if ask.some is None else rows[ask.some])
        part = answer(ask)
        return part if is_home else dataclasses.replace(part, loglik=part.loglik - 1e6)

    moved = drive(moves.move(rows, table.counts), discouraging)
    np.testing.assert_array_equal(moved.rows, rows)
    assert len(asked) == (7 if n_factors == 3 else 1 + 7 + 6)


def test_a_range_of_rows_is_asked_about_where_it_begins():
    moves, table = resbemf(), Table(2)
    rows, others = planes(N_ITEMS, moves), planes(N_USERS, moves, seed=3)
    together = drive(moves.move(rows, table.counts), table.answer(moves, others))
    for begin, end in ((0, 12), (12, N_ITEMS)):
        apart = drive(moves.move(rows[begin:end], table.counts[begin:end]), table.answer(moves, others, begin))
        np.testing.assert_array_equal(apart.rows, together.rows[begin:end])


@pytest.mark.parametrize("name", RESBEMF)
def test_resbemf_whole_passes_are_a_fit_to_the_bit(name):
    moves = dataclasses.replace(RESBEMF[name], base=RESBEMF[name].base + 1)  # some of it belongs to the biases
    table = Table(1, len(moves.values))
    P, Q = (moves.pack(planes(n, moves, seed=n)) for n in (N_USERS, N_ITEMS))
    P1, Q1, base = moves.pack(moves.unpack(P)), moves.pack(moves.unpack(Q)), moves.base.copy()
    history = fast.fit_resbemf_exact(
        table.users, table.items, P1, Q1, base, moves.values, moves.n_factors, moves.biased, moves.regularization,
        moves.bias_regularization, moves.recklessness, 4, -1.0,
    )  # fmt: skip
    assert [one_round(moves, table, P, Q) for _ in range(4)] == history
    for mine, expected in ((P, P1), (Q, Q1), (moves.base, base)):
        np.testing.assert_array_equal(mine, expected)


def one_round(moves, table, P, Q):
    user_counts = np.diff(table.users.start)
    users, items = moves.whole(table.users, P, Q), moves.whole(table.items, Q, P)
    objective = items.loglik - items.penalty - users.penalty
    for rows, counts in ((P, user_counts), (Q, table.counts)) if moves.biased else ():
        half = np.arange(len(counts)) < 10
        sums = moves.bias_sums(rows, counts)
        parts = moves.bias_sums(rows, counts * half) + moves.bias_sums(rows, counts * ~half)
        np.testing.assert_allclose(parts, sums, rtol=1e-12, atol=1e-12)
        shift, gain = moves.centre(sums, objective)
        moves.shift(rows, counts, shift)
        moves.base += shift
        objective += gain
    return objective


def test_the_curvature_is_the_gradients_where_scores_are_two():
    """Two scores: the curvature is the exact second derivative, which differences of slopes find, too."""
    moves = resbemf(n_factors=2, n_scores=2)
    table, others = Table(2, 2), planes(N_USERS, resbemf(n_factors=2, n_scores=2), seed=3)
    rows, answer, tiny = planes(N_ITEMS, moves), Table(2, 2).answer(moves, others), np.float32(2e-2)
    middle = answer(Ask(rows, "curve"))
    for k, (row, column) in enumerate(zip(*np.tril_indices(3), strict=True)):
        for score in (0, 1):
            up, down = rows.copy(), rows.copy()
            up[:, column, score] += tiny
            down[:, column, score] -= tiny
            bent = (answer(Ask(down, "curve")).slope - answer(Ask(up, "curve")).slope)[:, row, score] / (2 * tiny)
            # d / (d - 1) = 2 of s (1 - s), which for two scores the slope of one logit shares with the other's.
            np.testing.assert_allclose(2 * bent, middle.curve[:, k, score], rtol=0.02, atol=0.02)
    up = rows.copy()
    up[:, 1, 1] += tiny
    np.testing.assert_allclose(
        (answer(Ask(up, "value")).loglik - middle.loglik) / tiny, middle.slope[:, 1, 1], rtol=0.1, atol=0.1
    )
    assert table.counts[BARE] == 0
    assert not middle.curve[BARE].any()


def test_moves_travel_and_take_what_cannot_be_written():
    """Arrays from a store that many read are not to be written."""
    moves, table = resbemf(), Table(2)
    rows, others = planes(N_ITEMS, moves), planes(N_USERS, moves, seed=3)
    again = pickle.loads(pickle.dumps(moves))
    for frozen in (rows, again.base, again.values):
        frozen.setflags(write=False)
    answer = table.answer(again, others)

    def frozen_answer(ask):
        part = answer(ask)
        for sums in (part.loglik, part.slope, part.curve):
            if sums is not None:
                sums.setflags(write=False)
        return part

    moved = drive(again.move(rows, table.counts), frozen_answer)
    np.testing.assert_array_equal(moved.rows, drive(moves.move(rows, table.counts), answer).rows)


def test_parts_are_added_in_order():
    parts = [Part(np.full(2, x), np.full((2, 1), x, np.float32)) for x in (1e8, 1.0, -1e8)]
    total = add_up(parts)
    assert total.slope.tolist() == [[0.0], [0.0]]  # in single precision the one is lost before it counts
    assert total.loglik.tolist() == [1.0, 1.0]
    assert total.curve is None
    assert parts[0].loglik[0] == 1e8


def bemf(n_factors=4, n_scores=5, recklessness=0.0, **params):
    values = np.linspace(-1, 1, n_scores).astype(np.float32)
    return BeMFMoves(n_factors, values, learning_rate=0.02, regularization=0.3, recklessness=recklessness, **params)


BEMF = {
    "plain": bemf(),
    "bold": bemf(recklessness=0.5),
    "ten scores": bemf(n_scores=10),
    "seven scores": bemf(n_factors=9, n_scores=7),
    "two threads": bemf(n_threads=2),
}


def unit_planes(n, moves, seed):
    return np.random.default_rng(seed).random((n, moves.n_factors, len(moves.values))).astype(np.float32)


@pytest.mark.parametrize("n_shards", [1, 2, 4])
@pytest.mark.parametrize("name", BEMF)
def test_bemf_moves_as_one_machine_does(name, n_shards):
    moves = BEMF[name]
    table = Table(n_shards, len(moves.values))
    rows, others = unit_planes(N_ITEMS, moves, 2), unit_planes(N_USERS, moves, 3)
    expected, report = table.whole(moves, rows, others)
    moved = drive(moves.move(rows, table.counts), table.answer(moves, others))
    np.testing.assert_allclose(moved.rows, expected, atol=1e-5)
    np.testing.assert_allclose(moved.loglik, report.loglik, rtol=1e-5)
    half = drive(moves.move(rows[9:], table.counts[9:]), table.answer(moves, others, 9))
    np.testing.assert_allclose(half.rows, expected[9:], atol=1e-5)


@pytest.mark.parametrize("name", BEMF)
def test_bemf_whole_passes_are_a_fit_to_the_bit(name):
    moves = BEMF[name]
    table = Table(1, len(moves.values))
    P, Q = (moves.pack(unit_planes(n, moves, n)) for n in (N_USERS, N_ITEMS))
    P1, Q1 = (moves.pack(moves.unpack(rows)) for rows in (P, Q))
    history = fast.fit_gradient(
        "bemf", table.users, table.items, P1, Q1, np.zeros(len(moves.values), np.float32), moves.values,
        moves.n_factors, moves.learning_rate, moves.regularization, moves.recklessness, 3,
    )  # fmt: skip
    mine = []
    for _ in range(3):
        assert moves.whole(table.users, P, Q, False).loglik == 0
        mine.append(moves.whole(table.items, Q, P).loglik)
    assert mine == history
    np.testing.assert_array_equal(P, P1)
    np.testing.assert_array_equal(Q, Q1)


class Prior:
    """Normal rows, a prior with a full covariance, noise and luck for an ordinal model."""

    def __init__(self, moves, scale=0.4, firmness=2.0):
        rng = np.random.default_rng(4)
        D = moves.ties.n_columns
        self.rows, self.others = (rng.normal(0, scale, (n, D)).astype(np.float32) for n in (N_ITEMS, N_USERS))
        root = rng.normal(0, 0.3 / np.sqrt(D), (D, D))
        self.precision = firmness * (np.eye(D) + root @ root.T + root + root.T)
        self.means = rng.normal(0, 0.2, (N_ITEMS, D)).astype(np.float32)
        self.noise = rng.normal(size=(N_ITEMS, D)).astype(np.float32)
        self.luck = np.log(rng.random(N_ITEMS)).astype(np.float32)
        self.units = Units(moves.ties.reach(self.others), N_USERS)

    @property
    def known(self):
        return self.units, self.means, self.precision

    @property
    def drawn(self):
        return self.units, self.means, self.precision, self.noise, self.luck


def ordinal(n_factors=6, n_spread_factors=2, n_scores=5, **params):
    return OrdinalMoves(tie_scores(np.full(n_scores, 1 / n_scores), n_factors, n_spread_factors), **params)


ORDINAL = {
    "plain": ordinal(),
    "no factors": ordinal(0, 0),
    "many factors": ordinal(17, 4),
    "two scores": ordinal(n_scores=2),
    "ten scores": ordinal(n_scores=10),
    "two threads": ordinal(n_threads=2),
}


def assert_same_move(moved, rows, report):
    """To the bit, wherever the ratings lie."""
    np.testing.assert_array_equal(moved.rows, rows)
    assert (moved.loglik, moved.accepted) == (report.loglik, report.accepted)
    assert (moved.spread is None) == (report.spread is None)
    if moved.spread is not None:
        np.testing.assert_array_equal(moved.spread, report.spread)


@pytest.mark.parametrize("n_shards", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ORDINAL)
def test_ordinal_rows_climb_as_one_machine_makes_them(name, n_shards):
    moves = ORDINAL[name]
    table, prior = Table(n_shards, len(moves.ties.base)), Prior(moves)
    expected, report = table.whole(moves, prior.rows, prior.others, *prior.known, None, None, True)
    move = moves.move(prior.rows, table.counts, *prior.known, is_spread_wanted=True)
    assert_same_move(drive(move, table.answer(moves, prior.others)), expected, report)
    assert not np.allclose(expected, prior.rows, atol=0.01)


@pytest.mark.parametrize("n_shards", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ORDINAL)
def test_ordinal_rows_are_drawn_as_one_machine_draws_them(name, n_shards):
    moves = ORDINAL[name]
    table, prior = Table(n_shards, len(moves.ties.base)), Prior(moves)
    expected, report = table.whole(moves, prior.rows, prior.others, *prior.drawn)
    moved = drive(moves.move(prior.rows, table.counts, *prior.drawn), table.answer(moves, prior.others))
    assert_same_move(moved, expected, report)
    assert moved.accepted > 0


def test_ordinal_draws_are_refused_as_one_machine_refuses_them():
    """From far away, with loud noise, the way back is unlikely."""
    moves, table = ordinal(), Table(3)
    prior = Prior(moves, scale=1.5, firmness=0.3)
    prior.noise *= 2
    expected, report = table.whole(moves, prior.rows, prior.others, *prior.drawn)
    moved = drive(moves.move(prior.rows, table.counts, *prior.drawn), table.answer(moves, prior.others))
    assert 0 < moved.accepted < N_ITEMS
    assert_same_move(moved, expected, report)


def test_ordinal_steps_are_halved_as_one_machine_halves_them():
    moves, table, asked = ordinal(), Table(3), []
    prior = Prior(moves, scale=2.0, firmness=0.05)
    answer = table.answer(moves, prior.others)

    def noting(ask):
        asked.append(ask)
        return answer(ask)

    moved = drive(moves.move(prior.rows, table.counts, *prior.known), noting)
    assert len(asked) > 2
    assert 0 < len(asked[2].rows) < N_ITEMS
    assert_same_move(moved, *table.whole(moves, prior.rows, prior.others, *prior.known))


@pytest.mark.parametrize("longest", [300, 1 << 20], ids=["fine", "coarse"])  # coarse: as if a row had a million ratings
@pytest.mark.parametrize("name", ORDINAL)
def test_ordinal_sums_are_the_same_however_ratings_are_spread(name, longest):
    """Not of ranges of users only: each rating goes to a place of its own choice, in any order."""
    moves, rng = ORDINAL[name], np.random.default_rng(7)
    n_scores, n_items, n_users = len(moves.ties.base), 5, 400
    rows, others = (rng.normal(0, 1, (n, moves.ties.n_columns)).astype(np.float32) for n in (n_items, n_users))
    user, item = np.arange(n_users * 4) % n_users, rng.integers(0, n_items, n_users * 4)
    score = rng.integers(0, n_scores, len(user)).astype(np.int8)

    def sums(some):
        some = some[np.argsort(item[some], kind="stable")]
        start = np.concatenate([[0], np.cumsum(np.bincount(item[some], minlength=n_items))])
        side = Side(start, user[some].astype(np.int32), score[some])
        units = Units(moves.ties.reach(others), longest)
        return moves.look(side, Ask(rows, "curve", units=units), moves.pack(others))

    whole = sums(np.arange(len(user)))
    assert np.abs(whole.curve).max() > 1e4
    for n_places in (1, 2, 7, 60):
        order, place = rng.permutation(len(user)), rng.integers(0, n_places, len(user))
        total = add_up([sums(order[place == k]) for k in range(n_places)])
        np.testing.assert_array_equal(total.loglik, whole.loglik)
        np.testing.assert_array_equal(total.slope, whole.slope)
        np.testing.assert_array_equal(total.curve, whole.curve)


def test_ordinal_sums_in_units_are_the_sums():
    """Against double precision by plain loops, from ratings in many places."""
    moves, table = ordinal(17, 4), Table(4)
    prior, ties = Prior(moves), moves.ties
    part = table.answer(moves, prior.others)(Ask(prior.rows, "curve", units=prior.units))
    slope_unit, bend_unit = reference.ordinal_units(*prior.units, ties.basis.astype(float), ties.ranks)
    D = ties.n_columns
    for row, theta in enumerate(prior.rows.astype(float)):
        mine = slice(table.items.start[row], table.items.start[row + 1])
        others = prior.others[table.items.other[mine]].astype(float)
        value, slope, bend = reference.ordinal_row(
            theta, others, table.items.score[mine], ties.base.astype(float), ties.basis.astype(float), ties.ranks,
            np.zeros(D), np.zeros((D, D)),
        )  # fmt: skip
        assert part.loglik[row] == pytest.approx(value, abs=1e-4)
        slack = 4 * np.sqrt(len(others) + 1)  # units: each rating is off by less than half of one
        assert np.abs(part.slope[row] - slope / slope_unit).max() < slack
        assert np.abs(part.curve[row] - (bend / bend_unit)[np.triu_indices(D)]).max() < slack


def test_ordinal_whole_passes_are_a_chain_to_the_bit():
    table, moves = Table(1), ordinal()
    chain = Chain(table.ratings, moves.ties, 3, 0, 1)
    rows = [side.copy() for side in chain.rows]
    for which, prior in enumerate(chain.priors):  # climbing, before a prior has learnt
        moves.whole(
            chain.sides[which], rows[which], rows[1 - which],
            Units(moves.ties.reach(rows[1 - which]), max(np.diff(chain.sides[which].start))),
            prior.means(moves.ties.stride), prior.precision, is_spread_wanted=True,
        )  # fmt: skip
    chain.climb()
    for mine, theirs in zip(rows, chain.rows, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def point(biased, regularization=0.1, n_factors=4, **params):
    values = np.arange(1, 6, dtype=np.float32)
    return PointMoves(n_factors, biased, regularization, values, 3.2 if biased else 0.0, **params)


def point_rows(n, moves, seed):
    return np.random.default_rng(seed).uniform(-1, 1, (n, moves.n_columns)).astype(np.float32)


def plain_squares(moves, side, others):
    """Rows, squared error and penalty by plain NumPy in double precision."""
    rows, loss, penalty = [], 0.0, 0.0
    for begin, end in zip(side.start, side.start[1:], strict=False):
        q = others[side.other[begin:end]].astype(float)
        e = moves.values[side.score[begin:end]].astype(float) - moves.mean
        if moves.biased:
            e = e - q[:, 0]
            q[:, 0] = 1
        ridge = moves.regularization * (end - begin)
        p = np.linalg.lstsq(q.T @ q + (ridge + 1e-12) * np.eye(q.shape[1]), q.T @ e, rcond=None)[0]
        rows.append(p)
        loss += ((e - q @ p) ** 2).sum()
        penalty += ridge * (p**2).sum()
    return np.array(rows), loss, penalty


@pytest.mark.parametrize("n_shards", [1, 2, 4])
@pytest.mark.parametrize("moves", [point(False), point(True), point(True, n_factors=21, n_threads=2)])
def test_squares_are_solved_as_plain_loops_solve_them(moves, n_shards):
    table = Table(n_shards)
    rows, others = point_rows(N_ITEMS, moves, 2), point_rows(N_USERS, moves, 3)
    expected, loss, penalty = plain_squares(moves, table.items, others)
    moved = drive(moves.move(rows, table.counts), table.answer(moves, others))
    np.testing.assert_allclose(moved.rows, expected, atol=1e-4)
    np.testing.assert_allclose([-moved.loglik, moved.penalty], [loss, penalty], rtol=1e-4)
    assert not moved.rows[BARE].any()
    whole, report = table.whole(moves, rows, others)
    np.testing.assert_allclose(whole, expected, atol=1e-4)
    np.testing.assert_allclose([-report.loglik, report.penalty], [loss, penalty], rtol=1e-4)
    half = drive(moves.move(rows[9:], table.counts[9:]), table.answer(moves, others, 9))
    np.testing.assert_array_equal(half.rows, moved.rows[9:])


@pytest.mark.parametrize("wrong", [("other", 3), ("other", -1), ("score", 5), ("score", -1)])
def test_rows_that_are_asked_about_point_at_others_and_scores(wrong):
    moves = point(biased=True)
    side = {"other": np.array([0, 1, 2], np.int32), "score": np.array([0, 4, 2], np.int8)}
    side[wrong[0]][1] = wrong[1]
    parts, others = (np.array([0, 1, 2, 3]), side["other"], side["score"]), moves.pack(point_rows(3, moves, 0))
    rows = point_rows(1, moves, 1)
    for sound in (0, 2):
        assert np.isfinite(moves.look(parts, Ask(rows, "curve"), others, sound).loglik).all()
    with pytest.raises(ValueError, match="a side must point at rows of the other and at scores"):
        moves.look(parts, Ask(rows, "curve"), others, 1)
    with pytest.raises(ValueError, match="a side must point at rows of the other and at scores"):
        moves.whole(parts, moves.pack(point_rows(3, moves, 1)), others)


def test_squares_without_regularization_have_a_solution():
    """Fewer ratings than numbers: one of many rows that explain them as well as any."""
    moves = point(True, regularization=0.0, n_factors=30)
    table, others = Table(2), point_rows(N_USERS, point(True, n_factors=30), 3)
    moved = drive(moves.move(point_rows(N_ITEMS, moves, 2), table.counts), table.answer(moves, others))
    _, loss, _ = plain_squares(moves, table.items, others)
    assert np.abs(moved.rows).max() < 20
    assert moved.penalty == 0
    np.testing.assert_allclose(-moved.loglik, loss, rtol=1e-3)


@pytest.mark.parametrize("name", ["pmf", "biasedmf"])
def test_exact_point_models_are_whole_passes_and_never_get_worse(name):
    table = Table(1)
    ratings = table.ratings
    model = make(name, update="exact", n_iters=15, n_factors=3).fit(ratings)
    assert (np.diff(model.history_) > -1e-6 * abs(model.history_[0])).all()
    scores = ratings.scores.astype(np.float32)
    moves = PointMoves(3, model.BIASED, model.regularization, scores, model.mean_)
    P, Q = (moves.pack(rows.astype(np.float32)) for rows in model._start(N_USERS, N_ITEMS))
    history = []
    for _ in range(15):
        users, items = moves.whole(table.users, P, Q), moves.whole(table.items, Q, P)
        history.append(items.loglik - items.penalty - users.penalty)
    np.testing.assert_allclose(history, model.history_, rtol=1e-12)
    np.testing.assert_array_equal(moves.unpack(P), model.user_factors_)
    np.testing.assert_array_equal(moves.unpack(Q), model.item_factors_)
    errors = ratings.values - model.values(ratings.user, ratings.item)
    np.testing.assert_allclose(-items.loglik, (errors**2).sum(), rtol=1e-4)
