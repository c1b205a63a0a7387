"""Model files: digests, permissions, the same bytes for the same model, sizes that are known before a fit."""

import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small import NAMES, make

import starcast as sc
from starcast import cli, modelfile
from starcast.doctor import examine_file
from starcast.errors import FileFormatError, ParameterError, StarcastError
from starcast.files import replacing
from starcast.models import memory


@pytest.fixture(scope="module")
def ratings():
    return sc.make_ratings(n_users=40, n_items=30, random_state=0)[0]


@pytest.fixture(scope="module")
def model(ratings):
    return sc.BiasedMF(n_factors=3, n_iters=5, random_state=0).fit(ratings)


@pytest.fixture
def file(model, tmp_path):
    model.save(tmp_path / "m")
    return tmp_path / "m"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command and return its exit code and what it writes to both streams."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["starcast", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return int(end.value.code or 0), *capsys.readouterr()

    return run


def ask(model):
    users, items = np.repeat(model.users_, 3), np.tile(model.items_[:3], len(model.users_))
    return model.predict_proba(users, items).probs


# Digests.


@pytest.mark.parametrize("name", ["bayes", "biasedmf", "ordinalmf"])
def test_a_flipped_bit_is_found_wherever_it_is(name, ratings, tmp_path):
    extra = {"n_draws": 4, "burn_in": 2, "n_factors": 2} if name == "ordinalmf" else {}
    make(name, **extra).fit(ratings).save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    expected = ask(sc.load(tmp_path / "m", verify=True))
    header = int.from_bytes(content[:8], "little") + 8
    rng = np.random.default_rng(0)
    places = [*range(8), *rng.integers(8, header, 60), *rng.integers(header, len(content), 60)]
    refused = 0
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "m").write_bytes(damaged)
        try:
            found = sc.load(tmp_path / "m", verify=True)
        except StarcastError:
            refused += 1
            continue
        assert np.array_equal(ask(found), expected)  # the name of the digest itself was hit
    assert refused >= len(places) - 5


def test_small_files_are_verified_and_large_ones_if_asked(file, monkeypatch):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    for verify in (None, True):
        with pytest.raises(FileFormatError, match="is damaged: its content does not match its digest"):
            sc.load(file, verify=verify)
    assert sc.load(file, verify=False).is_fitted
    monkeypatch.setattr(modelfile, "SMALL", 10)
    assert sc.load(file).is_fitted
    with pytest.raises(FileFormatError):
        sc.load(file, verify=True)


def test_the_digest_is_the_sha256_of_the_file_with_zeros_in_its_place(file):
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    digest = json.loads(content[8 : 8 + size])["__metadata__"]["digest"]
    kind, value = digest.split(":")
    assert kind == "sha256"
    assert hashlib.sha256(content.replace(value.encode(), b"0" * 64)).hexdigest() == value


def test_a_file_without_a_digest_still_loads(model, file):
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    del header["__metadata__"]["digest"]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
    assert np.array_equal(ask(sc.load(file, verify=True)), ask(model))
    assert "none" in examine_file(file)[-1].found


def test_doctor_tells_a_sound_file_from_a_damaged_one(file, run):
    code, out, _ = run("doctor", file, "--json")
    assert code == 0
    rows = {row["what"]: row["found"] for row in json.loads(out)}
    assert rows["digest"] == "matches the content"
    assert "BiasedMF of 240 ratings of 40 users and 30 items, 5 scores" in rows["model"]
    content = bytearray(file.read_bytes())
    content[-40] ^= 4
    file.write_bytes(content)
    code, _, err = run("doctor", file)
    assert code == 2
    assert "does not match its digest" in err


def test_the_service_refuses_a_damaged_file(file, tmp_path, monkeypatch):
    edition = pytest.importorskip("starcast.serve.edition", reason="needs the extra serve")
    monkeypatch.setattr(modelfile, "SMALL", 10)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(FileFormatError, match=f"^{file} is damaged: its content does not match its digest"):
        edition.prepare(edition.Source(file), tmp_path / "edition")


# The same bytes.

SAVE = """
import sys, starcast as sc
ratings, _ = sc.make_ratings(n_users=20, n_items=10, random_state=0)
for k, model in enumerate([sc.OrdinalMF(n_draws=2, burn_in=1, n_factors=2, random_state=0), sc.NaiveBayes()]):
    model.fit(ratings).save(f"{sys.argv[1]}-{k}")
"""


def test_the_same_model_gives_the_same_bytes_in_every_process(tmp_path):
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", SAVE, str(tmp_path / seed)], check=True, env=os.environ | {"PYTHONHASHSEED": seed}
        )
    for k in range(2):
        content = (tmp_path / f"1-{k}").read_bytes()
        assert content == (tmp_path / f"2-{k}").read_bytes()
        for _ in range(5):
            sc.load(tmp_path / f"1-{k}").save(tmp_path / "again")
            assert (tmp_path / "again").read_bytes() == content


# Permissions and links.

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_saving_keeps_the_permissions_of_a_file(model, file, mode):
    file.chmod(mode)
    model.save(file)
    assert stat.S_IMODE(file.stat().st_mode) == mode


@posix
def test_saving_to_a_link_replaces_the_file_that_it_leads_to(model, tmp_path):
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "folder" / "there", tmp_path / "folder" / "not yet"):
        link = tmp_path / target.name
        link.symlink_to(Path("folder") / target.name)
        if target.name == "there":
            target.write_bytes(b"old")
            target.chmod(0o600)
        model.save(link)
        assert link.is_symlink()
        assert sc.load(target).is_fitted
    assert stat.S_IMODE((tmp_path / "folder" / "there").stat().st_mode) == 0o600
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["not yet", "there"]


@posix
def test_a_model_in_use_survives_being_saved_over(model, file, ratings):
    loaded = sc.load(file)
    before = ask(loaded)
    sc.BiasedMF(n_factors=2, n_iters=1, random_state=1).fit(ratings).save(file)
    assert np.array_equal(ask(loaded), before)


@posix
def test_a_failed_write_leaves_permissions_and_content(tmp_path):
    (tmp_path / "x").write_text("old")
    (tmp_path / "x").chmod(0o600)
    with pytest.raises(RuntimeError), replacing(tmp_path / "x") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert (tmp_path / "x").read_text() == "old"
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600


# Sizes that are known before a fit.


def test_pages_of_files_count_as_free_memory_in_a_container(tmp_path):
    for name, text in {
        "max": "8000",
        "current": "7000",
        "stat": "anon 1000\ninactive_file 4000\nactive_file 2000\n",
    }.items():
        (tmp_path / f"memory.{name}").write_text(text)
    assert memory.group_memory(tmp_path) == 7000
    (tmp_path / "memory.max").write_text("max\n")
    with pytest.raises(ValueError, match="max"):
        memory.group_memory(tmp_path)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("names", [int, str])
def test_the_size_of_the_file_is_known_before_the_fit(name, names, tmp_path):
    ratings, _ = sc.make_ratings(n_users=60, n_items=40, n_scores=7, random_state=1)
    if names is str:
        users, items = (
            [f"{side} {k}" for k in codes] for side, codes in (("user", ratings.user), ("film", ratings.item))
        )
        ratings = sc.Ratings.from_arrays(
            users, items, ratings.values, titles={"film 1": "Ünïcödé"}, scores=ratings.scores
        )
    small = {"n_draws": 3, "burn_in": 1} if name == "ordinalmf" else {}
    small |= {"n_iters": 2} if "n_iters" in sc.MODELS[name]().get_params() else {}
    model = make(name, **small)
    expected = model.estimate(ratings)
    model.fit(ratings).save(tmp_path / "m")
    assert expected.file == pytest.approx((tmp_path / "m").stat().st_size, rel=0.1)
    assert expected.memory > 0


@pytest.mark.parametrize("value", [10**9, 10**22, 10**400])
@pytest.mark.parametrize("name", [name for name in NAMES if "n_factors" in sc.MODELS[name]().get_params()])
def test_absurd_parameters_are_refused_before_memory_is_taken(name, value, ratings):
    with pytest.raises(ParameterError, match=r"needs about [\d.,e+]+ GB|n_factors must be at most"):
        make(name, n_factors=value).fit(ratings)


def test_the_error_says_what_is_needed_what_there_is_and_what_to_lower(ratings, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 5_000)
    message = (
        r"BiasedMF needs about \d+ kB of memory for 40 users and 30 items, and 5 kB are available\. "
        r"Lower n_factors \(now 8\), or take fewer ratings\."
    )
    with pytest.raises(ParameterError, match=message):
        sc.BiasedMF().fit(ratings)
    with pytest.raises(ParameterError, match=r"NaiveBayes needs about .* Take fewer ratings\."):
        sc.NaiveBayes().fit(ratings)


def test_memory_that_runs_out_is_an_error_with_the_estimate(ratings, monkeypatch):
    def run_out(*args):
        raise MemoryError

    monkeypatch.setattr(sc.NaiveBayes, "_fit", run_out)
    model = sc.NaiveBayes()
    with pytest.raises(ParameterError, match=r"NaiveBayes needs about .* or more, and memory ran out\."):
        model.fit(ratings)
    assert not model.is_fitted


def test_available_memory_obeys_the_limit_of_a_container(monkeypatch):
    texts = {
        "meminfo": "MemTotal: 9 kB\nMemAvailable: 3000 kB\n",
        "memory.max": "1000000\n",
        "memory.current": "400000\n",
        "memory.stat": "anon 400000\n",
    }
    monkeypatch.setattr(memory.Path, "read_text", lambda self: texts[self.name])
    assert memory.available_memory() == 600_000
    texts["memory.max"] = "max\n"
    assert memory.available_memory() == 3_072_000


def test_absurd_parameters_on_the_command_line_are_an_error_of_one_line(tmp_path, run):
    (tmp_path / "r.csv").write_text("user,item,rating\n1,1,1\n1,2,2\n2,1,3\n")
    for value in ("1000000000", "1" * 23):
        code, _, err = run("fit", tmp_path / "r.csv", "-p", f"n_factors={value}", "-o", tmp_path / "m")
        assert code == 2
        assert "n_factors" in err
        assert err.count("\n") == 1
    assert not (tmp_path / "m").exists()


def test_arrays_that_begin_at_odd_bytes_are_copied(ratings, tmp_path):
    make("item").fit(ratings).save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    del header["__metadata__"]["digest"]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8 + 1)  # one byte past the place where arrays are aligned
    (tmp_path / "odd").write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
    _, arrays = modelfile.read(tmp_path / "odd")
    assert all(array.flags.aligned and not array.flags.writeable for array in arrays.values())
