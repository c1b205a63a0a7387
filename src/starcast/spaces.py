"""What a search may try: lists of values, ranges of numbers, and the spaces of the paper by name."""

import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from starcast.errors import FileError, FileFormatError, ParameterError, choose
from starcast.models.base import Model

Space = Mapping[str, Any]
MOST_SETTINGS = 10_000_000  # that a list of all settings may have


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    values: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        """Return one of the values."""
        return self.values[int(rng.integers(len(self.values)))]


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, both included; whole if both are; even in its logarithm if `log`."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        """Whether the numbers are whole."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def draw(self, rng: np.random.Generator) -> Any:
        """Return a number of the range."""
        if not self.log:
            return (
                int(rng.integers(int(self.low), int(self.high) + 1))
                if self.whole
                else float(rng.uniform(self.low, self.high))
            )
        # Whole numbers are rounded, so each end of the range has to reach half a step further.
        step = 0.5 if self.whole else 0.0
        x = math.exp(rng.uniform(math.log(self.low - step), math.log(self.high + step)))
        return min(max(round(x) if self.whole else x, self.low), self.high)


Axes = dict[str, Choice | Range]


def make_axes(space: Space, model: Model) -> Axes:
    """Return the space checked: a list is a choice of its values, a tuple (low, high) or (low, high, "log") a range.

    >>> from starcast.models import ItemFrequency
    >>> make_axes({"shrinkage": (1.0, 100.0, "log")}, ItemFrequency())
    {'shrinkage': Range(low=1.0, high=100.0, log=True)}
    """
    if not isinstance(space, Mapping) or not space:
        raise ParameterError(f"space must map parameters to lists of values or ranges, got {space!r}.")
    params = model.get_params()
    return {
        choose(f"parameter of {type(model).__name__}", name, params): _make_axis(name, values)
        for name, values in space.items()
    }


def _make_axis(name: str, values: Any) -> Choice | Range:
    if isinstance(values, tuple):
        return _make_range(name, values)
    if isinstance(values, (str, Mapping)) or not isinstance(values, (Sequence, np.ndarray)) or len(values) == 0:
        raise ParameterError(
            f"{name} in space must be a list of values or a tuple (low, high) or (low, high, 'log'), got {values!r}."
        )
    plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    for value in plain:
        if not isinstance(value, (str, bool, int, float, type(None))):
            raise ParameterError(f"{name} in space must hold numbers, texts, True, False or None, got {value!r}.")
    return Choice(tuple(dict.fromkeys(plain)))


def _make_range(name: str, values: tuple[Any, ...]) -> Range:
    plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    numbers = [value for value in plain[:2] if isinstance(value, (int, float)) and not isinstance(value, bool)]
    log = plain[2:] == ("log",)
    sound = len(numbers) == 2 and (log or len(plain) == 2) and all(map(math.isfinite, numbers))
    if not sound or not numbers[0] < numbers[1] or (log and numbers[0] <= 0):
        raise ParameterError(
            f"{name} in space must be a range (low, high) with low below high, or (low, high, 'log') with low above "
            f"zero, got {values!r}. Values to choose from stand in a list."
        )
    return Range(numbers[0], numbers[1], log)


def grid(axes: Axes) -> Iterator[dict[str, Any]]:
    """Yield every setting of a space of lists, the last parameter's values changing fastest.

    >>> list(grid({"a": Choice((1, 2)), "b": Choice(("x",))}))
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    for name, axis in axes.items():
        if isinstance(axis, Range):
            raise ParameterError(
                f"a grid needs a list for every parameter, but {name} has the range {axis.low:g} to {axis.high:g}. "
                'List its values, or choose method="random", "tpe" or "nsga2".'
            )
    _check_size(axes)
    for values in itertools.product(*(axis.values for axis in axes.values() if isinstance(axis, Choice))):
        yield dict(zip(axes, values, strict=True))


def random_settings(axes: Axes, n: int | None, seed: int | None) -> list[dict[str, Any]]:
    """Return `n` settings drawn at random, none twice; of lists alone at most all there are, which is also the default.

    A longer draw with the same seed begins with the shorter one.
    """
    rng = np.random.default_rng(seed)
    if all(isinstance(axis, Choice) for axis in axes.values()):
        settings = list(grid(axes))
        return [settings[at] for at in rng.permutation(len(settings))[:n]]
    if n is None:
        raise ParameterError("n_trials must be a whole number of at least 1 where the space has a range, got None.")
    drawn: dict[str, dict[str, Any]] = {}
    for _ in range(100 * n):  # a space of few whole numbers may have fewer settings than are asked for
        setting = {name: axis.draw(rng) for name, axis in axes.items()}
        drawn.setdefault(json.dumps(setting), setting)
        if len(drawn) == n:
            break
    return list(drawn.values())


def _check_size(axes: Axes) -> None:
    size = math.prod(len(axis.values) for axis in axes.values() if isinstance(axis, Choice))
    if size > MOST_SETTINGS:
        raise ParameterError(
            f"space has {size:,} settings, more than the {MOST_SETTINGS:,} that can be listed. Give ranges instead."
        )


def read_space(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the space of a JSON file: a list is a choice, ``{"low": 1, "high": 9, "log": true}`` a range."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}. Give a JSON file with the space.") from None
    except ValueError as error:
        raise FileFormatError(f"{path} is not JSON: {error}.") from None
    if not isinstance(content, dict):
        raise FileFormatError(f"{path} must hold an object that maps parameters to lists or ranges.")
    return {name: _from_json(path, name, values) for name, values in content.items()}


def _from_json(path: object, name: str, values: Any) -> Any:
    if not isinstance(values, dict):
        return values
    if not {"low", "high"} <= set(values) <= {"low", "high", "log"}:
        raise FileFormatError(f"{name} in {path} must be a list, or an object with low, high and perhaps log.")
    return (values["low"], values["high"], *(["log"] if values.get("log") else []))


def paper_space(model: str, dataset: str) -> dict[str, Any]:
    """Return the space of the paper's search for a model on a data set."""
    spaces = SPACES[choose("model with a space of the paper", model, SPACES)]
    return dict(spaces[choose("data set of the paper", dataset, spaces)])


_SMALL: dict[str, list[Any]] = {"n_factors": [2, 4, 6, 8, 10], "n_iters": [25, 50, 75, 100]}
_POINT = _SMALL | {"learning_rate": [0.01, 0.02, 0.03, 0.04, 0.05], "regularization": [0.0001, 0.001, 0.01, 0.1]}
_DIRMF = _SMALL | {
    "learning_rate": [0.1, 0.2, 0.3, 0.4, 0.5],
    "regularization": [0.0001, 0.00025, 0.0005, 0.00075, 0.001],
}
_BEMF = _SMALL | {
    "learning_rate": [0.01, 0.02, 0.03, 0.04, 0.05],
    "regularization": [0.0001, 0.001, 0.01, 0.1, 1.0],
}
_RESBEMF = _SMALL | {
    "learning_rate": [0.001, 0.002, 0.003, 0.004, 0.005],
    "regularization": [0.01, 0.05, 0.1, 0.15, 0.2],
    "update": ["paper"],
}
_MLP = _SMALL | {"learning_rate": [0.01, 0.1, 1.0], "n_hidden": [20], "full_batch": [True], "distribution": ["certain"]}
_SLOW = {"learning_rate": [0.0001, 0.0002, 0.0003, 0.0004, 0.0005]}
_DATASETS = ("ml-100k", "ml-1m", "filmtrust", "ml-10m", "myanimelist")

# As searched: the paper's table gives BeMF on MovieLens 10M a tenth of the learning rates that its files show, and
# does not give the spaces of PMF and BiasedMF.
SPACES: dict[str, dict[str, dict[str, list[Any]]]] = {
    "resbemf": dict.fromkeys(_DATASETS, _RESBEMF)
    | {
        "ml-10m": _RESBEMF | _SLOW | {"n_factors": [10, 20, 30, 40]},
        "myanimelist": _RESBEMF | _SLOW | {"regularization": [0.0001, 0.001, 0.01, 0.1]},
    },
    "bemf": dict.fromkeys(_DATASETS, _BEMF)
    | {"myanimelist": _BEMF | {"learning_rate": [0.001, 0.002, 0.003, 0.004, 0.005]}},
    "dirmf": dict.fromkeys(_DATASETS, _DIRMF),
    "pmf": dict.fromkeys(_DATASETS, _POINT),
    "biasedmf": dict.fromkeys(_DATASETS, _POINT),
    "mlp": dict.fromkeys(_DATASETS, _MLP),
}
