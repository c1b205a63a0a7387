"""Graph Convolutional Matrix Completion: a distribution from two steps along the graph of ratings."""

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from starcast.errors import choose
from starcast.models.factorization import check_whole
from starcast.models.neural.backend import Tensor, torch
from starcast.models.neural.sparse import Matrix, pair_dots, product
from starcast.models.neural.training import Neural, check_share, generator_of, glorot, shuffled, softmax
from starcast.names import Codes
from starcast.ratings import Ratings


class GCMC(Neural):
    r"""Graph Convolutional Matrix Completion (van den Berg, Kipf and Welling 2017).

    .. math::

        P(s \mid u, i) = \operatorname{softmax}_s \sum_b a_{bs}\, z_u^\top Q_b z_i, \qquad
        z_u = \operatorname{ReLU}\Bigl(\operatorname*{acc}_r \sum_{i \in N_r(u)} \frac{W_r[i]}{c_{ui}}\Bigr) V

    A user is encoded by the items rated, a message for each that depends on the rating *r*, and an item by its users
    likewise. Messages of different ratings are concatenated (``accumulation="stack"``, each with its share of the
    hidden units) or added (``"sum"``, with :math:`W_r = T_1 + \dots + T_r`). A bilinear decoder turns the two codes
    into scores. The cross-entropy of the ratings is minimised by Adam, and the answer comes from averaged weights.

    Parameters
    ----------
    n_hidden : int, default=500
        Hidden units of the first layer; with ``"stack"`` rounded down to a multiple of the number of scores.
    n_factors : int, default=75
        Length of the codes :math:`z`.
    n_bases : int, default=2
        Matrices :math:`Q_b` of the decoder.
    accumulation : {"stack", "sum"}
    normalization : {"left", "symmetric"}
        :math:`c_{ui}`: how many ratings the receiver has, or the root of that times how many the sender has.
    dropout : float, default=0.7
        The share of nodes whose messages are dropped in a step, and of hidden units.
    n_iters : int, default=1000
        Epochs, each one step on all ratings unless there is a `batch_size`.
    learning_rate : float, default=0.01
    batch_size : int or None
        Ratings of a step, for more steps an epoch and less memory on large tables; None is all of them.
    averaging : float, default=0.995
        How much of the averaged weights is kept at each step; 0 answers with the last weights.
    early_stopping : bool, default=False
        Whether to find the number of epochs on a tenth of the ratings first.
    device : {"auto", "cpu", "cuda"}
        Where to learn; "auto" is CUDA where there is some. There the same seed gives the same fit but for rounding.
    random_state : int or None
    n_jobs : int or None
        Threads; None is one a core. Below half a million ratings one is used, and the result does not depend on it;
        above, its last bits may.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    user_factors_ : ndarray of shape (users, bases, columns)
        :math:`z_u^\top Q_b`.
    item_factors_ : ndarray of shape (items, columns)
    mixing_ : ndarray of shape (bases, scores)
        :math:`a`.
    n_iter_ : int
    history_ : ndarray
        The mean loss of each epoch.

    Notes
    -----
    Without side features, as in the paper. :meth:`preset` has the published settings of MovieLens 100K, 1M and 10M;
    that of FilmTrust was chosen on training ratings.
    """

    LEARNT: ClassVar[dict[str, str]] = Neural.LEARNT | {
        "user_factors_": "users bases columns",
        "item_factors_": "items columns",
        "mixing_": "bases scores",
    }
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "ml-100k": {},
        "ml-1m": {"accumulation": "sum", "normalization": "symmetric", "n_iters": 3500},
        "ml-10m": {"normalization": "symmetric", "dropout": 0.3, "n_bases": 4, "n_iters": 20, "batch_size": 10_000},
        "filmtrust": {"n_iters": 200},
    }
    LOOK, PATIENCE = 10, 10
    ADVICE = "Lower n_hidden or n_factors, or set batch_size."

    user_factors_: npt.NDArray[np.floating[Any]]
    item_factors_: npt.NDArray[np.floating[Any]]
    mixing_: npt.NDArray[np.floating[Any]]

    def __init__(
        self,
        n_hidden: int = 500,
        n_factors: int = 75,
        n_bases: int = 2,
        accumulation: str = "stack",
        normalization: str = "left",
        dropout: float = 0.7,
        n_iters: int = 1000,
        learning_rate: float = 0.01,
        batch_size: int | None = None,
        averaging: float = 0.995,
        early_stopping: bool = False,
        device: str = "auto",
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_hidden = n_hidden
        self.n_factors = n_factors
        self.n_bases = n_bases
        self.accumulation = accumulation
        self.normalization = normalization
        self.dropout = dropout
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
        choose("accumulation", self.accumulation, ["stack", "sum"])
        choose("normalization", self.normalization, ["left", "symmetric"])
        check_share("dropout", self.dropout)
        check_share("averaging", self.averaging)
        if self.batch_size is not None:
            check_whole("batch_size", self.batch_size, 1)

    def _averaging(self) -> float:
        return self.averaging

    def _sizes(self, ratings: Ratings) -> dict[str, int]:
        return {"bases": self.n_bases, "columns": self.n_factors, "rounds": self.n_iters, "width": 4}

    def _memory(self, ratings: Ratings) -> float:
        """Return the bytes of six copies of the weights, the hidden layers, the codes, the edges and the logits."""
        nodes, n_scores = len(ratings.users) + len(ratings.items), len(ratings.scores)
        tables = n_scores if self.accumulation == "sum" else 1
        step = min(self.batch_size or len(ratings), len(ratings))
        return 4.0 * (
            nodes * self.n_hidden * (6 * tables + (2 * n_scores if tables > 1 else 2) + 4)
            + self.n_factors * (6 * (self.n_hidden + self.n_bases * self.n_factors) + 4 * self.n_bases * nodes)
            + 24 * len(ratings)
            + step * (4 * n_scores + 4 * self.n_bases + 12)
        )

    def _network(self, ratings: Ratings, rng: np.random.Generator, device: Any) -> "_Network":
        return _Network(self, ratings, rng, device)

    def _agrees(self) -> bool:
        return self.user_factors_.shape[1:] == (self.n_bases, self.n_factors)

    def _block(self, user: Codes, item: Codes) -> npt.NDArray[np.float64]:
        P, Q = self.user_factors_[user].astype(np.float64), self.item_factors_[item].astype(np.float64)
        dots = np.einsum("nbk,nk->nb", P, Q)
        return softmax(sum(dots[:, b, None] * self.mixing_[b] for b in range(dots.shape[1])))


class _Network:
    """Encoder and decoder; nodes are users, then items."""

    def __init__(self, model: GCMC, ratings: Ratings, rng: np.random.Generator, device: Any) -> None:
        self.model, self.rng, self.device = model, rng, device
        self.n_users, self.n_items, self.n_scores = len(ratings.users), len(ratings.items), len(ratings.scores)
        self.stacked = model.accumulation == "stack"
        self.n_hidden = model.n_hidden
        if self.stacked:
            self.n_hidden = max(self.n_scores, model.n_hidden // self.n_scores * self.n_scores)
        self.weights = {name: torch.from_numpy(w).to(device) for name, w in self._start().items()}
        self.generator = generator_of(rng, device)
        self.user, self.item, self.score = (
            torch.from_numpy(codes.astype(np.int64)).to(device) for codes in (ratings.user, ratings.item, ratings.score)
        )
        self.to_users, self.to_items = self._messages()
        self.everything: Matrix | None = None

    def _start(self) -> dict[str, npt.NDArray[np.float32]]:
        nodes, model = self.n_users + self.n_items, self.model
        tables = () if self.stacked else (self.n_scores,)
        square = self.rng.normal(size=(model.n_bases, model.n_factors, model.n_factors))
        return {
            "messages": glorot(self.rng, *tables, nodes, self.n_hidden),
            "code": glorot(self.rng, self.n_hidden, model.n_factors),
            "bases": (1.1 * np.linalg.qr(square)[0]).astype(np.float32),
            "mixing": glorot(self.rng, model.n_bases, self.n_scores),
        }

    def _messages(self) -> tuple[Matrix, Matrix]:
        """Return the matrices that carry messages to users and to items.

        A column stands for a sender and a score. A row stands for a receiver, and with "stack" for a score as well,
        so that one product fills every score's share of the hidden units.
        """
        R = self.n_scores
        n_from_user = torch.bincount(self.user, minlength=self.n_users).float()[self.user]
        n_from_item = torch.bincount(self.item, minlength=self.n_items).float()[self.item]
        both = torch.sqrt(n_from_user * n_from_item)
        symmetric = self.model.normalization == "symmetric"

        def matrix(to: Tensor, n_to: int, sender: Tensor, n_from: int, count: Tensor) -> Matrix:
            row, n_rows = (to * R + self.score, n_to * R) if self.stacked else (to, n_to)
            return Matrix(row, sender * R + self.score, 1 / (both if symmetric else count), (n_rows, n_from * R))

        return (
            matrix(self.user, self.n_users, self.item, self.n_items, n_from_user),
            matrix(self.item, self.n_items, self.user, self.n_users, n_from_item),
        )

    def batches(self) -> Iterable[Matrix]:
        """Yield the pairs of all ratings at once, or of some after the other in random order; values are scores.

        All nodes are encoded for each: the neighbours of ten thousand ratings are most of a large table.
        """
        shape = self.n_users, self.n_items
        if self.model.batch_size is None:
            if self.everything is None:
                self.everything = Matrix(self.user, self.item, self.score, shape)
            yield self.everything
            return
        for rows in shuffled(len(self.score), self.model.batch_size, self.rng):
            at = torch.from_numpy(rows).to(self.device)
            yield Matrix(self.user[at], self.item[at], self.score[at], shape)

    def loss(self, batch: Matrix) -> Tensor:
        """Return the mean cross-entropy of some ratings."""
        z_users, z_items = self._encode(self.model.dropout)
        dots = [pair_dots(batch, z_users @ basis, z_items) for basis in self.weights["bases"]]
        return torch.nn.functional.cross_entropy(torch.stack(dots, 1) @ self.weights["mixing"], batch.value)

    def _encode(self, dropout: float) -> tuple[Tensor, Tensor]:
        """Return the codes of users and items."""
        messages = self.weights["messages"]
        if not self.stacked:
            messages = torch.cumsum(messages, 0).transpose(0, 1)  # (nodes, scores, hidden)
        if dropout:
            kept = self._kept(messages.shape[:1], dropout)
            messages = messages * kept.reshape(-1, *[1] * (messages.dim() - 1))
        from_users, from_items = messages[: self.n_users], messages[self.n_users :]
        hidden = [self._receive(self.to_users, from_items), self._receive(self.to_items, from_users)]
        if dropout:
            hidden = [h * self._kept(h.shape, dropout) for h in hidden]
        return hidden[0] @ self.weights["code"], hidden[1] @ self.weights["code"]

    def _receive(self, matrix: Matrix, messages: Tensor) -> Tensor:
        sent = messages.reshape(messages.shape[0] * self.n_scores, -1)
        return torch.relu(product(matrix, sent).reshape(-1, self.n_hidden))

    def _kept(self, shape: Any, dropout: float) -> Tensor:
        """Return 0 for what is dropped and 1 / (1 - dropout) for the rest."""
        drawn = torch.rand(shape, generator=self.generator, device=self.device)
        return (drawn >= dropout).float() / (1 - dropout)

    def learnt(self) -> dict[str, Any]:
        """Return the codes of all nodes, those of the users already times the bases, and the mixing of the bases."""
        with torch.no_grad():
            z_users, z_items = self._encode(0.0)
            user_factors = torch.einsum("uk,bkj->ubj", z_users, self.weights["bases"])
            found = {"user_factors_": user_factors, "item_factors_": z_items, "mixing_": self.weights["mixing"]}
            return {name: tensor.cpu().numpy().copy() for name, tensor in found.items()}
