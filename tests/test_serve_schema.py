"""The service against its own description, and its answers against those of the model."""

import hypothesis.strategies as st
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from service import Service, lettered, tiny

import starcast as sc

SERVICES = {"numbers": Service(tiny()), "text": Service(lettered())}
# What the description cannot say: a rating must be on the model's scale; either a user or ratings; a model that can.
BY_MEANING = {"/api/fold-in", "/api/explain"}
CALM = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def described(name):
    return schemathesis.openapi.from_asgi("/openapi.json", SERVICES[name].app)


def check(case):
    """No server error, no status, type or body that the description does not have, nothing taken that it forbids."""
    case.call_and_validate(excluded_checks=[positive_data_acceptance] if case.path in BY_MEANING else [])


@described("numbers").parametrize()
@CALM
def test_a_model_of_numbers_keeps_to_the_description(case):
    check(case)


@described("text").parametrize()
@CALM
def test_a_model_of_text_keeps_to_the_description(case):
    check(case)


names = st.integers(-5, 60)
thresholds = st.floats(0, 1)
few = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@given(
    st.lists(st.tuples(names, names), min_size=1, max_size=80), thresholds, st.sampled_from(["mode", "median", "mean"])
)
@few
def test_forecasts_are_those_of_the_model(pairs, threshold, point):
    question = {"pairs": [{"user": u, "item": i} for u, i in pairs], "threshold": threshold, "point": point}
    rows = SERVICES["numbers"].post("/api/predict", question).json()["forecasts"]
    users, items = map(list, zip(*pairs, strict=True))
    answer, frame = tiny().predict_proba(users, items), tiny().predict(users, items, threshold, point=point)
    assert [row["probs"] for row in rows] == answer.probs.tolist()
    assert [row["prediction"] for row in rows] == frame["prediction"].to_list()
    assert [row["reliability"] for row in rows] == frame["reliability"].to_list()
    assert [row["known"] for row in rows] == frame["known"].to_list()
    assert [row["mean"] for row in rows] == answer.mean().tolist()
    assert [(row["user"], row["item"]) for row in rows] == pairs


@given(
    st.integers(1, 40), st.integers(1, 40), thresholds, st.booleans(),
    st.none() | st.lists(st.integers(1, 30), max_size=12), st.lists(names, max_size=12),
)  # fmt: skip
@few
def test_lists_are_those_of_the_model(user, n, threshold, exclude_seen, candidates, exclude):
    question = {"user": user, "n": n, "threshold": threshold, "exclude_seen": exclude_seen, "candidates": candidates}
    rows = SERVICES["numbers"].post("/api/recommend", question | {"exclude": exclude}).json()["recommendations"]
    allowed = [i for i in (range(1, 31) if candidates is None else candidates) if i not in exclude]
    frame = tiny().recommend(user, n, threshold, exclude_seen=exclude_seen, candidates=allowed)
    assert [row["item"] for row in rows] == frame["item"].to_list()
    assert [row["rank"] for row in rows] == frame["rank"].to_list()
    assert [row["prediction"] for row in rows] == frame["prediction"].to_list()
    assert [row["reliability"] for row in rows] == frame["reliability"].to_list()
    assert [row["probs"] for row in rows] == tiny().predict_proba(user, frame["item"].to_list()).probs.tolist()


@given(
    st.dictionaries(st.integers(1, 30), st.integers(1, 5), min_size=1, max_size=15), st.integers(1, 10), thresholds,
    st.lists(names, max_size=6),
)  # fmt: skip
@few
def test_strangers_are_those_of_the_model(given_ratings, n, threshold, items):
    ratings = [{"item": item, "rating": rating} for item, rating in given_ratings.items()]
    question = {"ratings": ratings, "n": n, "threshold": threshold, "items": items}
    answer = SERVICES["numbers"].post("/api/fold-in", question).json()
    table = sc.Ratings.from_arrays(
        ["me"] * len(ratings), list(given_ratings), list(given_ratings.values()), scores=tiny().scores_
    )
    placed = tiny().fold_in(table)
    frame = placed.recommend("me", n, threshold)
    assert [row["item"] for row in answer["recommendations"]] == frame["item"].to_list()
    assert [row["mean"] for row in answer["recommendations"]] == frame["mean"].to_list()
    assert [row["item"] for row in answer["forecasts"]] == items
    if items:
        assert [row["probs"] for row in answer["forecasts"]] == placed.predict_proba("me", items).probs.tolist()


@given(st.text(max_size=30))
@few
def test_any_query_is_answered_and_finds_only_what_has_its_words(query):
    from starcast.serve.catalogue import words_of

    answer = SERVICES["numbers"].get("/api/items", query=query, limit=200)
    assert answer.status_code == 200
    for row in answer.json()["items"]:
        have = words_of(f"{row['title']} {row['year']} {row['item']}")
        assert all(any(word.startswith(begun) for word in have) for begun in words_of(query))


@pytest.mark.parametrize("name", SERVICES)
def test_the_description_is_the_same_for_every_model(name):
    assert SERVICES[name].get("/openapi.json").json() == SERVICES["numbers"].get("/openapi.json").json()
