"""Files from the web, whole or not at all: resumed where they were cut, checked, and put in place by one rename."""

import hashlib
import http.client
import os
import re
import socket
import ssl
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from starcast.errors import DownloadError, FileError, FileFormatError, plural

BLOCK = 1 << 16
PASSING = {408, 425, 429, 500, 502, 503, 504}  # what a server says when it may answer better a little later


def download(
    url: str,
    target: str | os.PathLike[str],
    *,
    md5: str | None = None,
    n_tries: int = 4,
    timeout: float = 30.0,
    pause: float = 1.0,
    progress: bool | None = None,
) -> Path:
    """Fetch a file and return where it lies; until it is complete and checked, only ``<target>.part`` exists.

    A ``.part`` that an earlier, interrupted call left is continued if the server still has the same version of the
    file, and started again otherwise.

    Parameters
    ----------
    url : str
    target : path
        Folders above it are made.
    md5 : str, optional
        The checksum that the file must have, 32 hexadecimal digits.
    n_tries : int
        How often to try when the connection breaks or the server is busy.
    timeout : float
        Seconds of silence after which a connection counts as broken.
    pause : float
        Seconds before the second try; each later pause is twice as long.
    progress : bool, optional
        Whether to draw a progress bar; by default on a terminal only.
    """
    target = Path(target)
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _progress_bar(target.name, progress) as advance:
            _fetch(url, part, n_tries, timeout, pause, advance)
        if md5 is not None:
            _check_md5(url, part, md5)
        part.replace(target)
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"{target} cannot be written: {error.strerror}. Make room or get the right to write there, then run again."
        ) from None
    return target


def published_md5(url: str, **options: Any) -> str:
    """Return the checksum that a small file on the web holds; `options` are those of :func:`download`.

    Both usual forms are read: ``<digits>  <file>`` and ``MD5 (<file>) = <digits>``.
    """
    with tempfile.TemporaryDirectory() as folder:
        text = download(url, Path(folder) / "md5", progress=False, **options).read_text("utf-8", errors="replace")
    found = re.search(r"\b[0-9a-f]{32}\b", text.lower())
    if found is None:
        raise DownloadError(f"{url} must hold a checksum of 32 hexadecimal digits, got {text[:40]!r}. Try again later.")
    return found.group()


def unpack(archive: str | os.PathLike[str], folder: str | os.PathLike[str], *, inside: str = "") -> Path:
    """Unpack a zip archive, or the folder `inside` it, as `folder`, which appears complete or not at all."""
    archive, folder = Path(archive), Path(folder)
    try:
        # Beside the folder, so that the last step is a rename within one file system.
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
            unpacked = Path(temporary) / "unpacked"
            unpacked.mkdir()
            _extract(archive, unpacked)
            if not (unpacked / inside).is_dir():
                held = ", ".join(sorted(entry.name for entry in unpacked.iterdir())[:5]) or "nothing"
                raise FileFormatError(
                    f"{archive} must hold a folder {inside}, but holds {held}. Get the right archive."
                )
            _put(unpacked / inside, folder)
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"{archive.name} cannot be unpacked as {folder}: {error.strerror}. "
            "Make room or get the right to write there, then run again."
        ) from None
    return folder


@contextmanager
def _progress_bar(name: str, wanted: bool | None) -> Iterator[Callable[[int, int | None], None]]:
    """Give a function that is told how many bytes there are, and of how many."""
    console = Console(stderr=True)
    show = console.is_terminal if wanted is None else wanted
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not show) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class _CutError(Exception):
    """A fetch that broke off and may be continued."""


def _fetch(
    url: str, part: Path, n_tries: int, timeout: float, pause: float, advance: Callable[[int, int | None], None]
) -> None:
    reason = ""
    for attempt in range(n_tries):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        try:
            return _fetch_rest(url, part, timeout, advance)
        except _CutError as cut:
            reason = str(cut)
    raise DownloadError(f"{url} could not be fetched in {plural(n_tries, 'attempt')}: {reason}. Run again to continue.")


def _fetch_rest(url: str, part: Path, timeout: float, advance: Callable[[int, int | None], None]) -> None:
    """Append to the part what it lacks, or write all of it if the server sends all of it."""
    with _open(url, part, timeout) as response:
        done, total = _extent(response)
        try:
            with part.open("ab" if done else "wb") as file:
                for block in _blocks(response):
                    file.write(block)
                    done += len(block)
                    advance(done, total)
        finally:
            _stamp(part, response)
    size = part.stat().st_size
    if total is not None and size != total:
        if size > total:
            part.unlink()
        raise _CutError(f"{size:,} of {total:,} bytes came")


def _open(url: str, part: Path, timeout: float) -> http.client.HTTPResponse:
    """Ask for what the part lacks; a part that cannot be continued is removed, and all is asked for."""
    resume = _resume_headers(part)
    request = Request(url, headers={"User-Agent": "starcast", "Accept-Encoding": "identity", **resume})
    try:
        response: http.client.HTTPResponse = urlopen(request, timeout=timeout)
    except HTTPError as error:
        error.close()
        if error.code == 416 and resume:
            part.unlink()
            return _open(url, part, timeout)
        if error.code in PASSING:
            raise _CutError(f"the server answered {error.code} {error.reason}") from None
        raise DownloadError(f"{url} could not be fetched: the server answered {error.code} {error.reason}.") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, (socket.gaierror, ssl.SSLCertVerificationError)):  # trying again would not help
            raise DownloadError(f"{url} could not be fetched: {reason}.") from None
        raise _CutError(str(reason) or type(reason).__name__) from None
    if response.status == 206 and not _continues(response, part):
        response.close()
        if not resume:
            raise DownloadError(f"{url} could not be fetched: the server sent a part when asked for the whole.")
        part.unlink()
        return _open(url, part, timeout)
    return response


def _resume_headers(part: Path) -> dict[str, str]:
    # The part bears the date of the version it was cut from (see _stamp): if the server's is another, If-Range makes it
    # send the whole file.
    if not part.is_file() or part.stat().st_size == 0:
        return {}
    return {"Range": f"bytes={part.stat().st_size}-", "If-Range": formatdate(part.stat().st_mtime, usegmt=True)}


def _stamp(part: Path, response: http.client.HTTPResponse) -> None:
    version = _version(response)
    if version is not None and part.is_file():
        os.utime(part, (version, version))


def _version(response: http.client.HTTPResponse) -> int | None:
    try:
        return int(parsedate_to_datetime(response.headers["Last-Modified"]).timestamp())
    except (TypeError, ValueError):  # no date, or none that can be read
        return None


def _continues(response: http.client.HTTPResponse, part: Path) -> bool:
    """Tell whether a partial answer begins where the part ends and is of the same version."""
    start, _ = _extent(response)
    return part.is_file() and start == part.stat().st_size and _version(response) in (None, int(part.stat().st_mtime))


def _extent(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Return at which byte of the file the answer begins, and how long the file is, if the server says so."""
    if response.status == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip())
        return (-1, None) if found is None else (int(found[1]), None if found[2] == "*" else int(found[2]))
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else None


def _blocks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            block = response.read(BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise _CutError(str(error) or type(error).__name__) from None
        if not block:
            return
        yield block


def _check_md5(url: str, part: Path, md5: str) -> None:
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5.lower():
        part.unlink()
        raise DownloadError(f"{url} must have the MD5 checksum {md5.lower()}, got {found}. It was removed; run again.")


def _extract(archive: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as entries:
            for name in entries.namelist():
                path = PurePosixPath(name.replace("\\", "/"))
                if path.is_absolute() or ".." in path.parts or ":" in name:  # "C:" is a drive
                    raise FileFormatError(f"{archive} must stay in its folder, but holds {name!r}. Do not trust it.")
            entries.extractall(folder)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise FileFormatError(f"{archive} is not a sound zip archive ({error}). Remove it and run again.") from None


def _put(unpacked: Path, folder: Path) -> None:
    try:
        unpacked.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was faster, with the same files
            raise
