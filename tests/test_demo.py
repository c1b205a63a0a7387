"""The demo, from data to page."""

import io

from rich.console import Console

from starcast.demo import run_demo
from starcast.models import MODELS


def test_the_demo_compares_all_models_of_the_core_and_writes_a_page(tmp_path):
    text = io.StringIO()
    page = tmp_path / "page.html"
    demo = run_demo(Console(file=text, width=100), page)
    assert set(demo.models) == {cls.__name__ for cls in MODELS.values() if cls.EXTRA is None}
    shown = text.getvalue()
    for name in (*demo.models, "withheld", "coverage", "mAP", str(page)):
        assert name in shown.replace("\n", "")
    html = page.read_text(encoding="utf-8")
    assert "(19" in html  # a real film with its year
    assert html.count("<svg") == 2
