"""A service to ask in tests: within the process, without a socket, or as the real thing."""

import asyncio
import contextlib
import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import psutil

import starcast as sc
from starcast.serve.app import make_app
from starcast.serve.card import make_card
from starcast.serve.catalogue import Catalogue
from starcast.serve.desk import Desk
from starcast.serve.guard import Guard
from starcast.serve.limits import Limits
from starcast.serve.served import Served
from starcast.serve.tally import Tally, make_tally

USUAL = Limits()
TITLES = [
    "Matrix, The (1999)",
    "Amélie (2001)",
    "<script>alert(1)</script> (1995)",
    "Schindler's List (1993)",
    "",
    "The The",
]


@functools.cache
def tiny(seed=0, **params):
    """A small model of numbered users and items with titles."""
    ratings, _ = sc.make_ratings(40, 30, density=0.4, random_state=seed)
    titles = {
        int(item): TITLES[k] if k < len(TITLES) else f"Film {item} ({1950 + k})" for k, item in enumerate(ratings.items)
    }
    table = sc.Ratings.from_arrays(
        ratings.users[ratings.user], ratings.items[ratings.item], ratings.values, scores=ratings.scores, titles=titles
    )
    return sc.OrdinalMF(
        n_factors=4, n_company=4, burn_in=5, n_draws=16, thin=1, random_state=seed, n_jobs=1, **params
    ).fit(table)


@functools.cache
def lettered():
    """A small model whose users and items are text, without titles."""
    ratings, _ = sc.make_ratings(20, 15, density=0.5, random_state=1)
    table = sc.Ratings.from_arrays(
        [f"u{k}" for k in ratings.user], [f"7{k}" for k in ratings.item], ratings.values, scores=ratings.scores
    )
    return sc.ItemFrequency().fit(table)


def serve(model, limits=USUAL, test=None):
    return Served(model, Catalogue(model), make_card(model, test), limits, "planted", model.get_params())


class Service:
    """The guarded application, asked without a network."""

    def __init__(self, model=None, limits=USUAL, test=None, **guard):
        self.desk = Desk(limits)
        self.desk.served = serve(model, limits, test) if model is not None else None
        with tempfile.TemporaryDirectory() as folder:
            self.tally = Tally(make_tally(Path(folder, "tally"), 1), 0)
        self.app = Guard(make_app(self.desk, self.tally), self.tally, **guard)

    def ask(self, method, path, **given):
        async def one():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=True)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, path, **given)

        return asyncio.run(one())

    def get(self, path, **params):
        return self.ask("GET", path, params=params)

    def post(self, path, question=None, **given):
        return self.ask("POST", path, **(given or {"json": question}))


class Process:
    """``starcast serve`` as anybody would start it, on a free port."""

    def __init__(self, *options, log):
        self.log = Path(log)
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "starcast", "serve", "--port", "0", *map(str, options)],
                stdout=subprocess.PIPE, stderr=file, env=os.environ | {"COLUMNS": "200", "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        self.told = self.process.stdout.readline().decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.told)
        assert found, f"it did not start: {self.told!r} {self.log.read_text()}"
        self.port = int(found[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def stop(self, number=signal.SIGTERM):
        """Stop it and return the exit code."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        try:
            return self.process.wait(300)
        finally:
            self.process.kill()
            self.process.stdout.close()

    def workers(self):
        """The processes that answer."""
        found = []
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):  # it has just ended
                if any("spawn_main" in word for word in child.cmdline()):
                    found.append(child)
        return found
