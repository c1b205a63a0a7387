"""Formulas as MathML, written when the site is built: no script, no font and no other host is needed to read them."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
# What the converter does not know or draws badly, in words that it draws well.
SPELLINGS = (
    (r"\\arg\b", r"\\operatorname{arg}"),
    (r"\\[bB]ig(l|r)\b", lambda found: {"l": r"\left", "r": r"\right"}[found[1]]),
    (r"\\sum_", r"\\sum\\limits_"),  # beneath in a display, beside it in a line
    (r"\\(log|ln|exp)\b(?!\s*(?:[({\[_^]|\\left))", r"\\\1\\,"),
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer to Sphinx under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(to_mathml(node.astext(), "inline", node))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math-block" tabindex="0">{to_mathml(node.astext(), "block", node)}</div>\n')
    raise nodes.SkipNode


def to_mathml(formula: str, display: str, node: nodes.Node | None = None) -> str:
    r"""Return a formula in LaTeX as MathML; what cannot be drawn is a warning, and so fails the strict build."""
    for unknown, known in SPELLINGS:
        formula = re.sub(unknown, known, formula)
    try:
        found = convert(formula, display=display)
    except Exception as error:  # the converter has no common base for what it raises
        logger.warning("%s cannot be drawn: %r", formula, error, location=node)
        return ""
    if "\\" in found:
        logger.warning("%s holds a command that latex2mathml does not know", formula, location=node)
    return found
