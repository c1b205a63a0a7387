"""Neural Graph Collaborative Filtering: embeddings that walk the graph of who rated what, with a head for scores."""

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from starcast.errors import choose
from starcast.models.factorization import check_positive, check_whole
from starcast.models.neural.backend import Tensor, torch
from starcast.models.neural.sparse import Matrix, product
from starcast.models.neural.training import Neural, check_share, generator_of, glorot, shuffled, softmax
from starcast.names import Codes
from starcast.ratings import Ratings

SLOPE = 0.2  # of the leaky ReLU below zero


class NGCF(Neural):
    r"""Neural Graph Collaborative Filtering (Wang et al. 2019), with a softmax over scores.

    .. math::

        E_{l+1} = \phi(L E_l W_l + b_l) + \phi\bigl((E_l \odot L E_l) W'_l + b'_l\bigr), \qquad
        e = [E_0, \hat E_1, \dots, \hat E_n]

    with :math:`L` the normalised graph of who rated what, :math:`\phi` a leaky ReLU and :math:`\hat E` rows of length
    one. The published program ranks items by :math:`e_u \cdot e_i` and has no ratings, scores or probabilities at all.
    The head here is our own:

    .. math:: P(s \mid u, i) = \operatorname{softmax}_s \bigl[(e_u \odot e_i) H + e_u H' + e_i H'' + h\bigr]_s

    learnt with the encoder by the cross-entropy of the ratings.

    Parameters
    ----------
    n_factors : int, default=64
        Columns of the embeddings and of each layer.
    n_layers : int, default=3
    normalization : {"symmetric", "left"}
        The graph divided by the root of both degrees, as the paper says; or the graph with loops divided by the degree
        of the receiver, as the published program does by default.
    dropout : float, default=0.1
        The share of a layer's outputs that is dropped in a step.
    node_dropout : float, default=0.7
        The share of nodes whose embedding is dropped in a step, from its own code and from what it sends. Without it
        the embeddings learn the ratings by heart within five epochs.
    regularization : float, default=1e-05
        Weight of half the squared length of the codes :math:`e_u` and :math:`e_i` of a rating.
    n_iters : int, default=100
        Epochs.
    learning_rate : float, default=0.005
    batch_size : int, default=8192
        Ratings of a step.
    averaging : float, default=0.99
        How much of the averaged weights is kept at each step; 0 answers with the last weights.
    early_stopping, device, random_state, n_jobs, verbose
        As in :class:`GCMC`.

    Attributes
    ----------
    user_factors_, item_factors_ : ndarray of shape (users or items, columns)
        :math:`e`.
    user_bias_, item_bias_ : ndarray of shape (users or items, scores)
        :math:`e_u H' + h` and :math:`e_i H''`.
    head_ : ndarray of shape (columns, scores)
        :math:`H`.
    n_iter_ : int
    history_ : ndarray
        The mean loss of each epoch.
    """

    LEARNT: ClassVar[dict[str, str]] = Neural.LEARNT | {
        "user_factors_": "users columns",
        "item_factors_": "items columns",
        "user_bias_": "users scores",
        "item_bias_": "items scores",
        "head_": "columns scores",
    }
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "ml-100k": {},
        "ml-1m": {"n_iters": 95, "learning_rate": 0.01, "batch_size": 16_384},
        "filmtrust": {"node_dropout": 0.1, "n_iters": 10, "learning_rate": 0.001, "batch_size": 1024},
    }
    LOOK, PATIENCE = 1, 5
    ADVICE = "Lower n_factors, n_layers or batch_size."

    user_factors_: npt.NDArray[np.floating[Any]]
    item_factors_: npt.NDArray[np.floating[Any]]
    user_bias_: npt.NDArray[np.floating[Any]]
    item_bias_: npt.NDArray[np.floating[Any]]
    head_: npt.NDArray[np.floating[Any]]

    def __init__(
        self,
        n_factors: int = 64,
        n_layers: int = 3,
        normalization: str = "symmetric",
        dropout: float = 0.1,
        node_dropout: float = 0.7,
        regularization: float = 1e-5,
        n_iters: int = 100,
        learning_rate: float = 0.005,
        batch_size: int = 8192,
        averaging: float = 0.99,
        early_stopping: bool = False,
        device: str = "auto",
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_factors = n_factors
        self.n_layers = n_layers
        self.normalization = normalization
        self.dropout = dropout
        self.node_dropout = node_dropout
        self.regularization = regularization
        self.n_iters = n_iters
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.averaging = averaging
        self.early_stopping = early_stopping
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        choose("normalization", self.normalization, ["left", "symmetric"])
        check_share("dropout", self.dropout)
        check_share("node_dropout", self.node_dropout)
        check_share("averaging", self.averaging)
        check_positive("regularization", self.regularization, zero=True)
        check_whole("batch_size", self.batch_size, 1)

    def _averaging(self) -> float:
        return self.averaging

    def _sizes(self, ratings: Ratings) -> dict[str, int]:
        return {"columns": self.n_factors * (self.n_layers + 1), "rounds": self.n_iters, "width": 4}

    def _memory(self, ratings: Ratings) -> float:
        """Return the bytes of the embeddings and their copies, eight per layer, the graph, and the codes of a batch."""
        nodes, columns = len(ratings.users) + len(ratings.items), self.n_factors * (self.n_layers + 1)
        batch = min(self.batch_size, len(ratings))
        return 4.0 * (nodes * (6 * self.n_factors + 8 * columns) + 40 * len(ratings) + 6 * batch * columns)

    def _network(self, ratings: Ratings, rng: np.random.Generator, device: Any) -> "_Network":
        return _Network(self, ratings, rng, device)

    def _agrees(self) -> bool:
        return bool(self.user_factors_.shape[1] == self.n_factors * (self.n_layers + 1))

    def _block(self, user: Codes, item: Codes) -> npt.NDArray[np.float64]:
        both = self.user_factors_[user].astype(np.float64) * self.item_factors_[item]
        logits = np.einsum("nk,ks->ns", both, self.head_.astype(np.float64))
        return softmax(logits + self.user_bias_[user] + self.item_bias_[item])


class _Network:
    """Encoder and head; nodes are users, then items."""

    def __init__(self, model: NGCF, ratings: Ratings, rng: np.random.Generator, device: Any) -> None:
        self.model, self.rng, self.device = model, rng, device
        self.n_users, self.n_items, self.n_scores = len(ratings.users), len(ratings.items), len(ratings.scores)
        self.weights = {name: torch.from_numpy(w).to(device) for name, w in self._start().items()}
        self.generator = generator_of(rng, device)
        self.user, self.item, self.score = (
            torch.from_numpy(codes.astype(np.int64)).to(device) for codes in (ratings.user, ratings.item, ratings.score)
        )
        self.graph = self._graph()

    def _start(self) -> dict[str, npt.NDArray[np.float32]]:
        k, rng = self.model.n_factors, self.rng
        columns = k * (self.model.n_layers + 1)
        weights = {"embeddings": glorot(rng, self.n_users + self.n_items, k)}
        for layer in range(self.model.n_layers):
            for kind in ("sum", "product"):
                weights |= {f"{kind}{layer}": glorot(rng, k, k), f"{kind}_bias{layer}": glorot(rng, 1, k)}
        heads = {f"{of}_head": glorot(rng, columns, self.n_scores) for of in ("both", "user", "item")}
        return weights | heads | {"bias": np.zeros(self.n_scores, np.float32)}

    def _graph(self) -> Matrix:
        n = self.n_users + self.n_items
        row = torch.cat([self.user, self.item + self.n_users])
        column = torch.cat([self.item + self.n_users, self.user])
        degree = torch.bincount(row, minlength=n).float()
        if self.model.normalization == "symmetric":
            return Matrix(row, column, 1 / torch.sqrt(degree[row] * degree[column]), (n, n))
        loops = torch.arange(n, device=self.device)
        row, column = torch.cat([row, loops]), torch.cat([column, loops])
        return Matrix(row, column, 1 / (degree[row] + 1), (n, n))

    def batches(self) -> Iterable[Any]:
        """Yield the ratings in random order."""
        for rows in shuffled(len(self.score), self.model.batch_size, self.rng):
            at = torch.from_numpy(rows).to(self.device)
            yield self.user[at], self.item[at], self.score[at]

    def loss(self, batch: Any) -> Tensor:
        """Return the mean cross-entropy of the ratings of a batch, and the weighted length of their codes."""
        user, item, score = batch
        codes, w = self._encode(learning=True), self.weights
        of_user = torch.nn.functional.embedding(user, codes[: self.n_users])
        of_item = torch.nn.functional.embedding(item, codes[self.n_users :])
        logits = of_user * of_item @ w["both_head"] + of_user @ w["user_head"] + of_item @ w["item_head"] + w["bias"]
        length = (of_user.square().sum() + of_item.square().sum()) / (2 * len(score))
        return torch.nn.functional.cross_entropy(logits, score) + self.model.regularization * length

    def _encode(self, *, learning: bool) -> Tensor:
        """Return the codes of all nodes."""
        w, layer = self.weights, self.weights["embeddings"]
        dropout, node_dropout = (self.model.dropout, self.model.node_dropout) if learning else (0.0, 0.0)
        layer = self._dropped(layer, (len(layer), 1), node_dropout)
        codes = [layer]
        for at in range(self.model.n_layers):
            near = product(self.graph, layer)
            straight = near @ w[f"sum{at}"] + w[f"sum_bias{at}"]
            crossed = (layer * near) @ w[f"product{at}"] + w[f"product_bias{at}"]
            layer = sum(torch.nn.functional.leaky_relu(part, SLOPE) for part in (straight, crossed))
            layer = self._dropped(layer, layer.shape, dropout)
            codes.append(torch.nn.functional.normalize(layer))
        return torch.cat(codes, 1)

    def _dropped(self, x: Tensor, shape: Any, share: float) -> Tensor:
        if not share:
            return x
        return x * ((torch.rand(shape, generator=self.generator, device=self.device) >= share).float() / (1 - share))

    def learnt(self) -> dict[str, Any]:
        """Return the codes of all nodes and what the head makes of each alone."""
        with torch.no_grad():
            codes, w = self._encode(learning=False), self.weights
            users, items = codes[: self.n_users], codes[self.n_users :]
            found = {
                "user_factors_": users,
                "item_factors_": items,
                "user_bias_": users @ w["user_head"] + w["bias"],
                "item_bias_": items @ w["item_head"],
                "head_": w["both_head"],
            }
            return {name: tensor.cpu().numpy().copy() for name, tensor in found.items()}
