"""The performance page and the README's table say what the benchmarks' files say, and the counting behind them is right."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "docs")]

import bars  # noqa: E402
import make_performance  # noqa: E402
import measure  # noqa: E402
import peer_worker  # noqa: E402
from rounds import Rounds, cost, like_movielens  # noqa: E402

RESULTS = bars.read_results(ROOT / "benchmarks" / "results")


@pytest.mark.parametrize("page", make_performance.PAGES, ids=lambda page: page.name)
def test_a_page_is_what_the_program_makes_of_the_files(page):
    text = page.read_text(encoding="utf-8")
    assert make_performance.BLOCK.search(text)
    assert make_performance.fill(text, RESULTS) == text, "run: make docs"


def test_every_block_has_a_place_and_every_place_a_block():
    text = "".join(page.read_text(encoding="utf-8") for page in make_performance.PAGES)
    assert set(re.findall(r"<!-- figures: ([a-z-]+) -->", text)) == set(make_performance.BLOCKS)


def test_a_page_changes_when_a_figure_does():
    changed = json.loads(json.dumps(RESULTS))
    changed["rounds"]["rounds"]["resbemf"]["times_an_epoch"]["median"] += 1
    for page in make_performance.PAGES:
        text = page.read_text(encoding="utf-8")
        assert make_performance.fill(text, changed) != text


def test_every_file_of_results_says_how_it_came_about():
    assert all({"command", "commit", "python", "cores"} <= set(figures) for figures in RESULTS.values())


def test_a_missing_file_is_told():
    assert "gpu.json` is missing" in make_performance._block("gpu", {})


def test_the_gpus_figures_are_shown_and_compared():
    rows = [{"model": "resbemf", "n_factors": 20, "ms": 3.0, "bytes": 1.5e10, "tb_per_s": 5.0}]
    gpu = {"gpu": "H200", "commit": "abc", "rounds": rows, "fit_seconds": 1.3, "search_seconds": 100.0}
    assert "| ResBeMF | 20 | 3.00 ms |  | 15.0 GB | 5.00 TB/s |" in make_performance._block("gpu", {"gpu": gpu})
    met = {bar.what: bar.met for bar in bars.all_bars({"gpu": gpu})}
    assert [met[what] for what in met if "H200" in what] == [None, True, None, None, False, True]


def test_a_bar_is_held_against_the_median():
    ratio = {"median": 16.0, "min": 14.0, "max": 17.0}
    results = {
        "rounds": {
            "rounds": {"resbemf": {"times_an_epoch": ratio}},
            "passes": {"models": {"resbemf": {"apart": ratio}}},
        }
    }
    found = bars.all_bars(results)
    assert found[0] == bars.Bar(found[0].what, "at least 15×", "16× (14 to 17)", True)
    assert found[1].met is None
    assert found[3].met is False


def test_lists_are_held_against_the_faster_of_two_libraries():
    def row(library, who, times, job="recommend"):
        spread = dict.fromkeys(("median", "min", "max"), times)
        return {"job": job, "library": library, "who": who, "times_first": spread, "seconds": spread}

    rows = [
        row("starcast", "BiasedMF", 1.0),
        row("starcast", "ResBeMF", 0.5),
        row("surprise", "SVD", 40.0),
        row("lenskit", "MF", 9.0),
    ]
    bar = next(bar for bar in bars.all_bars({"jobs": {"parts": {"recommend": rows}}}) if "every user" in bar.what)
    assert (bar.figure, bar.met) == ("18×", False)


def test_ratios_are_taken_turn_by_turn():
    turns = iter([1.0, 2.0, 3.0, 8.0])
    took = measure.take_turns({"a": lambda: next(turns), "b": lambda: next(turns)}, 2)
    assert took == {"a": [1.0, 3.0], "b": [2.0, 8.0]}
    assert measure.ratio(took["b"], took["a"]) == {"median": 2.333, "min": 2.0, "max": 2.667}


def test_a_peak_is_seen_after_the_memory_is_given_back():
    with measure.Peak() as peak:
        np.ones(8_000_000)
    assert 30 < peak.megabytes < 130  # 64; a kernel with many cores counts roughly, and other threads give back theirs


def test_the_operations_of_a_visit_by_hand():
    # Two factors, three scores: 12 products and sums for the logits, as many for the gradient.
    assert cost("plain", 2, 3) == (24 + 3 * 19 + 5, 6, 0)
    assert cost("pmf", 2, 3) == (14, 2, 0)
    assert cost("exact", 16, 5).operations > 2 * cost("exact", 8, 5).operations - cost("exact", 0, 5).operations


def test_a_round_of_one_side_moves_that_side_alone():
    table = Rounds(like_movielens(3000, 40, 30, 5), 4)
    table.run("plain", 1)
    before = [rows.copy() for rows in table.planes("plain")]
    table.run("plain", 1, 1, table.one_sided(0))
    users, items = table.planes("plain")
    np.testing.assert_allclose(items, before[1] * (1 - 1e-4 * 0.05), rtol=1e-6)  # nothing but the regularization
    assert np.abs(users - before[0]).max() > 1e-4


def test_answers_of_peers_are_judged_as_ours_are():
    peer = peer_worker.Peer()
    peer.train = [np.array([0, 0]), np.array([0, 1]), np.array([1.0, 2.0])]
    peer.test = [np.array([0, 0]), np.array([0, 1]), np.array([2.0, 1.0])]
    assert peer.judged(np.array([1.0, 1.0])) == {"rmse": pytest.approx(0.5**0.5)}
    told = peer.judged(np.array([[0.5, 0.5], [0.25, 0.75]]))
    assert told == {"nll": pytest.approx(np.log(8) / 2), "rmse": pytest.approx(((0.5**2 + 0.75**2) / 2) ** 0.5)}
