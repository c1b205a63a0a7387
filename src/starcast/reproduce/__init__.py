"""The paper's experiments, number by number: search, test curves, fitting times, and how far off they are."""

from starcast.reproduce.experiment import (
    EXPERIMENTS,
    FACTORIZATIONS,
    SEED,
    Experiment,
    measures_as_published,
    number_as_published,
    published_model,
)
from starcast.reproduce.published import LEAST_COVERAGE, MEASURE_FILES, front_rows
from starcast.reproduce.testing import Curve, compare_curves

__all__ = [
    "EXPERIMENTS",
    "FACTORIZATIONS",
    "LEAST_COVERAGE",
    "MEASURE_FILES",
    "SEED",
    "Curve",
    "Experiment",
    "compare_curves",
    "front_rows",
    "measures_as_published",
    "number_as_published",
    "published_model",
]
