"""What `make wheel` leaves in dist: the right files in the wheel and in the sdist, and a wheel that is small.

``STARCAST_DIST`` names the folder. Without it there is nothing to look at.
"""

import os
import re
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
MOST_BYTES = 5_000_000


@pytest.fixture(scope="module")
def dist():
    folder = os.environ.get("STARCAST_DIST")
    if not folder:
        pytest.skip("STARCAST_DIST is not set; make wheel sets it")
    return Path(folder)


@pytest.fixture(scope="module")
def wheel(dist):
    [file] = dist.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def packed(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


@pytest.fixture(scope="module")
def sdist(dist):
    """The names in the sdist, without its own folder's."""
    [file] = dist.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        return {PurePosixPath(member.name).relative_to(file.name[: -len(".tar.gz")]).as_posix() for member in archive}


def package_files():
    return {
        path.relative_to(SOURCES).as_posix()
        for path in (SOURCES / "starcast").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    }


def test_the_wheel_holds_the_package_its_native_module_and_nothing_else(packed):
    others = {name for name in packed - package_files() if ".dist-info/" not in name}
    assert len(others) == 1, others
    assert re.fullmatch(r"starcast/_native\.(cpython-311-.*|abi3)\.so", others.pop())
    assert package_files() <= packed


def test_the_wheel_has_the_page_the_types_and_the_licence(packed):
    assert {"starcast/serve/web/index.html", "starcast/serve/web/app.js", "starcast/py.typed"} <= packed
    kept = {PurePosixPath(name).name for name in packed if ".dist-info/licenses/" in name}
    assert kept == {"LICENSE", "NOTICE"}


def test_the_wheel_is_small_and_its_symbols_are_stripped(wheel):
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        [native] = [
            name for name in archive.namelist() if name.startswith("starcast/_native.") and name.endswith(".so")
        ]
        content = archive.read(native)
    assert b".symtab" not in content
    assert b".debug_info" not in content


def test_the_sdist_holds_what_a_build_needs_and_no_tests_or_data(sdist):
    wanted = {f"src/{name}" for name in package_files()}
    wanted |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "native").rglob("*") if path.is_file()}
    wanted |= {"CMakeLists.txt", "LICENSE", "NOTICE", "README.md", "pyproject.toml", "PKG-INFO"}
    wanted = {name for name in wanted if "__pycache__" not in name}
    assert wanted <= sdist, sorted(wanted - sdist)
    folders = {name.partition("/")[0] for name in sdist if "/" in name}
    assert folders <= {"src", "native", "docs", "examples"}
    assert not [name for name in sdist if name.endswith((".so", ".csv", ".parquet", ".starcast", ".pyc"))]
