"""The container of a fitted model: a safetensors file, written whole or not at all, mapped into memory when read.

``docs/format.md`` specifies it. This module knows arrays, names and plain values, not models.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from starcast import _native
from starcast.errors import FileError, FileFormatError
from starcast.files import replacing
from starcast.names import Array, plain, strings

FORMAT_VERSION = 1
FORMAT = "starcast"
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}
CODES = {np.dtype(dtype): code for code, dtype in DTYPES.items()}
ALIGNMENT = 8  # bytes: where the arrays begin
HASH = "sha256"
NO_DIGEST = f"{HASH}:{'0' * 64}"  # what stands in the file while its digest is computed
SMALL = 64 << 20  # bytes that are hashed within a tenth of a second
VERSIONS = [str(number + 1) for number in range(FORMAT_VERSION)]  # as they are written in a file


def write(path: str | os.PathLike[str], meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write plain values and arrays; an array of str is stored as UTF-8 bytes and their ends.

    The same values give the same bytes.
    """
    tensors = _tensors(arrays)
    description = json.dumps({"version": _native.version, **meta}, default=plain, sort_keys=True)
    header: dict[str, Any] = {
        "__metadata__": {
            "digest": NO_DIGEST,
            "format": FORMAT,
            "format_version": str(FORMAT_VERSION),
            "starcast": description,
        }
    }
    begin = 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": CODES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, begin + array.nbytes],
        }
        begin += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    with replacing(path) as temporary:
        _write_parts(temporary, text, tensors.values())


def _tensors(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays as they are stored, the ones with the widest numbers first: then each is aligned."""
    tensors: dict[str, Array] = {}
    for name, array in arrays.items():
        if array.dtype == object:
            tensors[f"{name}.bytes"], tensors[f"{name}.ends"] = encode_texts(array)
        else:
            tensors[name] = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    return dict(sorted(tensors.items(), key=lambda entry: (-entry[1].itemsize, entry[0])))


def _write_parts(file: Path, header: bytes, tensors: Iterable[Array]) -> None:
    """Write the file with the digest of all that it holds."""
    head = len(header).to_bytes(8, "little") + header
    digest = hashlib.sha256()
    with file.open("wb") as handle:
        for part in (memoryview(head), *(array.reshape(-1).view(np.uint8).data for array in tensors)):
            digest.update(part)
            handle.write(part)
        handle.seek(head.index(NO_DIGEST.encode()))
        handle.write(f"{HASH}:{digest.hexdigest()}".encode())


def read(path: str | os.PathLike[str], verify: bool | None = None) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the plain values and the arrays, the latter as read-only views of the mapped file.

    The digest is compared with the content if `verify` says so, and by default if the file is small.
    """
    file = Path(path)
    header, begin = _read_header(file)
    metadata = header.pop("__metadata__", None) or {}
    meta = _read_meta(file, metadata)
    data = np.memmap(file, np.uint8, mode="r", offset=0) if file.stat().st_size else np.empty(0, np.uint8)
    if "digest" in metadata and (len(data) <= SMALL if verify is None else verify):
        _check_digest(file, metadata["digest"], data, begin)
    arrays = {name: _view(file, name, data[begin:], entry) for name, entry in header.items()}
    for name in [name.removesuffix(".ends") for name in arrays if name.endswith(".ends")]:
        arrays[name] = decode_texts(file, name, arrays.pop(f"{name}.bytes", None), arrays.pop(f"{name}.ends"))
    return meta, arrays


def _check_digest(file: Path, digest: str, data: Array, begin: int) -> None:
    """Raise an error unless the digest is that of the file with zeros in the place of the digest."""
    head = data[:begin].tobytes()
    found = hashlib.sha256(head.replace(f'"{digest}"'.encode(), f'"{NO_DIGEST}"'.encode(), 1))
    found.update(data[begin:].data)
    require(digest == f"{HASH}:{found.hexdigest()}", file, "its content does not match its digest")


def has_digest(path: str | os.PathLike[str]) -> bool:
    """Tell whether a model file holds a digest; those that Starcast 0.1 wrote do not."""
    header, _ = _read_header(Path(path))
    return "digest" in (header.get("__metadata__") or {})


def _read_header(file: Path) -> tuple[dict[str, Any], int]:
    """Return the header, once safetensors itself has found the file sound, and where the data begin."""
    head = b""
    try:
        if file.is_dir():
            raise IsADirectoryError
        if "\0" in str(file):
            raise OSError("a name cannot hold a NUL byte")
        with file.open("rb") as handle:
            head = handle.read(8)
            with safetensors.safe_open(file, framework="np"):
                pass
            size = int.from_bytes(head, "little")
            return json.loads(handle.read(size)), 8 + size
    except IsADirectoryError:
        raise FileError(f"{file} is a folder. Give the model file in it.") from None
    except FileNotFoundError:
        raise FileError(
            f"there is no model file {file}. Check the name; relative paths start at {Path.cwd()}."
        ) from None
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror or error}.") from None
    except (safetensors.SafetensorError, ValueError) as error:
        if head[:1] == b"\x80" or head[:2] == b"PK":  # a sound file may begin so, too: they are bytes of its length
            raise FileFormatError(
                f"{file} looks like a pickle or a zip, not like a Starcast model. Starcast never unpickles, "
                "because a pickle can run any code: fit the model again and save it with model.save."
            ) from None
        raise FileFormatError(
            f"{file} is not a Starcast model, or a damaged one ({error}). Fit the model again, or fetch the file again."
        ) from None


def _read_meta(file: Path, header: Mapping[str, str]) -> dict[str, Any]:
    if header.get("format") != FORMAT:
        raise FileFormatError(f"{file} is a safetensors file, but not of a Starcast model.")
    written = header.get("format_version", "")
    if written not in VERSIONS:
        raise FileFormatError(
            f"{file} has the format version {written[:20] or 'none'}; this Starcast reads up to {FORMAT_VERSION}. "
            "Upgrade with: pip install -U starcast"
        )
    try:
        meta = json.loads(header["starcast"])
        if not isinstance(meta, dict):
            raise TypeError
    except (KeyError, ValueError, TypeError, RecursionError):
        raise FileFormatError(f"{file} has no readable description of its model. Fetch the file again.") from None
    return meta


def _view(file: Path, name: str, data: Array, entry: Mapping[str, Any]) -> Array:
    if entry["dtype"] not in DTYPES:
        raise FileFormatError(f"{file} is damaged: {name!r} is of the type {entry['dtype']}, which no model has.")
    start, end = entry["data_offsets"]
    array = data[start:end].view(np.ndarray).view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    if not array.flags.aligned:  # another program wrote the file; kernels read aligned numbers only
        array = array.copy()
        array.flags.writeable = False
    return array


def encode_texts(texts: Array) -> tuple[Array, Array]:
    """Return the UTF-8 bytes of an array of str, and the place where each text ends in them."""
    encoded = [text.encode() for text in texts]
    return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([len(text) for text in encoded], dtype=np.int64)


def decode_texts(file: Path, name: str, content: Array | None, ends: Array) -> Array:
    """Return an array of str from its bytes and the place where each text ends."""
    sound = (
        content is not None
        and content.dtype == np.uint8
        and ends.dtype == np.int64
        and ends.ndim == content.ndim == 1
        and bool((ends[1:] >= ends[:-1]).all() and (ends >= 0).all())
        and (int(ends[-1]) if len(ends) else 0) == len(content)
    )
    if not sound or content is None:
        raise FileFormatError(f"{file} is damaged: the text ends of {name!r} do not fit its bytes. Fetch it again.")
    whole = content.tobytes()
    stops = ends.tolist()
    try:
        texts = [whole[a:b].decode() for a, b in zip([0, *stops][:-1], stops, strict=True)]
    except UnicodeDecodeError:
        raise FileFormatError(f"{file} is damaged: {name!r} holds bytes that are no text. Fetch it again.") from None
    return strings(texts)


def require(condition: object, file: object, what: str) -> None:
    """Raise an error that says what a model file must hold, unless it does."""
    if not condition:
        raise FileFormatError(f"{file} is damaged: {what}. Fetch the file again, or fit the model again.")
