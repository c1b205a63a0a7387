"""Work that survives being killed."""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future

import psutil
import pytest

from starcast.errors import ClusterError, DataError, FileError, FileFormatError, MissingExtraError
from starcast.files import alone
from starcast.journal import Journal, run_missing

SHARED = []


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "deep" / "work.jsonl")


def square(number):
    if number == 3:
        raise DataError("three is right out")
    return {"square": number**2}


def crash(number):
    raise ZeroDivisionError(number)


def share(value):
    SHARED[:] = [value]


def add_shared(number):
    return {"sum": number + SHARED[0], "process": os.getpid()}


def test_records_come_back_in_order_and_the_first_of_a_key_counts(journal):
    assert list(journal.records()) == []
    for key, value in (("b", 1.5), ("a", math.inf), ("b", 2)):
        journal.add(key, {"value": value, "text": "θ\n"})
    found = list(Journal(journal.path).records())
    assert [key for key, _ in found] == ["b", "a"]
    assert found[0][1] == {"value": 1.5, "text": "θ\n"}
    assert math.isinf(found[1][1]["value"])


@pytest.mark.parametrize("torn", [b"{", b'{"key": "b", "record": {"value": 2}}', b'{"key": "b"', b"\xff\x00"])
def test_a_torn_last_line_is_passed_over_and_cut_off(journal, torn):
    journal.add("a", {"value": 1})
    with journal.path.open("ab") as file:
        file.write(torn)
    assert dict(journal.records()) == {"a": {"value": 1}}
    journal.add("c", {"value": 3})
    assert dict(journal.records()) == {"a": {"value": 1}, "c": {"value": 3}}
    assert journal.path.read_bytes().count(b"\n") == 2


def test_a_file_that_is_torn_in_its_first_line_is_empty(journal):
    journal.path.parent.mkdir()
    journal.path.write_bytes(b'{"key": "a')
    assert list(journal.records()) == []
    journal.add("a", {})
    assert dict(journal.records()) == {"a": {}}


@pytest.mark.parametrize("garbage", ["hello", "[1, 2]", '{"key": "x"}', "5", ""])
def test_a_line_that_is_no_record_is_said_with_its_number(journal, garbage):
    journal.add("a", {})
    with journal.path.open("a") as file:
        file.write(garbage + "\n")
    journal.add("b", {})
    with pytest.raises(FileFormatError, match=r"line 2 of .*work\.jsonl is not a record of a journal\. Mend the line"):
        list(journal.records())


def test_a_file_that_cannot_be_read_or_written_is_said(tmp_path):
    with pytest.raises(FileError, match="cannot be read: Is a directory"):
        list(Journal(tmp_path).records())
    with pytest.raises(FileError, match=r"cannot be written: .*\. What was recorded before is safe"):
        Journal(tmp_path).add("a", {})


def test_only_what_is_missing_is_run(journal):
    journal.add("2", {"square": "kept"})
    journal.add("other", {"square": 0})
    told = []
    found = run_missing(journal, {str(n): n for n in (4, 2, 1)}, square, on_progress=lambda *done: told.append(done))
    assert found == {"4": {"square": 16}, "2": {"square": "kept"}, "1": {"square": 1}}
    assert list(found) == ["4", "2", "1"]
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert run_missing(journal, {"1": 1}, crash) == {"1": {"square": 1}}


def test_an_error_of_ours_ends_its_task_alone(journal):
    found = run_missing(journal, {str(n): n for n in (2, 3, 4)}, square)
    assert found["3"] == {"status": "failed", "error": "three is right out"}
    assert found["4"] == {"square": 16}


@pytest.mark.parametrize(
    "trouble", [FileError("no disk"), ClusterError("no cluster"), MissingExtraError("it", "a library", "extra")]
)
def test_trouble_of_the_machine_is_not_recorded(journal, trouble):
    """It ends the work, but not before what others have done by then is written down."""

    @contextlib.contextmanager
    def pool():
        futures = {1: Future(), 2: Future(), 3: Future()}
        futures[1].set_exception(trouble)
        futures[2].set_result({"square": 4})
        futures[3].set_result({"square": 9})
        yield lambda work, task: futures[task]

    with pytest.raises(type(trouble)):
        run_missing(journal, {str(n): n for n in (1, 2, 3)}, square, n_jobs=2, pool=pool())
    assert dict(journal.records()) == {"2": {"square": 4}, "3": {"square": 9}}

    def meet_trouble(number):
        raise trouble

    with pytest.raises(type(trouble)):
        run_missing(journal, {"1": 1, "2": 2}, meet_trouble)
    assert run_missing(journal, {"1": 1}, square) == {"1": {"square": 1}}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_any_other_error_ends_the_work_and_what_was_done_is_kept(journal, n_jobs):
    run_missing(journal, {"1": 1}, square)
    with pytest.raises(ZeroDivisionError):
        run_missing(journal, {"1": 1, "2": 2, "3": 3}, crash, n_jobs=n_jobs)
    assert dict(journal.records()) == {"1": {"square": 1}}


def test_what_this_process_ran_is_recorded_before_the_next_begins(journal):
    seen = []

    def look(number):
        seen.append(len(list(journal.records())))
        return {}

    run_missing(journal, {str(n): n for n in range(4)}, look)
    assert seen == [0, 1, 2, 3]


def test_processes_share_what_was_prepared_and_keep_the_order(journal):
    tasks = {str(n): n for n in range(8)}
    found = run_missing(journal, tasks, add_shared, n_jobs=2, prepare=share, prepare_args=(100,))
    assert [found[key]["sum"] for key in tasks] == list(range(100, 108))
    assert os.getpid() not in {record["process"] for record in found.values()}
    assert run_missing(journal, {"x": 1}, add_shared, n_jobs=2, prepare=share, prepare_args=(7,))["x"]["sum"] == 8


WRITER = """
import sys
from starcast.journal import Journal
journal = Journal(sys.argv[1])
for n in range(150):
    journal.add(f"{sys.argv[2]}{n}", {"text": sys.argv[2] * 3000})
"""


def test_two_processes_write_whole_lines(journal):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, journal.path, name]) for name in "ab"]
    assert [writer.wait(600) for writer in writers] == [0, 0]  # 300 times to the disk, which may be slow
    assert {key for key, _ in journal.records()} == {f"{name}{n}" for name in "ab" for n in range(150)}


def test_a_line_that_another_process_is_writing_is_not_taken_for_torn(journal):
    journal.add("first", {})
    with journal.path.open("ab+") as file, alone(file):
        file.write(b'{"key": "slow", ')  # half a line, as another process sees it
        file.flush()
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER.replace("range(150)", "range(1)"), journal.path, "b"],
        )
        with pytest.raises(subprocess.TimeoutExpired):  # it waits
            writer.wait(2)
        file.write(b'"record": {}}\n')
        file.flush()
    assert writer.wait(600) == 0
    assert [key for key, _ in journal.records()] == ["first", "slow", "b0"]


SLEEPER = """
import sys, time
from pathlib import Path
from starcast.journal import Journal, run_missing

def sleep(task):
    folder, number = task
    Path(folder, f"begun{number}").touch()
    time.sleep(3600)
    return {}

if __name__ == "__main__":
    run_missing(Journal(sys.argv[1] + "/work.jsonl"), {str(n): (sys.argv[1], n) for n in range(4)}, sleep, n_jobs=2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_workers_end_with_the_process_that_they_work_for(tmp_path):
    script = tmp_path / "sleeper.py"
    script.write_text(SLEEPER)
    parent = psutil.Popen([sys.executable, str(script), str(tmp_path)])
    while len(list(tmp_path.glob("begun*"))) < 2:
        assert parent.poll() is None
        time.sleep(0.05)
    children = parent.children(recursive=True)
    assert len(children) >= 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert psutil.wait_procs(children, timeout=300)[1] == []
