"""The docs site: `make docs` builds it strictly into build/site, and no page asks any other host for anything."""

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import starcast

sys.path.insert(0, str(Path(__file__).parent))

project = "Starcast"
author = "The Starcast developers"
copyright = "The Starcast developers, Apache-2.0"
version = release = starcast.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml"]
html_math_renderer = "mathml"
exclude_patterns = ["_build"]

# The pages are plain Markdown, so that they read well on a code host, too.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.strikethrough"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
napoleon_google_docstring = False
napoleon_use_rtype = False
# Types of NumPy, typing and the words of docstrings ("ndarray of shape …") have no page here; names of Starcast must.
nitpick_ignore_regex = [("py:(class|data|obj|exc)", r"(?!starcast\.).*|starcast\.trust\.calibration\.M")]

html_theme = "furo"
html_title = "Starcast"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#b3261e", "color-brand-content": "#b3261e"},
    "dark_css_variables": {"color-brand-primary": "#ff8a80", "color-brand-content": "#ff8a80"},
}
pygments_style = "friendly"
pygments_dark_style = "monokai"

# Markdown that lies outside docs and is a page of the site all the same.
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "benchmarks/README.md": "benchmarks.md"}
LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]+\.md)(?=[)#])")


def setup(app: Sphinx) -> None:
    app.connect("source-read", lead_into_the_site)


def lead_into_the_site(app: Sphinx, docname: str, source: list[str]) -> None:
    """Turn links that lead to those files on a code host into links to their pages."""
    folder = Path(app.srcdir, docname).parent

    def page(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / found[1])).relative_to(Path(app.srcdir).parent).as_posix()
        return (
            Path(os.path.relpath(Path(app.srcdir) / PAGES[target], folder)).as_posix() if target in PAGES else found[1]
        )

    source[0] = LINK.sub(page, source[0])
