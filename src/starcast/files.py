"""Files written whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from starcast.errors import FileError


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary file beside the target and put it in the target's place once it is complete and on the disk.

    Whatever goes wrong, Ctrl-C included, the temporary file is removed and the target is as it was.
    """
    target = Path(path)
    temporary = _make_beside(target)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes private files; these are as public as any other
        temporary.replace(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"{target} could not be written: {reason}. What was there before is untouched.") from None
    finally:
        temporary.unlink(missing_ok=True)


def check_target(path: str | os.PathLike[str], source: str | os.PathLike[str] | None = None) -> None:
    """Raise the error now that writing to `path` would end with, before hours of work for what is to be written.

    `source` is what the work begins with, and must not be overwritten by what it ends with.
    """
    target = Path(path)
    _make_beside(target).unlink()
    if source is not None and target.exists() and Path(source).exists() and target.samefile(source):
        raise FileError(f"{target} is what is read. Give another name to write to.")


def _make_beside(target: Path) -> Path:
    """Return an empty temporary file in the folder of the target."""
    try:
        if target.is_dir():
            raise IsADirectoryError
        if target.exists() and not target.is_file():  # /dev/null, a pipe: a rename would put a file in its place
            raise FileError(f"{target} is no plain file. Give the name of a file to write.")
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
    except FileError:
        raise
    except IsADirectoryError:
        raise FileError(f"{target} is a folder. Give the name of a file to write.") from None
    except ValueError as error:  # a name with a NUL byte
        raise FileError(f"{str(target)!r} is no name of a file: {error}.") from None
    except OSError as error:
        raise FileError(
            f"{target} cannot be written: {error.strerror}. Choose a folder that can be written to."
        ) from None
    return Path(name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
