"""The native core: sizes beyond 32 bits, memory that runs out in a thread, and calls that no kernel may walk."""

import ctypes
import mmap
import os
import re
import subprocess
import sys
import textwrap
from collections import defaultdict

import numpy as np
import pytest

import starcast as sc
from starcast import _native
from starcast.kernels import fast, strict

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and sparse files are Linux's here")


def run_python(code, *arguments):
    """Run code in a process of its own, which may die, and return what it prints."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, f"exit {ran.returncode}: {ran.stderr[-1000:]}"
    return ran.stdout.strip()


# ---- one definition


def classes_of(text):
    """Yield the qualified names of the classes that C++ source defines, those in anonymous namespaces left out."""
    text = re.sub(
        r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'',
        " ",
        text,
        flags=re.M | re.S,
    )
    opening = re.compile(
        r"namespace\s*(?P<namespace>[\w:]*)\s*\{|\b(?:struct|class|union)\s+(?:alignas\(\d+\)\s*)?(?P<name>\w+(?:<[\w, ]*>)?)\s*(?:final\s*)?(?::[^;{}()]*)?\{|[{}]"
    )
    scopes = []
    for found in opening.finditer(text):
        if found["namespace"] is not None:
            scopes.append(found["namespace"] or "(anonymous)")
        elif found["name"]:
            scopes.append(found["name"])
            if None not in scopes and "(anonymous)" not in scopes:
                yield "::".join(scopes)
        elif found[0] == "{":
            scopes.append(None)  # the body of a function, or an initializer
        else:
            scopes.pop()
    assert not scopes


def test_no_class_is_defined_in_two_native_files(request):
    places = defaultdict(set)
    for file in sorted((request.config.rootpath / "native").rglob("*.?pp")):
        for name in classes_of(file.read_text(encoding="utf-8")):
            places[name].add(file.name)
    assert {"starcast::Crew", "starcast::Pass", "strict::Side", "starcast::Calibration"} <= set(places)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


# ---- 64 bits


@pytest.fixture(scope="module")
def long_table(tmp_path_factory):
    """A sparse file: 2**15 + 1 rows of 2**16 floats, zeros but for the last row."""
    path = tmp_path_factory.mktemp("sparse") / "rows"
    rows = np.memmap(path, np.float32, "w+", shape=(2**15 + 1, 2**16))
    rows[-1] = 2.0
    rows.flush()
    return path


@on_linux
def test_a_row_beyond_two_billion_numbers_is_found(long_table):
    code = """
    import sys
    import numpy as np
    from starcast.kernels import fast
    P = np.memmap(sys.argv[1], np.float32, "r", shape=(2**15 + 1, 2**16))
    Q, out, code = np.ones((1, 2**16), np.float32), np.empty(2), np.array([0, 2**15], np.int32)
    fast.point_values(code, np.zeros(2, np.int32), P, Q, False, 0.0, out, 1)
    print(out.tolist())
    fast.point_values(np.zeros(2, np.int32), code, Q, P, True, 0.0, out, 1)
    print(out.tolist())
    """
    assert run_python(code, long_table).split("\n") == ["[0.0, 131072.0]", "[1.0, 131073.0]"]


@on_linux
def test_lists_of_a_user_beyond_two_billion_numbers_are_made(long_table):
    code = """
    import sys
    import numpy as np
    from starcast.kernels import fast
    P = np.memmap(sys.argv[1], np.float32, "r", shape=(2**15 + 1, 2**16))
    Q = np.full((3, 2**16), [[1e-6], [3e-5], [2e-5]], np.float32)
    ranking = fast.Ranking(
        np.array([2**15], np.int32), np.ones(3, bool), None, None, 2, 0.0, False, np.arange(1.0, 6), None, 0.0, 1
    )
    edges, floor = np.arange(1.5, 5), np.zeros(5)
    lists = ranking.by_values(P, Q, P, fast.make_tiles(Q), Q.max(axis=0), False, 0.0, 0.5, edges, 1.0, floor)
    print(lists[0], lists[2])
    """
    assert run_python(code, long_table) == "[32768 32768] [1 2]"


# ---- memory


@on_linux
@pytest.mark.skipif("STARCAST_SANITIZER" in os.environ, reason="sanitizers end a process that runs out of memory")
def test_memory_that_runs_out_in_a_thread_is_a_memory_error(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")  # or threads reserve more than they use
    code = """
    import resource
    import numpy as np
    from starcast.kernels import fast
    n, T = 400_000, 4  # a thread wants 128 bytes a row: there is room for one of them
    side = np.zeros(n + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8)
    out, empty = np.zeros((n, 1, T), np.float32), np.zeros((n, 0), np.float32)
    others, weights, precision = np.zeros((0, 1, T), "f4"), np.zeros((T, 0, 1), "f4"), np.ones((T, 1, 1), "f4")
    shape = np.zeros(2, "f4"), np.array([[-1, 1]], "f4"), np.zeros(1, "i4")

    def place():
        fast.place_rows(side, empty, others, weights, precision, *shape, None, None, 1, out, 3)

    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 90_000_000, resource.RLIM_INFINITY))
    try:
        place()
    except MemoryError:
        print("out of memory")
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    place()
    print("and well again")
    """
    assert run_python(code).split("\n") == ["out of memory", "and well again"]


def test_fits_with_few_scores_read_no_more_of_the_basis_than_there_is():
    # The kernel for five scores must not look at the basis of two; the address sanitizer sees it if it does.
    ratings = sc.Ratings.from_arrays([0, 1], [0, 1], [1.0, 2.0], scores=[1, 2])
    model = sc.OrdinalMF(update="gradient", n_draws=0, random_state=0).fit(ratings)
    assert np.isfinite(model.predict_proba([0], [1]).probs).all()


@on_linux
def test_a_calibration_with_one_knot_leaves_undefined_probabilities_undefined():
    size = mmap.PAGESIZE
    pages = mmap.mmap(-1, 2 * size)
    libc = ctypes.CDLL(None, use_errno=True)
    base = np.frombuffer(pages, np.uint8).ctypes.data
    # The calibration ends where a page begins that cannot be read.
    calibration = np.frombuffer(pages, np.float64, 6 * 5, size - 6 * 5 * 8).reshape(6, 5)
    calibration[:] = [[1.0] * 5, [0.0] * 5, np.linspace(0, 1, 5), [0.0] * 5, [0.5] * 5, [0.5] * 5]
    assert libc.mprotect(ctypes.c_void_p(base + size), ctypes.c_size_t(size), 0) == 0
    try:
        probs = np.full((2, 5), np.nan)
        _native.recalibrate(probs, calibration)
    finally:
        assert libc.mprotect(ctypes.c_void_p(base + size), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE) == 0
    assert np.isnan(probs).all()


# ---- what is refused


@pytest.mark.parametrize(
    "shape", [(1, 1, 0), (1, 1, 1), (1, 1, 65), (1, 0, 5), (1, 2**21, 5), (-1, 1, 5), (2**62, 1, 5), (2**40, 2**20, 64)]
)
def test_rows_of_no_size_and_of_any_size_are_refused(shape):
    with pytest.raises((ValueError, MemoryError)):
        fast.allocate_rows(*shape)


def table_of_rows(n_rows, n_planes=3, n_scores=5):
    rows = fast.allocate_rows(n_rows, n_planes, n_scores)
    fast.pack_rows(np.full((n_rows, n_planes, n_scores), 0.1, np.float32), rows)
    return rows


def aligned_copy(rows):
    room = np.zeros(rows.size + 16, np.float32)
    start = -room.ctypes.data % 64 // 4
    copy = room[start : start + rows.size].reshape(rows.shape)
    copy[:] = rows
    return copy


def ask_proba(P, Q, user=(0, 1), item=(1, 0), n_scores=5, n_threads=1):
    user, item = (np.array(codes, np.int32) for codes in (user, item))
    out = np.zeros((len(user), n_scores), np.float32)
    fast.proba(user, item, P, Q, np.zeros(n_scores, np.float32), 3, False, "softmax", out, n_threads)
    return out


def test_rows_without_room_at_the_end_are_refused():
    P, Q = table_of_rows(2), table_of_rows(2)
    assert ask_proba(P, Q) == pytest.approx(0.2)
    assert ask_proba(P[:1], Q[1:], (0,), (0,)) == pytest.approx(0.2)  # parts of such rows have it
    for rows in ((aligned_copy(P), Q), (P, aligned_copy(Q))):
        with pytest.raises(ValueError, match="allocate_rows"):
            ask_proba(*rows)
    with pytest.raises(ValueError, match="allocate_rows"):
        fast.unpack_rows(aligned_copy(P), np.zeros((2, 3, 5), np.float32))


@pytest.mark.parametrize("codes", [(0, 2), (0, -1)])
def test_codes_outside_their_table_are_refused(codes):
    P, Q = table_of_rows(2), table_of_rows(2)
    with pytest.raises(ValueError, match="rows of P and Q"):
        ask_proba(P, Q, user=codes)
    with pytest.raises(ValueError, match="rows of P and Q"):
        ask_proba(P, Q, item=codes)
    user, item = np.array(codes, np.int32), np.zeros(2, np.int32)
    with pytest.raises(ValueError, match="rows of P and Q"):
        fast.proba(user, None, P, Q, np.zeros(5, "f4"), 3, False, "softmax", np.zeros((2, 2, 5), "f4"))
    table = np.zeros((2, 4), np.float32)
    for pair in ((user, item), (item, user)):
        with pytest.raises(ValueError, match="rows of P and Q"):
            fast.point_values(*pair, table, table, False, 0.0, np.zeros(2))
        with pytest.raises(ValueError, match="rows of P and Q"):
            strict.softmax_probs(np.zeros((2, 5, 3)), np.zeros((2, 5, 3)), *pair, np.zeros((2, 5)))


GOOD = {"start": [0, 1, 2], "other": [0, 1], "score": [0, 4]}
BAD = [
    {"start": [0, 2, 1]}, {"start": [0, -1, 2]}, {"start": [1, 1, 2]}, {"other": [0, 2]}, {"other": [-1, 0]}, {"score": [0, 5]},
    {"score": [-1, 0]}, {"other": [0]},
]  # fmt: skip


def side_of(**parts):
    parts = GOOD | parts
    return tuple(np.array(parts[name], kind) for name, kind in (("start", "i8"), ("other", "i4"), ("score", "i1")))


NOWHERE = "indptr|start|side|scores|codes"


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_sides_that_point_nowhere_are_refused(bad):
    good, bad = side_of(), side_of(**bad)
    P, Q, zeros = table_of_rows(2), table_of_rows(2), np.zeros(5, np.float32)
    flat, values = np.zeros((2, 8), np.float32), np.arange(5, dtype=np.float32)
    for sides in ((good, bad), (bad, good)):
        with pytest.raises(ValueError, match=NOWHERE):
            fast.fit_resbemf_exact(*sides, P, Q, zeros, zeros, 3, False, 1.0, 1.0, n_rounds=1)
        with pytest.raises(ValueError, match=NOWHERE):
            fast.fit_resbemf_gradient(*sides, P, Q, zeros, zeros, zeros, 3, False, 1.0, 1.0, n_rounds=1)
        with pytest.raises(ValueError, match=NOWHERE):
            fast.fit_gradient("dirmf", *sides, P, Q, zeros, zeros, 3)
        with pytest.raises(ValueError, match=NOWHERE):
            fast.fit_point(*sides, flat, flat, None, None, values)
        with pytest.raises(ValueError, match=NOWHERE):
            strict.fit_pmf(*sides[0], *sides[1], np.arange(5.0), np.zeros((2, 3)), np.zeros((2, 3)), 1, 0.1, 0.1)
    with pytest.raises(ValueError, match=NOWHERE):
        fast.pass_scores("resbemf", bad, P, Q, zeros, zeros, 3)
    with pytest.raises(ValueError, match=NOWHERE):
        fast.solve_rows("resbemf", bad, P, Q, zeros, zeros, np.ones(2, np.int32), np.ones(2, np.float32), 3)
    with pytest.raises(ValueError, match=NOWHERE):
        fast.look_scores(bad, P, Q, zeros, zeros, 3, False, 0.0, 0, None, 0, np.zeros(2), None, None, 1)


def test_arrays_of_another_kind_are_refused():
    P, Q, zeros = table_of_rows(2), table_of_rows(2), np.zeros(5, np.float32)
    start, other, score = side_of()
    for side in (
        (start, other.astype(np.int64), score),
        (start[::-1], other, score),
        (start, other),
        (start, other, None),
    ):
        with pytest.raises(ValueError, match="contiguous arrays"):
            fast.fit_resbemf_exact(side, side_of(), P, Q, zeros, zeros, 3, False, 1.0, 1.0, n_rounds=1)
    flat, values = np.zeros((2, 8), np.float32), np.arange(5, dtype=np.float32)
    with pytest.raises(ValueError, match="come together"):
        fast.fit_point(side_of(), side_of(), flat, flat, np.zeros(2, np.float32), None, values)
    with pytest.raises(ValueError, match="multiple of 8"):
        fast.fit_point(side_of(), side_of(), flat[:, :0].copy(), flat[:, :0].copy(), None, None, values)


def test_too_many_scores_factors_and_too_few_threads_are_refused():
    P, Q = table_of_rows(2), table_of_rows(2)
    for n_scores in (0, 1, 65):
        with pytest.raises(ValueError, match="between 2 and 64 scores"):
            ask_proba(P, Q, n_scores=n_scores)
        with pytest.raises(ValueError, match="between 2 and 64 scores"):
            fast.pack_rows(np.zeros((2, 3, n_scores), np.float32), P)
    for n_threads in (0, -3):
        with pytest.raises(ValueError, match="n_threads must be one or more"):
            ask_proba(P, Q, n_threads=n_threads)
        with pytest.raises(ValueError, match="n_threads must be one or more"):
            _native.recalibrate(np.full((1, 5), 0.2), np.zeros((4, 5)), n_threads)
    zeros = np.zeros(5, np.float32)
    for n_factors in (-1, 0, 2**30, 2**31 - 1):
        with pytest.raises(ValueError, match="factors"):
            fast.fit_resbemf_exact(side_of(), side_of(), P, Q, zeros, zeros, n_factors, False, 1.0, 1.0)
    ranks = np.array([2**31 - 1, 2**31 - 1], np.int32)
    draws, basis = np.zeros((1, 4, 16), np.float32), np.zeros((2, 5), np.float32)
    pair, weights, out = np.zeros(1, np.int32), np.zeros(16, np.float32), np.zeros((1, 5), np.float32)
    with pytest.raises(ValueError, match="factors"):
        fast.ordinal_proba(pair, pair, draws, draws, zeros, basis, ranks, weights, out, 1)
    with pytest.raises(ValueError, match="between 1 and 128 values"):
        strict.fit_pmf(*side_of(), *side_of(), np.zeros(200), np.zeros((2, 3)), np.zeros((2, 3)), 1, 0.1, 0.1)
    with pytest.raises(ValueError, match="memory"):
        _native.top_n(np.zeros((2, 1)), np.zeros((2, 1)), np.ones((2, 1), bool), 2**63)


def test_a_separator_of_no_character_and_negative_sizes_are_refused():
    with pytest.raises(ValueError, match="separator must not be empty"):
        _native.read_text(b"1,2,3\n", 0, "", 0, 1, 2, -1, 3, 3, False, 1)
    codes = np.zeros(0, np.int32)
    for size in (-1, -5, -(2**63)):
        for ask in (
            lambda size: _native.group_rows(codes, size),
            lambda size: _native.find_duplicates(codes, codes, size, 1),
            lambda size: _native.find_duplicates(codes, codes, 1, size),
        ):
            with pytest.raises(ValueError, match="must be zero or more"):
                ask(size)
