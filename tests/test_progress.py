"""How far, and how long still."""

import time

from starcast.progress import progress_bar, time_left


def test_the_estimate_counts_what_was_done_since_the_start():
    assert time_left(2, 2, 10.0) == "about 10 s left"
    assert time_left(0, 9, 10.0) == time_left(9, 0, 10.0) == ""


def test_the_bar_tells_the_time_left(capsys, monkeypatch):
    clock = iter(range(0, 1000, 30))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_bar("searching") as tell:
        tell(4, 10)
        tell(5, 10)
    told = capsys.readouterr().err
    assert "searching" in told
    assert "5/10" in told
    assert "min left" in told


def test_nothing_is_shown_unless_asked(capsys):
    with progress_bar("searching", show=False) as tell:
        tell(1, 2)
    assert capsys.readouterr() == ("", "")
