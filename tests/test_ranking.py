"""The native road of recommendations gives what the road over all answers gives, to the last bit."""

import os
import subprocess
import sys

import numpy as np
import pytest

import starcast as sc
from starcast.models import ranking
from starcast.models.base import Model
from starcast.recalibration import identity, is_sound

LOWER = "STARCAST_ISA" in os.environ

MODELS = {
    "resbemf": lambda: sc.ResBeMF(n_factors=3, n_iters=1, random_state=0),
    "resbemf paper": lambda: sc.ResBeMF(n_factors=4, n_iters=1, update="paper", random_state=0),
    "bemf": lambda: sc.BeMF(n_factors=2, n_iters=1, random_state=0),
    "dirmf": lambda: sc.DirMF(n_factors=5, n_iters=1, random_state=0),
    "pmf": lambda: sc.PMF(n_factors=3, n_iters=3, random_state=0),
    "pmf certain": lambda: sc.PMF(n_factors=3, n_iters=3, distribution="certain", random_state=0),
    "pmf double": lambda: sc.PMF(n_factors=3, n_iters=3, precision="double", random_state=0),
    "biasedmf": lambda: sc.BiasedMF(n_factors=3, n_iters=3, random_state=0),
    "biasedmf wide": lambda: sc.BiasedMF(n_factors=11, n_iters=3, random_state=0),
    "ordinal": lambda: sc.OrdinalMF(
        n_factors=3, n_spread_factors=2, n_company=0, n_iters=1, burn_in=0, n_draws=17, thin=1, random_state=0
    ),
    "ordinal plain": lambda: sc.OrdinalMF(
        n_factors=2, n_spread_factors=0, n_company=0, n_iters=1, n_draws=0, centering=0.0, random_state=0
    ),
    "ordinal central": lambda: sc.OrdinalMF(
        n_factors=1,
        n_spread_factors=1,
        n_company=0,
        n_iters=1,
        burn_in=0,
        n_draws=3,
        thin=1,
        centering=40.0,
        random_state=0,
    ),
}
OPTIONS = [
    {},
    {"n": 1},
    {"n": 1000},
    {"threshold": 0.35},
    {"threshold": 0.99, "n": 4},
    {"exclude_seen": False, "n": 7},
    {"candidates": [5]},
    {"candidates": [40, 3, 17, 18, 19, 3]},
]


def lively(name, n_scores=5, seed=0):
    """A fitted model whose rows are large, so that all scores are predicted, with the same rows for several items."""
    ratings, _ = sc.make_ratings(23, 53, n_scores, density=0.4, random_state=seed)
    model = MODELS[name]().fit(ratings)
    rng = np.random.default_rng(seed)
    twins = np.concatenate([np.arange(40), rng.integers(0, 40, 13)])
    if name.startswith("ordinal"):
        model.user_draws_ = 1.5 * rng.standard_normal(model.user_draws_.shape, np.float32)
        model.item_draws_ = np.ascontiguousarray(rng.standard_normal(model.item_draws_.shape, np.float32)[twins])
    else:
        kind = model.user_factors_.dtype
        model.user_factors_ = rng.standard_normal(model.user_factors_.shape).astype(kind)
        model.item_factors_ = rng.standard_normal(model.item_factors_.shape).astype(kind)[twins]
    model._index()
    return model


def from_answers(model, *args, **options):
    """The same question put to all answers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "_rank", Model._rank)
        return model.recommend(*args, **options)


def assert_the_same(model, *args, **options):
    quick, plain = model.recommend(*args, **options), from_answers(model, *args, **options)
    assert quick.equals(plain)
    assert quick.schema == plain.schema
    return quick


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_lists_are_those_of_all_answers(name, options):
    model = lively(name)
    assert_the_same(model, **options)
    assert_the_same(model, [3, 1, 3], **options)


def test_the_native_road_is_taken():
    def refuse(*_):
        raise AssertionError

    for name in set(MODELS) - {"resbemf paper"}:  # in double precision, which the kernels do not speak
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranking, "_best_items", refuse)
            assert len(lively(name).recommend(1)) == 10


@pytest.mark.parametrize("n_scores", [2, 3, 4, 6, 7, 8, 9, 10, 11, 16, 17, 33, 64][:: 4 if LOWER else 1])
@pytest.mark.parametrize("name", ["resbemf", "bemf", "biasedmf", "ordinal"])
def test_any_number_of_scores_will_do(name, n_scores):
    model = lively(name, n_scores)
    assert_the_same(model, n=6)
    assert_the_same(model, n=20, threshold=0.3)


@pytest.mark.parametrize("name", MODELS)
def test_whatever_the_threads_lists_are_the_same(name):
    model = lively(name)
    alone = model.set_params(n_jobs=1).recommend(n=9)
    for n_jobs in range(2, 8):
        model.set_params(n_jobs=n_jobs)
        assert model.recommend(n=9).equals(alone)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranking, "WAVE", 1)
            patch.setattr(ranking, "BLOCK", 53 * 5 * 3)  # three users at a time: their items are cut, too
            assert model.recommend(n=9).equals(alone)


@pytest.mark.parametrize("name", MODELS)
def test_where_all_is_tied_the_order_is_that_of_the_items(name):
    model = lively(name)
    for rows in ("user_draws_", "item_draws_", "user_factors_", "item_factors_"):
        if hasattr(model, rows):
            setattr(model, rows, np.zeros_like(getattr(model, rows)))
    model._index()
    listed = assert_the_same(model, 5, n=60, exclude_seen=False)
    assert listed["item"].to_list() == model.items_.tolist()


class ErrorThreshold(float):
    kind = "error"


@pytest.mark.parametrize("n_scores", [5, 12])
@pytest.mark.parametrize("name", ["resbemf", "dirmf", "pmf", "pmf certain", "ordinal"])
def test_thresholds_of_expected_errors_count_too(name, n_scores):
    model = lively(name, n_scores)
    for threshold in (0.0, 0.7, 0.85, 1.0):
        assert_the_same(model, n=8, threshold=ErrorThreshold(threshold))


@pytest.mark.parametrize("name", MODELS)
def test_the_threshold_is_compared_to_the_last_bit(name):
    model = lively(name)
    reliability = np.unique(model.recommend(2, n=60)["reliability"].to_numpy())
    for level in reliability[:: max(1, len(reliability) // 5)]:
        for threshold in (level, np.nextafter(level, 0), min(np.nextafter(level, 2), 1.0)):
            assert_the_same(model, 2, n=60, threshold=float(threshold))


def calibrations(n_scores, rng):
    for n_knots in (0, 2, 5):
        calibration = identity(n_scores) + np.vstack(
            [rng.normal(0, 0.5, (2, n_scores)), np.zeros(n_scores), rng.normal(0, 1, n_scores)]
        )
        if n_knots:
            calibration = np.vstack([calibration, *np.sort(rng.random((2, n_knots, n_scores)), axis=1)])
        assert is_sound(calibration)
        yield calibration


@pytest.mark.parametrize("name", MODELS)
def test_calibrated_models_rank_by_their_calibrated_answers(name):
    model = lively(name)
    before = model.recommend(n=12)
    for calibration in calibrations(5, np.random.default_rng(0)):
        model.calibration_ = calibration
        assert not assert_the_same(model, n=12).equals(before)
        assert_the_same(model, n=12, threshold=0.5)


@pytest.mark.parametrize("name", MODELS)
def test_a_user_who_saw_all_gets_nothing_and_unrated_items_are_never_listed(name):
    model = lively(name)
    n_items = len(model.items_)
    model.item_counts_[[4, 30]] = 0
    whole = np.delete(np.arange(n_items, dtype=np.int32), [4, 30])
    cut = model.seen_start_[1]
    model.seen_items_ = np.concatenate([whole, model.seen_items_[cut:]])
    model.seen_scores_ = np.concatenate([np.zeros(len(whole), np.int8), model.seen_scores_[cut:]])
    model.seen_start_ = np.concatenate([[0], model.seen_start_[1:] - cut + len(whole)])
    model._index()
    assert len(model.recommend(model.users_[0].item(), n=60)) == 0
    listed = assert_the_same(model, n=60)
    assert not set(listed["item"]) & set(model.items_[[4, 30]].tolist())


@pytest.mark.parametrize("name", ["resbemf", "biasedmf", "ordinal"])
def test_lists_agree_where_there_are_more_items_than_a_tile_has_and_most_are_refused(name):
    """The rough look must let pass whatever belongs into a list, also where hardly anything changes it any more."""
    ratings, _ = sc.make_ratings(12, 700, density=0.1, random_state=1)
    model = MODELS[name]().fit(ratings)
    for scale in (0.02, 1.0, 6.0):
        rng = np.random.default_rng(2)
        for rows in ("user_draws_", "item_draws_", "user_factors_", "item_factors_"):
            if hasattr(model, rows):
                shape = getattr(model, rows).shape
                setattr(model, rows, (scale * rng.standard_normal(shape)).astype(np.float32))
        model._index()
        assert_the_same(model, n=10)
        assert_the_same(model, n=3, threshold=0.4)


@pytest.mark.parametrize("name", ["resbemf", "pmf", "ordinal"])
def test_what_is_not_a_number_is_not_listed(name):
    model = lively(name)
    rows = model.item_draws_ if name == "ordinal" else model.item_factors_
    rows[[2, 7]] = np.nan
    model._index()
    listed = assert_the_same(model, 4, n=60, exclude_seen=False)
    assert len(listed) == len(model.items_) - 2


def test_models_that_fold_in_makes_share_what_lists_are_made_from():
    model = lively("resbemf")
    mine = sc.Ratings.from_arrays([1, 1], [3, 7], [5, 1], scores=model.scores_)
    folded = model.fold_in(mine)
    assert_the_same(folded, n=5)
    assert model._tiles is folded._tiles


@pytest.mark.skipif(LOWER, reason="this is the run under another instruction set")
@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_lower_instruction_sets_rank_the_same(isa, tmp_path):
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            __file__,
            "-p",
            "no:cacheprovider",
            f"--basetemp={tmp_path / 'own'}",
        ],
        env=os.environ | {"STARCAST_ISA": isa},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-2000:]


def test_a_list_may_be_asked_for_while_another_thread_makes_the_tiles():
    class Watched(dict):
        def __setitem__(self, name, value):  # whatever is seen between two of these, another thread may see
            super().__setitem__(name, value)
            model.recommend(None, n=1)

    model = sc.BiasedMF(n_factors=2, n_iters=1, random_state=0).fit(sc.make_ratings(20, 10, random_state=0)[0])
    model._tiles = Watched()
    assert len(model.recommend(None, n=1)) == 20
    assert set(model._tiles) == {"items", "reach"}
