"""Products of tall matrices with few columns.

A linear algebra library would spread them over threads of its own, which wait for each other longer than the product
takes, most of all beside other work.
"""

import numpy as np
import numpy.typing as npt

from starcast.kernels import fast

Floats = npt.NDArray[np.float64]


def cross(A: Floats, B: Floats) -> Floats:
    """Return A'B.

    >>> cross(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0], [1.0]])).tolist()
    [[4.0], [6.0]]
    """
    out = np.empty((A.shape[1], B.shape[1]))
    fast.cross_products(np.ascontiguousarray(A), np.ascontiguousarray(B), out)
    return out


def times(A: Floats, W: Floats) -> Floats:
    """Return AW.

    >>> times(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0], [1.0]])).tolist()
    [[3.0], [7.0]]
    """
    out = np.empty((A.shape[0], W.shape[1]))
    fast.row_products(np.ascontiguousarray(A), np.ascontiguousarray(W), out)
    return out
