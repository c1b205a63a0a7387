"""How long a visitor waits: from the fifth rating to its forecasts on the screen, in Chromium, MovieLens 1M.

Measured on the page by performance.now: from the click on a star to the first frame after the list was changed. Each
visit is a new visitor in a new browser context, who takes a second for a film, so that nothing moves any more when the
next is rated; the model is the default one.

    python benchmarks/bench_page.py [model file]
"""

import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import measure
from playwright.sync_api import Browser, sync_playwright

import starcast as sc

VISITS = 20
SCORES = (5, 4, 1, 3, 5)
PAUSE = 1000  # ms
WATCH = """() => {
  window.waits = [];
  document.addEventListener("change", () => (window.clicked = performance.now()), true);
  new PerformanceObserver(() => requestAnimationFrame(() => setTimeout(() => {
    window.waits.push(performance.now() - window.clicked);
  }))).observe({ type: "measure" });
}"""


def main(model: str | None) -> None:
    measure.data_folder()
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        sys.exit("chromium must be installed. On Debian: apt install chromium")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(model) if model else fit(Path(folder) / "model.starcast")
        with serve(file) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
            waits = [visit(browser, address) for _ in range(VISITS)]
            browser.close()
    figures = {}
    for place in (0, len(SCORES) - 1):
        found = [wait[place] for wait in waits]
        told = f"min {min(found):.0f}, median {statistics.median(found):.0f}, most {max(found):.0f}"
        figures[f"rating {place + 1} to its forecasts, ms"] = told
    measure.write("page", figures | {"visits": VISITS})


def fit(file: Path) -> Path:
    sc.OrdinalMF(random_state=0).fit(sc.load_movielens("1m")).save(file)
    return file


@contextlib.contextmanager
def serve(model: Path) -> Iterator[str]:
    """Run the service on a free port; give its address."""
    command = [sys.executable, "-m", "starcast", "serve", str(model), "--port", "0", "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split("serving on ")[1].split()[0]
    finally:
        process.terminate()
        process.wait(30)


def visit(browser: Browser, address: str) -> list[float]:
    """Return what a new visitor waits for after each of five ratings, in milliseconds."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    page.evaluate(WATCH)
    for place, score in enumerate(SCORES):
        page.wait_for_timeout(PAUSE)
        page.locator(".to-rate").nth(place).locator(f"label:has(input[value='{score}'])").click()
        page.wait_for_function("n => window.waits.length >= n", arg=place + 1)
    waits = page.evaluate("window.waits")
    context.close()
    return list(waits)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
