"""The rows that no other row beats, as models that can be fitted, saved and loaded."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from starcast import modelfile
from starcast.errors import (
    DataError,
    DivergenceError,
    FileError,
    FileFormatError,
    NotFittedError,
    ParameterError,
    UnknownNameError,
    choose,
    plural,
)
from starcast.files import replacing
from starcast.journal import OnProgress
from starcast.models import MODELS, Model, load, make_model
from starcast.objectives import Objectives, direction, directions
from starcast.pareto import hypervolume, pareto_mask
from starcast.ratings import Ratings
from starcast.results import Results

Row = dict[str, Any]
MANIFEST = "front.json"


class Front:
    """The rows of results that no other row beats, each of which can be fitted, saved and loaded.

    Parameters
    ----------
    results : Results
        Such as :func:`starcast.search` returns. Rows that are not "ok", or have no value for an objective, are out.
    objectives : names, or mapping from column to "min" or "max"
    min_coverage : float, optional
        The least coverage in every fold, as in the paper (0.02): rows with less in a column of coverage that is an
        objective, or in one of its folds, neither count nor beat others.

    Attributes
    ----------
    rows : list of dict
        The rows on the front, in the order of the results.
    models : list of Model or None
        One per row after :meth:`fit_all`; None where the fit diverged.

    Examples
    --------
    >>> table = Results([{"nll": 1.2, "coverage@0.5": 0.4}, {"nll": 1.4, "coverage@0.5": 0.9}, {"nll": 1.5}])
    >>> front = Front(table, ["nll", "coverage@0.5"])
    >>> front
    Front(2 rows: nll min, coverage@0.5 max)
    >>> front.pick({"coverage@0.5": 0.8})
    {'nll': 1.4, 'coverage@0.5': 0.9}
    """

    def __init__(self, results: Results, objectives: Objectives, min_coverage: float | None = None) -> None:
        self.objectives = directions(objectives)
        self.models: list[Model | None] = []
        rows = [row for row in results if row.get("status", "ok") == "ok"]
        for name in self.objectives:
            choose("column", name, results.columns)
        points = np.array([[_number(row.get(name)) for name in self.objectives] for row in rows])
        points = points.reshape(len(rows), len(self.objectives)) * self._signs()
        if min_coverage is not None:
            points[~self._covers(rows, min_coverage)] = np.nan
        self.rows = [row for row, best in zip(rows, pareto_mask(points), strict=True) if best]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        goals = ", ".join(f"{name} {way}" for name, way in self.objectives.items())
        return f"Front({plural(len(self), 'row')}: {goals})"

    def _repr_html_(self) -> str:
        from starcast.html import results_html

        table = Results(self.rows)
        order = [*self.objectives, *(column for column in table.columns if column not in self.objectives)]
        goals = [f"{name} {way}" for name, way in self.objectives.items()]
        columns = {column: table[column][:50] for column in order if column in table.columns}
        return results_html("Front", goals, columns, self.objectives, len(self))

    def hypervolume(self, reference: Mapping[str, float]) -> float:
        """Return the volume between the front and a reference, a value per objective that every row should beat."""
        for name in self.objectives:
            if name not in reference:
                raise ParameterError(f"reference must have a value for every objective, but has none for {name!r}.")
        points = np.array([[row[name] for name in self.objectives] for row in self.rows])
        origin = np.array([reference[name] for name in self.objectives])
        return hypervolume(points.reshape(len(self), -1) * self._signs(), origin * self._signs())

    def pick(self, promises: Mapping[str, float] | None = None, **more: float) -> Row:
        """Return the best row that keeps the promises: at least the value where more is better, else at most.

        A promise is on any column, by keyword or, for names such as ``"1-MAE@0.5"``, in a mapping. The best row is that
        which is best in the first objective about which nothing was promised, then in the next.
        """
        wanted = dict(promises or {}) | more
        ways = {name: self._way(name) for name in wanted}
        kept = [row for row in self.rows if all(_keeps(row, name, wanted[name], ways[name]) for name in wanted)]
        if not self.rows:
            raise ParameterError("the front is empty: no row has a value for every objective.")
        if not kept:
            raise ParameterError(self._describe_broken(wanted, ways))
        order = sorted(self.objectives, key=lambda name: name in wanted)
        return min(kept, key=lambda row: [row[name] * (1 if self.objectives[name] == "min" else -1) for name in order])

    def fit(self, row: Row | int, ratings: Ratings) -> Model:
        """Return the model of a row (or of the row at that place) fitted on the ratings."""
        return model_of(self.rows[row] if isinstance(row, int) else row).fit(ratings)

    def fit_all(self, ratings: Ratings, on_progress: OnProgress | None = None) -> "Front":
        """Fit the model of every row and return the front; a model that diverges is None."""
        models: list[Model | None] = []
        for row in self.rows:
            try:
                models.append(self.fit(row, ratings))
            except DivergenceError:
                models.append(None)
            if on_progress is not None:
                on_progress(len(models), len(self))
        self.models = models
        return self

    def model(self, row: Row) -> Model | None:
        """Return the fitted model of a row of this front, such as :meth:`pick` returns."""
        self._check_fitted()
        if row not in self.rows:
            raise DataError("row must be a row of this front, as pick returns it.")
        return self.models[self.rows.index(row)]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted models and the table into a folder; :meth:`load` reads them back.

        The list of the files is written last and at once, so that the folder holds the old front or the new one.
        """
        self._check_fitted()
        target = Path(folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"{target} cannot be written: {error.strerror}. Give the name of a folder.") from None
        old = {name for name in _files_of(target) if name}
        files: list[str | None] = []
        for k, model in enumerate(self.models):
            files.append(None if model is None else f"{k:03d}-{_fingerprint(model)}.starcast")
            if model is not None:
                model.save(target / str(files[-1]))
        with replacing(target / "front.csv") as temporary:
            temporary.write_text(Results(self.rows).to_csv(), encoding="utf-8")
        content = {"format": "starcast front", "version": 1, "objectives": self.objectives, "rows": self.rows}
        with replacing(target / MANIFEST) as temporary:
            temporary.write_text(json.dumps(content | {"models": files}, indent=1, default=_plain), encoding="utf-8")
        for name in old - set(files):
            (target / name).unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Front":
        """Return the front of a folder that :meth:`save` wrote, with its fitted models."""
        path = Path(folder) / MANIFEST
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror}. Give a folder that Front.save wrote.") from None
        except ValueError:
            raise FileFormatError(f"{path} is not JSON. Give a folder that Front.save wrote.") from None
        modelfile.require(_is_front(content), path, "it does not list a front")
        front = cls.__new__(cls)
        front.objectives, front.rows = directions(content["objectives"]), content["rows"]
        front.models = [None if name is None else load(path.parent / name) for name in content["models"]]
        return front

    def _signs(self) -> npt.NDArray[np.float64]:
        return np.array([1.0 if way == "max" else -1.0 for way in self.objectives.values()])

    def _covers(self, rows: Sequence[Row], least: float) -> npt.NDArray[np.bool_]:
        names = [name for name in self.objectives if "coverage" in name]
        if not names:
            raise ParameterError(f"min_coverage needs an objective of coverage, got {', '.join(self.objectives)}.")
        enough = []
        for row in rows:
            folds = [row[column] for column in row if column.startswith(tuple(f"{name} fold " for name in names))]
            enough.append(all(_number(value) >= least for value in [*folds, *(row.get(name) for name in names)]))
        return np.array(enough, bool)

    def _way(self, column: str) -> str:
        choose("column", column, dict.fromkeys(name for row in self.rows for name in row))
        if column in self.objectives:
            return self.objectives[column]
        return "min" if column == "seconds" else direction(column)

    def _describe_broken(self, wanted: Mapping[str, float], ways: Mapping[str, str]) -> str:
        def best(name: str) -> float:
            values = [row[name] for row in self.rows if not np.isnan(_number(row.get(name)))]
            return (max if ways[name] == "max" else min)(values, default=np.nan)

        asked = " and ".join(f"{name} {_bound(ways[name])} {value:g}" for name, value in wanted.items())
        found = ", ".join(f"{name} {best(name):.4g}" for name in wanted)
        alone = " each alone" if len(wanted) > 1 else ""
        return f"no row of the front has {asked}. The best there is{alone}: {found}."

    def _check_fitted(self) -> None:
        if len(self.models) != len(self.rows):
            raise NotFittedError("the models of this front are not fitted. Call fit_all(ratings) first.")


def model_of(row: Mapping[str, Any]) -> Model:
    """Return the unfitted model that a row of results describes.

    >>> model_of({"model": "ItemFrequency", "shrinkage": 5, "nll": 1.3})
    ItemFrequency(shrinkage=5)
    """
    names = {cls.__name__: name for name, cls in MODELS.items()} | {name: name for name in MODELS}
    if row.get("model") not in list(names):
        raise UnknownNameError(f"a row must name its model in the column 'model', got {row.get('model')!r}.")
    model = make_model(names[row["model"]])
    return model.set_params(**{name: row[name] for name in model.get_params() if name in row})


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _keeps(row: Row, name: str, value: float, way: str) -> bool:
    found = _number(row.get(name))
    return found >= value if way == "max" else found <= value


def _bound(way: str) -> str:
    return "of at least" if way == "max" else "of at most"


def _fingerprint(model: Model) -> str:
    text = json.dumps([type(model).__name__, model.get_params(), model.digest_], default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _files_of(folder: Path) -> list[str | None]:
    """Return the model files that the front in a folder lists, none if there is no front."""
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return list(content["models"]) if _is_front(content) else []


def _is_front(content: Any) -> bool:
    if not isinstance(content, dict) or (content.get("format"), content.get("version")) != ("starcast front", 1):
        return False
    rows, models, goals = content.get("rows"), content.get("models"), content.get("objectives")
    if not isinstance(rows, list) or not isinstance(models, list) or not isinstance(goals, dict) or not goals:
        return False
    # A name in the folder and nowhere else, so that a front from strangers reads and removes only its own files.
    named = all(
        name is None or (isinstance(name, str) and name.endswith(".starcast") and Path(name).name == name)
        for name in models
    )
    ways = set(map(str, goals.values())) <= {"min", "max"}
    return named and ways and len(rows) == len(models) and all(isinstance(row, dict) for row in rows)
