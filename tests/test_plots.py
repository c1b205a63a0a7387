"""Figures."""

import sys

import numpy as np
import pytest

from starcast import plots
from starcast.errors import MissingExtraError
from starcast.metrics import ReliabilityCurve
from starcast.results import Results

RESULTS = Results(
    [
        {"model": model, "threshold": t, "coverage": 1 - t, "1-MAE": 0.8 + t / 10}
        for model in ("A", "B")
        for t in (0.0, 0.5, 1.0)
    ]
)


def test_a_line_per_model_without_the_silent_points():
    ax = plots.plot_error_coverage(RESULTS)
    assert [line.get_label() for line in ax.get_lines()] == ["A", "B"]
    assert ax.get_lines()[0].get_xdata().tolist() == [1.0, 0.5]


def test_only_the_highlighted_model_has_a_colour():
    lines = plots.plot_error_coverage(RESULTS, highlight="B").get_lines()
    assert [line.get_color() for line in lines] == [plots.GREY, plots.ACCENT]
    assert [line.get_label() for line in lines] == ["1 other models", "B"]


def test_thin_bins_are_left_out():
    curve = ReliabilityCurve(np.array([0.2, 0.6]), np.array([0.1, 0.7]), np.array([3, 500]))
    ax = plots.plot_reliability({"A": curve})
    assert ax.get_lines()[1].get_xdata().tolist() == [0.6]


def test_recklessness_is_drawn_against_what_is_said_and_what_happens():
    rows = [{"recklessness": r, "reliability": 0.4 + r / 10, "accuracy": 0.4} for r in (-1, 0, 2)]
    ax = plots.plot_recklessness(Results(rows))
    said, happens = ax.lines[:2]
    assert list(said.get_xdata()) == list(happens.get_xdata()) == [-1, 0, 2]
    assert list(said.get_ydata()) == pytest.approx([0.3, 0.4, 0.6])
    assert list(happens.get_ydata()) == [0.4, 0.4, 0.4]


def test_the_same_numbers_give_the_same_bytes():
    first, second = (plots.to_svg(plots.plot_error_coverage(RESULTS)) for _ in range(2))
    assert first == second
    assert first.startswith("<svg")


def test_a_missing_matplotlib_is_named_with_its_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"drawing needs matplotlib.*pip install 'starcast\[plot\]'"):
        plots.new_axes()
