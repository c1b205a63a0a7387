"""The models that can be fitted here, small where learning takes long."""

import importlib.util
import os

from starcast.models import MODELS

# Without PyTorch its models are left out, but with STARCAST_CI that is a failure.
NAMES = [
    name
    for name, cls in MODELS.items()
    if cls.EXTRA is None or importlib.util.find_spec(cls.EXTRA) or "STARCAST_CI" in os.environ
]
SIZES = {
    "ordinalmf": {"burn_in": 20, "n_draws": 32, "thin": 1},
    "gcmc": {"n_hidden": 20, "n_factors": 8, "n_iters": 60},
    "ngcf": {"n_factors": 8, "n_layers": 2, "node_dropout": 0.3, "n_iters": 20, "batch_size": 300},
    "mlp": {"n_factors": 4, "n_hidden": 16, "n_iters": 15, "batch_size": 200},
    "mwgp": {"n_factors": 2, "n_inducing": 16, "n_iters": 10, "batch_size": 300},
}
VARIANTS = {
    "resbemf, gradient": {"update": "gradient"},
    "pmf, exact": {"update": "exact"},
    "biasedmf, exact": {"update": "exact"},
    "ordinalmf, gradient": {"update": "gradient", "n_draws": 0},
}  # other ways to learn, which owe what their models do


def kind(name):
    """The class of a model or variant."""
    return MODELS[name.partition(",")[0]]


def make(name, **params):
    """The model or variant with a seed, where it takes one, in a size for small tables."""
    model = kind(name)()
    seed = {"random_state": 0} if "random_state" in model.get_params() else {}
    return model.set_params(**seed | SIZES.get(name, {}) | VARIANTS.get(name, {}) | params)
