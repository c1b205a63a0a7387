"""Star ratings as forecasts: collaborative filtering that says how sure it is."""

from importlib.metadata import version as _version

from starcast.distribution import Distribution
from starcast.errors import (
    DataError,
    DivergenceError,
    DownloadError,
    FileError,
    FileFormatError,
    MissingExtraError,
    NotFittedError,
    ParameterError,
    StarcastError,
    UnknownNameError,
)
from starcast.io import read_ratings
from starcast.models import MODELS, GlobalFrequency, ItemFrequency, Model, NaiveBayes, load
from starcast.ratings import Ratings
from starcast.split import Split, benchmark_split, holdout, k_fold, leave_last

__version__ = _version("starcast")
