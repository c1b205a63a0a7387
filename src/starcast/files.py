"""Files written whole or not at all, and by one process at a time."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from starcast.errors import FileError

LOCK_BYTE = 2**40  # where Windows locks, behind all that a file holds


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary file beside the target and put it in the target's place once it is complete and on the disk.

    A file that is replaced keeps its permissions, and a symbolic link stays: the file that it leads to is replaced.
    Whatever goes wrong, Ctrl-C included, the temporary file is removed and the target is as it was.
    """
    target, temporary = _make_beside(Path(path))
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        _copy_permissions(target, temporary)
        temporary.replace(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"{path} could not be written: {reason}. What was there before is untouched.") from None
    finally:
        temporary.unlink(missing_ok=True)


def _copy_permissions(target: Path, temporary: Path) -> None:
    """Give the temporary file the mode of the target or, where that is new, the one that any new file has."""
    try:
        old = target.stat()
    except FileNotFoundError:
        temporary.chmod(0o666 & ~umask())  # mkstemp makes private files
        return
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):  # only root may give files away
            os.chown(temporary, old.st_uid, old.st_gid)
    temporary.chmod(stat.S_IMODE(old.st_mode))


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder, too: after a power failure they are there with their files."""
    with contextlib.suppress(OSError):  # Windows, which opens no folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def alone(file: Any, is_patient: bool = True) -> Iterator[None]:
    """Keep out all others that ask for an open file in this way, until it is given up, or closed by whatever end.

    Who comes later waits or, without patience, gets a BlockingIOError.
    """
    try:
        import fcntl
    except ImportError:
        with _alone_on_windows(file, is_patient):
            yield
        return
    fcntl.flock(file, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))  # given up when the file is closed
    yield


@contextlib.contextmanager
def _alone_on_windows(file: Any, is_patient: bool) -> Iterator[None]:
    import msvcrt

    lock: Any = msvcrt
    file.seek(LOCK_BYTE)
    try:
        lock.locking(file.fileno(), lock.LK_LOCK if is_patient else lock.LK_NBLCK, 1)
    except OSError as error:
        raise BlockingIOError(error.errno, error.strerror) from None
    try:
        yield
    finally:
        file.seek(LOCK_BYTE)
        lock.locking(file.fileno(), lock.LK_UNLCK, 1)


def check_target(path: str | os.PathLike[str]) -> None:
    """Raise the error now that writing to `path` would end with, before hours of work for what is to be written."""
    _make_beside(Path(path))[1].unlink()


def check_sources(path: str | os.PathLike[str], sources: Iterable[str | os.PathLike[str]]) -> None:
    """Raise an error if writing to `path` would overwrite one of the files that are read."""
    for source in sources:
        try:
            is_same = Path(path).samefile(source)
        except (OSError, ValueError):  # one of the two is no file
            continue
        if is_same:
            raise FileError(f"{path} is what is read. Give another name to write to.")


def is_file(text: str) -> bool:
    """Tell whether a text is the name of a file; one that is too long for a name is not."""
    try:
        return Path(text).is_file()
    except OSError:
        return False


def _make_beside(path: Path) -> tuple[Path, Path]:
    """Return the file that is to be written, symbolic links followed, and an empty temporary file in its folder."""
    try:
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise IsADirectoryError
        if target.exists() and not target.is_file():  # /dev/null, a pipe: a rename would put a file in its place
            raise FileError(f"{path} is no plain file. Give the name of a file to write.")
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
    except FileError:
        raise
    except IsADirectoryError:
        raise FileError(f"{path} is a folder. Give the name of a file to write.") from None
    except ValueError as error:  # a name with a NUL byte
        raise FileError(f"{str(path)!r} is no name of a file: {error}.") from None
    except OSError as error:
        raise FileError(
            f"{path} cannot be written: {error.strerror}. Choose a folder that can be written to."
        ) from None
    return target, Path(name)


def umask() -> int:
    """Return what new files and folders of this process do not permit."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
