"""All models by the name that the command line, model files and searches use."""

import os
from typing import Any

import numpy as np

from starcast import modelfile
from starcast.errors import FileFormatError, ParameterError, UnknownNameError, choose
from starcast.models.base import Model
from starcast.models.frequency import GlobalFrequency, ItemFrequency, NaiveBayes

__all__ = ["MODELS", "GlobalFrequency", "ItemFrequency", "Model", "NaiveBayes", "load", "make_model"]

MODELS: dict[str, type[Model]] = {
    "global": GlobalFrequency,
    "item": ItemFrequency,
    "bayes": NaiveBayes,
}


def make_model(name: str, params: dict[str, Any] | None = None) -> Model:
    """Return the model of that name with the given parameters.

    >>> make_model("item", {"shrinkage": 5})
    ItemFrequency(shrinkage=5)
    """
    model = MODELS[choose("model", name, MODELS)]()
    return model.set_params(**params or {})


def load(path: str | os.PathLike[str]) -> Model:
    """Return the fitted model of a file that ``model.save`` wrote; its arrays stay in the file until they are used."""
    meta, arrays = modelfile.read(path)
    model = _unfitted(path, meta)
    learnt = meta.get("learnt", {})
    modelfile.require(isinstance(learnt, dict), path, "its learnt values are no table")
    modelfile.require(all(name.endswith("_") for name in (*learnt, *arrays)), path, "it holds what no model learns")
    _check_arrays(path, type(model), learnt, arrays)
    for name, value in (learnt | arrays).items():
        setattr(model, name, value)
    model._index()
    return model


def _unfitted(path: object, meta: dict[str, Any]) -> Model:
    classes = {cls.__name__: name for name, cls in MODELS.items()}
    modelfile.require(isinstance(meta.get("params"), dict), path, "its parameters are no table")
    if meta.get("model") not in classes:
        raise FileFormatError(
            f"{path} holds a model of the kind {meta.get('model')!r}, which this Starcast does not have. "
            "Upgrade with: pip install -U starcast"
        )
    try:
        model = make_model(classes[meta["model"]], meta["params"])
        model._check_params()
    except (UnknownNameError, ParameterError) as error:
        raise FileFormatError(f"{path} holds parameters that this Starcast does not take: {error}") from None
    return model


def _check_arrays(path: object, cls: type[Model], learnt: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Check that what a model file holds fits together, so that no answer can run outside an array."""
    sizes: dict[str, int] = {}
    for name, axes in (cls.BASE | cls.LEARNT).items():
        modelfile.require(name in arrays or (not axes and _is_finite(learnt.get(name))), path, f"{name} is missing")
        if axes:
            _check_shape(path, name, arrays[name], axes.split(), sizes)
    for name in ("users_", "items_"):
        modelfile.require(arrays[name].dtype in (object, np.int64), path, f"{name} must be text or whole numbers")
    scale, start, seen = arrays["scores_"], arrays["seen_start_"], arrays["seen_items_"]
    modelfile.require(len(scale) > 1 and (np.diff(scale) > 0).all(), path, "the scores do not ascend")
    modelfile.require(start.dtype == np.int64 and seen.dtype == np.int32, path, "what was seen is not in whole numbers")
    modelfile.require(
        start[0] == 0 and start[-1] == len(seen) and (np.diff(start) >= 0).all(), path, "the users' rows do not fit"
    )
    modelfile.require(((seen >= 0) & (seen < sizes["items"])).all(), path, "an item code lies outside the items")
    titles = arrays.get("titles_")
    modelfile.require(
        titles is None or (titles.dtype == object and len(titles) == sizes["items"]), path, "the titles do not fit"
    )


def _check_shape(path: object, name: str, array: Any, axes: list[str], sizes: dict[str, int]) -> None:
    modelfile.require(array.ndim == len(axes), path, f"{name} has {array.ndim} axes instead of {len(axes)}")
    for axis, size in zip(axes, array.shape, strict=True):
        base, _, more = axis.partition("+")
        wanted = sizes.setdefault(base, size - int(more or 0)) + int(more or 0)
        modelfile.require(size == wanted, path, f"{name} has {size} {base} instead of {wanted}")
    if array.dtype != object:
        modelfile.require(np.isfinite(array).all(), path, f"{name} holds numbers that are not finite")


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and bool(np.isfinite(value))
