"""Little bars and tables."""

import io

import pytest
from rich.console import Console

from starcast.distribution import Distribution
from starcast.results import Results
from starcast.terminal import bars, forecast_table, overall_table, recommendation_table, threshold_table


def text(table, width=100):
    page = io.StringIO()
    Console(file=page, width=width).print(table)
    return page.getvalue()


ROW = {"model": "A", "threshold": 0.0, "coverage": 1.0, "nll": 1.5}


def test_the_likeliest_score_has_the_highest_bar():
    assert bars([0.25, 0.5, 0.25]) == "▅█▅"


def test_bars_of_nothing_are_flat():
    assert bars([0.0, 0.0]) == "▁▁"


def test_a_model_is_named_once():
    shown = text(threshold_table(Results([ROW, ROW | {"threshold": 0.5}]), ["coverage"], "t"))
    assert shown.count("A") == 1


def test_undefined_is_a_dash():
    shown = text(threshold_table(Results([ROW | {"coverage": float("nan")}]), ["coverage"], "t"))
    assert "—" in shown


def test_overall_has_one_row_a_model():
    shown = text(
        overall_table(Results([ROW, ROW | {"threshold": 0.5}, ROW | {"model": "B", "nll": 2.0}]), ["nll"], "t")
    )
    assert [line.split() for line in shown.splitlines()[2:4]] == [["A", "1.500"], ["B", "2.000"]]


def test_a_withheld_forecast_shows_no_score():
    answer = Distribution([[0.9, 0.1], [0.4, 0.6]], [1, 2])
    lines = text(forecast_table(["sure", "unsure"], answer, 0.8, truth=[1, 2])).splitlines()
    assert lines[1].split() == ["sure", "█▂", "1.0", "90%", "1"]
    assert lines[2].split() == ["unsure", "▆█", "withheld", "60%", "2"]


@pytest.mark.parametrize("width", [80, 100])
def test_a_forecast_fits_a_terminal(width):
    answer = Distribution([[0.1] * 10], [k / 2 for k in range(1, 11)])
    shown = text(forecast_table(["x" * 80], answer, None, truth=[5]), width)
    assert "▁" in shown or "█" * 10 in shown
    assert "10%" in shown


def test_a_title_stands_for_the_item():
    row = {"user": 1, "rank": 1, "item": 9, "prediction": 5.0, "mean": 4.5, "reliability": 0.7, "title": "Heat (1995)"}
    shown = text(recommendation_table([row, row | {"rank": 2, "title": "", "item": 77}]))
    assert "Heat (1995)" in shown
    assert "77" in shown


def test_brackets_in_a_name_are_part_of_it():
    shown = text(forecast_table(["[red]x[/red]"], Distribution([[0.5, 0.5]], [1, 2]), None))
    assert "[red]x[/red]" in shown
    row = {"user": "[b]u[/b]", "rank": 1, "item": "[i]", "prediction": 1.0, "mean": 1.0, "reliability": 0.5}
    shown = text(recommendation_table([row]))
    assert "[b]u[/b]" in shown
    assert "[i]" in shown
