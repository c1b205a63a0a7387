"""Counting, against counts by hand."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest

import starcast as sc
from starcast import metrics
from starcast.errors import ParameterError
from starcast.models.frequency import SHRINKAGES

PRIOR = np.array([2, 2, 2, 2, 3]) / 11  # one more than each score was given


def test_global_frequency_answers_the_smoothed_counts(ratings):
    model = sc.GlobalFrequency().fit(ratings)
    assert model.predict_proba(["ann", "cat"], ["w", "x"]).probs.tolist() == pytest.approx(np.array([PRIOR, PRIOR]))


@pytest.mark.parametrize("shrinkage", [0, 0.5, 10, 1e9])
def test_item_frequency_is_the_formula(ratings, shrinkage):
    model = sc.ItemFrequency(shrinkage=shrinkage).fit(ratings)
    counts = np.array([0, 0, 0, 1, 1])  # item x got a 5 and a 4
    expected = (counts + shrinkage * PRIOR) / (2 + shrinkage)
    assert model.predict_proba("cat", "x").probs[0] == pytest.approx(expected)
    assert model.shrinkage_ == shrinkage


def test_naive_bayes_is_the_formula(ratings):
    model = sc.NaiveBayes(user_shrinkage=2, item_shrinkage=3).fit(ratings)
    user = (np.array([0, 1, 0, 0, 1]) + 2 * PRIOR) / 4  # cat gave a 2 and a 5
    item = (np.array([0, 0, 0, 1, 1]) + 3 * PRIOR) / 5
    joint = user * item / PRIOR
    assert model.predict_proba("cat", "x").probs[0] == pytest.approx(joint / joint.sum())


def planted(n=400, seed=0):
    rng = np.random.default_rng(seed)
    cell = rng.permutation(40 * 30)[:n]
    user, item = cell // 30, cell % 30
    level = rng.normal(size=40)[user] + rng.normal(size=30)[item] + rng.normal(size=n)
    return sc.Ratings.from_arrays(user, item, np.clip(np.round(level + 3), 1, 5))


def left_out(ratings, log_probability):
    """The log-likelihood of each rating when it is taken out of the counts."""
    by_user, by_item = ratings.counts_by_user(), ratings.counts_by_item()
    prior = (ratings.counts() + 1) / (len(ratings) + len(ratings.scores))
    total = 0.0
    for u, i, s in zip(ratings.user, ratings.item, ratings.score, strict=True):
        user, item = by_user[u].copy(), by_item[i].copy()
        user[s] -= 1
        item[s] -= 1
        total += log_probability(user, item, prior, s)
    return total


def test_auto_takes_the_likeliest_shrinkage_of_left_out_ratings():
    ratings = planted()

    def likelihood(k):
        return left_out(ratings, lambda user, item, prior, s: math.log((item[s] + k * prior[s]) / (item.sum() + k)))

    assert sc.ItemFrequency().fit(ratings).shrinkage_ == max(SHRINKAGES, key=likelihood)


def test_auto_shrinkages_of_naive_bayes_cannot_be_bettered_alone():
    ratings = planted(250)

    def likelihood(user_k, item_k):
        def log_probability(user, item, prior, s):
            joint = (
                (user + user_k * prior)
                / (user.sum() + user_k)
                * (item + item_k * prior)
                / (item.sum() + item_k)
                / prior
            )
            return math.log(joint[s] / joint.sum())

        return left_out(ratings, log_probability)

    model = sc.NaiveBayes().fit(ratings)
    best = likelihood(model.user_shrinkage_, model.item_shrinkage_)
    for k in SHRINKAGES[::3]:
        assert best >= likelihood(k, model.item_shrinkage_) - 1e-6
        assert best >= likelihood(model.user_shrinkage_, k) - 1e-6


def test_one_shrinkage_may_be_given_and_the_other_found():
    model = sc.NaiveBayes(user_shrinkage=7).fit(planted())
    assert model.user_shrinkage_ == 7
    assert model.item_shrinkage_ in SHRINKAGES


def test_items_with_one_rating_each_can_be_counted():
    ratings = sc.Ratings.from_arrays(range(10), range(10), [1, 2] * 5)
    for model, shrinkage in itertools.product((sc.ItemFrequency, sc.NaiveBayes), ({}, 1e-3, 1e6)):
        made = model() if shrinkage == {} else model(*[shrinkage] * len(model().get_params()))
        assert np.isfinite(made.fit(ratings).predict_proba(range(10), range(10)).probs).all()


def test_the_tiniest_shrinkage_still_gives_probabilities():
    ratings = sc.Ratings.from_arrays([1, 1, 2, 2], [1, 2, 2, 3], [1, 1, 5, 5])
    probs = sc.NaiveBayes(user_shrinkage=5e-324, item_shrinkage=5e-324).fit(ratings).predict_proba([1, 2], [3, 1]).probs
    assert probs.sum(axis=1) == pytest.approx([1, 1])


@pytest.mark.parametrize(
    "value", [-1, float("nan"), float("inf"), "much", None, True, [1], np.array([1.0, 2.0]), 1j], ids=str
)
def test_a_shrinkage_that_cannot_be_is_said(ratings, value):
    with pytest.raises(ParameterError) as caught:
        sc.ItemFrequency(shrinkage=value).fit(ratings)
    assert str(caught.value) == f'shrinkage must be zero or more, or "auto", got {value!r}.'
    for name in ("user_shrinkage", "item_shrinkage"):
        with pytest.raises(ParameterError, match=rf'{name} must be more than zero, or "auto", got'):
            sc.NaiveBayes(**{name: value}).fit(ratings)


def test_naive_bayes_needs_some_shrinkage(ratings):
    with pytest.raises(ParameterError, match=r'item_shrinkage must be more than zero, or "auto", got 0\.'):
        sc.NaiveBayes(item_shrinkage=0).fit(ratings)


@pytest.mark.parametrize("value", [np.float64(5), np.float32(5), np.int64(5), 5], ids=lambda v: type(v).__name__)
def test_a_number_of_numpy_is_a_shrinkage(ratings, value, tmp_path):
    model = sc.ItemFrequency(shrinkage=value).fit(ratings)
    assert model.shrinkage_ == 5
    model.save(tmp_path / "m")
    assert sc.load(tmp_path / "m").get_params() == {"shrinkage": 5}


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "options", "bars"),
    [
        ("ml-100k/u.data", {}, {"global": 1.452, "item": 1.359, "bayes": 1.269}),
        ("filmtrust/ratings.txt", {"duplicates": "last"}, {"global": 1.798, "item": 1.774, "bayes": 1.642}),
    ],
)
def test_the_log_loss_on_the_published_splits_is_as_good_as_it_should_be(data_folder, file, options, bars):
    train, test = sc.benchmark_split(sc.read_ratings(data_folder / file, **options))
    for name, bar in bars.items():
        answer = sc.MODELS[name]().fit(train).predict_proba(test.users[test.user], test.items[test.item])
        assert metrics.nll(test.values, answer) <= bar + 0.01


RECOMMEND = """
import resource, sys, psutil, starcast as sc
from pathlib import Path
ratings = sc.read_ratings(Path(sys.argv[1]) / "ml-1m" / "ratings.dat")
model = sc.MODELS[sys.argv[2]]().fit(ratings)
before = psutil.Process().memory_info().rss
frame = model.recommend()
status = Path("/proc/self/status")  # getrusage would count the process that started this one, too
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if status.exists():
    peak = 1024 * int(status.read_text().split("VmHWM:")[1].split()[0])
print(frame["user"].n_unique(), len(frame), peak - before)
"""


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(sys.platform == "win32", reason="resource is POSIX")
@pytest.mark.parametrize("name", ["global", "item", "bayes"])
def test_recommending_to_everyone_stays_under_500_megabytes(data_folder, name):
    done = subprocess.run(
        [sys.executable, "-c", RECOMMEND, data_folder, name], capture_output=True, text=True, check=True
    )
    users, rows, over = map(int, done.stdout.split())
    assert users == 6040
    assert rows == 60_400
    assert over < 500e6
