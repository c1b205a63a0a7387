"""Every user's best items on the GPU: probabilities of all pairs of some users and all items, and the best of them.

A block of users is one table of (scores, users, items); blocks are as large as memory allows, so that no table of all
users is ever made.
"""

from collections.abc import Iterator
from typing import Any

import torch

from starcast.kernels.gpu.device import Tensor, to_device

MOST_NUMBERS = 1 << 27  # of a table: half a gigabyte, and a few such at a time
AHEAD = 1e-6  # by which share the winner of a tie is ahead, as in OrdinalMF


def user_blocks(n_users: int, n_items: int, n_scores: int) -> Iterator[slice]:
    """Yield blocks of users whose tables are not too large."""
    each = max(1, MOST_NUMBERS // max(1, n_items * n_scores))
    for begin in range(0, n_users, each):
        yield slice(begin, min(begin + each, n_users))


def softmax_table(P: Tensor, Q: Tensor, base: Tensor, *, biased: bool) -> Tensor:
    """Return the probabilities of ResBeMF for rows of shape (users or items, planes, scores)."""
    n_factors = P.shape[1] - biased
    z = P[:, :n_factors].permute(2, 0, 1) @ Q[:, :n_factors].permute(2, 1, 0) + base[:, None, None]
    if biased:
        z = z + P[:, -1].T[:, :, None] + Q[:, -1].T[:, None, :]
    return torch.softmax(z, 0)


def ordinal_table(P: Tensor, Q: Tensor, base: Tensor, basis: Tensor, ranks: Any, prior: Tensor, floor: float) -> Tensor:
    """Return the probabilities of OrdinalMF, averaged over draws, for rows of shape (rows, columns, draws)."""
    total: Any = 0.0
    n_factors = sum(ranks)
    for draw in range(P.shape[2]):
        p, q = P[:, :, draw], Q[:, :, draw]
        z = (base + p[:, n_factors:] @ basis).T[:, :, None] + (q[:, n_factors:] @ basis).T[:, None, :]
        first = 0
        for function, rank in enumerate(ranks):
            if rank:
                eta = p[:, first : first + rank] @ q[:, first : first + rank].T
                z = z + basis[function][:, None, None] * eta
                first += rank
        total = total + torch.softmax(z, 0)
    return (1 - floor) / P.shape[2] * total + floor * prior[:, None, None]


def settle(probs: Tensor, scores: Tensor, centering: float) -> Tensor:
    """Return a table whose near ties are settled in favour of scores near the mean; see ``settle_ties``."""
    place = (2 * (scores - scores[0]) / (scores[-1] - scores[0]) - 1)[:, None, None]
    away = (place - (probs * place).sum(0)) ** 2
    central = (probs * torch.exp(-centering * (away - away.min(0).values))).argmax(0, keepdim=True)
    level = probs >= probs.gather(0, central)
    n = level.sum(0)
    shared = torch.where(level, probs, 0.0).sum(0) / n
    number = torch.arange(len(scores), device=probs.device)[:, None, None]
    ahead = AHEAD * torch.where(number == central, 1.0, -1.0 / (n - 1).clamp(min=1)).to(probs.dtype)
    return torch.where(level & (n > 1), shared * (1 + ahead), probs)


def best_of_table(probs: Tensor, score_names: Any, seen_places: Any, n: int, threshold: float) -> list[Any]:
    """Return the best `n` items of each user by mode, then by mean, then by code, leaving out what was seen.

    They come as columns: user as place in the table, rank, item as place, prediction, mean and reliability.
    """
    scores, seen = to_device(score_names, probs.device), to_device(seen_places, probs.device)
    reliability, mode = probs.max(0)
    mean = torch.einsum("sui,s->ui", probs, scores.to(probs.dtype))
    allowed = reliability >= threshold
    allowed[seen[0], seen[1]] = False
    # One whole number that falls as the list does: the mode, the bits of the mean, which rise with it, and the code.
    bits = (mean - scores[0]).clamp(min=0).float().view(torch.int32).long()
    code = torch.arange(probs.shape[2] - 1, -1, -1, device=probs.device)
    key = torch.where(allowed, (mode << 55) | (bits << 23) | code, -1)
    found, item = key.topk(min(n, probs.shape[2]), dim=1)
    user, place = (found >= 0).nonzero(as_tuple=True)
    item = item[user, place]
    at = user, item
    columns = user, place + 1, item, scores[mode[at]], mean[at].double(), reliability[at].double()
    return [column.cpu().numpy() for column in columns]
