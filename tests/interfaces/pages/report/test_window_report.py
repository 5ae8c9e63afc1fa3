"""What the tables know of a window, put together."""

from collections.abc import Callable
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.base.errors import InputError
from backstory.base.local_times import localize_window
from backstory.interfaces.pages.report.window_reading import ReportTables, read_report, read_window_report
from backstory.interfaces.pages.report.window_tables import WindowTables, make_window_report
from backstory.pipeline.workspace import open_workspace
from tests.errors import raises

MakeTables = Callable[..., WindowTables]


def test_the_best_kept_hit_serves_a_part_and_its_messages(make_tables: MakeTables) -> None:
    report = make_window_report(make_tables())
    assert [document.document_id for document in report.kept_documents] == ["d1", "d2"]
    assert [query.document for query in report.queries] == [0, 1, 1, None]
    assert [message.document for message in report.messages] == [0, 0, 1, 1, 1, None]
    assert [document.served_messages for document in report.kept_documents] == [4, 3]


def test_dropped_documents_follow_the_kept_ones_by_score(make_tables: MakeTables) -> None:
    report = make_window_report(make_tables())
    assert [document.document_id for document in report.documents] == ["d1", "d2", "d4", "d6", "d3", "d5"]


def test_every_chunk_has_one_fate(make_tables: MakeTables) -> None:
    candidates = {row.chunk_id: row for row in make_window_report(make_tables()).candidates}
    assert list(candidates)[:2] == ["d1#0", "d2#0"]
    assert {key: row.cause for key, row in candidates.items()} == {
        "d1#0": "kept", "d2#0": "kept", "d4#0": "near_duplicate", "d6#0": "over_budget",
        "d1#1": "duplicate_document", "d3#0": "not_selected", "d5#0": "below_threshold",
    }  # fmt: skip
    assert candidates["d1#1"].because_of == "d1#0"
    assert candidates["d2#0"].queries == (1, 2, 3)
    assert candidates["d5#0"].text is None
    assert candidates["d3#0"].text == "a message of d3#0"


def test_a_cell_is_the_best_hit_of_a_query_in_a_document(make_tables: MakeTables) -> None:
    cells = {(cell.query, cell.document): cell for cell in make_window_report(make_tables()).cells}
    assert len(cells) == 9  # ten hits, two of them of one query in one document
    assert (cells[0, 0].score, cells[0, 0].kept) == (0.9, True)
    assert (cells[3, 1].passed, cells[3, 1].kept) == (False, True)
    assert cells[0, 0].keyword_score == 3.5


def test_a_window_without_hits_has_its_messages_and_nothing_else(make_tables: MakeTables) -> None:
    report = make_window_report(make_tables([], status="no_hits"))
    assert (len(report.messages), len(report.queries)) == (6, 4)
    assert (report.documents, report.cells, report.candidates) == ((), (), ())


def test_a_whole_window_is_a_query_beside_its_chunks_or_instead_of_them(make_tables: MakeTables) -> None:
    whole = ("w#window", "d1#0", 0.6, "kept", 1, None)
    beside = make_window_report(make_tables([("q0", "d1#0", 0.9, "kept", 1, None), whole]))
    assert [query.chunk_id for query in beside.queries] == ["q0", "q1", "q2", "q3", "w#window"]
    assert (beside.queries[-1].first, beside.queries[-1].last) == (0, 5)
    instead = make_window_report(make_tables([whole]))
    assert [query.chunk_id for query in instead.queries] == ["w#window"]
    assert {message.document for message in instead.messages} == {0}


CHAT = """\
13/03/2025, 23:50 - Ada Lind: The drip irrigation line broke again
13/03/2025, 23:51 - Ben Okri: My backup disk makes a clicking noise
14/03/2025, 00:05 - Ada Lind: Which elbow does the irrigation line take?
"""


@pytest.mark.parametrize("enabled", [True, False])
def test_a_workspace_gives_the_report_with_the_overlap_of_the_day_before(
    tmp_path: Path, enabled: bool
) -> None:
    (tmp_path / "chats").mkdir()
    (tmp_path / "posts").mkdir()
    (tmp_path / "backstory.yaml").write_text(
        "embedding: {provider: hashing}\nwindows: {unit: messages, size: 4, overlap: 1}\n"
        f"rag: {{enabled: {str(enabled).lower()}}}\n",
        encoding="utf-8",
    )
    (tmp_path / "chats" / "garden.txt").write_text(CHAT, encoding="utf-8")
    (tmp_path / "posts" / "line.md").write_text("# Line\n\nThe drip irrigation line.\n", encoding="utf-8")
    workspace = open_workspace(tmp_path)
    run_pipeline(workspace)
    windows = workspace.tables.read("windows").sort("started_at")
    report = read_window_report(workspace, windows["window_id"][-1][:12])
    tables = ReportTables(workspace)
    for row in map(localize_window, windows.to_dicts()):
        assert read_report(workspace, row, tables) == read_window_report(workspace, row["window_id"])
    assert tables.read("hits", tables.days[0]) is tables.read("hits", tables.days[0])
    assert [message.timestamp.day for message in report.messages] == [13, 14]
    assert report.summary["status"] == ("ok" if enabled else "disabled")
    assert [document.uri for document in report.documents] == (["line.md"] if enabled else [])
    with raises(InputError, "unknown_window"):
        read_window_report(workspace, "zzz")
