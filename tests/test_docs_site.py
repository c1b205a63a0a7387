"""The docs site is whole: what is generated is current, and nothing public lacks its place. `make docs` builds it strictly."""

import re
import sys
from pathlib import Path

import pytest

import starcast
from starcast import errors, metrics, trust
from starcast.models import MODELS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path[:0] = [str(ROOT / "benchmarks"), str(DOCS)]

import make_models  # noqa: E402
import make_reference  # noqa: E402
import make_scale  # noqa: E402
import make_studies  # noqa: E402
from make_performance import BLOCK, read_results  # noqa: E402

RESULTS = read_results(ROOT / "benchmarks" / "results")
REFERENCE = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.rst"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("*/README.md"), *DOCS.rglob("*.md")]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)|(?:src|href)=\"([^\"#]+)")


@pytest.mark.parametrize("page", make_reference.pages(), ids=lambda page: page.name)
def test_a_reference_is_what_the_code_says(page):
    assert page.read_text(encoding="utf-8") == make_reference.pages()[page], "run: make docs"


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("starcast", starcast.__all__),
        ("starcast.metrics", metrics.__all__),
        ("starcast.trust", trust.__all__),
    ],
)
def test_every_public_name_is_in_the_reference(module, names):
    documented = set(re.findall(r"(?:auto\w+|py:data):: (?:[a-z.]+\.)?(\w+)", REFERENCE))
    documented |= {name for name in vars(errors) if "automodule:: starcast.errors\n   :members:\n" in REFERENCE}
    assert set(names) - documented <= {"metrics"}  # that one is a page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_to_a_file_leads_to_one(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = {one or other for one, other in LINK.findall(text)}
    missing = [target for target in targets if ":" not in target and not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_page_with_its_formula_its_worth_and_its_cost(name):
    page = DOCS / "models" / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {MODELS[name].__name__}\n")
    assert "$$" in text
    assert {"fares", "cost"} <= {block for _, block, _ in BLOCK.findall(text)}
    assert "## When to take it" in text
    assert make_models.fill(page, RESULTS) == text, "run: make docs"


@pytest.mark.parametrize("name", ["index", "neural"])
def test_the_tables_of_several_models_are_what_the_files_say(name):
    page = DOCS / "models" / f"{name}.md"
    assert make_models.fill(page, RESULTS) == page.read_text(encoding="utf-8"), "run: make docs"


def test_the_tables_on_scale_are_what_the_files_say():
    page = make_scale.PAGE
    text = page.read_text(encoding="utf-8")
    assert make_scale.fill(page, RESULTS) == text, "run: make docs"
    assert {block for _, block, _ in BLOCK.findall(text)} == set(make_scale.BLOCKS)


def test_the_tables_of_the_studies_are_what_the_files_say():
    for page in make_studies.PAGES:
        assert make_studies.fill(page, RESULTS) == page.read_text(encoding="utf-8"), "run: make docs"
    text = "".join(page.read_text(encoding="utf-8") for page in make_studies.PAGES)
    assert {block for _, block, _ in BLOCK.findall(text)} == set(make_studies.BLOCKS)


def test_all_models_are_listed():
    text = (DOCS / "models" / "index.md").read_text(encoding="utf-8")
    assert all(f"({name}.md)" in text for name in MODELS)


def test_a_models_page_changes_when_a_figure_does():
    changed = RESULTS | {
        "quality": RESULTS["quality"] | {"ml-1m bemf": RESULTS["quality"]["ml-1m bemf"] | {"nll": 9.0}}
    }
    page = DOCS / "models" / "bemf.md"
    assert "| 9.000 |" in make_models.fill(page, changed)
    assert "13 of 13" in make_models.fill(page, changed)


def test_every_metric_is_on_the_page_of_metrics():
    text = (DOCS / "metrics.md").read_text(encoding="utf-8")
    curves = {"ReliabilityCurve", "RiskCoverage"}  # what functions that are named there return
    assert {name for name in metrics.__all__ if f"`{name}`" not in text} == curves
