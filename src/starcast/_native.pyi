from typing import Any

import numpy as np
import numpy.typing as npt

compiler: str

def code_integers(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]: ...
def group_rows(codes: npt.NDArray[np.int32], n_groups: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
def find_duplicates(
    users: npt.NDArray[np.int32], items: npt.NDArray[np.int32], n_users: int, n_items: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
def read_text(
    content: bytes, offset: int, separator: str, user: int, item: int, rating: int, time: int, n_threads: int
) -> dict[str, Any]: ...
def top_n(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], allowed: npt.NDArray[np.bool_], n: int
) -> npt.NDArray[np.int32]: ...
