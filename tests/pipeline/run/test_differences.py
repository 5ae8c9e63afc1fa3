"""What a run has changed for a reader: what is compared is exactly what was added, changed, renamed and removed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from backstory.pipeline.run.differences import (
    MOST_NAMES,
    Differences,
    Figures,
    compare,
    compare_documents,
    compare_messages,
    describe_differences,
)
from backstory.pipeline.run.plan import find_wanted
from backstory.pipeline.run.run import Run
from backstory.pipeline.run.runner import execute_run
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.tables import Made, Tables
from tests.builders.documents import make_documents
from tests.builders.messages import make_messages
from tests.workspaces import CHAT, DIGEST, find_file, open_tables, replace_recorded

START = datetime(2025, 3, 1, tzinfo=UTC)
names = st.sampled_from("abcdef")
trees = st.dictionaries(names, st.integers(0, 3))
"""Content of documents by their path."""

messages = st.dictionaries(st.integers(0, 9), st.tuples(st.booleans(), st.integers(0, 2)))
"""Conversation and content of messages by their hour."""


def run(workspace: Workspace) -> Differences:
    opened = open_workspace(workspace.root, accept_removals=True)
    return execute_run(opened, Run(find_wanted(opened, None, None))).differences


@contextmanager
def viewing(table: str, key: str, before: pl.DataFrame, after: pl.DataFrame) -> Iterator[list[Tables]]:
    """Give what a reader sees of one partition before and after it was replaced."""
    with TemporaryDirectory() as folder:
        tables = open_tables(Path(folder))
        views = []
        for rows in (before, after):
            tables.commit({(table, key): Made(rows, "")})
            views.append(tables.pin())
        yield views


def tabulate(tree: dict[str, int]) -> pl.DataFrame:
    return make_documents(
        {"document_id": name, "uri": f"{name}.md", "revision": f"r{content}", "content_hash": f"h{content}"}
        for name, content in tree.items()
    )


@given(before=trees, after=trees)
def test_documents_are_added_changed_renamed_and_removed_to_what_they_are_now(
    before: dict[str, int], after: dict[str, int]
) -> None:
    with viewing("documents", "all", tabulate(before), tabulate(after)) as views:
        found = compare_documents(*views)
    there = {f"{name}.md": content for name, content in before.items()}
    now = {f"{name}.md": content for name, content in after.items()}
    contents = dict(there)
    for former, present in found["renamed"]:
        assert contents.pop(former) == now[present]
        assert present not in there
        contents[present] = now[present]
    for name in found["removed"]:
        del contents[name]
    for name in found["added"]:
        assert name not in contents
        contents[name] = now[name]
    for name in found["changed"]:
        assert contents[name] != now[name]
        contents[name] = now[name]
    assert contents == now
    # No content is said to be both gone and new.
    assert {there[name] for name in found["removed"]}.isdisjoint(now[name] for name in found["added"])


def tabulate_messages(chat: dict[int, tuple[bool, int]]) -> pl.DataFrame:
    return make_messages(
        {
            "message_id": str(hour),
            "conversation_id": str(group),
            "timestamp": START + timedelta(hours=9 * hour),
            "author": "Ada",
            "text": str(content),
        }
        for hour, (group, content) in chat.items()
    )


@given(before=messages, after=messages)
def test_messages_are_late_if_their_conversation_had_newer_ones(
    before: dict[int, tuple[bool, int]], after: dict[int, tuple[bool, int]]
) -> None:
    def day(hour: int) -> str:
        return (START + timedelta(hours=9 * hour)).date().isoformat()

    with viewing("messages", "2025-03-01", tabulate_messages(before), tabulate_messages(after)) as views:
        found = compare_messages(*views)
    added = after.keys() - before.keys()
    late = {
        hour
        for hour in added
        if any(other > hour and group == after[hour][0] for other, (group, _) in before.items())
    }
    assert found == {
        "added": len(added),
        "late": len(late),
        "changed": sum(after[hour][1] != before[hour][1] for hour in after.keys() & before.keys()),
        "removed": len(before.keys() - after.keys()),
        "new_days": sorted({day(hour) for hour in added} - {day(hour) for hour in before}),
        "late_days": sorted({day(hour) for hour in late}),
    }


def only(found: Figures | None) -> dict[str, Any]:
    """Give the figures that are not 0 and not empty."""
    assert found is not None
    return {name: value for name, value in found.items() if value}


def test_a_run_tells_what_it_changed_and_another_tells_nothing(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(DIGEST)
    first = run(workspace)
    assert {name: len(value) for name, value in only(first.documents).items()} == {"added": 6}
    assert only(first.messages) == {"added": 12, "new_days": ["2025-03-13", "2025-03-15"]}
    posts = {f"written/{path.name}" for path in workspace.posts_dir.glob("*.md")}
    assert set(only(first.posts)["written"]) == posts

    late = "13/03/2025, 09:30 - Ada Lind: The disk again\n"
    (workspace.chats_dir / "garden.txt").write_text(
        CHAT.replace("15/03", f"{late}15/03", 1), encoding="utf-8"
    )
    second = run(workspace)
    assert only(second.documents) == {}
    assert only(second.messages) == {"added": 1, "late": 1, "late_days": ["2025-03-13"]}
    assert second.posts is not None
    now = {f"written/{path.name}" for path in workspace.posts_dir.glob("*.md")}
    assert set(second.posts["written"]) == now - posts
    assert set(second.posts["removed"]) == posts - now
    assert second.posts["kept"] == len(now & posts)

    third = run(workspace)
    assert only(third.documents) == only(third.messages) == only(third.windows) == {}
    assert only(third.posts) == {"kept": len(now)}
    assert len(describe_differences(third)) == 1


def test_posts_that_are_documents_of_later_windows_are_told_as_posts_alone(
    make_workspace: Callable[..., Workspace],
) -> None:
    found = run(make_workspace(DIGEST.replace("digest}", 'digest, feedback: "on"}')))
    assert {name: len(value) for name, value in only(found.documents).items()} == {"added": 6}
    assert only(found.posts)["written"]


def test_a_table_whose_former_file_is_damaged_is_not_compared(made_workspace: Workspace) -> None:
    find_file(made_workspace.root, "documents", "all").write_bytes(b"damaged")
    (made_workspace.documents_dir / "later.md").unlink()
    found = run(made_workspace)
    assert (found.documents, found.unknown) == (None, ["documents"])
    assert only(found.messages) == {}


def test_a_window_with_another_verdict_is_counted(made_workspace: Workspace) -> None:
    before = made_workspace.tables.pin()
    [day, *_] = made_workspace.tables.keys("window_contexts")
    rows = made_workspace.tables.read("window_contexts", [day])
    other = pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("partial")).otherwise("verdict")
    replace_recorded(made_workspace, "window_contexts", day, rows.with_columns(other.alias("verdict")))
    assert only(compare(made_workspace, before, {"windows"}).windows) == {"changed": 1}
    replace_recorded(made_workspace, "window_contexts", day, rows.clear())
    assert only(compare(made_workspace, before, {"windows"}).windows) == {"removed": len(rows)}


def test_documents_newer_than_every_window_are_named_unless_windows_are_given_any(
    made_workspace: Workspace,
) -> None:
    now, made = made_workspace.tables.pin(), {"windows", "documents"}
    assert compare(made_workspace, now, made).unreached == ["later.md"]
    assert compare(made_workspace, now, {"documents"}).unreached == ()
    settings = made_workspace.root / "backstory.yaml"
    text = settings.read_text(encoding="utf-8").replace("rag: {", "rag: {as_of: false, ")
    settings.write_text(text, encoding="utf-8")
    assert compare(open_workspace(made_workspace.root), now, made).unreached == ()
    said = [
        any("later.md" in line for line in describe_differences(differences))
        for differences in (
            Differences(unreached=["later.md"]),
            Differences(unreached=["later.md"], messages={"added": 1}),
        )
    ]
    assert said == [False, True], "a run that changes nothing need not repeat it"


def test_a_line_names_a_few_things_and_counts_the_rest() -> None:
    paths = [f"posts/{number:03}.md" for number in range(200)]
    missing = [{"path": path, "status": "rejected", "reason": "too {long}"} for path in paths]
    for found in (Differences(documents={"added": paths}), Differences(posts={"missing": missing})):
        line = describe_differences(found)[-1]
        assert [path for path in paths if path in line] == paths[:MOST_NAMES]
        assert f"{200 - MOST_NAMES} more" in line
