"""The report page."""

import html.parser

import pytest

from starcast.distribution import Distribution
from starcast.errors import FileError
from starcast.report import Forecasts, Report, to_html, write_report
from starcast.results import Results

ROWS = [
    {"model": "<A>", "threshold": 0.0, "coverage": 1.0, "1-MAE": 0.8, "nll": 1.2},
    {"model": "<A>", "threshold": 0.9, "coverage": 0.0, "1-MAE": float("nan"), "nll": 1.2},
]


@pytest.fixture
def report():
    forecasts = Forecasts(["<script>x</script>", "Heat"], Distribution([[0.2, 0.8], [0.5, 0.5]], [1, 2]), [2, 1], 0.6)
    return Report(
        "A & B",
        "lead",
        Results(ROWS),
        ["coverage", "1-MAE"],
        ["nll"],
        {"figure": "<svg></svg>"},
        forecasts,
        {"k": "<v>"},
    )


class Page(html.parser.HTMLParser):
    """Collects the tags that are open at the end and every address that the page refers to."""

    VOID = ("meta", "link", "img", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.addresses = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_asks_no_other_host(report):
    page = Page(to_html(report))
    assert page.open == []
    assert page.addresses == []
    assert "script" not in page.tags


def test_names_are_shown_as_text(report):
    text = to_html(report)
    assert "&lt;script&gt;x&lt;/script&gt;" in text
    assert "&lt;A&gt;" in text
    assert "A &amp; B" in text


def test_undefined_is_a_dash_and_silence_is_told(report):
    text = to_html(report)
    assert "<td>—</td>" in text
    assert text.count("withheld</b>") == 1


def test_a_failed_write_leaves_the_old_page(report, tmp_path, monkeypatch):
    target = tmp_path / "page.html"
    target.write_text("old")
    monkeypatch.setattr("pathlib.Path.write_text", lambda *a, **k: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(FileError, match=r"page\.html could not be written: No space left.*untouched"):
        write_report(report, target)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]
