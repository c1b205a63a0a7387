"""What the factorizations share: starting points, threads, progress, history, early stopping."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from starcast.distribution import Distribution
from starcast.errors import DivergenceError, ParameterError, choose
from starcast.javarandom import JavaRandom
from starcast.kernels import Side, make_sides, resolve_threads
from starcast.metrics import nll
from starcast.models.base import Model
from starcast.names import Codes
from starcast.progress import progress_bar
from starcast.ratings import Ratings

OnRound = Callable[[int, float], bool]  # rounds before this one, its objective → whether to stop
LARGEST = 2**63 - 1  # of a parameter that counts something
MOST_ITERS = 2**31 - 1  # of the kernels
PATIENCE = 3  # rounds without a better held-out log-loss before early stopping gives up
HELD_OUT = 0.1  # the share of the ratings that early stopping looks at


class Factorization(Model):
    """A model of factors for users and items, learnt round by round: all users, then all items.

    Attributes
    ----------
    n_iter_ : int
        Rounds that were run.
    history_ : ndarray
        The objective after each round; empty in double precision, where the published program has none.
    """

    LEARNT: ClassVar[dict[str, str]] = {"n_iter_": "", "history_": "rounds"}

    n_iter_: int
    history_: npt.NDArray[np.float64]
    user_factors_: npt.NDArray[Any]
    item_factors_: npt.NDArray[Any]

    # Set by the constructors of the subclasses.
    n_factors: int
    n_iters: int
    regularization: float
    early_stopping: bool
    generator: str
    on_divergence: str
    random_state: int | None
    n_jobs: int | None
    verbose: bool

    def _check_params(self) -> None:
        self._check_factors()
        check_whole("n_iters", self.n_iters, 1, MOST_ITERS)
        check_positive("regularization", self.regularization, zero=True)
        choose("generator", self.generator, ["numpy", "java"])
        choose("on_divergence", self.on_divergence, ["raise", "keep"])
        if self.generator == "java" and not isinstance(self.random_state, int):
            raise ParameterError(
                f'random_state must be a whole number with generator="java", got {self.random_state!r}.'
            )
        if self.random_state is not None:
            check_whole("random_state", self.random_state, 0, None)
        if self.early_stopping and self._is_strict():
            raise ParameterError(
                "early_stopping needs single precision: the published updates have no held-out ratings."
            )
        for name in ("early_stopping", "verbose"):
            check_flag(name, getattr(self, name))
        resolve_threads(self.n_jobs)

    def _check_factors(self) -> None:
        check_whole("n_factors", self.n_factors, 1)

    def _is_strict(self) -> bool:
        """Tell whether the published double-precision program is followed."""
        raise NotImplementedError

    def _run(self, ratings: Ratings, users: Side, items: Side, n_iters: int, on_round: OnRound) -> list[float]:
        """Learn in single precision from a fresh start; return the objective after each round."""
        raise NotImplementedError

    def _sides(self, ratings: Ratings) -> tuple[Any, Any]:
        """Return the ratings by user and by item as :meth:`_run` and :meth:`_run_strict` want them."""
        return make_sides(ratings)

    def _solves_rows(self) -> bool:
        return self.item_factors_.dtype == np.float32  # the published program, in double precision, has no such thing

    def _start_strict(self) -> None:
        """Draw the factors from which the published program starts."""
        raise NotImplementedError

    def _run_strict(self, users: Side, items: Side, n_iters: int, on_round: Callable[[int], None]) -> int:
        """Learn on as the published program does; return the round that diverged, or -1."""
        raise NotImplementedError

    def continue_fit(self, ratings: Ratings, n_iters: int) -> Self:
        """Learn on to `n_iters` rounds in all and return self: to the bit what a fresh fit of as many rounds gives.

        In double precision only, and on the ratings of the fit. It spares whoever tries several numbers of rounds the
        shorter fits.
        """
        check_whole("n_iters", n_iters, 1, MOST_ITERS)
        if not self._is_strict():
            raise ParameterError("continue_fit needs the published double-precision program. Call fit instead.")
        whole = hasattr(self, "n_iter_") and self.item_counts_.sum() == len(self.seen_items_)
        if not whole or self.digest_ != ratings.digest():
            raise ParameterError("continue_fit goes on with the ratings of fit. Call fit(ratings) first.")
        if n_iters < self.n_iter_:
            raise ParameterError(f"n_iters must be at least the {self.n_iter_} rounds of the fit, got {n_iters!r}.")
        before, self.n_iters = self.n_iter_, n_iters
        with np.errstate(all="ignore"):
            diverged = self._run_strict(*self._sides(ratings), n_iters - before, lambda iteration: None)
        if diverged > 0 and self.on_divergence == "raise":
            self._forget()
            raise self._divergence(before + diverged)
        self.n_iter_ = n_iters
        self._finish()
        return self

    def _fit(self, ratings: Ratings) -> None:
        users, items = self._sides(ratings)
        if self._is_strict():
            self._fit_strict(users, items)
        else:
            n_iters = self._best_rounds(ratings) if self.early_stopping else self.n_iters
            with self._progress(n_iters) as advance:
                self.history_ = np.array(self._run(ratings, users, items, n_iters, self._watch(advance)))
            self._check_finite()
        self._finish()

    def _check_finite(self) -> None:
        """Keep how many rounds there were, and raise an error if they led away."""
        self.n_iter_ = len(self.history_)
        if not (np.isfinite(self.user_factors_).all() and np.isfinite(self.item_factors_).all()):
            raise self._divergence(self.n_iter_)  # a logistic link hides it from the objective

    def _fit_strict(self, users: Side, items: Side) -> None:
        self._start_strict()
        with self._progress(self.n_iters) as advance, np.errstate(all="ignore"):
            diverged = self._run_strict(users, items, self.n_iters, lambda iteration: advance(iteration))
        if diverged > 0 and self.on_divergence == "raise":
            raise self._divergence(diverged)
        self.n_iter_, self.history_ = self.n_iters, np.empty(0)

    def _watch(self, advance: Callable[[int], None]) -> OnRound:
        def on_round(done: int, objective: float) -> bool:
            advance(done + 1)
            if not np.isfinite(objective):
                raise self._divergence(done + 1)
            return False

        return on_round

    def _divergence(self, iteration: int) -> DivergenceError:
        model = type(self).__name__
        return DivergenceError(
            f"{model} diverged in iteration {iteration}: its factors are no longer finite. Lower learning_rate "
            f"(now {getattr(self, 'learning_rate', None)!r}) or n_iters (now {self.n_iters!r})."
        )

    def _best_rounds(self, ratings: Ratings) -> int:
        """Return the number of rounds after which held-out ratings have the lowest log-loss; the fit then uses all."""
        held = np.random.default_rng(self.random_state).random(len(ratings)) < HELD_OUT
        if held.all() or not held.any():
            return self.n_iters
        train, test = _rows(ratings, ~held), _rows(ratings, held)
        losses: list[float] = []

        def on_round(done: int, objective: float) -> bool:
            if not np.isfinite(objective):
                raise self._divergence(done + 1)
            answer = Distribution.trusted(self._running_proba(test.user, test.item), test.scores)
            losses.append(nll(test.values, answer))
            return len(losses) - int(np.argmin(losses)) > PATIENCE

        self._run(train, *self._sides(train), self.n_iters, on_round)
        return int(np.argmin(losses)) + 1

    def _running_proba(self, user: Codes, item: Codes) -> npt.NDArray[Any]:
        """Return the probabilities of pairs while a fit is running."""
        raise NotImplementedError

    def _draw(self, *shapes: tuple[int, ...], low: float = 0.0, high: float = 1.0) -> list[npt.NDArray[np.float64]]:
        """Return uniform starting points of the given shapes, drawn one after the other."""
        uniform = self._uniform()
        return [low + (high - low) * uniform(shape) for shape in shapes]

    def _uniform(self) -> Callable[[tuple[int, ...]], npt.NDArray[np.float64]]:
        """Return a function that draws numbers from 0 to 1 of a given shape, each time the next ones."""
        if self.generator == "java":
            java = JavaRandom(int(self.random_state or 0))
            return lambda shape: java.next_doubles(int(np.prod(shape))).reshape(shape)
        return np.random.default_rng(self.random_state).random

    @contextlib.contextmanager
    def _progress(self, n_iters: int) -> Iterator[Callable[[int], None]]:
        """Give a function that is told of each iteration, and shows it if the model is to be verbose."""
        with progress_bar(f"fitting {type(self).__name__}", self.verbose) as on_progress:
            yield lambda iteration: on_progress(iteration, n_iters)


def check_whole(name: str, value: object, least: int, most: int | None = LARGEST) -> None:
    """Raise an error unless `value` is a whole number of at least `least`, and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ParameterError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if most is not None and value > most:
        raise ParameterError(f"{name} must be at most {most:,}, got {value!r:.30}.")


def check_flag(name: str, value: object) -> None:
    """Raise an error unless `value` is True or False: any text, "no" and "False" too, would count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name} must be True or False (on the command line true or false), got {value!r}.")


def check_positive(name: str, value: object, *, zero: bool = False) -> None:
    """Raise an error unless `value` is a finite number above zero, or zero where that is allowed."""
    good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and np.isfinite(value)
    if not good or not (value > 0 or (zero and value == 0)):  # type: ignore[operator]
        raise ParameterError(f"{name} must be {'zero or more' if zero else 'above zero'}, got {value!r}.")


def check_recklessness(value: object) -> None:
    """Raise an error unless `value` is a finite number of at least -1."""
    good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and np.isfinite(value)
    if not good or value < -1:  # type: ignore[operator]
        raise ParameterError(f"recklessness must be a number of at least -1, got {value!r}.")


def _rows(ratings: Ratings, keep: npt.NDArray[np.bool_]) -> Ratings:
    """Return some rows with all names, so that codes stay what they are."""
    return Ratings(
        ratings.users, ratings.items, ratings.scores, ratings.user[keep], ratings.item[keep], ratings.score[keep]
    )
