"""The whole path over a small workspace, without Dagster: tables, privacy, repetition, change."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.base.errors import SettingsError, WorkspaceError
from backstory.pipeline.chats.leaks import find_leaks
from backstory.pipeline.checks.checks import CHECKS
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.contracts import keeps_contract
from backstory.storage.tables.schemas import TABLES
from backstory.storage.tables.views import connect
from tests.errors import raises

NAMES = ("Ada Lind", "Ben Okri", "Cleo Marsh")


def hash_files(root: Path) -> dict[str, str]:
    """Hash the files of the tables that follow from the inputs; the history of runs differs from run to run."""
    tables = open_workspace(root.parent).tables
    return {
        f"{table}/{key}.parquet": content
        for table in TABLES
        for key, content in tables.hash_files(table).items()
    }


def slugs(workspace: Workspace, partition: str) -> set[str]:
    return set(workspace.tables.read("contexts", [partition])["slug"])


def reopened(workspace: Workspace) -> Workspace:
    return open_workspace(workspace.root)


def test_every_topic_of_a_window_gets_its_document(made_workspace: Workspace) -> None:
    contexts = made_workspace.tables.read("contexts", ["2025-03-13"])
    assert {"drip-irrigation", "backup-disk", "sourdough"} <= set(contexts["slug"])
    assert {"night-train"} <= slugs(made_workspace, "2025-03-15")
    summary = made_workspace.tables.read("window_contexts")
    assert set(summary["status"]) == {"ok"}
    assert all(text.startswith("\n\n## Related Previous Posts") for text in summary["text"])


def test_documents_of_the_future_are_hidden_unless_asked_for(
    make_workspace: Callable[..., Workspace],
) -> None:
    settings = "embedding: {provider: hashing}\nrag: {top_k: 5, as_of: %s}\n"
    hidden = make_workspace(settings % "true", "hidden")
    shown = make_workspace(settings % "false", "shown")
    run_pipeline(hidden)
    run_pipeline(shown)
    assert "later" not in slugs(hidden, "2025-03-15")
    assert "later" in slugs(shown, "2025-03-15")


def test_all_tables_keep_their_contracts_and_references(made_workspace: Workspace) -> None:
    for table, model in TABLES.items():
        assert keeps_contract(made_workspace.tables.read(table), model), table
    assert {
        check.name for check in CHECKS if check.blocking and len(check.find(made_workspace, None))
    } == set()
    windows = made_workspace.tables.read("windows")["window_id"].sort()
    assert made_workspace.tables.read("window_contexts")["window_id"].sort().equals(windows)


def test_no_real_name_is_anywhere_in_the_workspace_but_the_export(made_workspace: Workspace) -> None:
    for path in made_workspace.root.rglob("*"):
        if path.is_file() and path.parent.name != "chats":
            content = path.read_bytes()
            assert not any(name.encode() in content for name in NAMES), path
    for table in TABLES:
        text = str(made_workspace.tables.read(table).to_dicts())
        assert not any(name in text for name in NAMES), table
    assert find_leaks(made_workspace, "messages").is_empty()


def test_pseudonyms_can_be_switched_off(make_workspace: Callable[..., Workspace]) -> None:
    workspace = make_workspace("embedding: {provider: hashing}\nprivacy: {pseudonyms: false}\n")
    run_pipeline(workspace)
    assert "Ada Lind" in set(workspace.tables.read("messages")["author"])
    assert not workspace.secret.exists()


def test_a_second_run_changes_nothing_and_does_nothing(made_workspace: Workspace) -> None:
    before = hash_files(made_workspace.tables_dir)
    reports = run_pipeline(reopened(made_workspace))
    assert [report.table for report in reports if report.computed] == []
    assert hash_files(made_workspace.tables_dir) == before


def test_another_workspace_with_the_same_input_and_secret_has_the_same_bytes(
    make_workspace: Callable[..., Workspace],
) -> None:
    first, second = make_workspace(name="first"), make_workspace(name="second")
    run_pipeline(first)
    second.secret.parent.mkdir()
    second.secret.write_bytes(first.secret.read_bytes())
    second.secret.chmod(0o600)
    run_pipeline(second)
    assert hash_files(first.tables_dir) == hash_files(second.tables_dir)


def test_days_one_by_one_give_what_one_range_gives(make_workspace: Callable[..., Workspace]) -> None:
    whole, daily = make_workspace(name="whole"), make_workspace(name="daily")
    daily.secret.parent.mkdir()
    run_pipeline(whole)
    daily.secret.write_bytes(whole.secret.read_bytes())
    daily.secret.chmod(0o600)
    for day in ("2025-03-13", "2025-03-14", "2025-03-15"):
        run_pipeline(daily, [day])
    assert hash_files(whole.tables_dir) == hash_files(daily.tables_dir)


def test_a_new_export_makes_only_what_it_changes(made_workspace: Workspace) -> None:
    before = hash_files(made_workspace.tables_dir)
    export = made_workspace.chats_dir / "garden.txt"
    with export.open("a", encoding="utf-8") as file:
        file.write("16/03/2025, 08:00 - Ada Lind: The moths came to the lamp\n")
    reports = {report.table: report for report in run_pipeline(reopened(made_workspace))}
    assert reports["windows"].computed == 1
    assert not reports["search_index"].computed
    after = hash_files(made_workspace.tables_dir)
    assert {name for name in before if after[name] != before[name]} == {"sources/conversations.parquet"}
    assert "unrelated" in slugs(made_workspace, "2025-03-16")


def test_an_edited_message_with_as_many_words_reaches_what_is_made_of_it(workspace: Workspace) -> None:
    def write_chat(said: str) -> None:
        row = {
            "id": 1,
            "type": "message",
            "date_unixtime": "1741856400",
            "from": "Ada Lind",
            "from_id": "user1",
        }
        chat = {"name": "Shed", "type": "private_group", "id": 7, "messages": [{**row, "text": said}]}
        (workspace.chats_dir / "shed.json").write_text(json.dumps(chat), encoding="utf-8")

    write_chat("The drip irrigation line broke again")
    run_pipeline(workspace)
    before = workspace.tables.read("windows")
    write_chat("The drip irrigation pipe broke again")
    run_pipeline(reopened(workspace))
    assert workspace.tables.read("windows").equals(before)  # they hold ids, and an edit keeps the id
    changed = hash_files(workspace.tables_dir)
    shutil.rmtree(workspace.tables_dir)
    run_pipeline(reopened(workspace))
    assert hash_files(workspace.tables_dir) == changed


def test_an_edited_post_keeps_its_id_and_a_deleted_one_leaves_a_tombstone(made_workspace: Workspace) -> None:
    before = made_workspace.tables.read("contexts").filter(pl.col("slug") == "sourdough").row(0, named=True)
    post = made_workspace.documents_dir / "sourdough.md"
    post.write_text(post.read_text(encoding="utf-8") + "\nFeed it twice a day.\n", encoding="utf-8")
    reports = {report.table: report for report in run_pipeline(reopened(made_workspace))}
    assert reports["search_index"].counts["embedding_computed"] == 1
    after = made_workspace.tables.read("contexts").filter(pl.col("slug") == "sourdough").row(0, named=True)
    assert after["document_id"] == before["document_id"]
    assert after["revision"] != before["revision"]
    assert "twice a day" in after["content"]
    post.unlink()
    run_pipeline(reopened(made_workspace))
    documents = made_workspace.tables.read("documents")
    assert documents.filter(pl.col("slug") == "sourdough")["status"].to_list() == ["deleted", "superseded"]
    assert "sourdough" not in set(made_workspace.tables.read("contexts")["slug"])


def test_one_bad_post_does_not_stop_the_others(workspace: Workspace) -> None:
    (workspace.documents_dir / "broken.md").write_text(
        "---\ntitle: [unclosed\n---\n\ntext\n", encoding="utf-8"
    )
    run_pipeline(workspace)
    broken = workspace.tables.read("documents").filter(pl.col("status") == "error")
    assert broken["uri"].to_list() == ["broken.md"]
    assert "sourdough" in set(workspace.tables.read("contexts")["slug"])


def test_a_line_that_cannot_be_read_is_quarantined_and_what_says_so_is_made_again(
    workspace: Workspace,
) -> None:
    export = workspace.chats_dir / "garden.txt"
    text = export.read_text(encoding="utf-8")
    export.write_text(text + "31/02/2025, 10:00 - Ada Lind: no such day\n", encoding="utf-8")
    run_pipeline(workspace)
    lines = workspace.tables.read("quarantine")
    assert lines["line"].to_list() == [len(text.splitlines()) + 1]
    assert len(workspace.tables.read("messages")) == len(text.splitlines())
    before = hash_files(workspace.tables_dir)
    for lost in (workspace.tables_dir / "quarantine", workspace.tables_dir / "sources"):
        shutil.rmtree(lost)
        run_pipeline(reopened(workspace))
        assert hash_files(workspace.tables_dir) == before


AMBIGUOUS = "01/02/2025, 10:00 - Dora Quist: one\n03/04/2025, 10:00 - Dora Quist: two\n"


def test_a_file_that_waits_for_an_answer_is_set_aside_and_the_others_are_read(workspace: Workspace) -> None:
    (workspace.chats_dir / "talk with Dora Quist.txt").write_text(AMBIGUOUS, encoding="utf-8")
    run_pipeline(workspace)
    sources = workspace.tables.read("sources", ["conversations"])
    assert dict(sources.select("status", "rows").iter_rows()) == {"read": 12, "set_aside": 0}
    reason = sources.filter(status="set_aside")["reason"][0]
    assert "2025-02-01 (dmy) or 2025-01-02 (mdy)" in reason
    assert "Dora" not in str(sources.to_dicts())
    assert "sourdough" in set(workspace.tables.read("contexts")["slug"])

    settings = (workspace.root / "backstory.yaml").read_text(encoding="utf-8")
    answer = "conversations: {folder: chats, overrides: {talk with Dora Quist: {date_order: mdy}}}"
    (workspace.root / "backstory.yaml").write_text(
        settings.replace("conversations: {folder: chats}", answer), encoding="utf-8"
    )
    run_pipeline(reopened(workspace))
    assert set(workspace.tables.read("sources", ["conversations"])["status"]) == {"read"}
    assert {"one", "two"} <= set(workspace.tables.read("messages")["text"])


def test_a_workspace_in_which_nothing_can_be_read_says_why_of_each_file(workspace: Workspace) -> None:
    (workspace.chats_dir / "garden.txt").write_text(AMBIGUOUS, encoding="utf-8")
    (workspace.chats_dir / "plan.pdf").write_bytes(b"%PDF-1.7")
    for days in (None, ["2025-03-13"]):
        with raises(WorkspaceError, "no_messages", workspace.chats_dir) as raised:
            run_pipeline(workspace, days)
    sources = workspace.tables.read("sources")
    assert sources["status"].to_list() == ["set_aside", "unsupported"]
    assert all(reason in str(raised.value) for reason in sources["reason"])


def test_media_are_in_windows_and_in_no_query(made_workspace: Workspace) -> None:
    media = made_workspace.tables.read("messages").filter(kind="media")
    assert media["text"].to_list() == [None]
    windows = made_workspace.tables.read("windows")
    assert media["message_id"][0] in set(windows["message_ids"].explode())
    chunks = made_workspace.tables.read("window_chunks")
    assert not chunks["text"].str.contains("(?i)omitted").any()


def test_names_of_one_phone_become_the_pseudonyms_of_the_other(workspace: Workspace) -> None:
    folder = workspace.chats_dir / "garden"
    folder.mkdir()
    export = (workspace.chats_dir / "garden.txt").rename(folder / "mine.txt")
    text = export.read_text(encoding="utf-8")
    other = text.replace("Ben Okri", "Uncle Benny").replace("<Media omitted>", "<Medien ausgeschlossen>")
    (folder / "chat of Uncle Benny.txt").write_text(other, encoding="utf-8")
    run_pipeline(workspace)
    messages = workspace.tables.read("messages")
    assert len(messages) == 12
    assert messages["author"].n_unique() - 1 == 3
    assert messages["conversation_id"].n_unique() == 1
    for table in TABLES:
        assert "Benny" not in str(workspace.tables.read(table).to_dicts()), table
    assert workspace.tables.read("sources", ["conversations"])["reason"].drop_nulls().len() == 1
    assert find_leaks(workspace, "messages").is_empty()


def test_an_entry_of_the_overrides_without_a_file_is_warned_about(
    make_workspace: Callable[..., Workspace], caplog: pytest.LogCaptureFixture
) -> None:
    overrides = "{garden: {date_order: dmy}, gardn: {timezone: Europe/Berlin}}"
    workspace = make_workspace(
        f"conversations: {{overrides: {overrides}}}\nembedding: {{provider: hashing}}\n"
    )
    run_pipeline(workspace)
    [warning] = [record.getMessage() for record in caplog.records if "overrides" in record.getMessage()]
    assert "entry 2" in warning
    assert "gardn" not in warning


def test_a_budget_that_holds_no_document_is_said_and_is_not_no_hits(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace("embedding: {provider: hashing}\ncontext: {max_tokens: 60}\n")
    run_pipeline(workspace)
    row = workspace.tables.read("window_contexts").row(0, named=True)
    assert (row["status"], row["kept_count"]) == ("degraded", 0)
    assert "context.max_tokens 60" in row["error"]


def test_windows_that_a_threshold_leaves_without_documents_are_insufficient(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace("embedding: {provider: hashing}\nrag: {min_similarity: 0.99}\n")
    run_pipeline(workspace)
    [check] = [check for check in CHECKS if check.name == "insufficient_contexts"]
    cases = check.find(workspace, None)
    assert set(cases["window_id"]) == set(workspace.tables.read("windows")["window_id"])
    assert cases["confidence"].is_sorted()
    assert all("; lower rag.min_similarity: " in text for text in cases["recommendation"])
    switched_off = make_workspace("embedding: {provider: hashing}\nrag: {enabled: false}\n", "off")
    run_pipeline(switched_off)
    assert check.find(switched_off, None).is_empty()
    assert set(switched_off.tables.read("window_contexts")["status"]) == {"disabled"}
    assert switched_off.tables.read("hits").is_empty()


def test_a_workspace_without_posts_gives_no_hits_and_says_so(workspace: Workspace) -> None:
    for post in workspace.documents_dir.iterdir():
        post.unlink()
    run_pipeline(workspace)
    assert set(workspace.tables.read("window_contexts")["status"]) == {"no_hits"}


def test_a_workspace_without_an_export_says_what_to_do(workspace: Workspace) -> None:
    (workspace.chats_dir / "garden.txt").unlink()
    with raises(WorkspaceError, "no_messages", workspace.chats_dir):
        run_pipeline(workspace)


def test_a_bad_setting_stops_before_any_work(workspace: Workspace) -> None:
    (workspace.root / "backstory.yaml").write_text("rag: {topk: 3}\n", encoding="utf-8")
    with raises(SettingsError, "unknown_setting", "rag.topk"):
        reopened(workspace)
    assert not workspace.tables_dir.exists()


def test_writer_jobs_read_the_tables_through_ibis(made_workspace: Workspace) -> None:
    backend = connect(made_workspace.tables)
    joined = backend.table("window_contexts").join(backend.table("windows"), "window_id")
    assert joined.count().to_pyarrow().as_py() == len(made_workspace.tables.read("windows"))
    assert made_workspace.tables.keys("contexts") == ["2025-03-13", "2025-03-15"]
