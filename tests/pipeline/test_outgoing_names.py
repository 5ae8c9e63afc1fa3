"""The search for real names in every table that holds words of chats."""

from typing import Any

import polars as pl
import pytest

from backstory.operations.inspection.doctor import examine
from backstory.pipeline.chats.leaks import SEARCHED_COLUMNS
from backstory.pipeline.checks.checks import CHECKS, make_check
from backstory.pipeline.run.runner import run_pipeline
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.retrieval.passages.provenance import quote_chunk
from backstory.storage.tables.schemas import TABLES
from tests.workspaces import SETTINGS, replace_recorded, write_workspace

NAME = "Ada Lind"
LAST = "2025-03-15"
BESIDE = {
    "messages": "has a search of its own, which also finds what else must not be there",
    "documents": "published by people as they are",
    "document_chunks": "published by people as they are",
    "hits": "ids",
    "quarantine": "",
    "sources": "folder status format encoding date_order timezone language",
    "windows": "window_id partition message_ids timezone",
    "window_chunks": "chunk_id window_id granularity",
    "decisions": "window_id query_chunk_id chunk_id document_id cause because_of",
    # Documents and their places, which people wrote.
    "contexts": "window_id document_id revision chunk_id title slug uri also_in tags content passage "
    "matched_query_chunks",
    # The texts are documents, and `serves`, which is searched in `contexts`.
    "window_contexts": "window_id status language text cited_text verdict recommendation embedder_id engine "
    "index_version settings_hash",
    # The slug and the path hold the name of the conversation, which is searched in `windows`, and parts of hashes.
    "posts": "window_id slug path status writer model prompt_hash context_hash cited_documents",
}
"""Columns of words that are not searched; for the tables without any that are, why."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("names") / "workspace"
    workspace = write_workspace(root, f"{SETTINGS}writers: {{provider: digest}}\n")
    with (workspace.chats_dir / "garden.txt").open("a", encoding="utf-8") as export:
        export.write("99/99/2025, 18:06 - Ada Lind: a day that is none\n")
    run_pipeline(workspace)
    return workspace


def find(workspace: Workspace, table: str) -> set[str]:
    """Give the columns in which the check of a table finds a name, by a workspace that was just opened."""
    opened = open_workspace(workspace.root)
    [check] = [one for one in CHECKS if (one.table, one.name) == (table, "real_names")]
    cases = make_check(opened, check, None).cases
    assert NAME not in str(cases.to_dicts())
    return set(cases["column"])


def plant(value: Any, rows: pl.DataFrame, column: str) -> pl.DataFrame:
    planted = [value, *rows[column].to_list()[1:]]
    return rows.with_columns(pl.Series(column, planted, dtype=rows.schema[column]))


def test_every_column_with_words_is_searched_or_is_known_to_need_no_search() -> None:
    for table, model in TABLES.items():
        columns = {name for name, dtype in model.schema.items() if dtype in (pl.String, pl.List(pl.String))}
        if table in SEARCHED_COLUMNS:
            assert columns == {*SEARCHED_COLUMNS[table], *BESIDE[table].split()}, table
        else:
            assert BESIDE[table], table


@pytest.mark.parametrize(
    ("table", "column"),
    [(table, column) for table, columns in SEARCHED_COLUMNS.items() for column in columns],
)
def test_a_name_in_a_column_is_found(written: Workspace, table: str, column: str) -> None:
    keys = [key for key in written.tables.keys(table) if len(written.tables.read(table, [key]))]
    key = "conversations" if table == "sources" else keys[0]
    right = written.tables.read(table, [key])
    assert find(written, table) == set()
    is_text = right.schema[column] == pl.String

    replace_recorded(written, table, key, plant(f"of {NAME}" if is_text else ["soil", NAME], right, column))

    assert find(written, table) == {column}
    assert find(written, table) == {column}  # nothing is remembered of a table that is not clean
    replace_recorded(written, table, key, right)
    assert find(written, table) == set()


def test_two_messages_that_together_spell_a_name_are_none(written: Workspace) -> None:
    chunks = written.tables.read("window_chunks", [LAST])
    right = written.tables.read("contexts", [LAST])
    joined = "Thank you Ada\n\nLind has tulips"
    serves = 'messages 1 to 2, such as "{}"'
    quoting = plant(serves.format(quote_chunk(joined)), right, "serves")
    quoting = plant(chunks["window_id"][0], quoting, "window_id")
    assert NAME in quoting["serves"][0]

    replace_recorded(written, "window_chunks", LAST, plant(joined, chunks, "text"))
    assert find(written, "window_chunks") == set()

    replace_recorded(written, "contexts", LAST, quoting)
    assert find(written, "contexts") == set()

    replace_recorded(written, "contexts", LAST, plant(serves.format(f"ask {NAME}"), quoting, "serves"))
    assert find(written, "contexts") == {"serves"}
    replace_recorded(written, "window_chunks", LAST, chunks)
    replace_recorded(written, "contexts", LAST, right)

    summaries = written.tables.read("window_contexts", [LAST])
    told = "- (1) 2025-03-15 18:00 **{}**: {}\n- (2) 2025-03-15 18:01 **Heron**: {}\n"
    for words, found in (
        (("Ada", "Lind, thank you Ada", "Lind has tulips"), set()),
        ((NAME, "Thank you", "Tulips"), {"messages"}),
        (("Alder", "Thank you", f"Ask {NAME}"), {"messages"}),
    ):
        replace_recorded(written, "window_contexts", LAST, plant(told.format(*words), summaries, "messages"))
        assert find(written, "window_contexts") == found
    replace_recorded(written, "window_contexts", LAST, summaries)


def test_doctor_names_the_table_and_the_column(written: Workspace) -> None:
    right = written.tables.read("decisions", [LAST])
    replace_recorded(written, "decisions", LAST, plant(f"of {NAME}", right, "rerank_note"))

    told = str([one for one in examine(written.root) if "decisions" in str(one)])

    assert "decisions: 1 found" in told
    assert "column rerank_note" in told
    assert NAME not in told
    replace_recorded(written, "decisions", LAST, right)


def test_no_name_is_looked_for_where_names_are_not_hidden(written: Workspace) -> None:
    right, file = written.tables.read("decisions", [LAST]), written.root / "backstory.yaml"
    hidden = file.read_text(encoding="utf-8")
    replace_recorded(written, "decisions", LAST, plant(f"of {NAME}", right, "rerank_note"))
    file.write_text(f"{hidden}privacy: {{pseudonyms: false}}\n", encoding="utf-8")

    assert find(written, "decisions") == set()

    file.write_text(hidden, encoding="utf-8")
    assert find(written, "decisions") == {"rerank_note"}
    replace_recorded(written, "decisions", LAST, right)
