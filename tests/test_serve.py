"""Every address of the service and every refusal, without a network."""

import asyncio
import json
import re
import threading

import numpy as np
import pytest
from service import Service, lettered, serve, tiny

import starcast as sc
from starcast.serve import answers, schema
from starcast.serve.card import make_card
from starcast.serve.guard import HEADERS
from starcast.serve.limits import Limits

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def service():
    return Service(tiny())


def refused(answer, status, code, *words):
    """Check a refusal: the status, the code, one sentence for people that holds the words, nothing else."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert body["error"]["code"] == code
    for word in words:
        assert word in body["error"]["message"]
    assert "Traceback" not in answer.text
    return body["error"]["message"]


# What is served.


def test_the_model_is_described(service):
    about = service.get("/api/model").json()
    model = tiny()
    assert about["model"] == "OrdinalMF"
    assert about["parameters"] == model.get_params()
    assert about["scores"] == [1, 2, 3, 4, 5]
    assert about["data"] == {
        "name": "planted", "users": len(model.users_), "items": len(model.items_),
        "ratings": len(model.seen_items_), "digest": model.digest_,
    }  # fmt: skip
    assert about["has_titles"]
    assert about["can_fold_in"]
    assert about["can_explain"]
    assert not about["calibrated"]
    assert about["limits"] == {"pairs": 1000, "n": 500, "ratings": 1000, "body_bytes": 1 << 20}
    assert about["version"] == sc.__version__
    schema.About.model_validate(about)


def test_a_model_without_titles_and_rows_says_so():
    about = Service(lettered()).get("/api/model").json()
    assert (about["has_titles"], about["can_fold_in"], about["can_explain"]) == (False, False, False)


def test_the_card_of_held_out_ratings_is_counted():
    model = tiny()
    test, _ = sc.make_ratings(40, 30, density=0.2, random_state=5)
    card = make_card(model, test)
    answer = model.predict_proba(test.users[test.user], test.items[test.item])
    assert card["source"] == "held-out ratings"
    assert card["n"] == len(test)
    right = sum(float(p) == float(v) for p, v in zip(answer.mode(), test.values, strict=True)) / len(test)
    assert card["metrics"]["accuracy"] == pytest.approx(right)
    at = card["curve"][40]
    kept = [k for k in range(len(test)) if max(answer.probs[k]) >= 0.4]
    assert at["threshold"] == 0.4
    assert at["coverage"] == pytest.approx(len(kept) / len(test))
    assert at["accuracy"] == pytest.approx(np.mean([answer.mode()[k] == test.values[k] for k in kept]))
    assert at["mae"] == pytest.approx(np.mean([abs(answer.mode()[k] - test.values[k]) for k in kept]))
    assert card["curve"][0]["coverage"] == 1
    assert len(card["curve"]) == 101


def test_a_threshold_that_keeps_nothing_leaves_the_error_undefined():
    curve = make_card(tiny())["curve"]
    assert curve[-1] == {"threshold": 1.0, "coverage": 0.0, "accuracy": None, "mae": None}


def test_the_card_of_a_models_own_forecasts_expects_what_a_calibrated_model_has():
    ratings, _ = sc.make_ratings(60, 50, density=0.4, random_state=3)
    model = sc.OrdinalMF(n_factors=4, n_company=4, burn_in=5, n_draws=8, thin=1, random_state=0).fit(ratings)
    card = make_card(model)
    assert card["source"] == "the model's own forecasts"
    assert card["metrics"]["ece"] is None
    rng = np.random.default_rng(1)
    answer = model.predict_proba(rng.choice(model.users_, 20_000), rng.choice(model.items_, 20_000))
    codes = (answer.probs.cumsum(axis=1) > rng.random((20_000, 1))).argmax(axis=1)
    drawn = answer.scores[codes]
    assert card["metrics"]["accuracy"] == pytest.approx(np.mean(answer.mode() == drawn), abs=0.03)
    assert card["metrics"]["mae"] == pytest.approx(np.mean(abs(answer.mode() - drawn)), abs=0.05)
    assert card["metrics"]["rmse"] == pytest.approx(np.sqrt(np.mean((answer.mean() - drawn) ** 2)), abs=0.05)
    assert card["metrics"]["nll"] == pytest.approx(-np.mean(np.log(answer.probs[np.arange(20_000), codes])), abs=0.05)


def test_of_many_held_out_ratings_some_are_drawn(monkeypatch):
    monkeypatch.setattr("starcast.serve.card.MOST", 50)
    test, _ = sc.make_ratings(40, 30, density=0.2, random_state=5)
    assert make_card(tiny(), test)["n"] == 50


# Forecasts.


def test_a_forecast_has_all_that_the_contract_names(service):
    answer = service.post("/api/predict", {"pairs": [{"user": 1, "item": 1}]}).json()
    assert answer["scores"] == [1, 2, 3, 4, 5]
    (forecast,) = answer["forecasts"]
    model = tiny()
    dist = model.predict_proba(1, 1)
    assert forecast == {
        "item": 1, "user": 1, "title": "Matrix, The", "year": 1999, "probs": dist.probs[0].tolist(),
        "prediction": dist.mode()[0], "mean": dist.mean()[0], "reliability": dist.reliability()[0], "known": True,
    }  # fmt: skip
    assert sum(forecast["probs"]) == pytest.approx(1)


@pytest.mark.parametrize("point", ["mode", "median", "mean"])
def test_points_are_those_of_the_model(service, point):
    pairs = [{"user": u, "item": i} for u in (1, 2, 3) for i in (4, 5, 999)]
    answer = service.post("/api/predict", {"pairs": pairs, "threshold": 0.4, "point": point}).json()
    frame = tiny().predict([p["user"] for p in pairs], [p["item"] for p in pairs], 0.4, point=point)
    assert [f["prediction"] for f in answer["forecasts"]] == frame["prediction"].to_list()
    assert [f["known"] for f in answer["forecasts"]] == frame["known"].to_list()
    assert [f["reliability"] for f in answer["forecasts"]] == frame["reliability"].to_list()


def test_names_may_be_written_as_text_or_number(service):
    asked = [{"user": 1, "item": 2}, {"user": "1", "item": "2"}]
    one, two = service.post("/api/predict", {"pairs": asked}).json()["forecasts"]
    assert one == two
    asked = [{"user": "u1", "item": 73}, {"user": "u1", "item": "73"}]
    one, two = Service(lettered()).post("/api/predict", {"pairs": asked}).json()["forecasts"]
    assert one == two
    assert one["item"] == "73"


def test_the_longest_names_may_be_written_as_text(service):
    least, most = -(1 << 63), (1 << 63) - 1
    table = sc.Ratings.from_arrays([least, most, least], [1, 1, most], [1, 2, 2])
    asked = [{"user": str(least), "item": str(most)}, {"user": str(most + 1), "item": "1"}]
    one, two = Service(sc.NaiveBayes().fit(table)).post("/api/predict", {"pairs": asked}).json()["forecasts"]
    assert (one["user"], one["item"], one["known"]) == (least, most, True)
    assert (two["user"], two["known"]) == (str(most + 1), False)


def test_a_whole_number_may_be_written_with_a_point(service):
    asked = b'{"pairs": [{"user": 1.0, "item": 20e-1}], "threshold": 0.0}'
    (row,) = service.post("/api/predict", content=asked, headers=JSON).json()["forecasts"]
    assert (row["user"], row["item"], row["known"]) == (1, 2, True)


def test_text_that_is_no_name_is_an_unknown_name(service):
    pairs = [
        {"user": "nobody", "item": 1},
        {"user": 1, "item": "-"},
        {"user": "x", "item": "y"},
        {"user": 1, "item": 1},
    ]
    rows = service.post("/api/predict", {"pairs": pairs}).json()["forecasts"]
    assert [row["known"] for row in rows] == [False, False, False, True]
    assert [row["user"] for row in rows] == ["nobody", 1, "x", 1]
    assert [row["item"] for row in rows] == [1, "-", "y", 1]
    model = tiny()
    assert rows[0]["probs"] == model.predict_proba([10**9], [1]).probs[0].tolist()
    assert rows[2]["probs"] == model.predict_proba([10**9], [10**9]).probs[0].tolist()


def test_more_pairs_than_a_moment_takes_give_the_same(service):
    pairs = [{"user": 1 + k % 40, "item": 1 + k % 30} for k in range(300)]
    answer = service.post("/api/predict", {"pairs": pairs}).json()
    dist = tiny().predict_proba([p["user"] for p in pairs], [p["item"] for p in pairs])
    assert [f["probs"] for f in answer["forecasts"]] == dist.probs.tolist()


# Lists.


def test_a_list_is_that_of_the_model(service):
    frame = tiny().recommend(3, 5, 0.3)
    answer = service.post("/api/recommend", {"user": 3, "n": 5, "threshold": 0.3}).json()
    assert answer["user"] == 3
    assert [row["item"] for row in answer["recommendations"]] == frame["item"].to_list()
    assert [row["rank"] for row in answer["recommendations"]] == frame["rank"].to_list()
    assert [row["prediction"] for row in answer["recommendations"]] == frame["prediction"].to_list()
    assert [row["mean"] for row in answer["recommendations"]] == frame["mean"].to_list()
    assert [row["reliability"] for row in answer["recommendations"]] == frame["reliability"].to_list()


def test_get_and_post_give_the_same_list(service):
    question = {
        "user": 3,
        "n": 4,
        "threshold": 0.2,
        "exclude": [1, 2],
        "candidates": list(range(1, 21)),
        "exclude_seen": False,
    }
    by_post = service.post("/api/recommend", question)
    by_get = service.get("/api/recommend", **question | {"exclude_seen": "false"})
    assert by_get.json() == by_post.json()


def test_what_is_excluded_is_left_out_and_the_rest_moves_up(service):
    whole = service.post("/api/recommend", {"user": 3, "n": 6}).json()["recommendations"]
    out = [whole[0]["item"], whole[3]["item"], 424242]
    rest = service.post("/api/recommend", {"user": 3, "n": 4, "exclude": out}).json()["recommendations"]
    assert [row["item"] for row in rest] == [row["item"] for row in whole if row["item"] not in out]
    assert [row["rank"] for row in rest] == [1, 2, 3, 4]


def test_candidates_are_all_there_is_to_choose_from(service):
    rows = service.post("/api/recommend", {"user": 3, "candidates": [5, 6], "exclude_seen": False}).json()
    assert sorted(row["item"] for row in rows["recommendations"]) == [5, 6]
    rows = service.post("/api/recommend", {"user": 3, "candidates": []}).json()
    assert rows["recommendations"] == []


def test_what_was_seen_can_be_included(service):
    model = tiny()
    rows = service.post("/api/recommend", {"user": 3, "n": 30, "exclude_seen": False}).json()["recommendations"]
    assert sorted(row["item"] for row in rows) == sorted(model.items_.tolist())


def test_unknown_names_are_not_found(service):
    refused(service.post("/api/recommend", {"user": 999}), 404, "unknown_name", "unknown user 999", "/api/users")
    refused(service.get("/api/recommend", user="bob"), 404, "unknown_name", "unknown user 'bob'")
    message = refused(
        service.post("/api/recommend", {"user": 1, "candidates": [1, 555, "z"]}),
        404,
        "unknown_name",
        "unknown item 555",
    )
    assert "(2 of 3 are unknown)" in message
    refused(service.get("/api/ratings", user="999"), 404, "unknown_name")
    refused(service.post("/api/explain", {"user": 999, "item": 1}), 404, "unknown_name")
    refused(service.post("/api/explain", {"user": 1, "item": "z" * 900}), 404, "unknown_name", "zzz…")


# Strangers.


def test_a_stranger_is_folded_in(service):
    given = [(1, 5), (2, 1), (3, 4)]
    answer = service.post(
        "/api/fold-in",
        {"ratings": [{"item": i, "rating": r} for i, r in given], "n": 4, "threshold": 0.2, "items": [9, 999, "x", 1]},
    ).json()
    items, values = zip(*given, strict=True)
    table = sc.Ratings.from_arrays(["me"] * 3, list(items), list(values), scores=[1, 2, 3, 4, 5])
    placed = tiny().fold_in(table)
    frame = placed.recommend("me", 4, 0.2)
    assert [row["item"] for row in answer["recommendations"]] == frame["item"].to_list()
    assert [row["mean"] for row in answer["recommendations"]] == frame["mean"].to_list()
    assert [row["item"] for row in answer["forecasts"]] == [9, 999, "x", 1]
    assert answer["forecasts"][0]["probs"] == placed.predict_proba("me", 9).probs[0].tolist()
    assert answer["forecasts"][1]["probs"] == placed.predict_proba("me", 999).probs[0].tolist()
    assert [row["known"] for row in answer["forecasts"]] == [True, False, False, True]


def test_of_an_item_rated_twice_the_last_counts(service):
    twice = [{"item": 1, "rating": 1}, {"item": 2, "rating": 3}, {"item": 1, "rating": 5}]
    once = [{"item": 1, "rating": 5}, {"item": 2, "rating": 3}]
    assert (
        service.post("/api/fold-in", {"ratings": twice}).json()
        == service.post("/api/fold-in", {"ratings": once}).json()
    )


def test_ratings_of_unknown_items_say_nothing(service):
    known = [{"item": 1, "rating": 5}]
    more = [*known, {"item": 777, "rating": 1}, {"item": "x", "rating": 2}]
    assert (
        service.post("/api/fold-in", {"ratings": more}).json()
        == service.post("/api/fold-in", {"ratings": known}).json()
    )
    refused(
        service.post("/api/fold-in", {"ratings": more[1:]}), 404, "unknown_name", "2 ratings of others, such as 777"
    )


def test_ratings_off_the_scale_are_refused(service):
    refused(service.post("/api/fold-in", {"ratings": [{"item": 1, "rating": 4.7}]}), 422, "bad_request", "4.7")
    refused(service.post("/api/fold-in", {"ratings": [{"item": 1, "rating": 1e300}]}), 422, "bad_request")


def test_a_model_that_cannot_fold_in_says_so():
    service = Service(lettered())
    refused(
        service.post("/api/fold-in", {"ratings": [{"item": "71", "rating": 4}]}),
        422,
        "bad_request",
        "fold_in needs a model",
    )
    refused(service.post("/api/explain", {"user": "u1", "item": "71"}), 422, "bad_request", "explain needs a model")


def test_reasons_are_those_of_the_model(service):
    answer = service.post("/api/explain", {"user": 2, "item": 4, "n": 3}).json()
    frame = tiny().explain(2, 4, 3)
    assert [reason["item"] for reason in answer["reasons"]] == frame["item"].to_list()
    assert [reason["shift"] for reason in answer["reasons"]] == frame["shift"].to_list()
    assert [reason["moved"] for reason in answer["reasons"]] == frame["moved"].to_list()
    assert [reason["direction"] for reason in answer["reasons"]] == frame["direction"].to_list()
    assert answer["item"] == 4
    assert answer["forecast"]["probs"] == tiny().predict_proba(2, 4).probs[0].tolist()
    schema.Explanation.model_validate(answer)


def test_a_strangers_reasons_are_among_the_stranger_s_ratings(service):
    ratings = [{"item": 1, "rating": 5}, {"item": 2, "rating": 1}]
    answer = service.post("/api/explain", {"ratings": ratings, "item": 4}).json()
    assert {reason["item"]: reason["rating"] for reason in answer["reasons"]} == {1: 5, 2: 1}
    whole = service.post("/api/fold-in", {"ratings": ratings, "items": [4]}).json()["forecasts"][0]
    without = service.post("/api/fold-in", {"ratings": ratings[:1], "items": [4]}).json()["forecasts"][0]
    shift = next(reason["shift"] for reason in answer["reasons"] if reason["item"] == 2)
    assert shift == pytest.approx(whole["mean"] - without["mean"], abs=0.02)


@pytest.mark.parametrize("question", [{"item": 1}, {"item": 1, "user": 1, "ratings": [{"item": 1, "rating": 3}]}])
def test_an_explanation_is_for_a_user_or_a_stranger(service, question):
    refused(service.post("/api/explain", question), 422, "bad_request", "either a user or a stranger's ratings")


# The catalogue.


def found(service, **query):
    return [row["title"] for row in service.get("/api/items", **query).json()["items"]]


@pytest.mark.parametrize(
    "query", ["the matrix", "MATRIX", "matrix 1999", "mat", "  the   mat ", "matrix, the", "1999 the mat"]
)
def test_a_title_is_found_by_its_words_in_any_order(service, query):
    assert found(service, query=query)[0] == "Matrix, The"


@pytest.mark.parametrize(("query", "title"), [("amelie", "Amélie"), ("AMÉLIE", "Amélie"), ("schindlers", "Schindler's List"), ("schindler's li", "Schindler's List"), ("script alert", "<script>alert(1)</script>")])  # fmt: skip
def test_accents_and_apostrophes_do_not_matter(service, query, title):
    assert found(service, query=query) == [title]


def test_what_nobody_is_called_is_not_found(service):
    answer = service.get("/api/items", query="zzz").json()
    assert answer == {"items": [], "total": 0}
    assert service.get("/api/items", query="!?").json()["total"] == 0


def test_without_a_query_the_most_rated_come_first(service):
    model = tiny()
    whole = service.get("/api/items", limit=200).json()
    assert whole["total"] == len(model.items_) == len(whole["items"])
    counts = [row["n_ratings"] for row in whole["items"]]
    assert counts == sorted(model.item_counts_.tolist(), reverse=True)
    page = service.get("/api/items", limit=5, offset=7).json()
    assert page["items"] == whole["items"][7:12]
    assert service.get("/api/items", offset=10**6).json()["items"] == []


def test_a_title_that_is_the_query_comes_first_and_an_item_without_is_its_name(service):
    assert sorted(found(service, query="the")) == ["Matrix, The", "The The"]
    assert found(service, query="the the")[0] == "The The"
    row = service.get("/api/items", query="5").json()["items"][0]
    assert (row["item"], row["title"], row["year"]) == (5, "5", None)


def test_users_are_found_by_how_their_names_begin(service):
    model = tiny()
    answer = service.get("/api/users", query="1", limit=200).json()
    assert sorted(row["user"] for row in answer["users"]) == [
        u for u in sorted(model.users_.tolist()) if str(u).startswith("1")
    ]
    assert answer["total"] == len(answer["users"])
    assert answer["users"][0]["user"] == 1  # who is called so, however few they rated
    counts = [row["n_ratings"] for row in service.get("/api/users").json()["users"]]
    assert counts == sorted(np.diff(model.seen_start_).tolist(), reverse=True)[:20]
    assert Service(lettered()).get("/api/users", query="U1", limit=1).json()["total"] == 11


def test_what_a_user_rated_highest_first(service):
    model = tiny()
    rows = service.get("/api/ratings", user=7, limit=200).json()["ratings"]
    code = model.users_.tolist().index(7)
    rated = slice(model.seen_start_[code], model.seen_start_[code + 1])
    truth = {
        model.items_[i]: model.scores_[s]
        for i, s in zip(model.seen_items_[rated], model.seen_scores_[rated], strict=True)
    }
    assert {row["item"]: row["rating"] for row in rows} == truth
    assert [row["rating"] for row in rows] == sorted(truth.values(), reverse=True)
    assert len(service.get("/api/ratings", user=7, limit=2).json()["ratings"]) == 2


# Questions that cannot be.


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "must be JSON"),
        (b"{", 400, "line 1, column 2"),
        (b'{"pairs": [}', 400, "must be JSON"),
        (b"\xff\xfe", 400, "must be UTF-8, but byte 0 is not"),
        (b'{"pairs": [{"user": "\xc3\x28", "item": 1}]}', 400, "must be UTF-8"),
        (b'{"pairs": [{"user": 1, "item": NaN}]}', 400, "got NaN"),
        (b'{"threshold": Infinity, "pairs": []}', 400, "got Infinity"),
        (b'{"threshold": -Infinity, "pairs": []}', 400, "got -Infinity"),
        (b'{"pairs": [], "pairs": []}', 400, "'pairs' is there more often"),
        (b'{"pairs": [{"user": 1, "item": 1, "user": 2}]}', 400, "'user' is there more often"),
        (b"[" * 100_000, 400, "nested"),
        (b'{"a":' * 100_000, 400, "nested"),
        (b'{"pairs": [{"user": 1' + b"0" * 5000 + b', "item": 1}]}', 400, "fewer digits"),
        (b'{"pairs": [{"user": 99999999999999999999, "item": 1}]}', 422, "pairs[0].user"),
        (b'{"pairs": [{"user": 1e999, "item": 1}]}', 422, "pairs[0].user"),
        (b'{"pairs": [{"user": 1.5, "item": 1}]}', 422, "pairs[0].user"),
        (b'{"pairs": [{"user": true, "item": 1}]}', 422, "pairs[0].user"),
        (b'{"pairs": [{"user": null, "item": 1}]}', 422, "pairs[0].user"),
        (b'{"pairs": [{"user": [1], "item": 1}]}', 422, "got a list"),
        (b'{"pairs": [{"user": {}, "item": 1}]}', 422, "got an object"),
        (b'{"pairs": [{"user": 1}]}', 422, "pairs[0].item is missing"),
        (b'{"pairs": [{"user": 1, "item": 1, "colour": 3}]}', 422, "pairs[0].colour is not taken here"),
        (b'{"pairs": []}', 422, "pairs must have at least 1 item"),
        (b'{"pairs": {}}', 422, "pairs"),
        (b"[]", 422, "the body"),
        (b'"pairs"', 422, "the body"),
        (b"null", 422, "the body"),
        (b'{"pairs": [{"user": 1, "item": 1}], "threshold": 1.1}', 422, "threshold"),
        (b'{"pairs": [{"user": 1, "item": 1}], "threshold": 1e999}', 422, "threshold"),
        (b'{"pairs": [{"user": 1, "item": 1}], "threshold": "0.5"}', 422, "threshold"),
        (b'{"pairs": [{"user": 1, "item": 1}], "point": "best"}', 422, "point must be 'mode', 'median' or 'mean', got 'best'"),
        (b'{"pairs": [{"user": "' + b"x" * 2000 + b'", "item": 1}]}', 422, "pairs[0].user"),
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_is_refused_with_a_reason(service, body, status, words):
    message = refused(service.post("/api/predict", content=body, headers=JSON), status, "bad_request", words)
    assert len(message) < 600


def test_half_a_character_is_refused_where_names_are_text():
    service = Service(lettered())
    answer = service.post("/api/predict", content=b'{"pairs": [{"user": "\\ud800", "item": "1"}]}', headers=JSON)
    refused(answer, 422, "bad_request", "pairs[0].user must be a valid integer or a valid string")


def test_many_mistakes_are_told_in_a_few_words(service):
    question = {f"x{k}": 1 for k in range(20)}
    message = refused(service.post("/api/predict", question), 422, "bad_request", "; and 18 more")
    assert len(message) < 600


@pytest.mark.parametrize(
    "body",
    [
        b'{"pairs": [' + b"0," * 500_000 + b"0]}",
        b'{"pairs": [' + b"{}," * 340_000 + b"{}]}",
        b"{" + b",".join(b'"%d":0' % k for k in range(90_000)) + b"}",
        b"{" + b",".join(b'"%d":0' % k for k in range(90_000)) + b',"0":0}',
        b'{"ratings": [' + b'{"item":"x"},' * 70_000 + b"0]}",
    ],
    ids=["numbers", "objects", "keys", "keys twice", "ratings"],
)
def test_a_long_body_full_of_mistakes_is_refused_at_the_first(service, body):
    for path in ("/api/predict", "/api/fold-in"):
        answer = service.post(path, content=body, headers=JSON)
        assert answer.status_code in (400, 422)
        assert not re.search(r"and \d[\d,]{2,} more", answer.json()["error"]["message"])


def test_many_long_questions_that_arrive_at_once_are_told_to_come_back(monkeypatch):
    monkeypatch.setattr("starcast.serve.doors.BODIES", 2)
    service = Service(tiny(), Limits(body_bytes=1000))
    answers_ = []

    async def trickle(n):
        async def receive():
            await asyncio.sleep(0.01)
            return {"type": "http.request", "body": b" " * 300, "more_body": True}

        async def send(message):
            if message["type"] == "http.response.start":
                answers_.append(message["status"])

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/predict",
            "headers": [(b"content-type", b"application/json")],
        }
        await asyncio.wait_for(service.app(scope, receive, send), 20)

    async def all_of_them():
        await asyncio.gather(*(trickle(k) for k in range(5)), return_exceptions=True)

    asyncio.run(all_of_them())
    assert 503 in answers_
    assert 413 in answers_
    assert service.desk.held == 0


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/api/recommend", "user is missing"), ("/api/recommend?user=1&n=0", "n must be"), ("/api/recommend?user=1&n=x", "n must be a valid integer, unable to parse string as an integer, got 'x'"),
        ("/api/recommend?user=1&threshold=nan", "threshold"), ("/api/recommend?user=1&threshold=2", "threshold"),
        ("/api/recommend?user=1&user=2", "user must be given once"), ("/api/recommend?user=1&m=3", "m is not taken here"),
        ("/api/recommend?user=1&exclude_seen=maybe", "exclude_seen"), ("/api/items?limit=0", "limit"),
        ("/api/items?limit=201", "limit"), ("/api/items?offset=-1", "offset"), ("/api/items?query=" + "x" * 201, "query"),
        ("/api/model?x=1", "x is not taken here"), ("/api/users?limit=1e3", "limit"), ("/api/ratings", "user"),
    ],
)  # fmt: skip
def test_a_query_that_cannot_be_is_refused_with_a_reason(service, path, words):
    refused(service.ask("GET", path), 422, "bad_request", words)


@pytest.mark.parametrize("path", ["/api/items?query=%ff", "/api/items?" + "&".join(["a=1"] * 3000)])
def test_a_query_string_that_is_none_is_refused(service, path):
    refused(service.ask("GET", path), 400, "bad_request", "query string")


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "x" * 500]
)
def test_a_body_must_be_declared_as_json(service, kind):
    headers = {} if kind is None else {"content-type": kind}
    answer = service.post("/api/predict", content=b"{}", headers=headers)
    refused(answer, 415, "not_json", "Content-Type: application/json")


def test_json_may_be_declared_with_its_letters(service):
    body = json.dumps({"pairs": [{"user": 1, "item": 1}]}).encode()
    answer = service.post("/api/predict", content=body, headers={"content-type": "Application/JSON; charset=utf-8"})
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/nothing", "/api", "/api/", "/api/predict/", "/static/nothing.js", "/static/../app.py", "/static/%2e%2e/app.py", "/docs", "/static/..%2f..%2fapp.py", "//api/model", "/api/model%0a", "/healthz%0A"])  # fmt: skip
def test_what_is_not_there_is_not_found(service, path):
    refused(service.ask("GET", path), 404, "not_found", "/openapi.json")


@pytest.mark.parametrize(("method", "path", "allow"), [("GET", "/api/predict", "POST"), ("DELETE", "/api/model", "GET"), ("PUT", "/api/recommend", "GET"), ("POST", "/healthz", "GET")])  # fmt: skip
def test_another_method_is_refused(service, method, path, allow):
    answer = service.ask(method, path)
    refused(answer, 405, "bad_method", "this address takes")
    assert allow in answer.headers["allow"]


# Limits.


def test_each_limit_is_told_and_kept():
    service = Service(tiny(), Limits(pairs=3, n=4, ratings=2, body_bytes=2000))
    pair, rating = {"user": 1, "item": 1}, {"item": 1, "rating": 3}
    assert service.post("/api/predict", {"pairs": [pair] * 3}).status_code == 200
    refused(service.post("/api/predict", {"pairs": [pair] * 4}), 422, "too_many", "pairs must be at most 3, got 4")
    assert service.post("/api/recommend", {"user": 1, "n": 4}).status_code == 200
    refused(service.post("/api/recommend", {"user": 1, "n": 5}), 422, "too_many", "n must be at most 4, got 5")
    refused(service.get("/api/recommend", user=1, n=10**30), 422, "too_many")
    refused(service.post("/api/recommend", {"user": 1, "n": 1, "exclude": [1] * 4}), 422, "too_many")
    refused(service.post("/api/recommend", {"user": 1, "n": 1, "candidates": [1] * 4}), 422, "too_many")
    refused(
        service.post("/api/fold-in", {"ratings": [rating] * 3, "n": 1}), 422, "too_many", "ratings must be at most 2"
    )
    refused(service.post("/api/fold-in", {"ratings": [rating], "n": 5}), 422, "too_many")
    refused(service.post("/api/fold-in", {"ratings": [rating], "n": 1, "items": [1] * 4}), 422, "too_many")
    refused(service.post("/api/explain", {"user": 1, "item": 1, "n": 5}), 422, "too_many")
    answer = service.post("/api/predict", content=b" " * 2001, headers=JSON)
    refused(answer, 413, "too_long", "at most 2,000 bytes")
    assert service.get("/api/model").json()["limits"] == {"pairs": 3, "n": 4, "ratings": 2, "body_bytes": 2000}


def test_the_description_has_the_limits():
    described = Service(tiny(), Limits(pairs=3, n=4, ratings=2)).get("/openapi.json").json()
    kinds = described["components"]["schemas"]
    parameters = {one["name"]: one["schema"] for one in described["paths"]["/api/recommend"]["get"]["parameters"]}
    assert parameters["n"]["maximum"] == 4
    assert parameters["exclude"]["maxItems"] == 3
    assert kinds["PredictQuestion"]["properties"]["pairs"]["maxItems"] == 3
    assert kinds["RecommendQuestion"]["properties"]["n"]["maximum"] == 4
    assert kinds["FoldInQuestion"]["properties"]["ratings"]["maxItems"] == 2
    assert [c.get("maxItems") for c in kinds["ExplainQuestion"]["properties"]["ratings"]["anyOf"]] == [2, None]


def test_a_limit_must_be_more_than_nothing():
    with pytest.raises(sc.errors.ParameterError, match="the limit pairs must be more than 0 and finite, got 0"):
        Limits(pairs=0)
    with pytest.raises(sc.errors.ParameterError, match="the limit seconds must be more than 0 and finite, got inf"):
        Limits(seconds=float("inf"))


def ask_together(service, *questions, gate=None, until=0):
    """Ask several questions at a time and return the answers; a gate is opened once there are so many."""
    import httpx

    async def all_of_them():
        transport = httpx.ASGITransport(service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            asked = [asyncio.ensure_future(client.request(*words, **given)) for *words, given in questions]
            if gate is not None:
                while sum(map(asyncio.Future.done, asked)) < until:
                    await asyncio.sleep(0.01)
                gate.set()
            return await asyncio.gather(*asked)

    return asyncio.run(all_of_them())


def test_too_much_at_a_time_is_told_to_come_back(monkeypatch):
    gate = threading.Event()
    door = next(door for door in service_doors() if door.path == "/api/users")

    def slow(served, question):
        gate.wait(20)
        return answers.find_users(served, question)

    patch_door(monkeypatch, door, slow)
    service = Service(tiny(), Limits(concurrent=2))
    replies = ask_together(service, *[("GET", "/api/users", {})] * 5, ("GET", "/healthz", {}), gate=gate, until=4)
    assert [reply.status_code for reply in replies] == [200, 200, 503, 503, 503, 200]
    refused(replies[2], 503, "busy", "at most 2 questions")
    assert replies[2].headers["retry-after"] == "1"
    assert service.get("/api/users").status_code == 200  # the places are free again


def test_an_answer_that_takes_too_long_is_given_up(monkeypatch):
    gate = threading.Event()
    door = next(door for door in service_doors() if door.path == "/api/users")
    patch_door(monkeypatch, door, lambda served, question: gate.wait(20) and {"users": [], "total": 0})
    service = Service(tiny(), Limits(seconds=0.2, concurrent=1))
    (reply,) = ask_together(service, ("GET", "/api/users", {}))
    refused(reply, 503, "too_slow", "0.2 seconds")
    assert reply.headers["retry-after"] == "1"
    gate.set()


def test_lists_that_are_asked_for_at_once_are_those_of_one_at_a_time(monkeypatch):
    groups = []

    def together(served, questions):
        groups.append(len(questions))
        return answers.recommend_together(served, questions)

    from starcast.serve import app, doors

    replaced = tuple(door._replace(together=together) if door.together else door for door in doors.DOORS)
    monkeypatch.setattr(app, "DOORS", replaced)
    service = Service(tiny(), Limits(n=20))
    questions = [{"user": 1 + k % 40, "n": 1 + k % 7, "threshold": 0.1 * (k % 3)} for k in range(60)]
    questions += [{"user": 999, "n": 2}, {"user": 1, "n": 21}, {"user": "x"}, {"user": 2, "exclude": [1]}]
    replies = ask_together(service, *[("POST", "/api/recommend", {"json": question}) for question in questions])
    for question, reply in zip(questions[:60], replies, strict=False):
        frame = tiny().recommend(question["user"], question["n"], question["threshold"])
        rows = reply.json()["recommendations"]
        assert reply.json()["user"] == question["user"]
        assert [row["item"] for row in rows] == frame["item"].to_list()
        assert [row["rank"] for row in rows] == frame["rank"].to_list()
        assert [row["mean"] for row in rows] == frame["mean"].to_list()
    assert [reply.status_code for reply in replies[60:]] == [404, 422, 404, 200]
    assert sum(groups) == 62  # all that could be read
    assert max(groups) == 16


def test_a_question_that_breaks_costs_the_others_of_its_group_nothing(monkeypatch, caplog):
    from starcast.serve import app, doors

    def together(served, questions):
        if any(question.user == 7 for question in questions):
            raise RuntimeError("a bug")
        return answers.recommend_together(served, questions)

    replaced = tuple(door._replace(together=together) if door.together else door for door in doors.DOORS)
    monkeypatch.setattr(app, "DOORS", replaced)
    service = Service(tiny())
    questions = [("POST", "/api/recommend", {"json": {"user": user, "n": 3}}) for user in range(1, 31)]
    statuses = [reply.status_code for reply in ask_together(service, *questions)]
    assert statuses == [500 if user == 7 else 200 for user in range(1, 31)]


def test_a_mishap_in_a_group_is_one_for_all_and_the_next_group_goes_on(monkeypatch):
    broken = [True]

    def together(served, questions):
        if broken.pop() if broken else False:
            raise ZeroDivisionError
        return answers.recommend_together(served, questions)

    from starcast.serve import app, doors

    replaced = tuple(door._replace(together=together) if door.together else door for door in doors.DOORS)
    monkeypatch.setattr(app, "DOORS", replaced)
    replies = ask_together(Service(tiny()), *[("GET", "/api/recommend?user=1", {})] * 3)
    assert sorted(reply.status_code for reply in replies) == [200, 200, 500]


def service_doors():
    from starcast.serve.doors import DOORS

    return DOORS


def patch_door(monkeypatch, door, answer):
    """Put another answer behind a door, for services that are made afterwards."""
    from starcast.serve import app, doors

    replaced = tuple(other._replace(answer=answer) if other is door else other for other in doors.DOORS)
    monkeypatch.setattr(app, "DOORS", replaced)


# Before there is a model, and after a mishap.


def test_without_a_model_the_service_lives_but_is_not_ready():
    service = Service()
    assert service.get("/healthz").json() == {"status": "alive"}
    for answer in (service.get("/readyz"), service.get("/api/model"), service.get("/api/items")):
        refused(answer, 503, "not_ready", "not loaded yet")
        assert answer.headers["retry-after"] == "1"
    service.desk.served = serve(tiny())
    assert service.get("/readyz").json() == {"status": "ready"}


def test_a_mishap_tells_nothing_outside_and_no_names_inside(monkeypatch, caplog):
    def fail(served, question):
        raise ZeroDivisionError("user 4711 rated Titanic")

    door = next(door for door in service_doors() if door.path == "/api/model")
    patch_door(monkeypatch, door, fail)
    refused(Service(tiny()).get("/api/model"), 500, "mishap", "please report it")
    assert "ZeroDivisionError at test_serve.py" in caplog.text
    assert "4711" not in caplog.text


def test_requests_are_logged_without_what_they_ask(caplog):
    caplog.set_level("INFO", "starcast.serve")
    service = Service(tiny(), says=True)
    service.get("/api/recommend", user=7)
    service.get("/api/people/anna")
    lines = [record.getMessage() for record in caplog.records if record.name == "starcast.serve"]
    assert [line.rsplit(" ", 2)[0] for line in lines] == ["GET /api/recommend 200", "GET other 404"]


# The guard.


@pytest.mark.parametrize(
    "path", ["/api/model", "/nothing", "/", "/healthz", "/api/recommend?user=999", "/static/style.css"]
)
def test_every_answer_has_the_headers(service, path):
    answer = service.ask("GET", path)
    for name, value in HEADERS:
        assert answer.headers[name.decode()] == value.decode()
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["cache-control"] == ("no-store" if path.startswith(("/api", "/healthz")) else "no-cache")
    assert "server" not in answer.headers


def test_a_token_is_asked_for_where_there_are_data():
    service = Service(tiny(), token="0123456789abcdef")
    for path in ("/api/model", "/metrics", "/api/nothing"):
        answer = service.get(path)
        refused(answer, 401, "no_token", "Authorization: Bearer", "got none")
        assert answer.headers["www-authenticate"] == "Bearer"
    refused(service.get("/metrics%0A"), 404, "not_found")
    wrong = {"authorization": "Bearer 0123456789abcdeF"}
    refused(service.ask("GET", "/api/model", headers=wrong), 401, "no_token", "got another")
    right = {"authorization": "Bearer 0123456789abcdef"}
    assert service.ask("GET", "/api/model", headers=right).status_code == 200
    for path in ("/healthz", "/readyz", "/", "/static/style.css", "/openapi.json"):
        assert service.get(path).status_code == 200


def test_another_sites_name_is_refused():
    service = Service(tiny(), hosts=frozenset({"localhost", "127.0.0.1", "[::1]", "Films.example"}))
    for host in (
        "localhost",
        "localhost:8080",
        "127.0.0.1:1",
        "[::1]",
        "[::1]:8080",
        "films.example",
        "FILMS.example:443",
    ):
        assert service.ask("GET", "/api/model", headers={"host": host}).status_code == 200, host
    for host in ("evil.example", "evil.example:8080", "", "localhost.evil.example", "127.0.0.1.evil.example:80"):
        refused(service.ask("GET", "/api/model", headers={"host": host}), 421, "wrong_host", "--allow-host")


def test_what_happened_is_counted():
    service = Service(tiny())
    service.get("/api/model")
    service.get("/api/model")
    service.get("/api/secret/7")
    text = service.get("/metrics").text
    assert 'starcast_requests_total{path="/api/model",status="200"} 2' in text
    assert 'starcast_requests_total{path="other",status="404"} 1' in text
    assert 'starcast_request_seconds_count{path="/api/model"} 2' in text
    assert 'starcast_request_seconds_bucket{path="/api/model",le="+Inf"} 2' in text
    assert "starcast_requests_in_flight 1" in text
    assert "secret" not in text
    values = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(float(line.rpartition(" ")[2]) >= 0 for line in values)


def test_the_page_is_there_and_asks_nobody_else(service):
    answer = service.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    assert 'src="http' not in answer.text
    described = service.get("/openapi.json").json()
    assert set(described["paths"]) == {
        "/api/predict", "/api/recommend", "/api/fold-in", "/api/explain", "/api/items", "/api/users", "/api/ratings",
        "/api/model", "/healthz", "/readyz", "/metrics",
    }  # fmt: skip
    assert set(described["paths"]["/api/recommend"]) == {"get", "post"}
    assert "examples" in json.dumps(described)


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/static/style.css"])
def test_a_head_may_be_asked_for(service, path):
    answer = service.ask("HEAD", path)
    assert answer.status_code == 200


def test_a_stranger_who_is_gone_is_no_mishap(service):
    async def gone():
        async def receive():
            return {"type": "http.disconnect"}

        async def send(message):
            raise AssertionError("nobody is there")

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/predict",
            "headers": [(b"content-type", b"application/json")],
        }
        await service.app(scope, receive, send)

    asyncio.run(gone())
    assert 'path="/api/predict",status="499"} 1' in service.get("/metrics").text
