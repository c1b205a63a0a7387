"""What a round of a fit on a cluster costs in bytes, memory and seconds: the formulas of docs/scale.md."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from starcast.errors import ParameterError
from starcast.models import PMF, BeMF, BiasedMF, OrdinalMF, ResBeMF
from starcast.models.chain import MOST_BIASES
from starcast.models.point import PointFactorization

FACTORS_AT_ONCE = 8  # that ResBeMF solves for together
SORTING, SORTED = 40, 10  # bytes of a rating in a worker while it sorts them by user and by item, and afterwards
SUMS_AT_ONCE = 1 << 29  # bytes of sums for others that a worker makes at a time, or of one owner's items
BASE = 150e6  # bytes of a process that has done nothing yet


@dataclass(frozen=True)
class Row:
    """Bytes of an item: its numbers, and what a round sends of it to its owner and back to everyone."""

    numbers: int
    up: int
    down: int
    n_questions: int


@dataclass(frozen=True)
class Cost:
    """What a worker pays for a round in bytes, the peaks of memory of a fit, and seconds of a round."""

    sent: float
    received: float
    kept: (
        float  # sent to the driver on average: every few rounds the rows of the users and, by one of all, of the items
    )
    worker_memory: float
    driver_memory: float
    seconds: float


def round_cost(
    model: Any,
    *,
    users: int,
    items: int,
    ratings: int,
    scores: int = 5,
    workers: int = 2,
    threads: int = 1,
    every: int = 5,
    rate: float = 1e7,
    latency: float = 2e-3,
    bandwidth: float = 1.25e9,
) -> Cost:
    r"""Return what a round costs.

    .. math:: \text{sent} = \frac{W-1}{W}\, I\, b_\text{up}, \qquad
              \text{received} = \frac{W-1}{W}\, I\, b_\text{down}, \qquad
              t = \frac{N}{W T r} + (2 q + 2)\, \ell + \frac{\text{sent} + \text{received}}{B}

    The memory of a worker is most while it sorts its ratings, 40 bytes each, or in a round, when it has made sums of
    all items for others and got as many, which lie in the object store of its machine. That of the driver holds the
    rows of the users about five times: those of the model, in its own layout and, wider, in that of the kernels, the
    state that was kept, and what arrives. It is that of a fit from a folder, where the ratings stay; those of a table
    in memory come on top.

    Parameters
    ----------
    model : Model
        Unfitted; its parameters decide how many numbers a row has.
    users, items, ratings, scores : int
    workers, threads : int
        *W* and, of each worker, *T*.
    every : int
        Rounds after which the state is kept.
    rate : float
        *r*, ratings that a thread gets through in a second of a round, users' and items' turn together.
    latency : float
        :math:`\ell`, seconds of a call to all workers; a question is two of them.
    bandwidth : float
        *B*, bytes a second between two machines.

    Examples
    --------
    >>> cost = round_cost(ResBeMF(), users=70_000, items=10_000, ratings=10_000_000, workers=2)
    >>> cost.sent, cost.received
    (5480000.0, 1800000.0)
    """
    row = row_of(model, scores)
    share = (workers - 1) / workers * items
    sent, received = share * row.up, share * row.down
    kept = (users / workers + items / workers) * row.numbers / every
    sums = items * row.up * (workers > 1)
    sending = 2 * sums + min(sums, max(SUMS_AT_ONCE, sums / workers))
    worker = BASE + (users / workers + items) * (2 * row.numbers + 8)
    worker += max(SORTING * ratings / workers, SORTED * ratings / workers + sending)
    driver = BASE + users * (5 * row.numbers + 16) + items * 5 * row.numbers
    seconds = ratings / (workers * threads * rate)
    if workers > 1:
        seconds += (2 * row.n_questions + 2) * latency + (sent + received) / bandwidth
    return Cost(sent, received, kept, worker, driver, seconds)


def row_of(model: Any, scores: int, is_draw: bool | None = None) -> Row:
    """Return what an item costs; of OrdinalMF in a round of drawing, unless it has no draws."""
    if isinstance(model, ResBeMF):
        return _resbemf(model.n_factors, model.n_factors + bool(model.biases), scores)
    if isinstance(model, BeMF):
        numbers = 4 * model.n_factors * scores
        return Row(numbers, 8 + numbers, numbers, 1)
    if isinstance(model, PMF | BiasedMF):
        assert isinstance(model, PointFactorization)
        columns = model.n_factors + model.BIASED
        return Row(4 * columns, _sums(columns), 4 * columns, 1)
    if isinstance(model, OrdinalMF):
        functions = min(scores - 1, MOST_BIASES)
        columns = sum((model.n_factors, model.n_spread_factors)[:functions]) + functions
        draws = model.n_draws > 0 if is_draw is None else is_draw
        return Row(4 * columns, _sums(columns) + (_sums(columns) if draws else 8), 2 * 4 * columns, 2)
    raise ParameterError(f"{type(model).__name__} is not fitted on a cluster.")


def _resbemf(n_factors: int, planes: int, scores: int) -> Row:
    """Blocks are solved for one after the other; a last question asks whether the last step gained."""
    n_blocks = max(1, -(-n_factors // FACTORS_AT_ONCE))
    cuts = [n_factors * b // n_blocks for b in range(n_blocks + 1)]
    sizes = [end - begin for begin, end in pairwise(cuts)]
    sizes[0] += planes - n_factors  # the biases
    numbers = 4 * planes * scores
    return Row(numbers, sum(_sums(size, scores) for size in sizes) + 8, numbers * (n_blocks + 1), n_blocks + 1)


def _sums(columns: int, scores: int = 1) -> int:
    """Return the bytes of a log-likelihood, a gradient and half a curvature."""
    return 8 + 4 * scores * (columns + columns * (columns + 1) // 2)
