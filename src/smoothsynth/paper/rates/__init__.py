"""Measured error against n: the paper's Algorithm 1, its (eps, delta) variant, and degree-weighted Gaussian noise."""

from smoothsynth.paper.rates.report import RatesReport
from smoothsynth.paper.rates.run import Study, measure_rates, run_rates
from smoothsynth.paper.rates.slopes import RatePoint, RateSlope, fit_slope

__all__ = ["RatePoint", "RateSlope", "RatesReport", "Study", "fit_slope", "measure_rates", "run_rates"]
