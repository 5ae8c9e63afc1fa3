"""The page of a window: what it shows, and that no text of a chat can become a part of it."""

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from backstory.interfaces.pages.report.documents import link_sources, list_chunks, list_kept
from backstory.interfaces.pages.report.heatmap import DROPPED_COLUMNS, draw_heatmap
from backstory.interfaces.pages.report.page import write_page
from backstory.interfaces.pages.report.palette import HUES, PATTERNS, name_paint
from backstory.interfaces.pages.report.timeline import draw_timeline
from backstory.interfaces.pages.report.window_page import name_page, render_window_page
from backstory.interfaces.pages.report.window_tables import WindowTables, make_window_report

MakeTables = Callable[..., WindowTables]
HOSTILE = "</style></title><script>document.title='owned'</script><img src=x onerror=alert(1)>&amp; \"'"


def test_the_strip_paints_each_part_with_what_serves_it(make_tables: MakeTables) -> None:
    [track] = draw_timeline(make_window_report(make_tables())).tracks
    assert [(part.paint, part.served) for part in track.segments] == [
        (name_paint(0), True), (name_paint(1), True), (name_paint(1), True), ("unserved", False),
    ]  # fmt: skip
    assert [part.left for part in track.segments] == pytest.approx([0, 100 / 3, 50, 500 / 6])
    assert sum(part.width for part in track.segments) == pytest.approx(100)
    assert [label.text for label in track.labels] == ["1", "2"]
    assert [label.x for label in track.labels] == pytest.approx([100 / 6, (200 / 6 + 500 / 6) / 2])


def test_lanes_tell_the_best_from_the_others_and_silences_are_marked(make_tables: MakeTables) -> None:
    timeline = draw_timeline(make_window_report(make_tables()))
    assert [[part.served for part in lane] for lane in timeline.lanes] == [[True, False], [True, True]]
    [silence] = timeline.silences
    assert silence.x == pytest.approx(500 / 6)
    assert silence.title == "2 h 0 min without messages"


def test_twenty_one_documents_have_twenty_one_paints() -> None:
    assert len({name_paint(place) for place in range(len(HUES) * PATTERNS)}) == 21


def test_the_heatmap_names_what_it_does_not_show(make_tables: MakeTables) -> None:
    kept = ("q0", "d0#0", 0.95, "kept", 1, None)
    dropped = [
        ("q1", f"x{n}#0", 0.9 - n / 100, "not_selected", None, None) for n in range(DROPPED_COLUMNS + 2)
    ]
    report = make_window_report(make_tables([kept, *dropped]))
    heatmap = draw_heatmap(report)
    assert (len(heatmap.columns), heatmap.more) == (1 + DROPPED_COLUMNS, 2)
    assert [column.rank for column in heatmap.columns[:2]] == [1, None]
    shades = [shade for row in heatmap.rows for shade in row.shades if shade]
    assert len(shades) == 1 + DROPPED_COLUMNS
    assert [shade.level for shade in shades][:1] == [8]
    assert min(shade.level for shade in shades) < 8
    page = render_window_page(report, {})
    assert "2 more documents are not shown here" in page


def test_the_list_says_why_in_words_and_links_what_stands_instead(make_tables: MakeTables) -> None:
    entries = {entry.text: entry for entry in list_chunks(make_window_report(make_tables()), {"d2": "x.md"})}
    duplicate = entries["a message of d1#1"]
    assert duplicate.fate == "dropped: a better chunk of the same document was preferred"
    assert duplicate.because_of == 1
    kept = entries["a message of d2#0"]
    assert (kept.fate, kept.source, kept.because_of) == ("kept, rank 2", "x.md", None)
    assert [asker.message for asker in kept.askers] == [2, 3, 5]
    assert [entry.share for entry in list_kept(make_window_report(make_tables()))] == [
        "serves 4 of 6 messages (67%)",
        "serves 3 of 6 messages (50%)",
    ]


def test_texts_stay_texts(make_tables: MakeTables) -> None:
    report = make_window_report(make_tables(text=HOSTILE, title=HOSTILE, granularity=HOSTILE))
    document = render_window_page(report, {})
    assert "<script" not in document
    assert "<img" not in document
    assert document.count("</style>") <= 1
    assert HOSTILE[:60] in unescape(document)


def test_no_text_commands_the_terminal_or_turns_the_page(make_tables: MakeTables) -> None:
    text = "a\x1b[31m\x9b31m\u202eb\u200d\u200f\n"
    page = render_window_page(make_window_report(make_tables(text=text, title=text)), {})
    assert "a[31m31mb\u200d\u200f" in page
    assert not set("\x1b\x9b\u202e") & set(page)


def test_every_link_inside_the_page_leads_somewhere(make_tables: MakeTables) -> None:
    page = render_window_page(make_window_report(make_tables()), {})
    anchors = re.findall(r' id="([^"]+)"', page)
    assert len(anchors) == len(set(anchors))
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets
    assert targets <= set(anchors)
    assert not re.search(r'(?:src|href)="(?!#)', page)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("no_hits", "this window has no context"),
        ("disabled", "rag.enabled is false"),
        ("error", "search failed"),
    ],
)
def test_a_window_without_a_context_says_why(make_tables: MakeTables, status: str, words: str) -> None:
    page = render_window_page(make_window_report(make_tables([], status=status)), {})
    assert words in page
    assert page.count('<li class="message unserved') == 6
    assert "Nothing was found for this window." in page


def test_sources_are_linked_where_they_are(make_tables: MakeTables, tmp_path: Path) -> None:
    tables = make_tables([("q0", "d1#0", 0.9, "kept", 1, None), ("q0", "d2#0", 0.8, "kept", 2, None)])
    report = make_window_report(tables)
    odd = replace(report.documents[0], uri='a "b" #1.md')
    posts = tmp_path / "posts"
    posts.mkdir()
    (posts / 'a "b" #1.md').write_text("x", encoding="utf-8")
    report = replace(report, documents=(odd, report.documents[1]))
    links = link_sources(report, posts, tmp_path / "reports", tmp_path)
    assert link_sources(report, posts, tmp_path, posts) == {}
    assert links == {"d1": "../posts/a%20%22b%22%20%231.md"}
    assert 'href="../posts/a%20%22b%22%20%231.md"' in render_window_page(report, links)


@pytest.mark.parametrize("window_id", ["../../etc/passwd", "a/b", "", ".hidden", "é", "x" * 300, "con nul\0"])
def test_an_odd_id_does_not_choose_the_folder(window_id: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{32}\.html", name_page(window_id))
    assert name_page("9c1fbd6f") == "9c1fbd6f.html"


def test_a_page_is_replaced_at_once(tmp_path: Path) -> None:
    path = write_page(tmp_path / "new" / "page.html", "old")
    with path.open(encoding="utf-8") as reader:
        write_page(path, "half a pair: \ud83d")
        assert reader.read() == "old"
    assert path.read_text(encoding="utf-8") == "half a pair: ?"
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]
