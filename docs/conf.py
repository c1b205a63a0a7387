"""The docs site: `make docs` builds it strictly into build/site, and no page asks any other host for anything."""

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

import starcast

sys.path.insert(0, str(Path(__file__).parent))

project = "Starcast"
author = "The Starcast developers"
copyright = "The Starcast developers, Apache-2.0"
version = release = starcast.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "mathml"]
html_math_renderer = "mathml"
exclude_patterns = ["_build"]

# The pages are plain Markdown, so that they read well on a code host, too.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.strikethrough"]

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, several of a kind in a line
# Types of NumPy, typing and the words of docstrings ("ndarray of shape …") have no page here; names of Starcast must.
nitpick_ignore_regex = [("py:(class|data|obj|exc)", r"(?!starcast\.).*|starcast\.trust\.calibration\.M")]

html_theme = "furo"
QUIET = {"color-sidebar-link-text--top-level": "var(--color-foreground-primary)"}
html_title = "Starcast"
html_logo = html_favicon = "../src/starcast/serve/web/mark.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#a8202a", "color-brand-content": "#a8202a", **QUIET},
    "dark_css_variables": {"color-brand-primary": "#ff9a94", "color-brand-content": "#ff9a94", **QUIET},
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-dark"

DOCS = Path(__file__).parent
# Markdown that lies outside docs and is a page of the site all the same.
PAGES = {
    "README.md": "index.md", "CHANGELOG.md": "changelog.md", "benchmarks/README.md": "benchmarks.md",
    "examples/README.md": "examples.md",
}  # fmt: skip
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")
FETCHED = re.compile(r"<(?:script|img|iframe|link|source)\b[^>]*(?:src|href)=\"((?:https?:)?//[^\"]+)")
MAIL = re.compile(r"\"(mailto:[^\"]+)\"")  # what docutils takes for an address: 1-MAE@0.5


def setup(app: Sphinx) -> None:
    app.connect("source-read", read_page)
    app.connect("include-read", read_part)
    app.connect("build-finished", ask_no_other_host)


def read_page(app: Sphinx, docname: str, source: list[str]) -> None:
    folder = (DOCS / docname).parent
    source[0] = lead_into_the_site(source[0], folder, folder)


def read_part(app: Sphinx, path: Path, docname: str, source: list[str]) -> None:
    source[0] = lead_into_the_site(source[0], (DOCS / path).parent, (DOCS / docname).parent)


def lead_into_the_site(text: str, home: Path, folder: Path) -> str:
    """Return a text of one folder for a page in another; links to files that are pages here become links to these."""

    def lead(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(home / found[1]))
        if not target.is_file():
            return found[1]  # the build warns of it
        inside = target.relative_to(DOCS.parent).as_posix()
        return Path(os.path.relpath(DOCS / PAGES[inside] if inside in PAGES else target, folder)).as_posix()

    return LINK.sub(lead, text)


def ask_no_other_host(app: Sphinx, error: Exception | None) -> None:
    """Warn, and so fail a strict build, where a page would fetch something from elsewhere or write to nobody."""
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for found in FETCHED.findall(text) + MAIL.findall(text):
            logging.getLogger(__name__).warning("%s leads to %s", page.name, found)
