"""The pages in a real browser: nothing is blocked, nothing runs, everything is there."""

from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from backstory.interfaces.pages.report.comparison import render_comparison_page
from backstory.interfaces.pages.report.window_page import render_window_page
from backstory.interfaces.pages.report.window_tables import WindowTables, make_window_report
from backstory.operations.evaluation import Comparison
from backstory.operations.scoring import compare_methods
from tests import browser

MakeTables = Callable[..., WindowTables]
LoadPage = Callable[[str], tuple[str, list[str]]]

HOSTILE = "</style></title><script>document.title='owned'</script><img src=x onerror=alert(1)>&amp; \"'"


class Elements(HTMLParser):
    """Counts tags and classes, and collects the title."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.classes: Counter[str] = Counter()
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.classes.update((dict(attrs).get("class") or "").split())


@pytest.fixture
def load_page(tmp_path: Path) -> LoadPage:
    """Give a function that loads a page from a file and gives its DOM and the messages of its console."""

    def load(html: str) -> tuple[str, list[str]]:
        page = tmp_path / "page.html"
        page.write_text(html, encoding="utf-8")
        return browser.load_page(page, tmp_path / "profile")

    return load


def test_a_window_is_whole_and_its_texts_are_inert(load_page: LoadPage, make_tables: MakeTables) -> None:
    report = make_window_report(make_tables(text=HOSTILE, title=HOSTILE))
    dom, console = load_page(render_window_page(report, {}))
    assert console == []
    elements = Elements(dom)
    assert (elements.tags["script"], elements.tags["img"], elements.tags["style"]) == (0, 0, 1)
    assert "<title>owned" not in dom
    assert elements.classes["message"] == 6
    assert elements.classes["heat"] == len(report.cells) == 9
    assert elements.classes["best"] == 3
    assert elements.classes["segment"] == len(report.queries) + 4  # and four in the two lanes
    assert elements.tags["details"] == len(report.candidates) == 7


def test_the_browser_would_say_what_the_page_forbids(load_page: LoadPage, make_tables: MakeTables) -> None:
    page = render_window_page(make_window_report(make_tables()), {})
    smuggled = "<script>document.title='owned'</script><img src='http://127.0.0.1:9/x.png'><style>p{color:red}</style>"
    dom, console = load_page(page.replace("<main>", f"<main>{smuggled}"))
    assert "<title>owned" not in dom
    assert [
        directive
        for line in console
        for directive in ("script-src", "img-src", "style-src")
        if directive in line
    ]
    assert len(console) == 3


def test_a_comparison_is_whole(load_page: LoadPage) -> None:
    rows = [("own", "g", "w", *[0.9] * 5), ("other", "g", "w", *[0.5] * 5)]
    schema = ["method", "group", "window_id", "ncov@5", "coverage@5", "recall@10", "ndcg@10", "success@1"]
    scores = pl.DataFrame(rows, schema=schema, orient="row")
    comparison = Comparison("set", scores, compare_methods(scores, of="own"), {})
    dom, console = load_page(render_comparison_page(comparison))
    assert console == []
    assert Elements(dom).classes["dot-frame"] == 3
    assert Elements(dom).tags["table"] == 6
