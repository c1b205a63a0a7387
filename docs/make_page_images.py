"""Remakes the pictures of the page: python docs/make_page_images.py, or with the address of a running service.

Without an address MovieLens 1M is fitted, once, into build/page.starcast, and served with its test part. The page
uses the system's fonts; the pictures were made with fonts-inter and fonts-texgyre installed.
"""

import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
MODEL = Path(__file__).parents[1] / "build" / "page.starcast"
STARCAST = [sys.executable, "-m", "starcast"]
RATINGS = {"the matrix 1999": 5, "godfather the 1972": 4, "toy story 1995": 3, "american beauty": 5, "dumb & dumber": 1}
LIMIT = 300_000  # bytes of a picture


def main(address: str) -> None:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        sys.exit("chromium must be installed. On Debian: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        desk(browser, address)
        phone(browser, address)
        browser.close()


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The address of MovieLens 1M, served for as long as it is needed."""
    benchmark = ["ml-1m", "--split", "benchmark"]
    if not MODEL.exists():
        subprocess.run([*STARCAST, "fit", *benchmark, "--out", str(MODEL)], check=True)
    serve = [*STARCAST, "serve", str(MODEL), "--test", *benchmark, "--name", "MovieLens 1M", "--port", "0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as service:
        assert service.stdout is not None
        try:
            yield next(found[0] for line in service.stdout if (found := re.search(r"http://\S+", line)))
        finally:
            service.terminate()


def desk(browser: Browser, address: str) -> None:
    """The whole page by day: five ratings, the slider at 55%."""
    page = open_page(browser, address, viewport={"width": 1280, "height": 1040}, color_scheme="light")
    slide(page, 0.55)
    page.evaluate("document.activeElement.blur()")
    keep(page, "page-light.png")


def phone(browser: Browser, address: str) -> None:
    """The forecasts on a phone by night: those that are sure enough, and those that stay silent."""
    size = {"width": 390, "height": 844}
    page = open_page(browser, address, viewport=size, color_scheme="dark", is_mobile=True, device_scale_factor=1.5)
    slide(page, 0.55)
    page.locator(".legend").evaluate("e => { e.scrollIntoView(); scrollBy(0, 44) }")
    keep(page, "page-phone-dark.png")


def open_page(browser: Browser, address: str, **options: object) -> Page:
    """A new visitor who has rated five films."""
    page = browser.new_context(reduced_motion="reduce", **options).new_page()  # type: ignore[arg-type]
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    for place, (title, score) in enumerate(RATINGS.items()):
        page.locator("#film-search").fill(title)
        page.locator("#film-search-list [role=option]").first.click()
        page.wait_for_load_state("networkidle")
        page.locator(".to-rate").first.locator(f"label:has(input[value='{score}'])").click()
        page.wait_for_function("n => performance.getEntriesByName('starcast-answer').length > n", arg=place)
    return page


def slide(page: Page, threshold: float) -> None:
    page.locator("#threshold").fill(str(threshold))


def keep(page: Page, name: str) -> None:
    page.wait_for_timeout(500)
    page.screenshot(path=IMAGES / name)
    size = (IMAGES / name).stat().st_size
    if size > LIMIT:
        sys.exit(f"{name} must have at most {LIMIT:,} bytes, it has {size:,}.")
    print(f"{IMAGES / name}: {size:,} bytes")


if __name__ == "__main__":
    with contextlib.nullcontext(sys.argv[1]) if len(sys.argv) > 1 else served() as address:
        main(address)
