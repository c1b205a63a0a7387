"""The HTML forms that notebooks show: complete, escaped, and well-formed whatever the names and numbers are."""

import html
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import starcast as sc

EVIL = [
    '<script>alert("1")</script> & more',
    "<img src=x onerror=alert(1)>",
    "\x1b[31mred\x00\nnext\u2028line",
    "x" * 5000,
    "שלום עולם \u202eabc",
    "\ud800 lone surrogate",
    "",
]
VOID = {"img", "br", "meta", "input", "rect"}


class Checker(HTMLParser):
    """Collects tags and attributes, and notices elements that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check(thing):
    """Return the HTML form of a thing, which must be well-formed, printable, without scripts and links."""
    text = thing._repr_html_()
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    assert not {"script", "style", "link", "img", "iframe", "a"} & set(checker.tags)
    assert not [name for name, _ in checker.attributes if name.startswith("on") or name in ("href", "src")]
    assert not re.search(r"url\(|https?:", text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", text)
    assert "nan" not in words(thing).lower().split()
    text.encode()
    return text


def words(thing):
    """Return the text of an HTML form."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", thing._repr_html_())))


@pytest.fixture(scope="module")
def ratings():
    made, _ = sc.make_ratings(40, 30, density=0.4, random_state=0)
    titles = {int(item): f"Film {item} (1999)" for item in made.items}
    return sc.Ratings.from_arrays(
        made.users[made.user], made.items[made.item], made.values, scores=made.scores, titles=titles,
        timestamps=np.arange(len(made)) * 86_400,
    )  # fmt: skip


@pytest.fixture(scope="module")
def model(ratings):
    return sc.BiasedMF(n_factors=2, n_iters=2, random_state=0).fit(ratings)


def test_ratings_tell_counts_scale_density_span_histogram_and_first_rows(ratings):
    check(ratings)
    told = words(ratings)
    n = len(ratings)
    assert f"{n} ratings · 40 users · 30 items · 5 scores from 1 to 5 · {100 * n / 1200:.0f}% of all pairs" in told
    assert f"1970-01-01 to {np.datetime64(n - 1, 'D')}" in told
    assert f"Film {ratings.items[ratings.item[0]]} (1999)" in told
    assert f"… and {n - 5} more" in told
    shares = dict(re.findall(r"([\d.]+): (\d+)%", ratings._repr_html_()))
    assert {float(score): int(share) for score, share in shares.items()} == {
        score: round(100 * count / n) for score, count in zip(ratings.scores, ratings.counts(), strict=True)
    }


def test_a_distribution_shows_a_chart_the_mode_the_mean_and_the_reliability_of_the_first_pairs():
    answer = sc.Distribution([[0.1, 0.2, 0.7], [0.4, 0.4, 0.2]], [1, 2, 3])
    text = check(answer)
    assert 'aria-label="1: 10%, 2: 20%, 3: 70%"' in text
    assert "Distribution 2 pairs · 3 scores from 1 to 3" in words(answer)
    assert re.search(r"0\s+3 ★\s+2\.60\s+70%\s+1\s+1 ★\s+1\.80\s+40%", words(answer))


def test_long_distributions_show_ten_pairs():
    answer = sc.Distribution(np.full((5000, 2), 0.5), [0, 1])
    assert check(answer).count('role="img"') == 10
    assert "… and 4,990 more" in words(answer)


def test_101_scores_fit():
    rng = np.random.default_rng(0)
    answer = sc.Distribution(rng.dirichlet(np.ones(101), 3), np.arange(101))
    table = sc.Ratings.from_arrays(range(101), [1] * 101, range(101))
    for thing in (answer, table):
        text = check(thing)
        assert max(map(float, re.findall(r'<svg[^>]* width="([\d.]+)"', text))) <= 500
    assert "101 scores from 0 to 100" in words(table)


def test_undefined_probabilities_are_dashes():
    answer = sc.Distribution.trusted(np.array([[np.nan, np.nan], [0.3, 0.7]]), np.array([1.0, 2.0]))
    check(answer)
    assert "70%" in words(answer)


def test_results_mark_the_best_value_of_each_measure():
    table = sc.Results([
        {"model": "item", "n_factors": 4, "nll": 1.36, "coverage@0.5": 0.4, "mAP": 0.5},
        {"model": "bayes", "n_factors": 8, "nll": 1.27, "coverage@0.5": 0.9, "mAP": 0.5},
        {"model": "lost", "nll": float("nan")},
    ])  # fmt: skip
    text = check(table)
    assert re.findall(r"<td[^>]*><b>([^<]*)</b>", text) == ["1.27", "0.9"]
    assert "bold: the best of its column" in words(table)
    assert "Results 3 rows" in words(table)
    assert text.count('scope="col"') == 5


def test_a_front_tells_its_objectives_and_marks_the_ends():
    front = sc.Front(sc.Results([{"nll": 1.2, "coverage@0.5": 0.4}, {"nll": 1.4, "coverage@0.5": 0.9}]), ["nll", "coverage@0.5"])  # fmt: skip
    assert re.findall(r"<td[^>]*><b>([^<]*)</b>", check(front)) == ["1.2", "0.9"]
    assert "Front 2 rows · nll min · coverage@0.5 max" in words(front)


def test_a_model_tells_its_parameters_and_what_it_was_fitted_to(model, ratings):
    new = model.clone()
    check(new)
    assert "not fitted" in words(new)
    assert "n_factors=2, n_iters=2, random_state=0" in words(new)
    text = check(model)
    assert f"fitted · {len(ratings)} ratings · 40 users · 30 items · 5 scores from 1 to 5 · not calibrated" in words(
        model
    )
    assert "<b>n_factors</b>" in text
    assert "<b>learning_rate</b>" not in text
    assert "learning_rate" in text


@pytest.mark.parametrize("name", sorted(sc.MODELS))
def test_every_model_has_a_form(name):
    check(sc.MODELS[name]())


def test_a_list_shows_ranks_titles_stars_and_reliabilities(model):
    user = model.users_[0]
    frame = model.recommend(user, n=3)
    shown = sc.show(frame)
    text, told = check(shown), words(shown)
    assert f"Recommendations user {user} · 3 rows" in told
    for row in frame.to_dicts():
        assert re.search(rf"{row['rank']}\s+{re.escape(row['title'])}\s+{row['item']}\s+{row['prediction']:g} ★", told)
        assert f"{round(100 * row['reliability'])}%" in told
    assert text.count("<svg") == 3
    assert repr(shown) == repr(frame)


def test_known_is_shown_only_where_something_is_unknown():
    frame = pl.DataFrame({"item": [1, 2], "reliability": [0.5, 0.5], "known": [True, True]})
    assert "known" not in words(sc.show(frame))
    assert "yes" in words(sc.show(frame.with_columns(known=pl.Series([True, False]))))


def test_an_explanation_shows_signed_shifts():
    frame = pl.DataFrame({
        "item": [1, 2, 3], "rating": [5.0, 1.0, 3.0], "shift": [0.25, -0.5, 0.0], "moved": [0.1, 0.2, 0.0],
        "direction": ["up", "down", "level"], "title": ["A", "B", "C"],
    })  # fmt: skip
    told = words(sc.show(frame))
    check(sc.show(frame))
    assert re.search(r"A\s+1\s+5 ★\s+\+0\.250\s+0\.100", told)
    assert "−0.500" in told
    assert "±0.000" in told
    assert "down" not in told


def test_real_lists_and_explanations_are_shown(ratings):
    model = sc.OrdinalMF(update="gradient", n_draws=0, n_iters=2, random_state=0).fit(ratings)
    user, item = model.users_[0], model.items_[0]
    assert "Explanation 3 rows" in words(sc.show(model.explain(user, item, n=3)))
    check(sc.show(model.explain(user, item, n=3)))
    check(sc.show(model.recommend(list(model.users_[:3]), n=2)))
    withheld = sc.show(model.predict(user, list(model.items_[:3]), threshold=1.0))
    check(withheld)
    assert words(withheld).count("withheld") == 3


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_of_all_kinds_are_shown_alike(kind):
    columns = {
        "user": ["u", "u"],
        "rank": [1, 2],
        "item": ["a", "b"],
        "prediction": [4.5, None],
        "reliability": [0.5, 0.25],
    }
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind]
    check(sc.show(make(columns)))
    assert words(sc.show(make(columns))) == words(sc.show(pl.DataFrame(columns)))


def test_names_are_text_whatever_they_hold():
    frame = pl.DataFrame({"rank": range(1, 7), "item": range(6), "title": [t for t in EVIL if "\ud800" not in t], "reliability": [0.5] * 6})  # fmt: skip
    text = check(sc.show(frame))
    assert "&lt;script&gt;" in text
    assert len(text) < 20_000
    assert text.count("<bdi ") >= 6
    table = sc.Ratings.from_arrays(
        [f"<b>{k}" for k in range(len(EVIL))], range(len(EVIL)), [1, 2] * 3 + [1], titles=dict(enumerate(EVIL))
    )
    check(table)
    check(sc.Results([{"<i>": title, "x\x00": k} for k, title in enumerate(EVIL)]))
    check(sc.BiasedMF(random_state="<b>"))


def test_empty_tables_have_a_form(ratings):
    things = [
        ratings.take([]), sc.Results(), sc.Distribution(np.zeros((0, 3)), [1, 2, 3]),
        sc.show(pl.DataFrame({"rank": [], "item": [], "reliability": []})), sc.show(pl.DataFrame()),
    ]  # fmt: skip
    for thing in things:
        check(thing)
        assert re.search(r"\b0 (ratings|rows|pairs)", words(thing))


def test_undefined_values_in_frames_are_dashes():
    frame = pl.DataFrame({"item": ["a", None], "mean": [float("nan"), None], "reliability": [None, float("nan")], "shift": [float("nan"), 0.1]})  # fmt: skip
    check(sc.show(frame))
    assert "None" not in words(sc.show(frame))


def test_long_frames_are_cut_at_n():
    shown = sc.show(pl.DataFrame({"rank": range(100)}), n=7)
    assert check(shown).count("<tr") == 8
    assert "… and 93 more" in words(shown)


@pytest.mark.parametrize(("given", "told"), [
    (([1, 2],), "show needs a data frame, as recommend, predict and explain return it, got list"),
    ((pl.DataFrame(), 0), "n must be a whole number of at least 1, got 0"),
    ((pl.DataFrame(), True), "n must be a whole number of at least 1, got True"),
])  # fmt: skip
def test_what_cannot_be_shown_is_told(given, told):
    with pytest.raises(sc.StarcastError, match=told):
        sc.show(*given)


def test_text_forms_stay_as_they_are(ratings, model):
    assert repr(ratings).startswith("Ratings(")
    assert repr(model) == "BiasedMF(n_factors=2, n_iters=2, random_state=0)"
    assert repr(sc.Results([{"a": 1}])) == "Results(1 rows: a)"
