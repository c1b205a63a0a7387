"""Multi-Way Gaussian Process: a sparse Gaussian process over embeddings, whose variance becomes a distribution."""

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from starcast import _native
from starcast.errors import choose
from starcast.models.factorization import check_positive, check_whole
from starcast.models.neural.backend import Tensor, torch
from starcast.models.neural.training import Neural, check_share, shuffled
from starcast.models.point import FLOOR
from starcast.names import Codes
from starcast.ratings import Ratings

JITTER = 1e-6  # on the diagonal of the inducing points' covariance, as a share of its variance
SWEEPS = 8  # of the subspace iteration that finds principal components


class MWGP(Neural):
    r"""Multi-Way Gaussian Process (Yang and Buettner 2021).

    .. math::

        r_{ui} = \mu + f(p_u, q_i) + \varepsilon, \qquad
        \operatorname{cov}\bigl(f(p, q), f(p', q')\bigr) = v\, k(p, p')\, k'(q, q')

    with embeddings :math:`p_u, q_i`, squared-exponential kernels :math:`k, k'` with a length scale per column, and
    normal noise :math:`\varepsilon`. The process is learnt through inducing points (a sparse variational process,
    whitened), embeddings, kernels and points together, by the evidence lower bound.

    The paper took the mean for a prediction and left the variance aside. Here mean :math:`m` and variance
    :math:`\sigma^2` of a rating make the distribution

    .. math:: P(s) = \Phi\Bigl(\frac{h_s - m}{\sigma}\Bigr) - \Phi\Bigl(\frac{h_{s-1} - m}{\sigma}\Bigr)

    with :math:`h_s` halfway between score *s* and the next, infinite at both ends; one part in a thousand is the
    table's frequencies.

    Parameters
    ----------
    n_factors : int, default=8
        Length of each embedding.
    n_inducing : int, default=128
        Inducing points.
    regularization : float, default=0.01
        Weight of half the squared length of the embeddings of a rating.
    n_iters : int, default=14
        Epochs.
    learning_rate : float, default=0.01
    batch_size : int, default=4096
        Ratings of a step.
    averaging : float, default=0.99
        How much of the averaged weights is kept at each step; 0 answers with the last weights.
    distribution : {"normal", "certain"}
        As above, or the paper's convention of a reliability of 1 everywhere.
    early_stopping, device, random_state, n_jobs, verbose
        As in :class:`GCMC`.

    Attributes
    ----------
    user_kernel_, item_kernel_ : ndarray of shape (users or items, inducing)
        :math:`k` and :math:`k'` between each user or item and each inducing point.
    mean_weights_ : ndarray of shape (inducing,)
        The mean is their sum, weighted by the products of both kernels.
    variance_weights_ : ndarray of shape (inducing, inducing)
        By how much what is known of the inducing points lowers the variance.
    mean_, variance_ : float
        Mean of the ratings; variance of a rating of which nothing is known.
    noise_ : float
        Variance of the noise, which is the least that a rating has.
    n_iter_ : int
    history_ : ndarray
        The mean loss of each epoch: minus the bound per rating.

    Notes
    -----
    The published program does not weigh the likelihood of a batch by the size of the table, starts with all inducing
    points at zero, and its regularization takes no effect; here they do what the paper says. Its white-noise kernels
    cannot be told from the noise and are left out.
    """

    LEARNT: ClassVar[dict[str, str]] = Neural.LEARNT | {
        "user_kernel_": "users inducing",
        "item_kernel_": "items inducing",
        "mean_weights_": "inducing",
        "variance_weights_": "inducing inducing",
        "mean_": "",
        "variance_": "",
        "noise_": "",
    }
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "ml-100k": {},
        "ml-1m": {"n_iters": 20, "batch_size": 8192},
        "filmtrust": {"n_inducing": 64, "n_iters": 18, "batch_size": 2048},
    }
    ADVICE = "Lower n_inducing, n_factors or batch_size."

    user_kernel_: npt.NDArray[np.floating[Any]]
    item_kernel_: npt.NDArray[np.floating[Any]]
    mean_weights_: npt.NDArray[np.floating[Any]]
    variance_weights_: npt.NDArray[np.floating[Any]]
    mean_: float
    variance_: float
    noise_: float

    def __init__(
        self,
        n_factors: int = 8,
        n_inducing: int = 128,
        regularization: float = 0.01,
        n_iters: int = 14,
        learning_rate: float = 0.01,
        batch_size: int = 4096,
        averaging: float = 0.99,
        distribution: str = "normal",
        early_stopping: bool = False,
        device: str = "auto",
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_factors = n_factors
        self.n_inducing = n_inducing
        self.regularization = regularization
        self.n_iters = n_iters
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.averaging = averaging
        self.distribution = distribution
        self.early_stopping = early_stopping
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        check_positive("regularization", self.regularization, zero=True)
        check_whole("batch_size", self.batch_size, 1)
        check_share("averaging", self.averaging)
        choose("distribution", self.distribution, ["normal", "certain"])

    def _averaging(self) -> float:
        return self.averaging

    def _sizes(self, ratings: Ratings) -> dict[str, int]:
        return {"inducing": self.n_inducing, "rounds": self.n_iters, "width": 8}

    def _memory(self, ratings: Ratings) -> float:
        """Return the bytes, eight a number, of the embeddings' copies, the kernels and the covariances of a step."""
        nodes, batch, M = len(ratings.users) + len(ratings.items), min(self.batch_size, len(ratings)), self.n_inducing
        return 8.0 * (nodes * (6 * self.n_factors + M) + 20 * M * M + 10 * batch * M + 4 * len(ratings))

    def _network(self, ratings: Ratings, rng: np.random.Generator, device: Any) -> "_Network":
        return _Network(self, ratings, rng, device)

    def _agrees(self) -> bool:
        return len(self.mean_weights_) == self.n_inducing and self.noise_ > 0

    def values(self, user: Codes, item: Codes) -> npt.NDArray[np.float64]:
        """Return the predicted numbers of coded pairs, unrounded."""
        return self.moments(user, item)[0]

    def moments(self, user: Codes, item: Codes) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return mean and variance of the ratings of coded pairs."""
        kernel = self.user_kernel_[user].astype(np.float64) * self.item_kernel_[item]
        mean = self.mean_ + np.einsum("nm,m->n", kernel, self.mean_weights_.astype(np.float64))
        known = np.einsum("nm,nm->n", np.einsum("nm,mk->nk", kernel, self.variance_weights_), kernel)
        return np.nan_to_num(mean), np.maximum(np.nan_to_num(self.variance_ - known), 0) + self.noise_

    def _block(self, user: Codes, item: Codes) -> npt.NDArray[np.float64]:
        mean, variance = self.moments(user, item)
        halfway = (self.scores_[1:] + self.scores_[:-1]) / 2
        if self.distribution == "certain":
            return np.eye(len(self.scores_))[np.searchsorted(halfway, mean)]
        return (1 - FLOOR) * bins(mean, np.sqrt(variance), halfway) + FLOOR * self.prior_


def bins(
    mean: npt.NDArray[np.float64], spread: npt.NDArray[np.float64], edges: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the probability of normal numbers, each with its own mean and spread, between the edges.

    >>> bins(np.array([2.0, 2.0]), np.array([1.0, 2.0]), np.array([1.0, 3.0])).round(3).tolist()
    [[0.159, 0.683, 0.159], [0.309, 0.383, 0.309]]
    """
    zero = np.zeros(1)
    below = [_native.bell(np.nan_to_num((mean - edge) / spread), zero, 1.0)[:, 0] for edge in edges]
    parts = np.diff(np.column_stack([np.zeros(len(mean)), *below, np.ones(len(mean))]), axis=1)
    return np.maximum(parts, 0)


class _Network:
    """A whitened sparse variational process, in double precision."""

    def __init__(self, model: MWGP, ratings: Ratings, rng: np.random.Generator, device: Any) -> None:
        self.model, self.rng, self.device, self.n = model, rng, device, len(ratings)
        self.mean, self.scale = float(ratings.values.mean()), max(1e-6, float(ratings.values.std()))
        target = (ratings.values - self.mean) / self.scale
        self.weights = {name: torch.tensor(w, device=device) for name, w in self._start(ratings, target).items()}
        self.user, self.item = (
            torch.from_numpy(codes.astype(np.int64)).to(device) for codes in (ratings.user, ratings.item)
        )
        self.target = torch.from_numpy(target).to(device)

    def _start(self, ratings: Ratings, target: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
        k, M = self.model.n_factors, self.model.n_inducing
        sides = (ratings.user, ratings.item), (len(ratings.users), len(ratings.items))
        users = principal_scores(*sides[0], target, sides[1], k, self.rng)
        items = principal_scores(*sides[0][::-1], target, sides[1][::-1], k, self.rng)
        pairs = self.rng.integers(0, self.n, M)
        points = np.hstack([users[ratings.user[pairs]], items[ratings.item[pairs]]])
        return {
            "users": users,
            "items": items,
            "points": points + 0.1 * self.rng.normal(size=points.shape),
            "log_lengths": np.full(2 * k, 0.5 * np.log(2 * k)),
            "log_variance": np.zeros(()),
            "log_noise": np.zeros(()),
            "mean": np.zeros(M),
            "root": np.eye(M),
        }

    def batches(self) -> Iterable[Any]:
        """Yield the ratings in random order."""
        for rows in shuffled(self.n, self.model.batch_size, self.rng):
            at = torch.from_numpy(rows).to(self.device)
            yield self.user[at], self.item[at], self.target[at]

    def loss(self, batch: Any) -> Tensor:
        """Return minus the bound per rating, estimated on a batch, and the weighted length of its embeddings."""
        user, item, target = batch
        w, k = self.weights, self.model.n_factors
        of_user = torch.nn.functional.embedding(user, w["users"])
        of_item = torch.nn.functional.embedding(item, w["items"])
        chol, root, variance, noise = self._process()
        cross = variance * self._kernel(of_user, slice(0, k)) * self._kernel(of_item, slice(k, 2 * k))
        A = torch.linalg.solve_triangular(chol, cross.T, upper=False)  # (inducing, batch)
        mean = w["mean"] @ A
        spread = variance - A.square().sum(0) + (root.T @ A).square().sum(0)
        errors = ((target - mean).square() + spread) / noise
        likelihood = -0.5 * (errors.mean() + torch.log(2 * torch.pi * noise))
        gap = 0.5 * (root.square().sum() + w["mean"].square().sum() - len(root)) - root.diagonal().abs().log().sum()
        length = (of_user.square().sum() + of_item.square().sum()) / (2 * len(target))
        return gap / self.n - likelihood + self.model.regularization * length

    def _process(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the root of the points' covariance, that of what is known of them, and both variances."""
        w, k = self.weights, self.model.n_factors
        variance, noise = w["log_variance"].exp(), w["log_noise"].exp()
        points = w["points"]
        prior = self._kernel(points[:, :k], slice(0, k)) * self._kernel(points[:, k:], slice(k, 2 * k))
        eye = torch.eye(len(points), dtype=points.dtype, device=points.device)
        chol, failed = torch.linalg.cholesky_ex(variance * (prior + JITTER * eye))
        chol = torch.where(failed > 0, torch.nan, chol)  # so that the loss tells that it diverged
        return chol, torch.tril(w["root"]), variance, noise

    def _kernel(self, x: Tensor, columns: slice) -> Tensor:
        """Return the squared-exponential kernel between embeddings and inducing points, shape (rows, inducing)."""
        length = self.weights["log_lengths"][columns].exp()
        a, b = x / length, self.weights["points"][:, columns] / length
        squares = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
        return torch.exp(-0.5 * squares.clamp(min=0))

    def learnt(self) -> dict[str, Any]:
        """Return kernels and weights by which mean and variance of a rating are sums over the inducing points."""
        k = self.model.n_factors
        with torch.no_grad():
            chol, root, variance, noise = self._process()
            eye = torch.eye(len(chol), dtype=chol.dtype, device=chol.device)
            inverse = torch.linalg.solve_triangular(chol, eye, upper=False)  # A = inverse @ cross
            known = inverse.T @ (eye - root @ root.T) @ inverse
            found = {
                "user_kernel_": self._kernel(self.weights["users"], slice(0, k)),
                "item_kernel_": self._kernel(self.weights["items"], slice(k, 2 * k)),
                "mean_weights_": self.scale * variance * (inverse.T @ self.weights["mean"]),
                "variance_weights_": self.scale**2 * variance.square() * (known + known.T) / 2,
            }
            arrays = {name: tensor.cpu().numpy().copy() for name, tensor in found.items()}
        values = {
            "mean_": self.mean,
            "variance_": self.scale**2 * float(variance),
            "noise_": self.scale**2 * float(noise),
        }
        return arrays | values


def principal_scores(
    row: Codes, column: Codes, value: npt.NDArray[np.float64], shape: tuple[int, int], n: int, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Return the rows' scores on the first `n` principal components of a table whose gaps are zero.

    Found by subspace iteration; scaled to variance one, so that a kernel starts with points at all distances. What a
    small table has too few components for is drawn at random.
    """
    means = np.bincount(column, value, shape[1]) / shape[0]
    axes = rng.normal(size=(shape[1], min(n, *shape)))
    for _ in range(SWEEPS):
        scores = np.linalg.qr(_product(row, column, value, axes, shape[0]) - means @ axes)[0]
        axes = np.linalg.qr(_product(column, row, value, scores, shape[1]) - np.outer(means, scores.sum(axis=0)))[0]
    scores = _product(row, column, value, axes, shape[0]) - means @ axes
    drawn = rng.normal(size=(shape[0], n - scores.shape[1]))
    return np.hstack([scores / np.maximum(scores.std(axis=0), 1e-12), drawn])


def _product(row: Codes, column: Codes, value: Any, dense: npt.NDArray[np.float64], n_rows: int) -> Any:
    return np.column_stack([np.bincount(row, value * x[column], n_rows) for x in dense.T])
