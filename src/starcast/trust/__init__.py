"""Reliabilities one can rely on: calibrated models, thresholds that keep a promise, sets that hold the rating."""

from starcast.trust.calibration import calibrate
from starcast.trust.conformal import RatingSets, conformal
from starcast.trust.lists import ListReliability, list_reliability
from starcast.trust.promise import Threshold, choose_threshold
from starcast.trust.temperature import fit_temperature, temper

__all__ = [
    "ListReliability",
    "RatingSets",
    "Threshold",
    "calibrate",
    "choose_threshold",
    "conformal",
    "fit_temperature",
    "list_reliability",
    "temper",
]
