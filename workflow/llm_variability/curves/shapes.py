"""One number a curve, of many curves at once.

A curve is a row of points: `rates` (curves, points), ascending, the first 0; `heights` (curves,
points), the first 1. Between points it is a straight line. What has a NaN has no number: NaN.
"""

from __future__ import annotations

import numpy as np

from llm_variability.curves.points import Flags, Floats

HALF = 0.5

FIRST_THIRD = 1 / 3
"""Largest realised rate that the slope at zero is taken from."""


def mean_height(rates: Floats, heights: Floats, end: Floats) -> Floats:
    """Average the height from rate 0 to `end`: the area by trapezoids over the length.

    end: (curves,) above 0, at most each curve's last rate. Returns (curves,).
    """
    cut = np.minimum(rates, end[:, None])
    width = np.diff(rates, axis=1)
    kept = np.diff(cut, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(width > 0, kept / width, 0)
    rise = np.diff(heights, axis=1) * share
    area = (kept * (heights[:, :-1] + rise / 2)).sum(axis=1)
    means: Floats = area / end
    return means


def half_life(rates: Floats, heights: Floats) -> Floats:
    """Find the first rate at which a curve is at a half or below.

    Returns (curves,); infinite where it stays above.
    """
    below = heights[:, 1:] <= HALF
    first = below.argmax(axis=1)[:, None]
    (x0, x1), (y0, y1) = (
        (np.take_along_axis(values, first, 1)[:, 0], np.take_along_axis(values, first + 1, 1)[:, 0])
        for values in (rates, heights)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        crossing = x0 + (x1 - x0) * (y0 - HALF) / (y0 - y1)
    found: Floats = np.where(below.any(axis=1), crossing, np.inf)
    found[np.isnan(heights).any(axis=1)] = np.nan
    return found


def initial_slope(rates: Floats, heights: Floats, used: Flags) -> Floats:
    """Fit a line through (0, 1) to the first points, by least squares: its slope.

    With points (x, y) it is the sum of x (y - 1) over the sum of x^2.

    used: (points,) the points it is fitted to. Returns (curves,) per unit of rate.
    """
    x, y = rates[:, used], heights[:, used]
    slopes: Floats = (x * (y - 1)).sum(axis=1) / (x**2).sum(axis=1)
    return slopes
