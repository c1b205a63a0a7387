"""A small cinema with a service of its own, and what a visitor does on its page."""

import contextlib
import json
import os
import subprocess
import sys
import urllib.request

import polars as pl
import pytest

import starcast as sc

EVIL = [
    '<script>document.title = "pwned"</script>',
    "<img src=x onerror=\"document.title='pwned'\">",
    "\"'><b>bold</b> & {{7*7}}",
]
TITLES = [
    "Matrix, The (1999)", "Toy Story (1995)", "Godfather, The (1972)", "Fargo (1996)", "Alien (1979)", "Jaws (1975)",
    "Star Wars: Episode IV - A New Hope (1977)", "Star Wars: Episode V - The Empire Strikes Back (1980)",
    "Amélie (Fabuleux destin d'Amélie Poulain, Le) (2001)", "Once Upon a Time in the West (C'era una volta il West) (1968)",
    *EVIL,
]  # fmt: skip


PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}


def want(what):
    """Skip for want of something; with STARCAST_CI that is a failure."""
    if os.environ.get("STARCAST_CI"):
        pytest.fail(f"{what} must be there, for STARCAST_CI is set")
    pytest.skip(f"{what} is not there")


def make_films(n_items=70, scale=1.0, **settings):
    """Ratings of seventy films by planted tastes, in two parts; the first film on the list is rated most."""
    ratings, _ = sc.make_ratings(240, n_items, density=0.35, confidence=3.0, random_state=7, **settings)
    names = dict(enumerate(TITLES + [f"Film number {n} ({1950 + n})" for n in range(len(TITLES) + 1, n_items + 1)], 1))
    table = sc.Ratings.from_arrays(
        ratings.users[ratings.user], ratings.items[ratings.item], ratings.values * scale,
        scores=ratings.scores * scale, titles=names,
    )  # fmt: skip
    return sc.holdout(table, random_state=0)


@contextlib.contextmanager
def serve(folder, model, test=None, **environment):
    """Run `starcast serve` on a free port; give its address."""
    file = folder / "model.starcast"
    model.save(file)
    command = [sys.executable, "-m", "starcast", "serve", str(file), "--port", "0", "--workers", "1"]
    if test is not None:
        rows = {"user": test.users[test.user], "item": test.items[test.item], "rating": test.values}
        pl.DataFrame(rows).write_csv(folder / "test.csv")
        command += ["--test", str(folder / "test.csv")]
    settings = os.environ | environment | {"COLUMNS": "200", "NO_COLOR": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings)
    try:
        said = process.stdout.readline()
        assert "serving on http://" in said, said
        yield said.split("serving on ")[1].split()[0]
    finally:
        process.terminate()
        process.wait(300)
        process.stdout.close()


def ask(address, path, body=None):
    """What the service says to a program: the other road to what the page shows."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}/{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def visit(page, address):
    page.goto(address)
    page.wait_for_selector("html[data-ready]")


def answers(page):
    """How many answers the page has shown so far."""
    return page.evaluate("performance.getEntriesByName('starcast-answer').length")


def rate(page, place, score):
    """Give the film at a place of the shelf so many stars, and wait for the forecasts."""
    before = answers(page)
    page.locator(".to-rate").nth(place).locator(f"label:has(input[value='{score}'])").click()
    page.wait_for_function("n => performance.getEntriesByName('starcast-answer').length > n", arg=before)


def rate_five(page):
    for place, score in enumerate([5, 4, 1, 3, 5]):
        rate(page, place, score)


def slide(page, threshold):
    page.locator("#threshold").fill(str(threshold))


def own_ratings(page):
    """The ratings that the page keeps, as the service takes them."""
    kept = page.evaluate("Object.entries(localStorage).find(([key]) => key.startsWith('starcast/ratings/'))[1]")
    return [{"item": film["item"], "rating": film["rating"]} for film in json.loads(kept)["ratings"]]


def percent(share):
    """A share as the page says it: the ends are kept for what is exactly there."""
    whole = int(100 * share + 0.5)
    return "< 1%" if whole == 0 and share > 0 else "> 99%" if whole == 100 and share < 1 else f"{whole}%"


def plain(text):
    """Text without no-break spaces."""
    return " ".join(text.replace("\u00a0", " ").split())
