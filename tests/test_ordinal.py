"""The ordinal model: what it answers, at the edges of its parameters and data, to strangers, after files and interrupts."""

import copy
import itertools
import json
import signal

import numpy as np
import pytest
import safetensors.numpy

import starcast as sc
from starcast.errors import FileFormatError, NotFittedError, ParameterError
from starcast.kernels import reference_ordinal
from starcast.kernels.reference import softmax
from starcast.models.chain import Chain, tie_scores
from starcast.models.ordinal import settle_ties

QUICK = {"n_iters": 4, "burn_in": 6, "n_draws": 16, "thin": 1, "n_jobs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def parts():
    """Ratings of 100 items, and of 20 others."""
    ratings, _ = sc.make_ratings(200, 120, density=0.3, confidence=3.0, random_state=0)
    strange = ratings.item < 20
    return ratings.take(~strange), ratings.take(strange)


@pytest.fixture(scope="module")
def model(parts):
    return sc.OrdinalMF(n_factors=6, n_company=4, burn_in=40, n_draws=37, random_state=0, n_jobs=1).fit(parts[0])


def pairs_of(ratings):
    return ratings.users[ratings.user], ratings.items[ratings.item]


def bits(model):
    """Everything learnt, as bytes."""
    return {
        key: value.tobytes() for key, value in vars(model).items() if key.endswith("_") and hasattr(value, "tobytes")
    }


# How scores are tied.


@pytest.mark.parametrize("n_scores", [2, 3, 5, 10, 11, 64])
def test_scores_are_tied_by_orthogonal_polynomials_that_end_upwards(n_scores):
    ties = tie_scores(np.full(n_scores, 1 / n_scores), 7, 3)
    basis, n = ties.basis.astype(float), min(n_scores - 1, 9)
    assert basis.shape == (n, n_scores)
    assert basis @ basis.T == pytest.approx(n_scores * np.eye(n), abs=1e-4)
    assert basis.sum(axis=1) == pytest.approx(np.zeros(n), abs=1e-4)
    assert (basis[:, -1] > 0).all()
    place = np.arange(n_scores)
    for degree, row in enumerate(basis, 1):
        assert np.polyval(np.polyfit(place, row, degree), place) == pytest.approx(row, abs=1e-4)
    assert ties.ranks.tolist() == [7, 3, *[0] * (n - 2)][:n]
    assert ties.n_columns == sum(ties.ranks) + n
    assert ties.stride % 16 == 0 <= ties.stride - ties.n_columns < 16


# Near ties between scores.


def slow_settle(p, scores, centering):
    """One distribution, as the docstring says."""
    z = [2 * (s - scores[0]) / (scores[-1] - scores[0]) - 1 for s in scores]
    mean = sum(a * b for a, b in zip(p, z, strict=True))
    best = max(range(len(p)), key=lambda s: np.log(p[s]) - centering * (z[s] - mean) ** 2)
    group = [s for s in range(len(p)) if p[s] >= p[best]]
    level = sum(p[s] for s in group) / len(group)
    return best, [level if s in group and best != int(np.argmax(p)) else p[s] for s in range(len(p))]


@pytest.mark.parametrize("centering", [0.0, 0.8, 3.0, 100.0])
@pytest.mark.parametrize("n_scores", [2, 5, 10])
def test_the_central_score_of_a_near_tie_is_ahead(n_scores, centering):
    rng = np.random.default_rng(0)
    scores, probs = np.arange(1.0, n_scores + 1) ** 1.2, rng.dirichlet(np.full(n_scores, 0.8), 500)
    probs = np.maximum(probs, 1e-9)
    probs /= probs.sum(axis=1, keepdims=True)
    settled = settle_ties(probs, scores, centering)
    for before, after in zip(probs, settled, strict=True):
        best, expected = slow_settle(before.tolist(), scores.tolist(), centering)
        assert after == pytest.approx(expected, rel=2e-6)
        assert after.argmax() == best
    assert settled.sum(axis=1) == pytest.approx(np.ones(500), abs=1e-12)
    if centering == 0:
        assert np.array_equal(settled, probs)


def test_three_scores_can_share():
    """Were only the likeliest levelled with the central one, the third would be ahead."""
    settled = settle_ties(np.array([[0.36, 0.05, 0.22, 0.02, 0.35]]), np.arange(1.0, 6.0), 0.8)
    assert settled[0] == pytest.approx([0.31, 0.05, 0.31, 0.02, 0.31], abs=1e-6)
    assert settled[0].argmax() == 2


def test_certainty_is_left_alone():
    sure = np.eye(5)
    assert np.array_equal(settle_ties(sure, np.arange(1.0, 6.0), 0.8), sure)


@pytest.mark.parametrize("centering", [1e4, 1e300])
def test_however_large_the_centering_only_what_is_likelier_than_the_centre_is_shared(centering):
    settled = settle_ties(np.array([[0.4, 0.3, 0.2, 0.06, 0.04]]), np.arange(1.0, 6.0), centering)
    assert settled.round(3).tolist() == [[0.35, 0.35, 0.2, 0.06, 0.04]]


def test_centering_hardly_moves_the_mean_and_the_mode_errs_by_less(parts, model):
    train, _ = parts
    truth = train.values
    plain, centered = (copy.copy(model).set_params(centering=c).predict_proba(*pairs_of(train)) for c in (0.0, 0.8))
    assert 0 < (centered.mode() != plain.mode()).mean() < 0.2
    assert np.abs(centered.mean() - plain.mean()).max() < 0.2
    assert np.abs(centered.mean() - plain.mean()).mean() < 0.01
    assert (centered.mode() - truth).var() < (plain.mode() - truth).var()


# Seeds, threads.


def test_the_seed_decides_and_the_threads_do_not():
    ratings, _ = sc.make_ratings(300, 100, density=0.2, random_state=0)  # 6 000 ratings: several chunks of work
    one = sc.OrdinalMF(**QUICK).fit(ratings)
    for n_jobs in (2, 3, 7):
        assert bits(sc.OrdinalMF(**QUICK | {"n_jobs": n_jobs}).fit(ratings)) == bits(one)
    other = sc.OrdinalMF(**QUICK | {"random_state": 1}).fit(ratings)
    assert (other.user_draws_ != one.user_draws_).any(axis=(1, 2)).all()
    answers = [m.predict_proba(*pairs_of(ratings)).probs for m in (one, other)]
    assert 0.001 < np.abs(answers[0] - answers[1]).mean() < 0.1
    unseeded = [sc.OrdinalMF(**QUICK | {"random_state": None, "n_draws": 0}).fit(ratings) for _ in range(2)]
    assert bits(unseeded[0]) != bits(unseeded[1])


def test_every_third_draw_is_kept_if_thin_is_three(parts):
    every, third = (sc.OrdinalMF(**QUICK | {"n_draws": n, "thin": 6 // n}).fit(parts[0]) for n in (6, 2))
    assert np.array_equal(third.user_draws_, every.user_draws_[:, :, 2::3])
    assert np.array_equal(third.item_precision_, every.item_precision_[2::3])
    summit = sc.OrdinalMF(**QUICK | {"n_draws": 0}).fit(parts[0])
    assert np.array_equal(summit.history_, every.history_[:4])


@pytest.mark.parametrize(("n_draws", "thin"), [(1, 8), (0, 0)])
def test_few_ratings_have_eight_rounds_a_draw(parts, n_draws, thin):
    model = sc.OrdinalMF(**QUICK | {"n_draws": n_draws, "thin": None}).fit(parts[0])
    assert model.n_iter_ == 4 + (6 + n_draws * thin) * (n_draws > 0)


@pytest.mark.parametrize(
    ("n_ratings", "thin"), [(1, 8), (50_000, 6), (100_000, 3), (156_250, 2), (10**6, 2), (10**8, 2)]
)
def test_many_ratings_have_fewer_rounds_a_draw(n_ratings, thin):
    class Idle:
        climb = wander = state = lambda self: 0.0

    model = sc.OrdinalMF()
    model.seen_items_ = np.broadcast_to(np.int32(0), n_ratings)
    assert len(list(model._climb_and_draw(Idle()))) == 64
    assert model.n_iter_ == 6 + 60 + 64 * thin


# The edges of parameters and data.


def answer_by_plain_loops(model, user, item):
    ties = tie_scores(model.prior_, model.n_factors, model.n_spread_factors)
    of_ties = ties.base.astype(float), ties.basis.astype(float), ties.ranks
    p, q = model.user_draws_[user].astype(float), model.item_draws_[item].astype(float)
    return np.mean(
        [softmax(reference_ordinal.ordinal_logits(p[:, t], q[:, t], *of_ties)) for t in range(p.shape[1])], axis=0
    )


@pytest.mark.parametrize(
    ("n_scores", "params"),
    [
        (5, {"n_draws": 0}), (5, {"n_draws": 5}), (5, {"n_draws": 1}), (5, {"n_draws": 3, "thin": 4, "burn_in": 0}),
        (5, {"n_factors": 0}), (5, {"n_spread_factors": 0}), (5, {"n_factors": 0, "n_spread_factors": 0}),
        (5, {"n_company": 0}), (5, {"n_company": 60}), (5, {"n_factors": 33, "n_spread_factors": 17, "n_draws": 2}),
        (2, {}), (2, {"n_factors": 0, "n_spread_factors": 9}), (3, {}), (10, {}), (64, {"n_factors": 1}), (64, {"n_draws": 0}),
    ],
    ids=str,
)  # fmt: skip
def test_any_size_answers_as_plain_loops_over_its_draws_do(n_scores, params):
    ratings, _ = sc.make_ratings(30, 25, n_scores=n_scores, density=0.5, random_state=1)
    model = sc.OrdinalMF(**QUICK | {"centering": 0.0} | params).fit(ratings)
    model_draws = max(model.n_draws, 1)
    n_columns = tie_scores(model.prior_, model.n_factors, model.n_spread_factors).n_columns
    assert model.user_draws_.shape == (30, n_columns, model_draws)
    assert model.item_draws_.shape == (25, n_columns, model_draws)
    assert model.user_weights_.shape == (model_draws, 2 + model.n_company, n_columns)
    assert model.user_company_.shape == (30, model.n_company)
    rounds = model.n_iters + (model.burn_in + model.thin * model.n_draws) * (model.n_draws > 0)
    assert (model.n_iter_, len(model.history_)) == (rounds, rounds)
    assert np.isfinite(model.history_).all()
    answer = model.predict_proba(model.users_.repeat(25), np.tile(model.items_, 30))
    assert answer.probs.sum(axis=1) == pytest.approx(np.ones(750), abs=1e-6)
    assert (answer.probs > 0).all()
    for user, item in ((0, 0), (7, 24), (29, 3)):
        assert answer.probs[user * 25 + item] == pytest.approx(
            answer_by_plain_loops(model, user, item), rel=1e-4, abs=1.1e-6
        )
    nothing = sc.GlobalFrequency().fit(ratings)
    assert sc.metrics.nll(ratings.values, model.predict_proba(*pairs_of(ratings))) < sc.metrics.nll(
        ratings.values, nothing.predict_proba(*pairs_of(ratings))
    )
    for users, items in (([-1], model.items_[:1]), (model.users_[:1], [-1])):
        assert model.predict_proba(users, items).probs.sum() == pytest.approx(1, abs=1e-6)


def test_half_stars_and_scores_that_nobody_gave():
    ratings, _ = sc.make_ratings(30, 25, density=0.5, random_state=1)
    half = sc.Ratings.from_arrays(*pairs_of(ratings), ratings.values, scores=np.arange(0.5, 5.5, 0.5))
    model = sc.OrdinalMF(**QUICK).fit(half)
    probs = model.predict_proba(*pairs_of(half)).probs
    assert model.scores_.tolist() == [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]
    assert probs[:, 1::2].sum(axis=1).min() > 0.9  # whole stars, which were given


def test_more_scores_than_the_kernels_take_are_refused():
    ratings = sc.Ratings.from_arrays(np.arange(65), np.zeros(65, int), np.arange(65))
    model = sc.OrdinalMF(**QUICK)
    with pytest.raises(ParameterError, match=r"OrdinalMF takes up to 64 scores, got 65\."):
        model.fit(ratings)
    assert not model.is_fitted


@pytest.mark.parametrize(
    ("users", "items", "values"),
    [
        ([1], [1], [5]), ([1] * 8, range(8), [5, 4, 5, 5, 4, 5, 5, 5]), (range(8), [1] * 8, [1, 1, 2, 1, 1, 1, 1, 1]),
        ([1, 2], [1, 2], [1, 5]), (np.repeat(range(9), 9), np.tile(range(9), 9), [3] * 81),
    ],
    ids=["one rating", "one user", "one item", "strangers", "one score"],
)  # fmt: skip
@pytest.mark.parametrize("n_draws", [0, 16])
def test_tiny_tables_are_fitted_and_believed(users, items, values, n_draws):
    ratings = sc.Ratings.from_arrays(list(users), list(items), values, scores=[1, 2, 3, 4, 5])
    model = sc.OrdinalMF(**QUICK | {"n_draws": n_draws, "centering": 0.0}).fit(ratings)
    answer = model.predict_proba(*pairs_of(ratings))
    assert np.isfinite(answer.probs).all()
    likely = answer.probs[np.arange(len(ratings)), ratings.score].mean()
    assert likely > model.prior_[ratings.score].mean()
    assert model.predict_proba([99], [99]).probs[0].tolist() == model.prior_.tolist()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_factors": -1}, r"n_factors must be a whole number of at least 0, got -1\."),
        ({"n_spread_factors": 2.5}, r"n_spread_factors must be a whole number of at least 0, got 2\.5\."),
        ({"n_company": -1}, r"n_company must be a whole number of at least 0, got -1\."),
        ({"n_iters": 0}, r"n_iters must be a whole number of at least 1, got 0\."),
        ({"burn_in": -1}, r"burn_in must be a whole number of at least 0, got -1\."),
        ({"n_draws": True}, r"n_draws must be a whole number of at least 0, got True\."),
        ({"thin": 0}, r"thin must be a whole number of at least 1, got 0\."),
        ({"centering": -0.1}, r"centering must be zero or more, got -0\.1\."),
        ({"centering": float("nan")}, r"centering must be zero or more, got nan\."),
        ({"random_state": -1}, r"random_state must be a whole number of at least 0, got -1\."),
        ({"verbose": "no"}, r"verbose must be True or False"),
        ({"n_jobs": 0}, r"n_jobs must be a whole number of at least 1"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parts, params, message):
    with pytest.raises(ParameterError, match=message):
        sc.OrdinalMF(**params).fit(parts[0])


def test_drawing_stays_at_its_level():
    ratings, _ = sc.make_ratings(150, 80, density=0.5, random_state=0)
    model = sc.OrdinalMF(burn_in=100, n_draws=80, thin=1, random_state=0, n_jobs=1).fit(ratings)
    early, late = model.history_[-80:-40], model.history_[-40:]
    assert late.mean() == pytest.approx(early.mean(), rel=0.02)
    assert late.std() < 0.03 * abs(late.mean())


# Pairs of which one half is unknown.


def test_both_unknown_is_the_prior(model):
    assert np.array_equal(model.predict_proba([-1], [-1]).probs[0], model.prior_)
    assert not model.predict([-1], [-1])["known"][0]


def test_a_strange_item_gets_what_its_user_is_like(parts, model):
    train, strange = parts
    answer = model.predict_proba(*pairs_of(strange))
    assert not model.predict(*pairs_of(strange))["known"].any()
    known = model.predict_proba(*pairs_of(train))
    assert answer.entropy().mean() > known.entropy().mean() + 0.2  # wider than for items that are known
    means = model.predict_proba(model.users_, [-1] * len(model.users_)).mean()
    levels = np.array([train.values[train.user == u].mean() for u in range(len(train.users))])
    assert np.corrcoef(means, levels)[0, 1] > 0.8
    assert np.abs(means - levels).mean() < 0.65 * np.abs(levels - levels.mean()).mean()
    prior = sc.Distribution(np.tile(model.prior_, (len(strange), 1)), model.scores_)
    assert sc.metrics.nll(strange.values, answer) < sc.metrics.nll(strange.values, prior) - 0.03
    right = (answer.mode() == strange.values).mean()
    assert answer.reliability().mean() == pytest.approx(right, abs=0.07)  # 37 draws of one row for all strange items


def test_a_strange_user_gets_what_the_item_is_like(parts, model):
    train, _ = parts
    means = model.predict_proba([-1] * len(model.items_), model.items_).mean()
    levels = np.array([train.values[train.item == i].mean() for i in range(len(train.items))])
    assert np.corrcoef(means, levels)[0, 1] > 0.9


def test_a_user_without_ratings_is_a_strange_user(parts):
    train, _ = parts
    names = np.append(train.users, 9999), np.append(train.items, 8888)
    model = sc.OrdinalMF(**QUICK).fit(sc.Ratings(*names, train.scores, train.user, train.item, train.score))
    listed, strange = (model.predict_proba([u] * 5, model.items_[:5]).probs for u in (9999, -1))
    assert np.array_equal(listed, strange)
    assert np.array_equal(*(model.predict_proba(model.users_[:5], [i] * 5).probs for i in (8888, -1)))
    assert np.array_equal(model.predict_proba([9999], [8888]).probs[0], model.prior_)


def test_half_known_pairs_do_not_depend_on_their_company(model):
    users, items = [model.users_[3], -1, model.users_[5], -1, model.users_[3]], [-1, model.items_[7], -1, model.items_[2], model.items_[2]]  # fmt: skip
    together = model.predict_proba(users, items).probs
    for row, (user, item) in enumerate(zip(users, items, strict=True)):
        assert np.array_equal(model.predict_proba([user], [item]).probs[0], together[row])
    assert np.array_equal(model.predict_proba(users[::-1], items[::-1]).probs, together[::-1])


# New users and ratings.


def test_a_training_user_folded_in_gets_about_what_he_got(parts, model):
    train, _ = parts
    folded = model.fold_in(train)
    one, other = (m.predict_proba(*pairs_of(train)) for m in (model, folded))
    assert (np.abs(one.probs - other.probs).sum(axis=1) / 2).mean() < 0.06
    assert np.abs(one.mean() - other.mean()).mean() < 0.1
    assert np.corrcoef(one.mean(), other.mean())[0, 1] > 0.98
    assert sc.metrics.nll(train.values, other) < sc.metrics.nll(train.values, one) + 0.03
    assert np.array_equal(folded.item_draws_, model.item_draws_)


def test_partial_fit_learns_a_new_item_and_leaves_the_rest_alone(parts):
    train, strange = parts
    model = sc.OrdinalMF(**QUICK).fit(train)
    before = model.user_draws_.copy(), model.item_draws_.copy()
    new = strange.take(strange.item == 0)
    given, held = new.take(np.arange(len(new)) % 3 > 0), new.take(np.arange(len(new)) % 3 == 0)
    loss = sc.metrics.nll(held.values, model.predict_proba(*pairs_of(held)))
    model.partial_fit(given)
    touched = np.isin(model.users_, given.users)
    assert np.array_equal(model.user_draws_[~touched], before[0][~touched])
    assert np.array_equal(model.item_draws_[:-1], before[1])
    assert (model.user_draws_[touched] != before[0][touched]).any(axis=(1, 2)).all()
    assert model.predict(*pairs_of(held))["known"].all()
    assert sc.metrics.nll(held.values, model.predict_proba(*pairs_of(held))) < loss
    item = model.predict_proba(model.users_, [new.items[0]] * len(model.users_)).mean().mean()
    assert abs(item - given.values.mean()) < abs(train.values.mean() - given.values.mean()) + 0.1


@pytest.fixture(scope="module")
def camps():
    """Half of the users love even items and hate odd ones, the other half the other way round."""
    rng = np.random.default_rng(0)
    cell = rng.permutation(80 * 20)[:1000]
    user, item = cell // 20, cell % 20
    table = sc.Ratings.from_arrays(user, item, np.where((user + item) % 2, 1, 5), scores=[1, 2, 3, 4, 5])
    return sc.OrdinalMF(**QUICK | {"n_factors": 2, "burn_in": 30, "n_draws": 64}).fit(table)


def test_praise_of_an_item_like_it_moves_the_forecast_up(camps):
    folded = camps.fold_in(sc.Ratings.from_arrays(["me"] * 4, [0, 2, 1, 3], [5, 5, 1, 5], scores=camps.scores_))
    shift = {item: dict(folded.explain("me", item).select("item", "shift").iter_rows()) for item in (4, 5)}
    assert min(shift[4][0], shift[4][2]) > 0 > max(shift[5][0], shift[5][1])
    assert shift[4][3] < -0.1  # 3 is odd: whoever loves it hates 4
    assert shift[5][3] > 0.1


def test_few_ratings_that_leave_no_doubt_leave_none(camps):
    """What they leave of the prior is one half of it: a normal distribution around the summit would reach the other."""
    for start, sign in ((0, 1), (1, -1)):
        given = sc.Ratings.from_arrays(["me"] * 6, range(6), [5 if (i - start) % 2 == 0 else 1 for i in range(6)])
        mean = camps.fold_in(given).predict_proba("me", [6, 8, 10, 7, 9, 11]).mean()
        # 3.7 to 4.0 over seeds; were no draw refused, 0.8 to 3.3, and with each seed less than 2.5 for one of the two.
        assert sign * (mean[:3].mean() - mean[3:].mean()) > 3.4


# Files.


def test_a_file_gives_the_same_bits_everywhere(parts, model, tmp_path):
    train, strange = parts
    model.save(tmp_path / "m")
    loaded = sc.load(tmp_path / "m")
    assert bits(loaded) == bits(model)
    for users, items in (pairs_of(train), pairs_of(strange), ([-1] * 9, model.items_[:9])):
        assert np.array_equal(loaded.predict_proba(users, items).probs, model.predict_proba(users, items).probs)
    few = train.take(train.user < 5)
    assert bits(loaded.fold_in(few)) == bits(model.fold_in(few))
    assert loaded.explain(model.users_[0], model.items_[0]).equals(model.explain(model.users_[0], model.items_[0]))


DRAWN = ("user_draws_", "item_draws_", "user_weights_", "item_weights_", "user_precision_", "item_precision_")


def cut(arrays, n):
    """The first `n` draws."""
    return {k: arrays[k][..., :n] if k.endswith("draws_") else arrays[k][:n] for k in DRAWN}


@pytest.mark.parametrize(
    ("change", "params"),
    [
        *((lambda a, k=k: {k: a[k].astype(np.float64)}, {}) for k in DRAWN),
        (lambda a: {k: a[k].astype(np.float16) for k in DRAWN}, {}),
        (lambda a: cut(a, 0), {}),
        (lambda a: cut(a, 3), {}),
        (lambda a: {"user_draws_": a["user_draws_"][:-1]}, {}),
        (lambda a: {"user_draws_": a["user_draws_"][:, :-1]}, {}),
        (lambda a: {"item_draws_": a["item_draws_"][..., :-1]}, {}),
        (lambda a: {"user_precision_": a["user_precision_"][:, :-1]}, {}),
        (lambda a: {k: a[k][:, 1:] for k in ("user_weights_", "item_weights_")}, {}),
        (lambda a: {k: a[k][:, 1:] for k in ("user_company_", "item_company_")}, {}),
        (lambda a: {}, {"n_factors": 4, "n_spread_factors": 6}),  # as many columns as there were
        (lambda a: {}, {"n_factors": 7}),
        (lambda a: {}, {"n_company": 3}),
        (lambda a: {}, {"n_draws": 0}),
    ],
)
def test_a_file_that_does_not_fit_is_refused(model, tmp_path, change, params):
    model.save(tmp_path / "m")
    with safetensors.safe_open(tmp_path / "m", "np") as file:
        metadata, arrays = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    description = json.loads(metadata["starcast"])
    description["params"] |= params
    arrays = {key: np.ascontiguousarray(value) for key, value in (arrays | change(arrays)).items()}
    safetensors.numpy.save_file(arrays, tmp_path / "m", metadata | {"starcast": json.dumps(description)})
    with pytest.raises(FileFormatError, match=r"is damaged: "):
        sc.load(tmp_path / "m")


def test_a_file_with_more_scores_than_the_kernels_take_is_refused(model, tmp_path):
    model.save(tmp_path / "m")
    with safetensors.safe_open(tmp_path / "m", "np") as file:
        metadata, arrays = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    missing = 9 - 4  # biases
    more = {"scores_": np.arange(80.0), "prior_": np.full(80, 1 / 80), "base_": np.zeros(80, np.float32)}
    for key in DRAWN:
        axes = {k: list(range(1, 2)) for k in DRAWN[:2]} | {k: [2] for k in DRAWN[2:4]} | {k: [1, 2] for k in DRAWN[4:]}
        more[key] = np.pad(arrays[key], [(0, missing if at in axes[key] else 0) for at in range(3)])
    del metadata["digest"]  # of the file as it was
    safetensors.numpy.save_file(arrays | more, tmp_path / "m", metadata)
    with pytest.raises(FileFormatError, match=r"is damaged: what was learnt does not fit the parameters"):
        sc.load(tmp_path / "m")


@pytest.mark.parametrize(
    "params", [{"n_factors": 4, "n_spread_factors": 6}, {"n_factors": 7}, {"n_draws": 0}, {"n_company": 9}]
)
def test_parameters_changed_after_the_fit_are_noticed(parts, params):
    model = sc.OrdinalMF(**QUICK | {"n_factors": 6}).fit(parts[0])
    model.set_params(**params)
    with pytest.raises(NotFittedError, match=r"the parameters of OrdinalMF were changed since it was fitted"):
        model.predict_proba(model.users_[:1], model.items_[:1])


# While it runs.


@pytest.mark.parametrize("stage", ["climb", "wander"])
def test_an_interrupt_leaves_no_half_fitted_model(parts, monkeypatch, stage):
    model, whole, calls = sc.OrdinalMF(**QUICK).fit(parts[0]), getattr(Chain, stage), itertools.count()

    def interrupted(chain):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return whole(chain)

    monkeypatch.setattr(Chain, stage, interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(parts[0])
    assert not model.is_fitted
    assert not [key for key in vars(model) if key.endswith("_")]
    with pytest.raises(NotFittedError):
        model.predict_proba(1, 1)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="signals are POSIX")
def test_ctrl_c_ends_a_fit(parts, ctrl_c):
    model = sc.OrdinalMF(burn_in=10**7, random_state=0)
    ctrl_c(model.fit, parts[0])
    assert not model.is_fitted


def test_verbose_shows_a_bar(parts, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    sc.OrdinalMF(**QUICK, verbose=True).fit(parts[0])
    assert "fitting OrdinalMF" in capsys.readouterr().err
    sc.OrdinalMF(**QUICK).fit(parts[0])
    assert capsys.readouterr().err == ""
