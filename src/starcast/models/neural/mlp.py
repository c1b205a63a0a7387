"""A multi-layer perceptron on embeddings of user and item, as the paper ran it and as it should be run."""

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.errors import choose
from starcast.models.factorization import check_flag, check_positive, check_whole
from starcast.models.neural.backend import Tensor, torch
from starcast.models.neural.training import Neural, check_share, generator_of, shuffled, softmax
from starcast.models.point import FLOOR
from starcast.names import Codes
from starcast.ratings import Ratings

LEAST_SPREAD = 1e-3  # a perfect fit would leave no bell


class MLP(Neural):
    r"""A perceptron with two hidden layers on the embeddings of user and item.

    .. math:: \hat r_{ui} = \phi(\phi([p_u, q_i] W + b) W' + b') W'' + b''

    Learnt by the squared error, it answers with a bell around :math:`\hat r` as :class:`PMF` does; or it gives a
    probability for every score by a softmax, learnt by the cross-entropy (``distribution="softmax"``).

    ``full_batch=True`` is the paper's MLP: one step of Adam an epoch on all ratings, sigmoid layers, ratings as they
    are, no regularization. As few as 100 steps leave it far from what it can do; by default it is run with
    mini-batches, ReLU layers, dropout and regularized embeddings.

    Parameters
    ----------
    n_factors : int, default=16
        Length of each embedding.
    n_hidden : int, default=64
        Units of the first hidden layer; the second has half as many.
    n_iters : int, default=20
        Epochs.
    learning_rate : float, default=0.002
    regularization : float, default=0.05
        Weight of half the squared length of the embeddings of a rating.
    dropout : float, default=0.2
        The share of the embeddings and of the first layer's outputs that is dropped in a step.
    batch_size : int, default=1024
        Ratings of a step.
    full_batch : bool, default=False
        Whether to learn as the paper did; `batch_size`, `dropout` and `regularization` do not matter then.
    distribution : {"normal", "softmax", "certain"}
        A bell around the prediction, a softmax over scores, or the paper's convention of a reliability of 1.
    averaging : float, default=0.99
        How much of the averaged weights is kept at each step; 0 answers with the last weights.
    early_stopping, device, random_state, n_jobs, verbose
        As in :class:`GCMC`.

    Attributes
    ----------
    user_hidden_, item_hidden_ : ndarray of shape (users or items, hidden)
        What user and item add up to in the first layer before :math:`\phi`.
    inner_weights_, inner_bias_ : ndarray of shape (hidden, inner) and (inner,)
    outer_weights_, outer_bias_ : ndarray of shape (inner, outputs) and (outputs,)
    spread_ : float
        The root of the mean squared error in the last epoch.
    n_iter_ : int
    history_ : ndarray
        The mean loss of each epoch.
    """

    LEARNT: ClassVar[dict[str, str]] = Neural.LEARNT | {
        "user_hidden_": "users hidden",
        "item_hidden_": "items hidden",
        "inner_weights_": "hidden inner",
        "inner_bias_": "inner",
        "outer_weights_": "inner outputs",
        "outer_bias_": "outputs",
        "spread_": "",
    }
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "ml-100k": {},
        "ml-1m": {"n_iters": 25, "learning_rate": 0.004, "regularization": 0.02, "batch_size": 4096},
        "filmtrust": {"n_iters": 5},
    }
    ADVICE = "Lower n_factors, n_hidden or batch_size."

    user_hidden_: npt.NDArray[np.floating[Any]]
    item_hidden_: npt.NDArray[np.floating[Any]]
    inner_weights_: npt.NDArray[np.floating[Any]]
    inner_bias_: npt.NDArray[np.floating[Any]]
    outer_weights_: npt.NDArray[np.floating[Any]]
    outer_bias_: npt.NDArray[np.floating[Any]]
    spread_: float

    def __init__(
        self,
        n_factors: int = 16,
        n_hidden: int = 64,
        n_iters: int = 20,
        learning_rate: float = 0.002,
        regularization: float = 0.05,
        dropout: float = 0.2,
        batch_size: int = 1024,
        full_batch: bool = False,
        distribution: str = "normal",
        averaging: float = 0.99,
        early_stopping: bool = False,
        device: str = "auto",
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_factors = n_factors
        self.n_hidden = n_hidden
        self.n_iters = n_iters
        self.learning_rate = learning_rate
        self.regularization = regularization
        self.dropout = dropout
        self.batch_size = batch_size
        self.full_batch = full_batch
        self.distribution = distribution
        self.averaging = averaging
        self.early_stopping = early_stopping
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        check_whole("n_hidden", self.n_hidden, 2)
        check_positive("regularization", self.regularization, zero=True)
        check_share("dropout", self.dropout)
        check_share("averaging", self.averaging)
        check_whole("batch_size", self.batch_size, 1)
        check_flag("full_batch", self.full_batch)
        choose("distribution", self.distribution, ["normal", "softmax", "certain"])

    def _averaging(self) -> float:
        return 0.0 if self.full_batch else self.averaging

    def _sizes(self, ratings: Ratings) -> dict[str, int]:
        n_outputs = len(ratings.scores) if self.distribution == "softmax" else 1
        hidden = {"hidden": self.n_hidden, "inner": self.n_hidden // 2, "outputs": n_outputs}
        return hidden | {"rounds": self.n_iters, "width": 4}

    def _memory(self, ratings: Ratings) -> float:
        """Return the bytes of six copies of the embeddings and of the activations of a step."""
        step = len(ratings) if self.full_batch else min(self.batch_size, len(ratings))
        nodes = len(ratings.users) + len(ratings.items)
        return 4.0 * (6 * nodes * self.n_factors + step * (8 * self.n_factors + 6 * self.n_hidden) + 8 * len(ratings))

    def _network(self, ratings: Ratings, rng: np.random.Generator, device: Any) -> "_Network":
        return _Network(self, ratings, rng, device)

    def _agrees(self) -> bool:
        outputs = len(self.scores_) if self.distribution == "softmax" else 1
        return (
            self.user_hidden_.shape[1] == self.n_hidden
            and self.outer_weights_.shape == (self.n_hidden // 2, outputs)
            and self.spread_ > 0
        )

    def values(self, user: Codes, item: Codes) -> npt.NDArray[np.float64]:
        """Return the predicted numbers of coded pairs, unrounded; with a softmax the means."""
        if self.distribution == "softmax":
            return np.asarray(self._proba(user, item) @ self.scores_)
        return np.asarray(self._outputs(user, item)[:, 0])

    def _outputs(self, user: Codes, item: Codes) -> npt.NDArray[np.float64]:
        hidden = self._activate(self.user_hidden_[user].astype(np.float64) + self.item_hidden_[item])
        inner = np.einsum("nh,hk->nk", hidden, self.inner_weights_.astype(np.float64)) + self.inner_bias_
        outputs = np.einsum("nk,ko->no", self._activate(inner), self.outer_weights_.astype(np.float64))
        return np.asarray(np.nan_to_num(outputs + self.outer_bias_))

    def _activate(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(1 / (1 + np.exp(-x)) if self.full_batch else np.maximum(x, 0))

    def _block(self, user: Codes, item: Codes) -> npt.NDArray[np.float64]:
        outputs = self._outputs(user, item)
        if self.distribution == "softmax":
            return softmax(outputs)
        halfway = (self.scores_[1:] + self.scores_[:-1]) / 2
        if self.distribution == "certain":
            return np.eye(len(self.scores_))[np.searchsorted(halfway, outputs[:, 0])]
        return (1 - FLOOR) * _native.bell(outputs[:, 0], halfway, self.spread_) + FLOOR * self.prior_


class _Network:
    """The perceptron; with ratings standardised unless it is run as the paper did."""

    def __init__(self, model: MLP, ratings: Ratings, rng: np.random.Generator, device: Any) -> None:
        self.model, self.rng, self.device = model, rng, device
        self.classify = model.distribution == "softmax"
        n_outputs = len(ratings.scores) if self.classify else 1
        sizes = len(ratings.users), len(ratings.items)
        self.weights = {name: torch.from_numpy(w).to(device) for name, w in self._start(*sizes, n_outputs).items()}
        self.generator = generator_of(rng, device)
        values = ratings.values
        plain = model.full_batch or self.classify
        self.mean, self.scale = (0.0, 1.0) if plain else (float(values.mean()), max(1e-6, float(values.std())))
        self.user, self.item = (
            torch.from_numpy(codes.astype(np.int64)).to(device) for codes in (ratings.user, ratings.item)
        )
        target = ratings.score.astype(np.int64) if self.classify else (values - self.mean) / self.scale
        self.target = torch.from_numpy(target if self.classify else target.astype(np.float32)).to(device)
        self.errors: list[Tensor] = []  # mean squares of the epoch

    def _start(self, n_users: int, n_items: int, n_outputs: int) -> dict[str, npt.NDArray[np.float32]]:
        k, h, rng = self.model.n_factors, self.model.n_hidden, self.rng
        shapes = {"hidden": (2 * k, h), "inner": (h, h // 2), "outer": (h // 2, n_outputs)}
        weights = {name: rng.normal(0, np.sqrt(2 / sum(shape)), shape) for name, shape in shapes.items()}
        biases = {f"{name}_bias": np.zeros(shape[1]) for name, shape in shapes.items()}
        spread = np.sqrt(2 / (1 + k)) if self.model.full_batch else 0.1
        embeddings = {name: rng.normal(0, spread, (n, k)) for name, n in (("users", n_users), ("items", n_items))}
        return {name: w.astype(np.float32) for name, w in (embeddings | weights | biases).items()}

    def batches(self) -> Iterable[Any]:
        """Yield all ratings at once, or in random order bit by bit."""
        self.errors = []
        if self.model.full_batch:
            yield self.user, self.item, self.target
            return
        for rows in shuffled(len(self.target), self.model.batch_size, self.rng):
            at = torch.from_numpy(rows).to(self.device)
            yield self.user[at], self.item[at], self.target[at]

    def loss(self, batch: Any) -> Tensor:
        """Return the mean squared error or cross-entropy of a batch, and the weighted length of its embeddings."""
        user, item, target = batch
        of_user = torch.nn.functional.embedding(user, self.weights["users"])
        of_item = torch.nn.functional.embedding(item, self.weights["items"])
        outputs = self._forward(torch.cat([of_user, of_item], 1))
        if self.classify:
            loss = torch.nn.functional.cross_entropy(outputs, target)
        else:
            loss = (outputs[:, 0] - target).square().mean()
            self.errors.append(loss.detach())
        if self.model.full_batch:
            return loss
        length = (of_user.square().sum() + of_item.square().sum()) / (2 * len(target))
        return loss + self.model.regularization * length

    def _forward(self, x: Tensor) -> Tensor:
        w = self.weights
        hidden = self._activate(self._dropped(x) @ w["hidden"] + w["hidden_bias"])
        inner = self._activate(self._dropped(hidden) @ w["inner"] + w["inner_bias"])
        return inner @ w["outer"] + w["outer_bias"]

    def _activate(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x) if self.model.full_batch else torch.relu(x)

    def _dropped(self, x: Tensor) -> Tensor:
        dropout = 0.0 if self.model.full_batch else self.model.dropout
        if not dropout:
            return x
        return x * (torch.rand(x.shape, generator=self.generator, device=self.device) >= dropout) / (1 - dropout)

    def learnt(self) -> dict[str, Any]:
        """Return the first layer summed per user and per item, the other layers, and the spread of the residuals."""
        k = self.model.n_factors
        w = {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.weights.items()}
        found = {
            "user_hidden_": w["users"] @ w["hidden"][:k] + w["hidden_bias"],
            "item_hidden_": w["items"] @ w["hidden"][k:],
            "inner_weights_": w["inner"],
            "inner_bias_": w["inner_bias"],
            "outer_weights_": w["outer"] * np.float32(self.scale),
            "outer_bias_": w["outer_bias"] * np.float32(self.scale) + np.float32(self.mean),
        }
        error = float(torch.stack(self.errors).mean()) if self.errors else 1.0
        return found | {"spread_": max(LEAST_SPREAD, self.scale * error**0.5)}
