"""Questions put to the model that is served, and its answers as plain dictionaries and lists."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

import starcast
from starcast.distribution import Distribution
from starcast.errors import ParameterError, StarcastError, UnknownNameError, plural
from starcast.models import Model, explanation
from starcast.ratings import Ratings
from starcast.serve import schema
from starcast.serve.served import Served, known_items, known_user, named, shown

STRANGER = "stranger"


def about(served: Served, _: schema.Question) -> dict[str, Any]:
    """Return what is served."""
    model = served.model
    solves = model._solves_rows()
    return {
        "model": type(model).__name__,
        "parameters": served.parameters,
        "data": {
            "name": served.name,
            "users": len(model.users_),
            "items": len(model.items_),
            "ratings": len(model.seen_items_),
            "digest": model.digest_,
        },
        "scores": served.scores,
        "calibrated": hasattr(model, "calibration_"),
        "has_titles": model.titles_ is not None,
        "can_fold_in": solves,
        "can_explain": solves and hasattr(model, "seen_scores_"),
        "limits": served.limits.public(),
        "card": served.card,
        "version": starcast.__version__,
    }


def predict(served: Served, question: schema.PredictQuestion) -> dict[str, Any]:
    """Return a forecast for each pair; those less reliable than the threshold have no prediction."""
    users = named(served.model.users_, [pair.user for pair in question.pairs])
    items = named(served.model.items_, [pair.item for pair in question.pairs])
    answer, known = served.answer(users, items)
    rows = forecasts(served, items, answer, known, question.threshold, question.point)
    for row, user in zip(rows, users, strict=True):
        row["user"] = user
    return {"scores": served.scores, "forecasts": rows}


def recommend(served: Served, question: schema.RecommendQuestion | schema.RecommendQuery) -> dict[str, Any]:
    """Return the best items of a user, those that are reliable enough."""
    user = known_user(served, question.user)
    rows = best_items(served, served.model, user, question, question.exclude_seen)
    return {"user": user, "scores": served.scores, "recommendations": rows}


def recommend_together(served: Served, questions: Sequence[Any]) -> list[dict[str, Any] | StarcastError]:
    """Return the lists of several users at once; the questions differ in user and n at most, see `alike`."""
    found: list[Any] = [None] * len(questions)
    for place, question in enumerate(questions):
        try:
            found[place] = known_user(served, question.user)
        except StarcastError as error:
            found[place] = error
    users = list(dict.fromkeys(user for user in found if not isinstance(user, StarcastError)))
    lists: dict[Any, list[dict[str, Any]]] = {user: [] for user in users}
    if users:
        n, first = max(question.n for question in questions), questions[0]
        frame = served.model.recommend(users, n, first.threshold, exclude_seen=first.exclude_seen)
        whose, items = frame["user"].to_list(), frame["item"].to_list()
        rows = forecasts(served, items, *served.answer(whose, items), 0.0) if items else []
        for user, row in zip(whose, rows, strict=True):
            row["rank"] = len(lists[user]) + 1
            lists[user].append(row)
    return [
        user
        if isinstance(user, StarcastError)
        else {"user": user, "scores": served.scores, "recommendations": lists[user][: question.n]}
        for user, question in zip(found, questions, strict=True)
    ]


def alike(question: Any) -> Hashable | None:
    """Return what questions must share to be answered together; None for one that has a list of its own."""
    if question.exclude or question.candidates is not None:
        return None
    return question.threshold, question.exclude_seen


def fold_in(served: Served, question: schema.FoldInQuestion) -> dict[str, Any]:
    """Return the best items of a stranger, and forecasts for the items that were asked for."""
    placed = place(served, question.ratings)
    rows = best_items(served, placed, STRANGER, question, True)
    asked = named(served.model.items_, question.items)
    extra: list[dict[str, Any]] = []
    if asked:
        answer, known, _, _ = placed._answer(STRANGER, served.askable(asked, "items"))
        extra = forecasts(served, asked, answer, known.tolist(), question.threshold)
    return {"scores": served.scores, "recommendations": rows, "forecasts": extra}


def explain(
    served: Served, question: schema.ExplainQuestion, should_stop: Callable[[], bool] = lambda: False
) -> dict[str, Any]:
    """Return the forecast for an item and the ratings that moved it most."""
    if (question.user is None) == (question.ratings is None):
        raise ParameterError("explain needs either a user or a stranger's ratings, and not both. Give one of them.")
    model = served.model if question.ratings is None else place(served, question.ratings)
    user = STRANGER if question.user is None else known_user(served, question.user)
    item = known_items(served, [question.item])
    reasons = explanation.explain(model, user, item, question.n, should_stop).to_dicts()
    answer, known, _, _ = model._answer(user, item)
    for reason in reasons:
        reason["title"], reason["year"] = served.catalogue.entry(reason["item"])
    return {
        "item": item[0],
        "scores": served.scores,
        "forecast": forecasts(served, item, answer, known.tolist(), 0.0)[0],
        "reasons": reasons,
    }


def explanation_key(question: schema.ExplainQuestion) -> Hashable | None:
    """Return what explanations that are the same share; None for those of a stranger, which are not kept."""
    return None if question.user is None or question.ratings else (str(question.user), str(question.item), question.n)


def find_items(served: Served, question: schema.ItemsQuery) -> dict[str, Any]:
    """Return items whose titles have all words of the query; without any, those that are rated most."""
    rows, total = served.catalogue.find_items(question.query, question.limit, question.offset)
    return {"items": rows, "total": total}


def find_users(served: Served, question: schema.UsersQuery) -> dict[str, Any]:
    """Return users whose names begin with the query."""
    rows, total = served.catalogue.find_users(question.query, question.limit)
    return {"users": rows, "total": total}


def given_ratings(served: Served, question: schema.RatingsQuery) -> dict[str, Any]:
    """Return what a user rated, highest first, and the better known first among equals."""
    model = served.model
    code = served.catalogue.user_places[known_user(served, question.user)]
    rated = slice(model.seen_start_[code], model.seen_start_[code + 1])
    items, scores = model.seen_items_[rated], model.seen_scores_[rated]
    order = np.lexsort((items, -model.item_counts_[items], -scores.astype(int)))[: question.limit]
    rows = []
    for item, score in zip(items[order].tolist(), scores[order].tolist(), strict=True):
        name = served.catalogue.items[item]
        title, year = served.catalogue.entry(name)
        rows.append({"item": name, "title": title, "year": year, "rating": served.scores[score]})
    return {"ratings": rows}


def place(served: Served, ratings: Sequence[schema.Rating]) -> Model:
    """Return a model that knows the stranger who gave these ratings; of an item rated twice, the last one counts.

    Items that the model does not know say nothing to it.
    """
    items = named(served.model.items_, [rating.item for rating in ratings])
    given = [
        (item, rating.rating)
        for item, rating in zip(items, ratings, strict=True)
        if item in served.catalogue.item_places
    ]
    if not given:
        raise UnknownNameError(
            f"ratings must hold an item that the model knows, got {plural(len(ratings), 'rating')} of others, such as "
            f"{shown(ratings[0].item)}. See /api/items for those that it knows."
        )
    names, values = zip(*given, strict=True)
    table = Ratings.from_arrays(
        [STRANGER] * len(names), list(names), list(values), scores=served.model.scores_, duplicates="last"
    )
    return served.model.fold_in(table)


def best_items(
    served: Served,
    model: Model,
    user: Any,
    question: schema.RecommendQuestion | schema.RecommendQuery | schema.FoldInQuestion,
    exclude_seen: bool,
) -> list[dict[str, Any]]:
    """Return a list of forecasts with their ranks, without those to be excluded."""
    excluded = set(named(model.items_, question.exclude))
    candidates = None
    if question.candidates is not None:
        candidates = known_items(served, question.candidates)
    frame = model.recommend(
        user, question.n + len(excluded), question.threshold, exclude_seen=exclude_seen, candidates=candidates
    )
    items = [item for item in frame["item"].to_list() if item not in excluded][: question.n]
    if not items:
        return []
    rows = forecasts(served, items, model.predict_proba(user, items), [True] * len(items), 0.0)
    for rank, row in enumerate(rows, 1):
        row["rank"] = rank
    return rows


def forecasts(
    served: Served, items: list[Any], answer: Distribution, known: list[bool], threshold: float, point: str = "mode"
) -> list[dict[str, Any]]:
    """Return one dictionary per row of an answer."""
    scores, entry = served.scores, served.catalogue.entry
    reliability = answer.reliability().tolist()
    if point == "mean":
        points = answer.mean().tolist()
    elif point == "median":
        points = [scores[code] for code in answer._quantile(0.5).tolist()]
    else:
        points = [scores[code] for code in answer.probs.argmax(axis=1).tolist()]
    rows = zip(items, answer.probs.tolist(), points, answer.mean().tolist(), reliability, known, strict=True)
    found = []
    for item, probs, guess, mean, sure, is_known in rows:
        title, year = entry(item)
        found.append(
            {
                "item": item,
                "title": title,
                "year": year,
                "probs": probs,
                "prediction": guess if sure >= threshold else None,
                "mean": mean,
                "reliability": sure,
                "known": is_known,
            }
        )
    return found
