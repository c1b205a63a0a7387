"""Reliabilities one can rely on: calibrated models, thresholds that keep a promise, sets that hold the rating."""

from starcast.trust.calibration import calibrate
from starcast.trust.temperature import fit_temperature, temper

__all__ = ["calibrate", "fit_temperature", "temper"]
