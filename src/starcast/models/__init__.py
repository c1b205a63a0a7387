"""All models by the name that the command line, model files and searches use."""

import os
from typing import Any

import numpy as np

from starcast import modelfile, recalibration
from starcast.errors import FileFormatError, ParameterError, UnknownNameError, choose
from starcast.models.base import Model
from starcast.models.bemf import BeMF
from starcast.models.dirmf import DirMF
from starcast.models.frequency import GlobalFrequency, ItemFrequency, NaiveBayes
from starcast.models.neural import GCMC, MLP, MWGP, NGCF
from starcast.models.neural.backend import check_installed
from starcast.models.ordinal import OrdinalMF
from starcast.models.point import PMF, BiasedMF
from starcast.models.resbemf import ResBeMF

__all__ = [
    "GCMC",
    "MLP",
    "MODELS",
    "MWGP",
    "NGCF",
    "PMF",
    "BeMF",
    "BiasedMF",
    "DirMF",
    "GlobalFrequency",
    "ItemFrequency",
    "Model",
    "NaiveBayes",
    "OrdinalMF",
    "ResBeMF",
    "load",
    "make_model",
]

MODELS: dict[str, type[Model]] = {
    "global": GlobalFrequency,
    "item": ItemFrequency,
    "bayes": NaiveBayes,
    "ordinalmf": OrdinalMF,
    "resbemf": ResBeMF,
    "bemf": BeMF,
    "dirmf": DirMF,
    "pmf": PMF,
    "biasedmf": BiasedMF,
    "mlp": MLP,
    "gcmc": GCMC,
    "ngcf": NGCF,
    "mwgp": MWGP,
}

LATER = {
    "seen_scores_": np.int8,
    "item_counts_": np.int64,
    "item_scores_": np.int64,
}  # not in files of the first versions
LEAST_PRIOR = 1e-15  # models divide by the prior; no table is long enough for a score to be rarer


def make_model(name: str, params: dict[str, Any] | None = None) -> Model:
    """Return the model of that name with the given parameters.

    >>> make_model("item", {"shrinkage": 5})
    ItemFrequency(shrinkage=5)
    """
    cls = MODELS[choose("model", name, MODELS)]
    if cls.EXTRA is not None:
        check_installed(cls.__name__)
    return cls().set_params(**params or {})


def load(path: str | os.PathLike[str], verify: bool | None = None) -> Model:
    """Return the fitted model of a file that ``model.save`` wrote; its arrays stay in the file until they are used.

    So the file must not be overwritten in place while a model of it is in use: ``save`` replaces a file by a new one,
    and the old one lives on for those who have it open. A program that copies over it changes the model, or ends it.

    Parameters
    ----------
    verify : bool or None
        Whether to compare the content with the digest that is stored in the file. None does so up to 64 megabytes,
        where it takes a fraction of a second. Files that Starcast 0.1 wrote have no digest.
    """
    meta, arrays = modelfile.read(path, verify)
    model = _unfitted(path, meta)
    learnt = meta.get("learnt", {})
    modelfile.require(isinstance(learnt, dict), path, "its learnt values are no table")
    _check_learnt(path, type(model), learnt, arrays)
    for name, value in ({"titles_": None} | learnt | arrays).items():
        setattr(model, name, value)
    if not hasattr(model, "item_counts_"):
        model.item_counts_ = np.bincount(model.seen_items_, minlength=len(model.items_))
    modelfile.require(model._agrees(), path, "what was learnt does not fit the parameters")
    model._index()
    return model


def _unfitted(path: object, meta: dict[str, Any]) -> Model:
    classes = {cls.__name__: name for name, cls in MODELS.items()}
    modelfile.require(isinstance(meta.get("params"), dict), path, "its parameters are no table")
    if meta.get("model") not in list(classes):  # a list, for what cannot be hashed
        raise FileFormatError(
            f"{path} holds a model of the kind {meta.get('model')!r}, which this Starcast does not have. "
            "Upgrade with: pip install -U starcast"
        )
    try:
        model = MODELS[classes[meta["model"]]]().set_params(**meta["params"])  # whether or not it could be learnt here
        model._check_params()
    except (UnknownNameError, ParameterError) as error:
        raise FileFormatError(f"{path} holds parameters that this Starcast does not take: {error}") from None
    return model


def _check_learnt(path: object, cls: type[Model], learnt: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Check that what a model file holds fits together, so that no answer can run outside an array."""
    declared = cls.BASE | cls.LEARNT | {k: v for k, v in cls.OPTIONAL.items() if k in learnt or k in arrays}
    foreign = {*learnt, *arrays} - {*declared, "titles_", "digest_"}
    modelfile.require(not foreign, path, "it holds what no model learns")
    twice = sorted({*learnt} & {*arrays})
    modelfile.require(not twice, path, f"it holds {' and '.join(twice)} twice")
    modelfile.require(isinstance(learnt.get("digest_"), str), path, "digest_ must be text")
    sizes: dict[str, int] = {}
    for name, axes in declared.items():
        if name in LATER and name not in arrays:
            continue
        modelfile.require(name in arrays if axes else _is_finite(learnt.get(name)), path, f"{name} is missing")
        if axes:
            _check_shape(path, name, arrays[name], axes.split(), sizes)
            _check_numbers(path, name, arrays[name])
    known = all(sizes[axis] for axis in ("users", "items", "ratings"))
    modelfile.require(known, path, "it knows no user, item or rating")
    scale, start, seen = arrays["scores_"], arrays["seen_start_"], arrays["seen_items_"]
    modelfile.require(len(scale) > 1 and (scale[1:] > scale[:-1]).all(), path, "the scores do not ascend")
    modelfile.require(
        start[0] == 0 and start[-1] == len(seen) and (start[1:] >= start[:-1]).all(), path, "the users' rows do not fit"
    )
    modelfile.require(((seen >= 0) & (seen < sizes["items"])).all(), path, "an item code lies outside the items")
    given = arrays.get("seen_scores_", np.zeros(1, np.int8))
    modelfile.require(((given >= 0) & (given < len(scale))).all(), path, "a score code lies outside the scale")
    modelfile.require((arrays.get("item_scores_", given) >= 0).all(), path, "item_scores_ holds no counts")
    sound = "calibration_" not in arrays or recalibration.is_sound(arrays["calibration_"])
    modelfile.require(sound, path, "calibration_ is no calibration")
    titles = arrays.get("titles_", learnt.get("titles_"))
    fits = isinstance(titles, np.ndarray) and titles.dtype == object and len(titles) == sizes["items"]
    modelfile.require(titles is None or fits, path, "the titles do not fit")


def _check_shape(path: object, name: str, array: Any, axes: list[str], sizes: dict[str, int]) -> None:
    modelfile.require(array.ndim == len(axes), path, f"{name} has {array.ndim} axes instead of {len(axes)}")
    for axis, size in zip(axes, array.shape, strict=True):
        base, _, more = axis.partition("+")
        wanted = sizes.setdefault(base, size - int(more or 0)) + int(more or 0)
        modelfile.require(size == wanted, path, f"{name} has {size} {base} instead of {wanted}")


def _check_numbers(path: object, name: str, array: Any) -> None:
    if name in ("users_", "items_"):
        modelfile.require(array.dtype in (object, np.int64), path, f"{name} must be text or whole numbers")
    elif name in ("seen_start_", "seen_items_"):
        wanted = np.int64 if name == "seen_start_" else np.int32
        modelfile.require(array.dtype == wanted, path, "what was seen is not in whole numbers")
    elif name in LATER:
        modelfile.require(array.dtype == LATER[name], path, f"{name} is not in whole numbers")
    else:
        modelfile.require(array.dtype.kind == "f", path, f"{name} is not in floating point")
        modelfile.require(np.isfinite(array).all(), path, f"{name} holds numbers that are not finite")
    if name.endswith(("prior_", "probs_")):
        least = LEAST_PRIOR if name == "prior_" else 0
        sound = (array >= least).all() and (np.abs(array.sum(axis=-1, dtype=np.float64) - 1) < 1e-4).all()
        modelfile.require(sound, path, f"{name} does not hold probabilities")


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and -1e300 < value < 1e300
