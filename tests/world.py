"""A world whose truth is known: ratings to learn from, and 200,000 more pairs with a rating each to be judged by."""

import functools
from typing import NamedTuple

import numpy as np

import starcast as sc


class World(NamedTuple):
    train: sc.Ratings
    new: sc.Ratings
    truth: np.ndarray  # (new ratings, scores): what `new` was drawn from


@functools.cache
def make_world(n_users=600, n_items=1000, density=0.4, n_new=200_000, seed=0):
    train, truth = sc.make_ratings(n_users, n_items, density=density, random_state=seed)
    rng = np.random.default_rng(seed + 1)
    cell = rng.permutation(n_users * n_items)
    cell = cell[~np.isin(cell, train.user.astype(np.int64) * n_items + train.item)][:n_new]
    users, items = train.users[cell // n_items], train.items[cell % n_items]
    probs = truth.predict_proba(users, items).probs
    return World(train, sc.Ratings.from_arrays(users, items, 1 + draw(probs, rng), scores=train.scores), probs)


def draw(probs, rng):
    """One score code per row."""
    return (probs.cumsum(axis=1)[:, :-1] <= rng.random(len(probs))[:, None]).sum(axis=1)


def ask(model, ratings):
    return model.predict_proba(ratings.users[ratings.user], ratings.items[ratings.item])
