"""Each metric against a loop of a few lines, and the paper's measures against a slow reading of its words."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import starcast as sc
from starcast import metrics
from starcast.errors import DataError, ParameterError, UnknownNameError

EXACT = settings(derandomize=True, max_examples=60, deadline=None)
SCORES = np.array([1.0, 2.0, 4.0, 5.0])


@st.composite
def forecasts(draw):
    """A truth and a distribution in 16ths, so that ties of probability and mean are common."""
    n = draw(st.integers(1, 12))
    cuts = [sorted(draw(st.lists(st.integers(0, 16), min_size=3, max_size=3))) for _ in range(n)]
    probs = np.array([np.diff([0, *cut, 16]) / 16 for cut in cuts]).reshape(-1, 4)
    truth = np.array(draw(st.lists(st.sampled_from(SCORES.tolist()), min_size=n, max_size=n)))
    return truth, sc.Distribution(probs.astype(draw(st.sampled_from([np.float64, np.float32]))), SCORES)


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else math.nan


def place(rating):
    return SCORES.tolist().index(rating)


@EXACT
@given(forecasts())
def test_scores_of_probabilities_are_their_loops(forecast):
    truth, d = forecast
    pairs = [(place(rating), row) for rating, row in zip(truth, d.probs.astype(float), strict=True)]
    assert metrics.nll(truth, d) == pytest.approx(mean(-math.log(p[r]) if p[r] else math.inf for r, p in pairs))
    assert metrics.brier(truth, d) == pytest.approx(
        mean(sum((p[k] - (k == r)) ** 2 for k in range(4)) for r, p in pairs)
    )
    assert metrics.rps(truth, d) == pytest.approx(mean(sum((sum(p[: k + 1]) - (r <= k)) ** 2 for k in range(3)) / 3 for r, p in pairs))  # fmt: skip


@EXACT
@given(forecasts(), st.data())
def test_point_metrics_are_their_loops_and_skip_what_is_withheld(forecast, data):
    truth, d = forecast
    held = np.array(data.draw(st.lists(st.booleans(), min_size=len(truth), max_size=len(truth))))
    prediction = np.where(held, np.nan, d.mode())
    errors = [p - t for p, t in zip(prediction, truth, strict=True) if p == p]
    assert metrics.mae(truth, prediction) == pytest.approx(mean(map(abs, errors)), nan_ok=True)
    assert metrics.rmse(truth, prediction) == pytest.approx(math.sqrt(mean(e * e for e in errors)) if errors else math.nan, nan_ok=True)  # fmt: skip
    assert metrics.accuracy(truth, prediction) == pytest.approx(mean(e == 0 for e in errors), nan_ok=True)


@EXACT
@given(forecasts(), st.integers(1, 20))
def test_the_calibration_error_is_its_loop(forecast, n_bins):
    truth, d = forecast
    bins = {}
    for rating, p in zip(truth, d.probs.astype(float), strict=True):
        bins.setdefault(min(int(max(p) * n_bins), n_bins - 1), []).append((max(p), SCORES[int(np.argmax(p))] == rating))
    gaps = [len(b) * abs(mean(r for r, _ in b) - mean(hit for _, hit in b)) for b in bins.values()]
    assert metrics.ece(truth, d, n_bins) == pytest.approx(sum(gaps) / len(truth), abs=1e-12)
    curve = metrics.reliability_curve(truth, d, n_bins)
    for k in range(n_bins):
        assert curve.count[k] == len(bins.get(k, []))
        assert curve.reliability[k] == pytest.approx(mean(r for r, _ in bins.get(k, [])), nan_ok=True)
        assert curve.accuracy[k] == pytest.approx(mean(hit for _, hit in bins.get(k, [])), nan_ok=True)


@EXACT
@given(forecasts(), st.sampled_from(["wrong", "absolute"]))
def test_the_area_under_risk_and_coverage_is_its_loop(forecast, risk):
    truth, d = forecast
    reliability = d.probs.max(axis=1)
    loss = [
        float(m != t) if risk == "wrong" else abs(c - t) for m, c, t in zip(d.mode(), d.median(), truth, strict=True)
    ]
    shared = [mean(loss[b] for b in range(len(loss)) if reliability[b] == reliability[a]) for a in range(len(loss))]
    order = sorted(range(len(loss)), key=lambda a: -reliability[a])
    risks = [mean(shared[a] for a in order[: k + 1]) for k in range(len(order))]
    curve = metrics.risk_coverage(truth, d, risk)
    assert curve.risk.tolist() == pytest.approx(risks)
    assert curve.coverage.tolist() == pytest.approx([(k + 1) / len(order) for k in range(len(order))])
    assert metrics.aurc(truth, d, risk) == pytest.approx(mean(risks))
    for threshold in {float(r) for r in reliability}:  # the curve passes through every threshold
        kept = [loss[a] for a in range(len(loss)) if reliability[a] >= threshold]
        assert curve.risk[len(kept) - 1] == pytest.approx(mean(kept))
        assert metrics.coverage(d, threshold) == len(kept) / len(loss)


def test_the_defaults_are_fifteen_bins_and_the_share_of_wrong_modes():
    rng = np.random.default_rng(0)
    d = sc.Distribution(rng.dirichlet(np.ones(3), 400), [1, 2, 3])
    truth = rng.integers(1, 4, 400)
    assert metrics.ece(truth, d) == metrics.ece(truth, d, 15) != metrics.ece(truth, d, 16)
    assert len(metrics.reliability_curve(truth, d).count) == 15
    np.testing.assert_array_equal(metrics.risk_coverage(truth, d).risk, metrics.risk_coverage(truth, d, "wrong").risk)


def test_impossible_ratings_cost_infinity():
    assert metrics.nll([1], sc.Distribution([[0, 1]], [1, 2])) == math.inf


def test_without_ratings_everything_is_undefined():
    d = sc.Distribution(np.empty((0, 2)), [1, 2])
    for metric in (metrics.nll, metrics.brier, metrics.rps, metrics.ece, metrics.aurc):
        assert math.isnan(metric([], d))
    for metric in (metrics.mae, metrics.rmse, metrics.accuracy):
        assert math.isnan(metric([], []))
        assert math.isnan(metric([1], [math.nan]))
    assert math.isnan(metrics.coverage(d, 0.5))


@pytest.mark.parametrize("metric", [metrics.nll, metrics.brier, metrics.rps, metrics.ece, metrics.aurc, metrics.reliability_curve])  # fmt: skip
@pytest.mark.parametrize("truth", [[1], [1, 2, 1], 1, [[1, 2]]], ids=str)
def test_a_truth_of_the_wrong_length_is_never_stretched(metric, truth):
    with pytest.raises(DataError, match=r"truth must have a rating per pair, got \(.*\) for 2 pairs\."):
        metric(truth, sc.Distribution([[0.5, 0.5], [0.1, 0.9]], [1, 2]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda d: metrics.nll([1, 3], d), DataError, r"truth must be on the scale \[1\.0, 2\.0\], got 3 \(1 such of 2\)\."),
        (lambda d: metrics.brier([math.nan, 1], d), DataError, r"truth must be on the scale \[1\.0, 2\.0\], got nan"),
        (lambda d: metrics.mae([1], [1, 2]), DataError, r"truth and prediction must have one shape, got \(1,\) and \(2,\)\."),
        (lambda d: metrics.ece([1, 2], d, 0), ParameterError, r"n_bins must be a whole number of at least 1, got 0\."),
        (lambda d: metrics.ece([1, 2], d, 1.5), ParameterError, r"n_bins must be a whole number of at least 1, got 1\.5\."),
        (lambda d: metrics.aurc([1, 2], d, "absolut"), UnknownNameError, r"unknown risk 'absolut'\. Did you mean 'absolute'\?"),
        (lambda d: metrics.coverage(d, 2), ParameterError, r"threshold must be a number from 0 to 1, got 2\."),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_said(call, error, message):
    with pytest.raises(error, match=message):
        call(sc.Distribution([[0.5, 0.5], [0.1, 0.9]], [1, 2]))


# The paper's measures.


def slow_measures(test, d, theta, *, relevant, n, empty, point=None):
    """User by user, in the words of the paper's program."""
    prediction = d.mode() if point is None else point
    reliability, means, values = d.reliability(), d.mean(), test.values
    own = {}
    for row, user in enumerate(test.user):
        own.setdefault(user, []).append(row)
    found = {"coverage": [], "1-MAE": [], "accuracy": [], "mAP": []}
    span = test.scores[-1] - test.scores[0]
    for rows in own.values():
        kept = [row for row in rows if reliability[row] >= theta and not math.isnan(prediction[row])]
        found["coverage"].append(len(kept) / len(rows))
        if not kept:
            continue
        found["1-MAE"].append(mean(abs(prediction[row] - values[row]) for row in kept) / span)
        found["accuracy"].append(mean(prediction[row] == values[row] for row in kept))
        ranked = sorted(kept, key=lambda row: (-prediction[row], -means[row], test.item[row]))[:n]
        hits, precisions = 0, []
        for rank, row in enumerate(ranked, 1):
            if values[row] >= relevant:
                hits += 1
                precisions.append(hits / rank)
        if hits:
            found["mAP"].append(sum(precisions) / hits)
    nothing = 0.0 if empty == "zero" else math.nan
    answer = {name: mean(values) if values else nothing for name, values in found.items()}
    return answer | {"1-MAE": 1 - answer["1-MAE"]}


@st.composite
def cases(draw):
    pairs = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=40, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    cuts = np.sort(rng.integers(0, 9, (len(pairs), 3)), axis=1)
    d = sc.Distribution(np.diff(np.pad(cuts, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 8))), axis=1) / 8, SCORES)
    truth = rng.choice(SCORES, len(pairs))
    users, items = zip(*pairs, strict=True)
    return sc.Ratings.from_arrays(users, items, truth, scores=SCORES), d


@settings(derandomize=True, max_examples=60, deadline=None)
@given(cases(), st.sampled_from([1, 2, 3, 10]), st.sampled_from(["zero", "undefined"]), st.booleans())
def test_the_papers_measures_are_the_slow_loop(case, n, empty, regressor):
    test, d = case
    point = np.where(np.arange(len(test)) % 5 == 3, np.nan, d.median() + 0.25) if regressor else None
    thetas = [0.0, 0.25, 0.375, 0.5, 0.9, 1.0]
    found = metrics.paper_measures(test, d, thetas, relevant=4, n=n, empty=empty, point=point)
    assert list(found) == list(metrics.PAPER_MEASURES)
    for k, theta in enumerate(thetas):
        expected = slow_measures(test, d, theta, relevant=4, n=n, empty=empty, point=point)
        assert {name: float(values[k]) for name, values in found.items()} == pytest.approx(expected, nan_ok=True, abs=1e-12)  # fmt: skip


def test_where_nobody_is_left_the_two_rules_part():
    test = sc.Ratings.from_arrays([1, 2], [1, 1], [5, 1])
    d = sc.Distribution([[0.5, 0.5], [0.5, 0.5]], [1, 5])
    zero, undefined = (metrics.paper_measures(test, d, [1.0], empty=rule) for rule in ("zero", "undefined"))
    assert {name: values.tolist() for name, values in zero.items()} == {"coverage": [0], "1-MAE": [1], "accuracy": [0], "mAP": [0]}  # fmt: skip
    assert undefined["coverage"].tolist() == [0]
    assert all(np.isnan(undefined[name]).all() for name in ("1-MAE", "accuracy", "mAP"))


def test_users_without_a_relevant_item_do_not_count_in_map():
    test = sc.Ratings.from_arrays([1, 2], [1, 1], [5, 1])
    d = sc.Distribution([[0.1, 0.9], [0.1, 0.9]], [1, 5])
    assert metrics.paper_measures(test, d, [0.0])["mAP"].tolist() == [1]


def test_users_without_a_relevant_item_count_as_zero_if_asked():
    test = sc.Ratings.from_arrays(["ann", "bob"], ["x", "x"], [5, 1], scores=[1, 2, 3, 4, 5])
    d = sc.Distribution([[0, 0, 0, 0.4, 0.6], [0, 0, 0, 0.4, 0.6]], [1, 2, 3, 4, 5])
    assert metrics.paper_measures(test, d, [0.0])["mAP"].tolist() == [1.0]
    assert metrics.paper_measures(test, d, [0.0], hitless="zero")["mAP"].tolist() == [0.5]
    silent = sc.Distribution([[0, 0, 0, 0.4, 0.6], [0, 0, 0.2, 0.3, 0.5]], [1, 2, 3, 4, 5])  # bob has no list at 0.6
    assert metrics.paper_measures(test, silent, [0.6], hitless="zero")["mAP"].tolist() == [1.0]
    assert metrics.relevant_from(np.arange(1.0, 12.0)) == 8.0  # a score on the bound itself is relevant
    with pytest.raises(UnknownNameError, match=r"^unknown hitless 'zeros'\. Did you mean 'zero'"):
        metrics.paper_measures(test, d, hitless="zeros")


def test_lists_have_ten_items_unless_told():
    items = list(range(12))  # ranked in this order, the last two relevant ones alone
    test = sc.Ratings.from_arrays(["ann"] * 12, items, [1] * 10 + [2, 2], scores=[1, 2])
    d = sc.Distribution([[0.1, 0.9]] * 12, [1, 2])
    by_n = [metrics.paper_measures(test, d, [0.0], n=n)["mAP"][0] for n in (10, 11)]
    assert math.isnan(by_n[0])
    assert by_n[1] == pytest.approx(1 / 11)
    np.testing.assert_equal(metrics.paper_measures(test, d, [0.0])["mAP"][0], by_n[0])
    np.testing.assert_equal(metrics.paper_measures_by_user(test, d, [0.0])[0]["mAP"][0], by_n[0])
    assert metrics.paper_measures_by_user(test, d, [0.0], n=11)[0]["mAP"][0] == pytest.approx(1 / 11)


def test_measures_by_user_average_to_the_papers():
    rng = np.random.default_rng(0)
    cell = rng.permutation(200)[:120]
    test = sc.Ratings.from_arrays(cell // 20, cell % 20, cell % 5 + 1, scores=range(1, 6))
    d = sc.Distribution(rng.dirichlet(np.ones(5), 120), range(1, 6))
    for relevant in (None, 2):
        [found] = metrics.paper_measures_by_user(test, d, [0.4], relevant=relevant)
        whole = metrics.paper_measures(test, d, [0.4], relevant=relevant)
        assert set(found) == set(metrics.PAPER_MEASURES)
        for name, values in found.items():
            assert len(values) == len(test.users)
            assert np.nanmean(values) == pytest.approx(whole[name][0])


def test_the_published_thresholds_leave_out_a_tenth():
    assert metrics.PAPER_THRESHOLDS[:4] == (0.0, 0.05, 0.15, 0.2)
    assert metrics.PAPER_THRESHOLDS[-1] == 0.95
    assert len(metrics.PAPER_THRESHOLDS) == 19


@pytest.mark.parametrize(
    ("scores", "least"),
    [
        ([1, 2, 3, 4, 5], 4),
        (np.arange(0.5, 4.5, 0.5), 3),
        (range(1, 11), 8),
        ([0, 1], 1),
        (np.arange(0.5, 5.5, 0.5), 4),
    ],
)
def test_relevant_are_the_upper_scores(scores, least):
    assert metrics.relevant_from(np.asarray(scores, float)) == least


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"empty": "null"}, UnknownNameError, r"unknown empty 'null'\. Known: undefined, zero"),
        ({"thresholds": [0.5, 1.5]}, ParameterError, r"threshold must be a number from 0 to 1, got 1\.5\."),
        ({"thresholds": [float("nan")]}, ParameterError, r"threshold must be a number from 0 to 1, got nan\."),
        ({"point": [1.0]}, DataError, r"point must have a prediction per rating, got \(1,\) for 2\."),
        ({"n": 0}, ParameterError, r"n must be a whole number of at least 1, got 0\."),
    ],
)
def test_paper_measures_say_what_they_cannot(options, error, message):
    test = sc.Ratings.from_arrays([1, 2], [1, 1], [5, 1])
    with pytest.raises(error, match=message):
        metrics.paper_measures(test, sc.Distribution([[0.5, 0.5]] * 2, [1, 5]), **options)


def test_paper_measures_need_a_row_per_rating():
    test = sc.Ratings.from_arrays([1, 2], [1, 1], [5, 1])
    with pytest.raises(DataError, match=r"distribution must have a row per rating, got 3 for 2\."):
        metrics.paper_measures(test, sc.Distribution([[0.5, 0.5]] * 3, [1, 5]))


def test_no_thresholds_give_no_values():
    test = sc.Ratings.from_arrays([1, 2], [1, 1], [5, 1])
    found = metrics.paper_measures(test, sc.Distribution([[0.5, 0.5]] * 2, [1, 5]), [])
    assert all(len(values) == 0 for values in found.values())


def test_an_error_is_a_share_of_the_model_s_scale_even_if_the_test_lacks_its_ends():
    answer = sc.Distribution([[0, 0, 0, 1, 0], [0, 0, 1, 0, 0]], [1, 2, 3, 4, 5])
    narrow = sc.Ratings.from_arrays([1, 1], [1, 2], [3, 4])
    whole = sc.Ratings.from_arrays([1, 1], [1, 2], [3, 4], scores=[1, 2, 3, 4, 5])
    for name, values in metrics.paper_measures(narrow, answer, [0.0]).items():
        assert values == metrics.paper_measures(whole, answer, [0.0])[name]
    assert metrics.paper_measures(narrow, answer, [0.0])["1-MAE"] == 0.75
