"""Quality of predictions, of probabilities, of reliabilities. Metrics know ratings and distributions, never models."""

from starcast.metrics.calibration import ReliabilityCurve, ece, reliability_curve
from starcast.metrics.paper import (
    PAPER_MEASURES,
    PAPER_THRESHOLDS,
    paper_measures,
    paper_measures_by_user,
    relevant_from,
)
from starcast.metrics.point import accuracy, mae, rmse
from starcast.metrics.probability import brier, nll, rps
from starcast.metrics.selective import RiskCoverage, aurc, coverage, risk_coverage

__all__ = [
    "PAPER_MEASURES",
    "PAPER_THRESHOLDS",
    "ReliabilityCurve",
    "RiskCoverage",
    "accuracy",
    "aurc",
    "brier",
    "coverage",
    "ece",
    "mae",
    "nll",
    "paper_measures",
    "paper_measures_by_user",
    "relevant_from",
    "reliability_curve",
    "risk_coverage",
    "rmse",
    "rps",
]
