from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

compiler: str
version: str

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Lists = tuple[I32, I64, I32, F64, F64, F64]  # user, rank, item, prediction, mean, reliability
OnRound = Callable[[int, float], bool] | None

def bell(values: F64, edges: F64, spread: float) -> F64: ...
def recalibrate(probs: F64, calibration: F64, n_threads: int = ...) -> None: ...
def settle_ties(probs: F64, place: F64, centering: float, n_threads: int = ...) -> None: ...
def normalize(probs: F64, n_threads: int = ...) -> None: ...
def code_integers(values: I64) -> tuple[I32, I64]: ...
def group_rows(codes: I32, n_groups: int) -> tuple[I64, I64]: ...
def find_duplicates(users: I32, items: I32, n_users: int, n_items: int) -> tuple[I64, I64]: ...
def read_text(
    content: bytes,
    offset: int,
    separator: str,
    user: int,
    item: int,
    rating: int,
    time: int,
    least: int,
    most: int,
    text_ids: bool,
    n_threads: int,
) -> dict[str, Any]: ...
def parse_times(texts: list[Any]) -> tuple[I64, npt.NDArray[np.uint8]]: ...
def top_n(first: F64, second: F64, allowed: npt.NDArray[np.bool_], n: int) -> I32: ...

class fast:  # noqa: N801
    class Ranking:
        def __init__(
            self,
            user: I32,
            wanted: npt.NDArray[np.bool_],
            seen_start: I64 | None,
            seen_items: I32 | None,
            n: int,
            threshold: float,
            by_error: bool,
            scores: F64,
            calibration: F64 | None,
            centering: float,
            n_threads: int,
        ) -> None: ...
        def by_scores(
            self, P: F32, tiles: F32, n_items: int, base: F32, n_factors: int, biased: bool, link: str
        ) -> Lists: ...
        def by_draws(
            self, P: F32, Q: F32, base: F32, basis: F32, ranks: I32, weights: F32, share: float, floor: F64
        ) -> Lists: ...
        def by_values(
            self,
            P: F32 | F64,
            Q: F32 | F64,
            rough: F32,
            tiles: F32,
            reach: F32,
            biased: bool,
            mean: float,
            spread: float,
            edges: F64,
            share: float,
            floor: F64,
        ) -> Lists: ...

    @staticmethod
    def make_tiles(rows: F32) -> F32: ...
    @staticmethod
    def point_values(
        user: I32,
        item: I32,
        P: F32 | F64,
        Q: F32 | F64,
        biased: bool,
        mean: float,
        out: F64,
        n_threads: int = ...,
    ) -> None: ...
    @staticmethod
    def isa() -> str: ...
    @staticmethod
    def allocate_rows(n_rows: int, n_planes: int, n_scores: int) -> F32: ...
    @staticmethod
    def pack_rows(planes: F32, rows: F32) -> None: ...
    @staticmethod
    def unpack_rows(rows: F32, planes: F32) -> None: ...
    @staticmethod
    def fit_resbemf_exact(
        user_side: tuple[I64, I32, I8],
        item_side: tuple[I64, I32, I8],
        P: F32,
        Q: F32,
        base: F32,
        values: F32,
        n_factors: int,
        biased: bool,
        regularization: float,
        bias_regularization: float,
        recklessness: float = ...,
        n_rounds: int = ...,
        tolerance: float = ...,
        n_threads: int = ...,
        callback: OnRound = ...,
    ) -> list[float]: ...
    @staticmethod
    def fit_resbemf_gradient(
        user_side: tuple[I64, I32, I8],
        item_side: tuple[I64, I32, I8],
        P: F32,
        Q: F32,
        base: F32,
        values: F32,
        weights: F32,
        n_factors: int,
        biased: bool,
        regularization: float,
        bias_regularization: float,
        recklessness: float = ...,
        n_rounds: int = ...,
        tolerance: float = ...,
        n_threads: int = ...,
        callback: OnRound = ...,
    ) -> list[float]: ...
    @staticmethod
    def fit_gradient(
        model: str,
        user_side: tuple[I64, I32, I8],
        item_side: tuple[I64, I32, I8],
        P: F32,
        Q: F32,
        base: F32,
        values: F32,
        n_factors: int,
        learning_rate: float = ...,
        regularization: float = ...,
        recklessness: float = ...,
        n_rounds: int = ...,
        n_threads: int = ...,
        callback: OnRound = ...,
    ) -> list[float]: ...
    class OrdinalAscent:
        def __init__(
            self,
            users: tuple[I64, I32, I8],
            items: tuple[I64, I32, I8],
            P: F32,
            Q: F32,
            user_features: F32,
            item_features: F32,
            base: F32,
            basis: F32,
            ranks: I32,
            n_threads: int,
        ) -> None: ...
        def slopes(self, which: int, out: F32, squares: F64) -> float: ...
        def move(
            self,
            which: int,
            weights: F32,
            precision: F32,
            bend: F32,
            doubt: F32,
            length: float,
            memory: float,
            is_asked: bool,
            squares: F64,
            moments: F64,
        ) -> tuple[float, float]: ...
        def sums(self, which: int, out: F64) -> None: ...
        def keep(self) -> None: ...
        def go_back(self) -> None: ...
        def rows(self, which: int, out: F32) -> None: ...

    @staticmethod
    def move_rows(
        side: tuple[I64, I32, I8],
        rows: F32,
        others: F32,
        base: F32,
        basis: F32,
        ranks: I32,
        means: F32,
        precision: F32,
        n_steps: int,
        noise: F32 | None,
        luck: F32 | None,
        spread: F64 | None,
        reach: F32,
        longest: int,
        n_threads: int,
    ) -> tuple[float, int]: ...
    @staticmethod
    def place_rows(
        side: tuple[I64, I32, I8],
        features: F32,
        others: F32,
        weights: F32,
        precision: F32,
        base: F32,
        basis: F32,
        ranks: I32,
        noise: F32 | None,
        luck: F32 | None,
        n_steps: int,
        out: F32,
        n_threads: int,
    ) -> None: ...
    @staticmethod
    def ordinal_proba(
        user: I32,
        item: I32,
        P: F32,
        Q: F32,
        base: F32,
        basis: F32,
        ranks: I32,
        weights: F32,
        out: F32,
        n_threads: int,
    ) -> None: ...
    @staticmethod
    def cross_products(A: F64, B: F64, step: float, out: F64) -> None: ...
    @staticmethod
    def row_products(A: F64, W: F64, out: F64) -> None: ...
    @staticmethod
    def gather_company(
        side: tuple[I64, I32, I8], weight: F64, other_weight: F64, X: F64, step: float, out: F64, n_threads: int
    ) -> None: ...
    @staticmethod
    def solve_rows(
        model: str,
        side: tuple[I64, I32, I8],
        rows: F32,
        others: F32,
        base: F32,
        values: F32,
        n_steps: I32,
        rates: F32,
        n_factors: int,
        biased: bool = ...,
        regularization: float = ...,
        bias_regularization: float = ...,
        recklessness: float = ...,
        n_threads: int = ...,
    ) -> None: ...
    max_block: int
    @staticmethod
    def pass_scores(
        model: str,
        side: tuple[I64, I32, I8],
        rows: F32,
        others: F32,
        base: F32,
        values: F32,
        n_factors: int,
        biased: bool = ...,
        learning_rate: float = ...,
        regularization: float = ...,
        bias_regularization: float = ...,
        recklessness: float = ...,
        is_asked: bool = ...,
        n_threads: int = ...,
    ) -> tuple[float, float]: ...
    @staticmethod
    def look_scores(
        side: tuple[I64, I32, I8],
        rows: F32,
        others: F32,
        base: F32,
        values: F32,
        n_factors: int,
        biased: bool,
        recklessness: float,
        first: int,
        some: I64 | None,
        block: int,
        loglik: F64,
        slope: F32 | None,
        curve: F32 | None,
        n_threads: int,
    ) -> None: ...
    @staticmethod
    def aim_scores(
        planes: F32,
        slope: F32,
        curve: F32,
        n_factors: int,
        biased: bool,
        regularization: float,
        bias_regularization: float,
        block: int,
        step: F32,
        gain: F64,
        n_threads: int,
    ) -> None: ...
    @staticmethod
    def look_bemf(
        side: tuple[I64, I32, I8],
        rows: F32,
        others: F32,
        base: F32,
        values: F32,
        n_factors: int,
        recklessness: float,
        first: int,
        loglik: F64,
        slope: F32,
        n_threads: int,
    ) -> None: ...
    @staticmethod
    def look_squares(
        side: tuple[I64, I32, I8],
        others: F32,
        values: F32,
        n_columns: int,
        biased: bool,
        mean: float,
        first: int,
        squares: F64,
        pull: F32,
        gram: F32,
        n_threads: int,
    ) -> None: ...
    @staticmethod
    def solve_squares(
        squares: F64, pull: F32, gram: F32, counts: I64, regularization: float, rows: F32, n_threads: int
    ) -> tuple[float, float]: ...
    @staticmethod
    def pass_squares(
        side: tuple[I64, I32, I8],
        rows: F32,
        others: F32,
        values: F32,
        n_columns: int,
        biased: bool,
        mean: float,
        regularization: float,
        n_threads: int,
    ) -> tuple[float, float]: ...
    @staticmethod
    def look_ordinal(
        side: tuple[I64, I32, I8],
        rows: F32,
        others: F32,
        base: F32,
        basis: F32,
        ranks: I32,
        first: int,
        some: I64 | None,
        loglik: F64,
        slope: I32 | None,
        curve: I32 | None,
        reach: F32,
        longest: int,
        n_threads: int,
    ) -> None: ...
    @staticmethod
    def aim_ordinal(
        rows: F32,
        loglik: F64,
        slope: I32,
        curve: I32,
        base: F32,
        basis: F32,
        ranks: I32,
        means: F32,
        precision: F32,
        noise: F32 | None,
        origin: F32 | None,
        objective: F64,
        step: F32,
        promise: F64,
        size: F64,
        kick: F32 | None,
        back: F64 | None,
        spread: F64 | None,
        reach: F32,
        longest: int,
        n_threads: int,
    ) -> None: ...
    @staticmethod
    def value_ordinal(
        rows: F32,
        loglik: F64,
        base: F32,
        basis: F32,
        ranks: I32,
        means: F32,
        precision: F32,
        objective: F64,
    ) -> None: ...
    @staticmethod
    def sum_biases(rows: F32, rated: npt.NDArray[np.bool_], n_factors: int, out: F64) -> None: ...
    @staticmethod
    def shift_biases(rows: F32, rated: npt.NDArray[np.bool_], n_factors: int, shift: F32) -> None: ...
    @staticmethod
    def fit_point(
        user_side: tuple[I64, I32, I8],
        item_side: tuple[I64, I32, I8],
        P: F32,
        Q: F32,
        user_bias: F32 | None,
        item_bias: F32 | None,
        values: F32,
        mean: float = ...,
        learning_rate: float = ...,
        regularization: float = ...,
        n_rounds: int = ...,
        n_threads: int = ...,
        callback: OnRound = ...,
    ) -> list[float]: ...
    @staticmethod
    def proba(
        user: I32,
        item: I32 | None,
        P: F32,
        Q: F32,
        base: F32,
        n_factors: int,
        biased: bool,
        link: str,
        out: F32,
        n_threads: int = ...,
    ) -> None: ...

class strict:  # noqa: N801
    @staticmethod
    def java_exp(x: float) -> float: ...
    @staticmethod
    def digamma(x: float) -> float: ...
    @staticmethod
    def softmax_probs(P: F64, Q: F64, user: I32, item: I32, out: F64) -> None: ...
    @staticmethod
    def logistic_probs(P: F64, Q: F64, user: I32, item: I32, out: F64) -> None: ...
