"""Products of tall matrices with few columns.

A linear algebra library would spread them over threads of its own, which wait for each other longer than the product
takes, most of all beside other work.
"""

import numpy as np
import numpy.typing as npt

from starcast.kernels import fast

Floats = npt.NDArray[np.float64]

STEP = 2.0**-24  # of numbers around one: sums below 2^53 steps are exact
ROUGH = 2.0**-20  # of log-posteriors of rows


def on_grid(numbers: Floats, step: float) -> Floats:
    """Return the nearest multiples of a step, a power of two: their sum is the same in any order, and in any parts.

    >>> on_grid(np.array([0.3, -0.3]), 0.25).tolist()
    [0.25, -0.25]
    """
    start = 1.5 * 2.0**52 * step
    return (numbers + start) - start


def cross(A: Floats, B: Floats, step: float = STEP) -> Floats:
    """Return A'B, of products on a grid: rows may lie in several places, and the sum of what they give is the same.

    >>> cross(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0], [1.0]])).tolist()
    [[4.0], [6.0]]
    """
    out = np.empty((A.shape[1], B.shape[1]))
    fast.cross_products(np.ascontiguousarray(A), np.ascontiguousarray(B), step, out)
    return out


def times(A: Floats, W: Floats) -> Floats:
    """Return AW.

    >>> times(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0], [1.0]])).tolist()
    [[3.0], [7.0]]
    """
    out = np.empty((A.shape[0], W.shape[1]))
    fast.row_products(np.ascontiguousarray(A), np.ascontiguousarray(W), out)
    return out
