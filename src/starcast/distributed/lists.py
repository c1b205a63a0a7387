"""Lists for all users of a model as Parquet parts: streamed, by one process or many, taken up where they stopped."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from starcast.distributed.tasks import run_tasks, workers_of
from starcast.distribution import check_fraction, kind_of
from starcast.errors import ClusterError, FileError, ParameterError
from starcast.files import replacing
from starcast.models import Model, load
from starcast.models.factorization import check_whole
from starcast.models.ranking import check_number
from starcast.names import Array

PURPOSE = "recommending on many machines"
ABOUT = "starcast"  # the key under which each part says what it is a part of


def recommend_all(
    model: Model | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    n: int = 10,
    threshold: float | None = None,
    *,
    exclude_seen: bool = True,
    users_per_part: int | None = None,
    engine: Any = None,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write the best `n` items of every user to Parquet files and return these, in the order of the users.

    One after the other they hold the rows of ``model.recommend(n=n, threshold=threshold)``. Each is written whole or
    not at all, and those that are there already are left as they are: a call that was stopped is finished by calling
    it again.

    Parameters
    ----------
    model : Model or path of a model file
        On many machines a file must lie where all of them see it; a model is sent to each of them once.
    folder : path
        Made if it is not there.
    n, threshold, exclude_seen
        As in :meth:`starcast.Model.recommend`.
    users_per_part : int, optional
        Users in a file; the lists of so many are held at once by each worker. By default 16 files, with 500 to 50,000
        users each: that depends on the model alone, so that any number of workers finishes what others began.
    engine : "ray" or RayEngine, optional
        Who works: the workers of a Ray cluster, or this process.
    workers : int, optional
        How many workers; 2 if not given, those of a RayEngine.
    on_progress : callable, optional
        Called with the parts done and those in all.

    Examples
    --------
    >>> import tempfile
    >>> from starcast import ItemFrequency, make_ratings
    >>> model = ItemFrequency().fit(make_ratings(n_users=50, random_state=0)[0])
    >>> [file.name for file in recommend_all(model, tempfile.mkdtemp(), users_per_part=30)]
    ['part-000000.parquet', 'part-000001.parquet']
    """
    check_number(n)
    check_fraction(0.0 if threshold is None else threshold, "threshold")
    if users_per_part is not None:
        check_whole("users_per_part", users_per_part, 1)
    n_workers = workers_of(engine, workers)
    fitted = model if isinstance(model, Model) else load(model)
    fitted._check_fitted()
    users = fitted.users_[np.flatnonzero(fitted._user_known)]
    each = usual_users_per_part(len(users)) if users_per_part is None else int(users_per_part)
    place = Path(folder).absolute()
    ask = {"n": int(n), "threshold": threshold, "exclude_seen": bool(exclude_seen)}
    limit = None if threshold is None else [kind_of(threshold), float(threshold)]
    about = {"model": _fingerprint(fitted), **ask, "threshold": limit, "users_per_part": each}
    _check_same(place, about)
    files = [place / f"part-{k:06}.parquet" for k in range(-(-len(users) // each))]
    missing = [k for k, file in enumerate(files) if _told(file) is None]
    is_shared = n_workers is not None and not isinstance(model, Model)
    source = ModelFile(Path(model).absolute(), about["model"]) if is_shared else fitted  # type: ignore[arg-type]
    tasks = ((files[k], users[k * each : (k + 1) * each], ask, about) for k in missing)
    done = len(files) - len(missing)
    if on_progress is not None:
        on_progress(done, len(files))
    for _ in run_tasks(_write_part, tasks, n_workers, PURPOSE, (source, n_workers is not None)):
        done += 1
        if on_progress is not None:
            on_progress(done, len(files))
    elsewhere = [file for file in files if not file.is_file()]
    if elsewhere:
        raise ClusterError(
            f"the folder of lists must lie on a disk that all machines see: {len(elsewhere)} of {len(files)} parts of "
            f"{place} are not here."
        )
    return files


def usual_users_per_part(n_users: int) -> int:
    """Return the users in a part where nobody says: 16 parts, unless these are small or large.

    >>> usual_users_per_part(943), usual_users_per_part(6_040), usual_users_per_part(10**6), usual_users_per_part(10**8)
    (500, 500, 50000, 50000)
    """
    return min(max(-(-n_users // 16), 500), 50_000)


def _check_same(folder: Path, about: dict[str, Any]) -> None:
    """Make the folder, or find it to be that of the same lists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = [file.name for file in folder.iterdir() if not file.name.startswith(".")]
    except ValueError as error:  # a name with a NUL byte
        raise FileError(f"{str(folder)!r} is no name of a folder: {error}. Give the name of a new folder.") from None
    except OSError as error:
        raise FileError(f"{folder} cannot be written to: {error.strerror}. Choose another folder.") from None
    if not all(re.fullmatch(r"part-\d+\.parquet", name) for name in names):
        raise FileError(f"{folder} holds other things than lists. Give the name of a new folder.")
    for name in sorted(names):
        found = _told(folder / name)
        if found is None:
            continue
        differing = [key for key in about if found.get(key) != about[key]]
        if differing:
            raise ParameterError(
                f"{folder} holds other lists: {', '.join(differing)} differ{'s' if len(differing) == 1 else ''}. "
                "Give these a folder of their own."
            )


def _told(file: Path) -> dict[str, Any] | None:
    """Return what a part says of itself; None if it is not there, torn, or nothing of ours."""
    import polars as pl

    if not file.is_file():
        return None
    try:
        found = json.loads(pl.read_parquet_metadata(file).get(ABOUT, "null"))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _fingerprint(model: Model) -> str:
    """Return a digest of parameters and of all that was learnt."""
    digest = hashlib.sha256(type(model).__name__.encode())
    params = {name: value for name, value in model.get_params().items() if name not in ("n_jobs", "verbose", "device")}
    digest.update(json.dumps(params, default=str, sort_keys=True).encode())
    for name, value in sorted(vars(model).items()):
        if name.endswith("_") and isinstance(value, np.ndarray):
            digest.update(name.encode())
            digest.update(
                json.dumps(value.tolist()).encode() if value.dtype == object else np.ascontiguousarray(value).data
            )
    return digest.hexdigest()


class ModelFile:
    """A model that the worker who asks for it maps into memory, once for all tasks."""

    def __init__(self, file: Path, digest: str) -> None:
        self.file, self.digest = file, digest

    @cached_property
    def model(self) -> Model:
        """The model, which must still be the one that was meant."""
        model = load(self.file)
        if _fingerprint(model) != self.digest:
            raise FileError(f"{self.file} has become another model meanwhile. Ask again.")
        return model


def _write_part(
    source: Model | ModelFile, alone: bool, file: Path, users: Array, ask: dict[str, Any], about: dict[str, Any]
) -> None:
    model = source if isinstance(source, Model) else source.model
    if alone and "n_jobs" in model.get_params():  # beside other workers on the same machine
        model.set_params(n_jobs=1)
    frame = model.recommend(users, **ask)
    with replacing(file) as temporary:
        frame.write_parquet(temporary, metadata={ABOUT: json.dumps(about)})
