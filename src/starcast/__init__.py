"""Star ratings as forecasts: collaborative filtering that says how sure it is."""

from starcast import _native, metrics
from starcast.datasets import (
    load_dataset,
    load_filmtrust,
    load_movielens,
    load_movielens_folds,
    load_myanimelist,
    load_sample,
)
from starcast.distributed.cutting import cut_ratings
from starcast.distributed.engine import RayEngine
from starcast.distributed.lists import recommend_all
from starcast.distributed.shards import Shards
from starcast.distribution import Distribution
from starcast.errors import (
    ClusterError,
    ClusterWarning,
    DataError,
    DivergenceError,
    DownloadError,
    FileError,
    FileFormatError,
    MissingExtraError,
    NotFittedError,
    ParameterError,
    PromiseError,
    StarcastError,
    UnknownNameError,
)
from starcast.evaluate import compare, cross_validate, evaluate
from starcast.front import Front
from starcast.html import show
from starcast.io import read_ratings, read_titles
from starcast.models import (
    GCMC,
    MLP,
    MODELS,
    MWGP,
    NGCF,
    PMF,
    BeMF,
    BiasedMF,
    DirMF,
    GlobalFrequency,
    ItemFrequency,
    Model,
    NaiveBayes,
    OrdinalMF,
    ResBeMF,
    load,
)
from starcast.pareto import hypervolume, pareto_mask
from starcast.planted import make_ratings
from starcast.ratings import Ratings
from starcast.results import Results
from starcast.search import search
from starcast.spaces import SPACES
from starcast.split import Split, benchmark_split, holdout, k_fold, leave_last
from starcast.trust import RatingSets, Threshold, calibrate, choose_threshold, conformal, list_reliability

__version__ = _native.version

__all__ = [
    "GCMC",
    "MLP",
    "MODELS",
    "MWGP",
    "NGCF",
    "PMF",
    "SPACES",
    "BeMF",
    "BiasedMF",
    "ClusterError",
    "ClusterWarning",
    "DataError",
    "DirMF",
    "Distribution",
    "DivergenceError",
    "DownloadError",
    "FileError",
    "FileFormatError",
    "Front",
    "GlobalFrequency",
    "ItemFrequency",
    "MissingExtraError",
    "Model",
    "NaiveBayes",
    "NotFittedError",
    "OrdinalMF",
    "ParameterError",
    "PromiseError",
    "RatingSets",
    "Ratings",
    "RayEngine",
    "ResBeMF",
    "Results",
    "Shards",
    "Split",
    "StarcastError",
    "Threshold",
    "UnknownNameError",
    "benchmark_split",
    "calibrate",
    "choose_threshold",
    "compare",
    "conformal",
    "cross_validate",
    "cut_ratings",
    "evaluate",
    "holdout",
    "hypervolume",
    "k_fold",
    "leave_last",
    "list_reliability",
    "load",
    "load_dataset",
    "load_filmtrust",
    "load_movielens",
    "load_movielens_folds",
    "load_myanimelist",
    "load_sample",
    "make_ratings",
    "metrics",
    "pareto_mask",
    "read_ratings",
    "read_titles",
    "recommend_all",
    "search",
    "show",
]
