"""A browser, some services, and pages that are watched for errors."""

import shutil
from urllib.parse import urlsplit

import pytest

import starcast as sc
from browser.cinema import PHONE, make_films, serve, visit, want

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def pytest_collection_modifyitems(items):
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker("browser")


@pytest.fixture(scope="module")  # not longer: its event loop would be in the way of other tests
def chromium():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        want("playwright")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        want("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def cinema(tmp_path_factory):
    """A service of a five-star model, judged by ratings that were held out."""
    train, test = make_films()
    model = sc.OrdinalMF(n_draws=4, burn_in=6, random_state=0).fit(train)
    with serve(tmp_path_factory.mktemp("cinema"), model, test) as address:
        yield address


@pytest.fixture(scope="session")
def half_star_cinema(tmp_path_factory):
    """A service of a model with ten half stars, which nothing was held out from."""
    train, _ = make_films(n_scores=10, scale=0.5)
    model = sc.OrdinalMF(n_draws=4, burn_in=6, random_state=0).fit(train)
    with serve(tmp_path_factory.mktemp("half"), model) as address:
        yield address


@pytest.fixture(scope="session")
def guarded_cinema(tmp_path_factory):
    """A service that asks for a token, of a model that cannot take in newcomers."""
    train, _ = make_films()
    model = sc.ItemFrequency().fit(train)
    with serve(tmp_path_factory.mktemp("guarded"), model, STARCAST_TOKEN="open-sesame-open-sesame") as address:
        yield address


@pytest.fixture
def new_page(chromium):
    """Pages that may not err: no console error, no failed request, no word to another host, unless `excused` is given."""
    contexts, faults = [], []

    def make(excused=(), **options):
        context = chromium.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)  # a busy machine is no failure

        def fault(text):
            if not any(excuse in text for excuse in excused):
                faults.append(text)

        page.on("console", lambda message: message.type in ("error", "warning") and fault(f"console: {message.text}"))
        page.on("pageerror", lambda error: fault(f"error: {error}"))
        page.on(
            "requestfailed", lambda request: is_failure(request) and fault(f"failed: {request.url} {request.failure}")
        )
        page.on("response", lambda response: response.status >= 400 and fault(f"{response.status}: {response.url}"))
        page.on("request", lambda request: urlsplit(request.url).hostname != "127.0.0.1" and faults.append(f"elsewhere: {request.url}"))  # fmt: skip
        return page

    yield make
    for context in contexts:
        context.close()
    assert faults == []


def is_failure(request):
    """An aborted question was overtaken by a newer one: that is meant."""
    return "ERR_ABORTED" not in (request.failure or "")


@pytest.fixture
def page(new_page, cinema):
    """The page of the cinema on a desk."""
    page = new_page()
    visit(page, cinema)
    return page


@pytest.fixture
def phone(new_page, cinema):
    """The page of the cinema on a small phone."""
    page = new_page(**PHONE)
    visit(page, cinema)
    return page
