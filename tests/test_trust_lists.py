"""Reliability in recommended lists: the held-out ratings that stand in them, and no others."""

import numpy as np
import pytest
from world import ask

import starcast as sc
from starcast.errors import DataError
from starcast.plots import plot_reliability


def slow_listed(model, test, n):
    """Which held-out ratings stand in the lists, user by user."""
    inside = []
    for user, item in zip(test.users[test.user].tolist(), test.items[test.item].tolist(), strict=True):
        known = user in model.users_ and item in model.items_
        inside.append(known and item in model.recommend(user, n)["item"].to_list())
    return np.array(inside)


def test_the_lists_hold_what_recommend_lists():
    ratings, _ = sc.make_ratings(n_users=60, n_items=40, density=0.5, random_state=0)
    train, test = sc.holdout(ratings, test_size=0.3, random_state=0)
    strangers = sc.Ratings.from_arrays([*test.users[test.user], 999], [*test.items[test.item], 1], [*test.values, 5])
    model = sc.NaiveBayes().fit(train)
    found = sc.list_reliability(model, strangers, n=5, n_bins=4)
    inside = slow_listed(model, test, 5)
    answer = ask(model, test)
    assert found.n_listed == inside.sum() == found.listed.count.sum()
    assert 20 < found.n_listed < len(test) / 2
    part = sc.Distribution(answer.probs[inside], answer.scores)
    assert found.listed_ece == pytest.approx(sc.metrics.ece(test.values[inside], part, 4))
    assert found.overall_ece == pytest.approx(sc.metrics.ece(test.values, answer, 4))
    assert found.gap == pytest.approx(part.reliability().mean() - (part.mode() == test.values[inside]).mean())
    assert found.overall.count.sum() == len(test)


def test_lists_of_everything_are_everything():
    ratings, _ = sc.make_ratings(n_users=30, n_items=20, density=0.5, random_state=0)
    train, test = sc.holdout(ratings, test_size=0.3, random_state=0)
    found = sc.list_reliability(sc.NaiveBayes().fit(train), test, n=20)
    assert found.listed_ece == found.overall_ece
    assert found.gap == found.overall_gap


def test_lists_are_bold_where_the_model_knows_least():
    """Items with one or two ratings, all of them fives, head every list of a model that shrinks nothing, and are few
    among all ratings."""
    rng = np.random.default_rng(0)
    wanted = 200 / np.arange(1, 401) ** 0.7
    pairs = [(user, item) for item in range(400) for user in rng.permutation(300)[: max(3, int(wanted[item]))]]
    users, items = np.array(pairs).T
    ratings = sc.Ratings.from_arrays(users, items, rng.choice([1, 2, 3, 4, 5], len(users)))
    train, test = sc.holdout(ratings, test_size=0.4, random_state=0)
    found = sc.list_reliability(sc.ItemFrequency(shrinkage=0.5).fit(train), test, n=40)
    assert found.gap > found.overall_gap + 0.1


def test_lists_need_known_pairs():
    ratings, _ = sc.make_ratings(n_users=30, n_items=20, density=0.5, random_state=0)
    strangers = sc.Ratings.from_arrays([999], [1], [5], scores=ratings.scores)
    with pytest.raises(DataError, match="list_reliability needs ratings of known users and items, got none among 1"):
        sc.list_reliability(sc.NaiveBayes().fit(ratings), strangers)


def test_both_curves_are_drawn():
    ratings, _ = sc.make_ratings(n_users=60, n_items=40, density=0.5, random_state=0)
    train, test = sc.holdout(ratings, test_size=0.3, random_state=0)
    found = sc.list_reliability(sc.NaiveBayes().fit(train), test, n=5)
    ax = plot_reliability({"in lists": found.listed, "all": found.overall}, least=1)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["in lists", "all"]
