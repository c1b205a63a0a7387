"""Run the tests of the native core under the sanitizers of GCC, on Linux; ``make sanitize`` builds the module and calls it.

The sanitized module lies in ``build/sanitize-NAME/site``. A ``sitecustomize`` puts it in the place of the installed one,
in this process and in those that tests start. Reports go to files, since pytest captures what a process writes, and a
test may expect a process to fail; any report fails the run.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = {
    "address": [
        "tests/kernels", "tests/test_native.py", "tests/test_io.py", "tests/test_modelfile.py", "tests/test_ordinal_kernels.py",
        "tests/test_ascent.py", "tests/test_ranking.py", "tests/hostile/test_fuzz_reader.py",
        "tests/hostile/test_fuzz_modelfile.py", "tests/regressions/test_native_core.py",
    ],
    "thread": [
        "tests/kernels", "tests/test_native.py", "tests/test_ordinal_kernels.py", "tests/test_ranking.py", "tests/test_io.py",
    ],
}  # fmt: skip
# Other instruction sets have a run of their own here; threads matter to some tests only.
SELECTED = {"address": "not lower_instruction_sets", "thread": "thread or jobs or concurrent or parallel"}
RUNTIME = {"address": "libasan.so", "thread": "libtsan.so"}
OPTIONS = {
    # Leaks: CPython and NumPy keep what they allocate once until the process ends.
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}
OVERLAY = """
import importlib.util
import sys


class Sanitized:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, {module!r}) if name == "starcast._native" else None


sys.meta_path.insert(0, Sanitized)
"""
OVERRUN = """
import ctypes
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
ctypes.memmove(ctypes.create_string_buffer(99), malloc(7), 99)
"""


def main(name: str) -> int:
    """Run the tests of a sanitizer with every instruction set that was built; return 1 if one fails or reports."""
    folder = ROOT / "build" / f"sanitize-{name}"
    (module,) = (folder / "site" / "starcast").glob("_native.*so")
    environment = prepare(name, folder, module)
    loaded = run(
        [sys.executable, "-c", "from starcast import _native; print(_native.__file__)"], environment, capture=True
    )
    if loaded.stdout.strip() != str(module):
        print(f"the sanitized module is not the one that is imported:\n{loaded.stdout}{loaded.stderr}")
        return 1
    clear(folder)
    run([sys.executable, "-c", OVERRUN], environment, capture=True)
    if name == "address" and not any("heap-buffer-overflow" in report for report in reports(folder)):
        print("the sanitizer sees nothing: a read past the end of an allocation went unnoticed")
        return 1
    clear(folder)
    failed = False
    # With `load`, since a worker that a sanitizer ends would leave the others waiting in groups.
    parallel = ["-n", "auto", "--dist", "load"]
    pytest = [sys.executable, "-m", "pytest", "-q", *parallel, "-p", "no:cacheprovider", "-k", SELECTED[name]]
    for what, tests, chosen in (
        ("the best instruction set", TESTS[name], {}),
        ("the baseline", ["tests/kernels", "tests/test_ordinal_kernels.py"], {"STARCAST_ISA": "baseline"}),
    ):
        began = time.time()
        print(f"» the {name} sanitizer, {what}", flush=True)
        failed |= run([*pytest, *tests], environment | chosen).returncode != 0
        print(f"» {time.time() - began:.0f} s", flush=True)
    for report in reports(folder):
        failed = True
        print(report)
    return int(failed)


def prepare(name: str, folder: Path, module: Path) -> dict[str, str]:
    """Return the environment in which every Python process loads the sanitized module."""
    overlay = folder / "overlay"
    overlay.mkdir(exist_ok=True)
    (overlay / "sitecustomize.py").write_text(OVERLAY.format(module=str(module)), encoding="utf-8")
    options = {key: f"{value}:log_path={folder / 'report'}" for key, value in OPTIONS.items()}
    # The runtime comes first; it looks for what throws exceptions at once, which Python itself does not load.
    preload = " ".join(library(file) for file in (RUNTIME[name], "libstdc++.so"))
    return os.environ | options | {
        "PYTHONPATH": str(overlay), "PYTHONMALLOC": "malloc", "LD_PRELOAD": preload, "STARCAST_SANITIZER": name,
    }  # fmt: skip


def library(file: str) -> str:
    compiler = os.environ.get("CXX", "g++")
    found = subprocess.run([compiler, f"-print-file-name={file}"], capture_output=True, text=True, check=True)
    return str(Path(found.stdout.strip()).resolve(strict=True))


def run(command: list[str], environment: dict[str, str], capture: bool = False) -> subprocess.CompletedProcess[str]:
    # The thread sanitizer wants addresses where it expects them, which some kernels randomize too far.
    if environment["STARCAST_SANITIZER"] == "thread" and shutil.which("setarch"):
        command = ["setarch", "--addr-no-randomize", *command]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=capture, text=True, check=False)


def reports(folder: Path) -> list[str]:
    return [report.read_text(encoding="utf-8", errors="replace") for report in sorted(folder.glob("report.*"))]


def clear(folder: Path) -> None:
    for report in folder.glob("report.*"):
        report.unlink()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
