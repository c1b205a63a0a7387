"""The docs site is whole: what is generated is current, and nothing public lacks its place. `make docs` builds it strictly."""

import re
import sys
from pathlib import Path

import pytest

import starcast
from starcast import metrics, trust

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path[:0] = [str(ROOT / "benchmarks"), str(DOCS)]

import make_reference  # noqa: E402

REFERENCE = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.rst"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md", *DOCS.rglob("*.md")]
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
    documented |= set(re.findall(r"(\w+Error)\b", REFERENCE))
    assert set(names) - documented <= {"metrics"}  # that one is a page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_to_a_file_leads_to_one(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = {one or other for one, other in LINK.findall(text)}
    missing = [target for target in targets if ":" not in target and not (page.parent / target).exists()]
    assert not missing
