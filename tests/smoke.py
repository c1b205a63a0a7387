"""A wheel at work: fit, predict, save, load, the command line and the service, with nothing but the wheel installed.

Run it with the Python of the environment in which the wheel was installed: ``python tests/smoke.py``. It needs no pytest,
no data and no network.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import numpy as np

import starcast as sc


def main() -> None:
    """Do what a user does first, step by step."""
    home = Path(sc.__file__).parent
    assert "site-packages" in home.parts, f"starcast must be the installed one, but this is {home}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try_library(folder)
        try_commands(folder)
        if sys.platform == "win32":
            print("the service does not run on Windows, and was not tried")
        else:
            try_service(folder)
    print(f"starcast {sc.__version__} works, with {sc.kernels.instruction_set()} kernels")


def try_library(folder: Path) -> None:
    """Fit on planted ratings, predict, and get the same from a saved model."""
    ratings, _ = sc.make_ratings(60, 40, density=0.4, random_state=0)
    train, test = sc.holdout(ratings, random_state=0)
    model = sc.OrdinalMF(n_factors=4, burn_in=5, n_draws=16, thin=1, random_state=0, n_jobs=2).fit(train)
    users, items = test.users[test.user], test.items[test.item]
    probs = model.predict_proba(users, items).probs
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-6)
    assert len(model.recommend(users[0], n=3)) == 3
    model.save(folder / "m.starcast")
    np.testing.assert_array_equal(sc.load(folder / "m.starcast").predict_proba(users, items).probs, probs)
    train.to_frame().write_csv(folder / "ratings.csv")


def try_commands(folder: Path) -> None:
    """Ask the command line for what is installed, for a fit and for a forecast."""
    assert "starcast" in starcast(folder, "doctor")
    starcast(folder, "fit", "ratings.csv", "--model", "bayes", "-o", "bayes.starcast")
    [row] = json.loads(starcast(folder, "predict", "bayes.starcast", "1", "2", "--json"))
    assert 0 < row["reliability"] <= 1


def starcast(folder: Path, *arguments: str) -> str:
    """Run one command of the command line; return what it prints."""
    script = Path(sys.executable).with_name("starcast.exe" if sys.platform == "win32" else "starcast")
    done = subprocess.run([script, *arguments], cwd=folder, capture_output=True, encoding="utf-8", env=utf8())
    assert done.returncode == 0, f"starcast {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def utf8() -> dict[str, str]:
    return os.environ | {"PYTHONUTF8": "1", "NO_COLOR": "1", "COLUMNS": "200"}


def try_service(folder: Path) -> None:
    """Serve the model, ask for one list, and let the service end in order."""
    command = [sys.executable, "-m", "starcast", "serve", "m.starcast", "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=utf8()) as service:
        try:
            address = next(found[0] for line in service.stdout if (found := re.search(r"http://[\d.]+:\d+", line)))
            with urllib.request.urlopen(f"{address}/api/recommend?user=1&n=3", timeout=300) as answer:
                assert len(json.load(answer)["recommendations"]) == 3
            with urllib.request.urlopen(address, timeout=300) as page:
                assert b"<html" in page.read()
        finally:
            service.terminate()
    assert service.returncode == 0, f"the service must end with 0 after SIGTERM, not with {service.returncode}"


if __name__ == "__main__":
    main()
