"""What the neural baselines share: epochs of Adam, averaged weights, early stopping, progress, seeds."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.errors import DivergenceError, ParameterError, choose
from starcast.kernels import resolve_threads
from starcast.metrics import nll
from starcast.models.base import Floats, Model
from starcast.models.factorization import HELD_OUT, check_flag, check_positive, check_whole
from starcast.models.neural.backend import (
    Tensor,
    check_installed,
    enough_memory,
    limited_threads,
    resolve_device,
    torch,
)
from starcast.names import Codes
from starcast.progress import progress_bar
from starcast.ratings import Ratings

BLOCK = 1 << 15  # pairs that are answered at once
OVERHEAD = 1e8  # bytes that libraries take for themselves
OnEpoch = Callable[[int, float, "Network"], bool]  # epochs before this one, its loss, the network → whether to stop


class Network(Protocol):
    """Weights that learn from batches, and what a model keeps of them."""

    weights: dict[str, Tensor]

    def batches(self) -> Iterable[Any]:
        """Yield the batches of one epoch."""

    def loss(self, batch: Any) -> Tensor:
        """Return the loss of a batch."""

    def learnt(self) -> dict[str, Any]:
        """Return what the model keeps, by attribute."""


class Neural(Model):
    """A model that is learnt by epochs of Adam in PyTorch and answers in NumPy.

    Attributes
    ----------
    n_iter_ : int
        Epochs that were run.
    history_ : ndarray
        The mean loss of each epoch.
    """

    EXTRA: ClassVar[str | None] = "torch"
    LEARNT: ClassVar[dict[str, str]] = {"n_iter_": "", "history_": "rounds"}
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {}
    BETAS: ClassVar[tuple[float, float]] = (0.9, 0.999)
    LOOK: ClassVar[int] = 1  # epochs between two looks at the held-out ratings
    PATIENCE: ClassVar[int] = 5  # looks without a lower log-loss before early stopping gives up
    ADVICE: ClassVar[str]  # what to lower where memory is short

    n_iter_: int
    history_: npt.NDArray[np.float64]

    # Set by the constructors of the subclasses.
    n_iters: int
    learning_rate: float
    early_stopping: bool
    device: str
    random_state: int | None
    n_jobs: int | None
    verbose: bool

    @classmethod
    def preset(cls, dataset: str, **params: Any) -> Self:
        """Return the model with the parameters for a data set of the paper, and others on top.

        >>> from starcast.models.neural import GCMC
        >>> GCMC.preset("ml-1m", random_state=0).accumulation
        'sum'
        """
        return cls(**cls.PRESETS[choose("data set with a preset", dataset, cls.PRESETS)] | params)

    def _check_params(self) -> None:
        for name in [name for name in self.get_params() if name.startswith("n_") and name != "n_jobs"]:
            check_whole(name, getattr(self, name), 1)
        check_positive("learning_rate", self.learning_rate)
        for name in ("early_stopping", "verbose"):
            check_flag(name, getattr(self, name))
        if self.random_state is not None:
            check_whole("random_state", self.random_state, 0, None)
        choose("device", self.device, ["auto", "cpu", "cuda"])
        resolve_threads(self.n_jobs)

    def _network(self, ratings: Ratings, rng: np.random.Generator, device: Any) -> Network:
        """Return the network with its starting weights."""
        raise NotImplementedError

    def _memory(self, ratings: Ratings) -> float:
        """Return about how many bytes learning takes on the device."""
        raise NotImplementedError

    def _check_memory(self, ratings: Ratings) -> None:
        """Leave it to :meth:`_fit`, which knows the device."""

    def _averaging(self) -> float:
        """Return how much of the averaged weights is kept at each step; 0 takes the last weights as they are."""
        return 0.0

    def _block(self, user: Codes, item: Codes) -> Floats:
        """Return the probabilities of not too many pairs."""
        raise NotImplementedError

    def _fit(self, ratings: Ratings) -> None:
        check_installed(type(self).__name__)
        device, ratings = resolve_device(self.device), _in_order(ratings)
        with limited_threads(self.n_jobs, len(ratings)), self._enough_memory(ratings, device):
            n_iters = self._best_epochs(ratings, device) if self.early_stopping else self.n_iters
            self._learn(ratings, n_iters, device)

    def _enough_memory(self, ratings: Ratings, device: Any) -> Any:
        return enough_memory(type(self).__name__, self._memory(ratings) + OVERHEAD, device, self.ADVICE)

    def _learn(
        self, ratings: Ratings, n_iters: int, device: Any, on_epoch: OnEpoch = lambda done, loss, network: False
    ) -> None:
        """Learn from a fresh start and keep what was learnt."""
        rng = np.random.default_rng(self.random_state)
        network = self._network(ratings, rng, device)
        with progress_bar(f"fitting {type(self).__name__}", self.verbose) as on_progress:

            def on_epoch_too(done: int, loss: float, network: Network) -> bool:
                on_progress(done + 1, n_iters)
                if not np.isfinite(loss):
                    raise self._divergence(done + 1)
                return on_epoch(done, loss, network)

            history = train(network, n_iters, self.learning_rate, self.BETAS, self._averaging(), on_epoch_too)
        vars(self).update(network.learnt())
        self.n_iter_, self.history_ = len(history), np.array(history)

    def _best_epochs(self, ratings: Ratings, device: Any) -> int:
        """Return the number of epochs after which held-out ratings have the lowest log-loss; the fit then uses all."""
        held = np.random.default_rng(self.random_state).random(len(ratings)) < HELD_OUT
        if held.all() or not held.any():
            return self.n_iters
        train_part, test = _rows(ratings, ~held), _rows(ratings, held)
        losses: dict[int, float] = {}

        def on_epoch(done: int, loss: float, network: Network) -> bool:
            if (done + 1) % self.LOOK == 0 or done + 1 == self.n_iters:
                vars(self).update(network.learnt())
                answer = Distribution.trusted(self._proba(test.user, test.item), test.scores)
                losses[done + 1] = nll(test.values, answer)
            best = min(losses, key=lambda epoch: losses[epoch], default=0)
            return done + 1 - best >= self.LOOK * self.PATIENCE and best > 0

        self._learn(train_part, self.n_iters, device, on_epoch)
        return min(losses, key=lambda epoch: losses[epoch])

    def _divergence(self, epoch: int) -> DivergenceError:
        return DivergenceError(
            f"{type(self).__name__} diverged in epoch {epoch}: its loss is no longer finite. Lower learning_rate (now "
            f"{self.learning_rate!r})."
        )

    def _proba(self, user: Codes, item: Codes) -> Floats:
        with np.errstate(all="ignore"):  # a file may hold any finite numbers
            parts = [
                self._block(user[begin : begin + BLOCK], item[begin : begin + BLOCK])
                for begin in range(0, max(1, len(user)), BLOCK)
            ]
        return np.concatenate(parts)


def train(
    network: Network,
    n_iters: int,
    learning_rate: float,
    betas: tuple[float, float],
    averaging: float,
    on_epoch: OnEpoch,
) -> list[float]:
    """Take Adam's steps, epoch by epoch; return the mean loss of each.

    The averaged weights, where they are asked for, take the place of the last ones whenever `on_epoch` looks and in
    the end. After *t* steps they keep the share min(averaging, (1 + t) / (10 + t)) of what they were.
    """
    names, learning = list(network.weights), list(network.weights.values())
    for weight in learning:
        weight.requires_grad_()
    optimizer = torch.optim.Adam(learning, learning_rate, betas)
    averaged = [weight.detach().clone() for weight in learning] if averaging else [w.detach() for w in learning]
    history: list[float] = []
    steps = 0
    for epoch in range(n_iters):
        losses = []
        for batch in network.batches():
            optimizer.zero_grad(set_to_none=True)
            loss = network.loss(batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            steps += 1
            if averaging:
                keep = min(averaging, (1 + steps) / (10 + steps))
                torch._foreach_lerp_(averaged, [weight.detach() for weight in learning], 1 - keep)
        history.append(float(torch.stack(losses).mean()))
        network.weights = dict(zip(names, averaged, strict=True))
        stop = on_epoch(epoch, history[-1], network)
        if stop or epoch == n_iters - 1:
            break
        network.weights = dict(zip(names, learning, strict=True))
    return history


def glorot(rng: np.random.Generator, *shape: int) -> npt.NDArray[np.float32]:
    """Return uniform weights between ±sqrt(6 / (rows + columns)) of the last two axes."""
    reach = np.sqrt(6 / (shape[-2] + shape[-1]))
    return rng.uniform(-reach, reach, shape).astype(np.float32)


def generator_of(rng: np.random.Generator, device: Any) -> Any:
    """Return PyTorch's generator on a device, seeded by NumPy's."""
    return torch.Generator(device).manual_seed(int(rng.integers(2**63)))


def shuffled(n: int, size: int, rng: np.random.Generator) -> Iterable[npt.NDArray[np.int64]]:
    """Yield the numbers below `n` in random order, in batches of about `size` that differ by one at most."""
    yield from np.array_split(rng.permutation(n), max(1, -(-n // size)))


def softmax(logits: Floats) -> npt.NDArray[np.float64]:
    """Return probabilities along the last axis, in double precision; what cannot be told apart from infinity is."""
    finite = np.nan_to_num(np.asarray(logits, np.float64), nan=0.0, posinf=1e300, neginf=-1e300)
    weights = np.exp(finite - finite.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def check_share(name: str, value: object) -> None:
    """Raise an error unless `value` is a number from 0 to below 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value < 1:
        raise ParameterError(f"{name} must be a number from 0 to below 1, got {value!r}.")


def _in_order(ratings: Ratings) -> Ratings:
    """Return the ratings by user, then item, so that the order of the rows does not matter."""
    return _rows(ratings, np.lexsort((ratings.item, ratings.user)))


def _rows(ratings: Ratings, rows: npt.NDArray[Any]) -> Ratings:
    names = (ratings.users, ratings.items, ratings.scores)
    return Ratings(*names, ratings.user[rows], ratings.item[rows], ratings.score[rows])
