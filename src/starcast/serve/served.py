"""What is served: one model with all that is made of it once, and its names as clients write them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from starcast.distribution import Distribution
from starcast.errors import UnknownNameError
from starcast.models import Model
from starcast.serve.catalogue import Catalogue
from starcast.serve.limits import Limits


@dataclass(frozen=True, eq=False)
class Served:
    """A model, its catalogue and its card: an answer comes from one of these, whole."""

    model: Model
    catalogue: Catalogue
    card: dict[str, Any]
    limits: Limits
    name: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    explanations: dict[Hashable, Any] = field(default_factory=dict)  # the last few, the oldest first

    @cached_property
    def scores(self) -> list[float]:
        """The scale, whole scores as whole numbers."""
        return [int(score) if score.is_integer() else score for score in self.model.scores_.tolist()]

    def remember(self, key: Hashable, explanation: Any, most: int) -> Any:
        """Keep an explanation as the latest, and at most so many of them; return it."""
        self.explanations[key] = explanation
        while len(self.explanations) > most:
            del self.explanations[next(iter(self.explanations))]
        return explanation

    def answer(self, users: list[Any], items: list[Any]) -> tuple[Distribution, list[bool]]:
        """Return the distributions of pairs, and whether each is known.

        Pairs that are all known, as in most requests, are found here name by name; the model's own door is made for
        columns, and would take longer to look at ten names than to answer for them.
        """
        user = [self.catalogue.user_places.get(name, -1) for name in users]
        item = [self.catalogue.item_places.get(name, -1) for name in items]
        if min(user) >= 0 and min(item) >= 0:
            probs = self.model._known_proba(np.array(user, np.int32), np.array(item, np.int32))
            return Distribution.trusted(probs, self.model.scores_), [True] * len(user)
        answer, known, _, _ = self.model._answer(self.askable(users, "users"), self.askable(items, "items"))
        return answer, known.tolist()

    def askable(self, names: list[Any], of: str) -> list[Any]:
        """Return names that the model can be asked for: text among numbers gives way to a number that nobody has."""
        if getattr(self.model, f"{of}_").dtype == object:
            return names
        nobody = self.nobody[of]
        return [nobody if isinstance(name, str) else name for name in names]

    @cached_property
    def nobody(self) -> dict[str, int]:
        """The least whole number that is no user's and no item's name."""
        names = {"users": set(self.catalogue.users), "items": set(self.catalogue.items)}
        return {of: next(k for k in range(len(taken) + 1) if k not in taken) for of, taken in names.items()}


def named(names: Any, given: Sequence[Any]) -> list[Any]:
    """Return names as the model has them: 7 for "7" where they are numbers, "7" for 7 where they are text."""
    if names.dtype == object:
        return [name if isinstance(name, str) else str(name) for name in given]
    return [_whole(name) if isinstance(name, str) else name for name in given]


def _whole(text: str) -> int | str:
    plain = text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= 20
    return int(text) if plain and -(1 << 63) <= int(text) < 1 << 63 else text


def known_user(served: Served, name: Any) -> Any:
    """Return a user's name as the model has it, or refuse one that it does not know."""
    user = named(served.model.users_, [name])[0]
    if user not in served.catalogue.user_places:
        raise UnknownNameError(f"unknown user {shown(name)}. See /api/users for those that the model knows.")
    return user


def known_items(served: Served, names: Sequence[Any]) -> list[Any]:
    """Return items' names as the model has them, or refuse if it does not know all of them."""
    items = named(served.model.items_, names)
    unknown = [name for name, item in zip(names, items, strict=True) if item not in served.catalogue.item_places]
    if unknown:
        count = f" ({len(unknown):,} of {len(items):,} are unknown)" if len(items) > 1 else ""
        raise UnknownNameError(
            f"unknown item {shown(unknown[0])}{count}. See /api/items for those that the model knows."
        )
    return items


def shown(name: Any) -> str:
    """Return a name for a message, cut if it is long."""
    text = repr(name)
    return text if len(text) <= 60 else f"{text[:60]}…"
