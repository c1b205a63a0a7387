"""A table of ratings as a folder: arrays in ``.npy`` files and ``shards.json``, which says what must be in them.

The folder appears whole or not at all. Nothing in it is ever unpickled, and nothing is believed before it is checked.
"""

import contextlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from starcast import _native
from starcast.errors import DataError, FileError, FileFormatError
from starcast.files import sync_folder, umask
from starcast.modelfile import decode_texts, encode_texts
from starcast.names import Array
from starcast.scale import make_scale

FORMAT, VERSION = "starcast shards", 1
MANIFEST = "shards.json"
TABLE = ("users", "items", "scores", "titles", "counts", "user_counts", "item_counts", "digest")
NAMES = ("users", "items", "titles")
HEADER = 128  # bytes in front of an array of one axis


class Folder:
    """A folder that is being made; columns of ratings are added block by block, by user."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns = {"item": (path / "item.npy").open("wb"), "score": (path / "score.npy").open("wb")}
        for file in self._columns.values():
            file.write(bytes(HEADER))

    def add_rows(self, item: Array, score: Array) -> None:
        """Add the ratings of the users that follow."""
        self._columns["item"].write(np.ascontiguousarray(item, "<i4").data)
        self._columns["score"].write(np.ascontiguousarray(score, "i1").data)

    def finish(self, table: Mapping[str, Any]) -> None:
        """Write what else makes the table, and at last the manifest."""
        rows = int(table["user_counts"].sum())
        for (_, file), dtype in zip(self._columns.items(), ("<i4", "|i1"), strict=True):
            file.seek(0)
            file.write(_npy_header(dtype, rows))
        self.close()
        for name in NAMES:
            if table[name] is not None:
                save_names(self.path, name, table[name])
        for name in ("user_counts", "item_counts"):
            np.save(self.path / f"{name}.npy", table[name].astype("<i8"), allow_pickle=False)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "starcast": _native.version,
            "ratings": rows,
            "users": len(table["users"]),
            "items": len(table["items"]),
            "scores": table["scores"].tolist(),
            "counts": table["counts"].tolist(),
            "digest": table["digest"],
            "files": {file.name: file.stat().st_size for file in sorted(self.path.glob("*.npy"))},
        }
        (self.path / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")

    def close(self) -> None:
        """Close the columns."""
        for file in self._columns.values():
            file.close()


@contextlib.contextmanager
def making(folder: str | os.PathLike[str]) -> Iterator[Folder]:
    """Give a folder beside the target and put it in the target's place once it is complete and on the disk."""
    target = Path(folder).absolute()
    check_free(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        place = Folder(Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent)))
    except (OSError, ValueError) as error:  # a name with a NUL byte
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{str(target)!r} cannot be made: {reason}. Choose a folder that can be written to.") from None
    try:
        yield place
        for file in place.path.iterdir():
            with file.open("rb+") as handle:
                os.fsync(handle.fileno())
        place.path.chmod(0o777 & ~umask())  # mkdtemp makes private folders; these are as public as any other
        sync_folder(place.path)
        place.path.replace(target)
        sync_folder(target.parent)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{target} could not be written: {error.strerror or error}. Nothing was left of it.") from None
    finally:
        place.close()
        shutil.rmtree(place.path, ignore_errors=True)


def save_names(folder: Path, name: str, values: Array) -> None:
    """Write names: numbers as they are, texts as their bytes and the place where each ends."""
    if values.dtype != object:
        np.save(folder / f"{name}.npy", values.astype("<i8"), allow_pickle=False)
        return
    content, ends = encode_texts(values)
    np.save(folder / f"{name}.text.npy", content, allow_pickle=False)
    np.save(folder / f"{name}.ends.npy", ends, allow_pickle=False)


def check_free(folder: Path) -> None:
    """Raise an error if there is something already where a folder shall be made."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileError(f"{folder} is there already. Remove it, or give the name of a new folder.")


def read_table(folder: Path) -> dict[str, Any]:
    """Return what a folder says of its ratings: names, scale, counts and digest."""
    manifest = _read_manifest(folder)
    shapes = {"users": manifest["users"], "items": manifest["items"], "titles": manifest["items"]}
    table: dict[str, Any] = {name: _read_names(folder, name, shapes[name], manifest) for name in NAMES}
    for name in ("users", "items"):
        names = table[name]
        distinct = len(set(names)) if names.dtype == object else len(np.unique(names))
        _require(distinct == len(names), folder, f"the {name} must have different names")
    for name in ("user_counts", "item_counts"):
        counts = np.array(_map(folder, f"{name}.npy", "<i8", shapes[name.replace("_counts", "s")]))
        sound = (counts >= 0).all() and counts.sum() == manifest["ratings"]
        _require(sound, folder, f"{name} must add up to the {manifest['ratings']:,} ratings")
        table[name] = counts
    table["scores"] = np.array(manifest["scores"], np.float64)
    table["counts"] = np.array(manifest["counts"], np.float64)
    return table | {"digest": manifest["digest"]}


def read_rows(folder: Path, users: tuple[int, int], rows: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Return the counts of a range of users and the items and scores of their ratings, all of them checked."""
    manifest = _read_manifest(folder)
    counts = np.array(_map(folder, "user_counts.npy", "<i8", manifest["users"])[slice(*users)])
    item, score = (column[slice(*rows)] for column in _map_columns(folder, manifest))
    _require(counts.sum() == len(item), folder, "the counts of the users must fit their ratings")
    limits = {"item": (item, manifest["items"]), "score": (score, len(manifest["scores"]))}
    for name, (codes, limit) in limits.items():
        sound = len(codes) == 0 or (codes.min() >= 0 and codes.max() < limit)
        _require(sound, folder, f"the codes of {name}s must be from 0 to {limit - 1:,}")
    return counts, item, score


def map_columns(folder: Path) -> tuple[Array, Array]:
    """Return the items and the scores of all ratings, by user, as views of the files: nothing is read, nor checked."""
    return _map_columns(folder, _read_manifest(folder))


def _map_columns(folder: Path, manifest: Mapping[str, Any]) -> tuple[Array, Array]:
    n = manifest["ratings"]
    return _map(folder, "item.npy", "<i4", n), _map(folder, "score.npy", "|i1", n)


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest, its entries checked, and the files that it lists found whole."""
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise FileError(
            f"{folder} is no folder of shards: it has no {MANIFEST}. Make one with starcast.cut_ratings or Shards.save."
        ) from None
    except (OSError, ValueError) as error:
        raise FileError(f"{folder / MANIFEST} cannot be read: {error}.") from None
    try:
        manifest = json.loads(text)
        _require(manifest["format"] == FORMAT, folder, f"{MANIFEST} must have the format {FORMAT!r}")
        version = manifest["version"]
        _require(isinstance(version, int) and version >= 1, folder, f"{MANIFEST} must have a version")
        if version > VERSION:
            raise FileFormatError(
                f"{folder} has the format version {version}; this Starcast reads up to {VERSION}. "
                "Upgrade with: pip install -U starcast"
            )
        _check_entries(folder, manifest)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, DataError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{folder / MANIFEST} is damaged ({error!r}). Cut the ratings again.") from None
    return manifest  # type: ignore[no-any-return]


def _check_entries(folder: Path, manifest: Mapping[str, Any]) -> None:
    for name in ("ratings", "users", "items"):
        value = manifest[name]
        sound = isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 1 << 62
        _require(sound, folder, f"{name} must be a positive number")
    scale, counts = make_scale(manifest["scores"]), np.array(manifest["counts"], np.float64)
    _require(scale.tolist() == manifest["scores"], folder, "scores must ascend")
    sound = counts.shape == scale.shape and bool((counts >= 0).all()) and counts.sum() == manifest["ratings"]
    _require(sound, folder, "counts must add up to the ratings, one a score")
    digest = manifest["digest"]
    _require(isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest), folder, "digest must be a SHA-256")
    for name, size in manifest["files"].items():
        _require(re.fullmatch(r"[a-z_]+(\.[a-z]+)?\.npy", name), folder, f"{name!r:.40} is no file of a table")
        found = (folder / name).stat().st_size if (folder / name).is_file() else None
        _require(found == size, folder, f"{name} must have {size} bytes, has {'none' if found is None else found}")


def _read_names(folder: Path, name: str, n: int, manifest: Mapping[str, Any]) -> Array | None:
    files = manifest["files"]
    if f"{name}.text.npy" in files:
        content = np.array(_map(folder, f"{name}.text.npy", "|u1", None))
        ends = np.array(_map(folder, f"{name}.ends.npy", "<i8", n))
        return decode_texts(folder, name, content, ends)
    if name == "titles":
        return None
    return np.array(_map(folder, f"{name}.npy", "<i8", n))


def _map(folder: Path, name: str, dtype: str, n: int | None) -> Array:
    """Return the one-dimensional array of a file, mapped into memory, read only."""
    try:
        array = npy.open_memmap(folder / name, mode="r")
    except (OSError, ValueError, SyntaxError, EOFError, OverflowError) as error:
        raise FileFormatError(f"{folder / name} cannot be read as an array: {error}. Cut the ratings again.") from None
    sound = array.ndim == 1 and array.dtype == np.dtype(dtype) and (n is None or len(array) == n)
    wanted = f"{'some' if n is None else format(n, ',')} of {np.dtype(dtype)}"
    _require(sound, folder, f"{name} must hold {wanted}, has the shape {array.shape} of {array.dtype}")
    return array.view(np.ndarray)


def _npy_header(dtype: str, n: int) -> bytes:
    header = io.BytesIO()
    npy.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": (n,)})
    assert len(header.getvalue()) == HEADER
    return header.getvalue()


def _require(condition: object, folder: Path, what: str) -> None:
    if not condition:
        raise FileFormatError(f"{folder} is damaged: {what}. Cut the ratings again, or fetch the folder again.")
