"""Ratings by the million as Parquet parts, drawn one part at a time from planted factors, the same for the same seed.

python benchmarks/many_ratings.py FOLDER [RATINGS [USERS [ITEMS [PARTS]]]]

Users and items are drawn by weights that fall off as in real tables. A part has the items of one class of remainders,
so that no pair is drawn twice, and every user is in all parts.
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl

N_FACTORS = 4


def write_parts(
    folder: Path,
    n_ratings: int = 50_000_000,
    n_users: int = 400_000,
    n_items: int = 30_000,
    n_parts: int = 20,
    seed: int = 0,
) -> list[Path]:
    """Write so many ratings from 1 to 5 to the folder and return the files; a few hundred megabytes of memory do."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    activity = np.cumsum(rng.lognormal(0, 1, n_users))
    popularity = rng.permutation((np.arange(n_items) + 20.0) ** -0.8)
    P, Q = (rng.normal(0, 0.5, (n, N_FACTORS)).astype(np.float32) for n in (n_users, n_items))
    user_mean, item_mean = (rng.normal(0, 0.4, n).astype(np.float32) for n in (n_users, n_items))
    files = []
    for part in range(n_parts):
        n = n_ratings * (part + 1) // n_parts - n_ratings * part // n_parts
        items = np.arange(part, n_items, n_parts)
        user, item = draw_pairs(np.random.default_rng((seed, part)), n, activity, items, popularity[items])
        noise = np.random.default_rng((seed, part, 1)).normal(0, 0.7, n)
        liking = 3.5 + user_mean[user] + item_mean[item] + np.einsum("nk,nk->n", P[user], Q[item]) + noise
        file = folder / f"part-{part:04}.parquet"
        frame = pl.DataFrame({"user": user, "item": item, "rating": np.clip(np.rint(liking), 1, 5).astype(np.int8)})
        frame.write_parquet(file)
        files.append(file)
    return files


def draw_pairs(
    rng: np.random.Generator, n: int, activity: np.ndarray, items: np.ndarray, popularity: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return `n` different pairs in random order; `activity` is summed up already."""
    up_to = np.cumsum(popularity)
    keys = np.empty(0, np.int64)
    while len(keys) < n:
        more = max(n // 5, n - len(keys))
        user = np.searchsorted(activity, rng.random(more) * activity[-1]).astype(np.int64)
        place = np.searchsorted(up_to, rng.random(more) * up_to[-1])
        keys = np.unique(np.concatenate([keys, user * len(items) + place]))
    keys = rng.permutation(keys)[:n]
    return (keys // len(items)).astype(np.int32), items[keys % len(items)].astype(np.int32)


if __name__ == "__main__":
    written = write_parts(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    print(f"{len(written)} parts, {sum(file.stat().st_size for file in written) / 1e6:.0f} MB, in {sys.argv[1]}")
