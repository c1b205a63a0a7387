"""The main job on embedded data: fit what there is, compare, forecast real films, write a report page."""

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import starcast
from starcast import metrics, plots
from starcast.datasets import load_sample
from starcast.distribution import Distribution
from starcast.evaluate import answer_for, evaluate
from starcast.models import MODELS, Model, make_model
from starcast.ratings import Ratings
from starcast.report import Forecasts, Report, write_report
from starcast.results import Results
from starcast.split import Split, benchmark_split
from starcast.terminal import forecast_table, overall_table, threshold_table

THRESHOLDS = (0.0, 0.4, 0.6)
OVERALL = ("nll", "rps", "rmse", "ece", "aurc")
SHOWN = 10  # forecasts of one user
SILENCE = "Staying silent pays: the fewer ratings a model predicts, keeping the most reliable, the closer it comes."
HONESTY = "Can the reliability be taken at its word? On the dashed line a model is right as often as it says."


@dataclass(frozen=True)
class Demo:
    """What the demo found."""

    split: Split
    models: dict[str, Model]
    answers: dict[str, Distribution]
    results: Results

    @property
    def best(self) -> str:
        """The model with the lowest log-loss."""
        return str(min(self.results, key=lambda row: row["nll"])["model"])


def run_demo(console: Console, path: Path) -> Demo:
    """Run the demo, print its tables and write its page."""
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
    ) as progress:
        task = progress.add_task("reading the MovieLens sample")
        ratings = load_sample()
        split = benchmark_split(ratings)
        demo = Demo(split, {}, {}, Results())
        for name, model in _fit_all(split.train):
            progress.update(task, description=f"fitting {name}")
            demo.models[name] = model
            demo.answers[name] = answer_for(model, split.test)
        results = [evaluate(model, split.test, THRESHOLDS) for model in demo.models.values()]
        demo = Demo(split, demo.models, demo.answers, sum(results, Results()))
        progress.update(task, description="writing the report")
        forecasts = pick_forecasts(demo)
        write_report(_report(demo, ratings, forecasts), path)
    _print(console, demo, ratings, forecasts, path)
    return demo


def _fit_all(train: Ratings) -> Iterator[tuple[str, Model]]:
    for name, cls in MODELS.items():
        if cls.EXTRA is not None:
            continue  # minutes, and a large library
        seed = {"random_state": 0} if "random_state" in cls().get_params() else {}
        yield cls.__name__, make_model(name, seed).fit(train)


def pick_forecasts(demo: Demo) -> Forecasts:
    """Return forecasts of the best model for one user: the films of the test part from most to least reliable.

    The user is the one whose forecasts differ most, in score and in reliability, among those with enough test
    ratings; the threshold lies in the middle of the shown ones, so that it keeps some and withholds some.
    """
    test, answer = demo.split.test, demo.answers[demo.best]
    reliability = answer.reliability()
    count = np.bincount(test.user, minlength=len(test.users))
    variety = [_variety(answer[test.user == u]) if count[u] >= SHOWN else 0 for u in range(len(test.users))]
    rows = np.flatnonzero(test.user == np.argmax(variety))
    rows = rows[np.argsort(-reliability[rows], kind="stable")]
    rows = rows[np.linspace(0, len(rows) - 1, SHOWN).round().astype(int)]
    threshold = float(np.floor(np.median(reliability[rows]) * 20) / 20)
    titles = test.titles if test.titles is not None else test.items.astype(str)
    caption = (
        f"User {test.users[test.user[rows[0]]]}, films that {demo.best} has never seen this user rate; it withholds "
        f"what is less reliable than θ = {threshold:g}."
    )
    return Forecasts(
        [str(titles[item]) for item in test.item[rows]], answer[rows], test.values[rows].tolist(), threshold, caption
    )


def _variety(answer: Distribution) -> float:
    """Return how much there is to see: at least three different predictions, and reliabilities worth the name."""
    return min(len(np.unique(answer.mode())), 3) + float(np.median(answer.reliability()))


def _report(demo: Demo, ratings: Ratings, forecasts: Forecasts) -> Report:
    test = demo.split.test
    curves = {name: metrics.reliability_curve(test.values, answer) for name, answer in demo.answers.items()}
    fine = sum((evaluate(m, test, [k / 40 for k in range(32)]) for m in demo.models.values()), Results())
    enough = Results([row for row in fine if row["coverage"] >= 0.02])  # below that, a handful of users decide
    return Report(
        title="Star ratings as forecasts",
        lead=f"{len(demo.models)} models on {len(ratings):,} real film ratings by {len(ratings.users):,} people: a "
        "probability for every score, how far it can be relied upon, and silence where it cannot.",
        results=demo.results,
        measures=metrics.PAPER_MEASURES,
        overall=OVERALL,
        figures={
            SILENCE: plots.to_svg(plots.plot_error_coverage(enough, highlight=demo.best)),
            HONESTY: plots.to_svg(plots.plot_reliability(curves)),
        },
        forecasts=forecasts,
        facts={
            "data": f"MovieLens sample of the R package dslabs ({ratings!r}), digest {ratings.digest()[:16]}",
            "split": f"the paper's benchmark: {len(demo.split.train):,} ratings to learn from, {len(test):,} to test",
            "command": "starcast demo",
            "version": f"Starcast {starcast.__version__}, Python {platform.python_version()}, NumPy {np.__version__}",
        },
    )


def _print(console: Console, demo: Demo, ratings: Ratings, forecasts: Forecasts, path: Path) -> None:
    console.print(f"\n[bold]{ratings!r}[/bold]")
    console.print(f"learnt from {len(demo.split.train):,}, tested on {len(demo.split.test):,} (the paper's split)\n")
    console.print(
        threshold_table(demo.results, metrics.PAPER_MEASURES, "[bold]At a threshold θ[/bold], per user as in the paper")
    )
    console.print()
    console.print(
        overall_table(demo.results, OVERALL, "[bold]All test ratings, no threshold[/bold], smaller is better")
    )
    console.print()
    console.print(
        forecast_table(
            forecasts.names, forecasts.answer, forecasts.threshold, truth=forecasts.truth, width=console.width,
            title=f"[bold]Forecasts of {demo.best}[/bold]. {forecasts.caption}",
        )
    )  # fmt: skip
    console.print(f"\nreport page: [bold]{escape(str(path.resolve()))}[/bold]", soft_wrap=True)
