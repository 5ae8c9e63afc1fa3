"""What a run has changed for a reader: what is compared is exactly what was added, changed, renamed and removed."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from backstory.pipeline.run.difference_lines import MOST_NAMES, describe_differences
from backstory.pipeline.run.differences import (
    Differences,
    DocumentDifferences,
    MessageDifferences,
    MissingPost,
    PostDifferences,
    ReaderTables,
    VerdictChange,
    WindowDifferences,
    compare_tables,
    read_reader_tables,
)
from backstory.pipeline.run.run import Run
from backstory.pipeline.run.runner import execute_run, find_wanted
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.workspaces import CHAT, DIGEST, find_file

START = datetime(2025, 3, 1, tzinfo=UTC)
names = st.sampled_from("abcdef")
trees = st.dictionaries(names, st.integers(0, 3))
"""Content of documents by their path."""

messages = st.dictionaries(st.integers(0, 9), st.tuples(st.booleans(), st.integers(0, 2)))
"""Conversation and content of messages by their hour."""


def run(workspace: Workspace) -> Differences:
    opened = open_workspace(workspace.root, accept_removals=True)
    return execute_run(opened, Run(find_wanted(opened, None, None))).differences


def tabulate(tree: dict[str, int]) -> ReaderTables:
    rows = [(name, f"{name}.md", f"r{content}", f"h{content}", "ok", None) for name, content in tree.items()]
    columns = ["document_id", "uri", "revision", "content_hash", "status"]
    schema = [*((column, pl.String()) for column in columns), ("published_at", pl.Datetime("us", "UTC"))]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return ReaderTables({}, {"documents": frame}, {})


@given(before=trees, after=trees)
def test_documents_are_added_changed_renamed_and_removed_to_what_they_are_now(
    before: dict[str, int], after: dict[str, int]
) -> None:
    found = compare_tables(tabulate(before), tabulate(after)).documents or DocumentDifferences()
    there = {f"{name}.md": content for name, content in before.items()}
    now = {f"{name}.md": content for name, content in after.items()}
    contents = dict(there)
    for former, present in found.renamed:
        assert contents.pop(former) == now[present]
        assert present not in there
        contents[present] = now[present]
    for name in found.removed:
        del contents[name]
    for name in found.added:
        assert name not in contents
        contents[name] = now[name]
    for name in found.changed:
        assert contents[name] != now[name]
        contents[name] = now[name]
    assert contents == now
    # No content is said to be both gone and new.
    assert {there[name] for name in found.removed}.isdisjoint(now[name] for name in found.added)


def tabulate_messages(chat: dict[int, tuple[bool, int]]) -> ReaderTables:
    rows = [
        (
            str(hour),
            str(group),
            moment := START + timedelta(hours=9 * hour),
            moment.replace(tzinfo=None),
            True,
            content,
        )
        for hour, (group, content) in chat.items()
    ]
    schema = pl.Schema(
        {
            "message_id": pl.String(),
            "conversation_id": pl.String(),
            "timestamp": pl.Datetime("us", "UTC"),
            "local_time": pl.Datetime("us"),
            "by_person": pl.Boolean(),
            "content": pl.Int64(),
        }
    )
    return ReaderTables({}, {"messages": pl.DataFrame(rows, schema=schema, orient="row")}, {})


@given(before=messages, after=messages)
def test_messages_are_late_if_their_conversation_had_newer_ones(
    before: dict[int, tuple[bool, int]], after: dict[int, tuple[bool, int]]
) -> None:
    def day(hour: int) -> str:
        return (START + timedelta(hours=9 * hour)).date().isoformat()

    found = compare_tables(tabulate_messages(before), tabulate_messages(after)).messages
    added = after.keys() - before.keys()
    late = {
        hour
        for hour in added
        if any(other > hour and group == after[hour][0] for other, (group, _) in before.items())
    }
    assert found == MessageDifferences(
        added=len(added),
        late=len(late),
        changed=sum(after[hour][1] != before[hour][1] for hour in after.keys() & before.keys()),
        removed=len(before.keys() - after.keys()),
        new_days=tuple(sorted({day(hour) for hour in added} - {day(hour) for hour in before})),
        late_days=tuple(sorted({day(hour) for hour in late})),
    )


def test_messages_under_other_ids_at_the_same_times_are_rebuilt() -> None:
    chat: dict[int, tuple[bool, int]] = {hour: (hour % 2 == 0, hour) for hour in range(6)}
    before = tabulate_messages(chat)
    frame = before.frames["messages"]
    assert frame is not None

    def compare(after: pl.DataFrame) -> MessageDifferences | None:
        return compare_tables(before, ReaderTables({}, {"messages": after}, {})).messages

    renamed = frame.with_columns(message_id=pl.lit("new ") + pl.col("message_id"))
    assert compare(renamed) == MessageDifferences(rebuilt=6)
    # Of a conversation that has one message more, nothing is claimed.
    moved = pl.col("message_id") == "new 1"
    found = compare(
        renamed.with_columns(
            local_time=pl.col("local_time").dt.offset_by(
                pl.when(moved).then(pl.lit("1h")).otherwise(pl.lit("0h"))
            )
        )
    )
    assert found is not None
    assert (found.rebuilt, found.added, found.removed) == (3, 3, 3)
    # A message that was replaced by another of the same time is new, while others of its conversation stay.
    replaced = frame.with_columns(
        message_id=pl.when(pl.col("message_id") == "1").then(pl.lit("new")).otherwise("message_id")
    )
    found = compare(replaced)
    assert found is not None
    assert (found.rebuilt, found.added, found.removed) == (0, 1, 1)


def test_a_run_tells_what_it_changed_and_another_tells_nothing(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(DIGEST)
    first = run(workspace)
    assert first.documents is not None
    assert len(first.documents.added) == 6
    assert first.messages is not None
    assert (first.messages.added, first.messages.late) == (12, 0)
    assert first.messages.new_days == ("2025-03-13", "2025-03-15")
    posts = {path.name for path in workspace.posts_dir.glob("*.md")}
    assert first.posts is not None
    assert {path.removeprefix("written/") for path in first.posts.written} == posts

    late = "13/03/2025, 09:30 - Ada Lind: The disk again\n"
    (workspace.chats_dir / "garden.txt").write_text(
        CHAT.replace("15/03", f"{late}15/03", 1), encoding="utf-8"
    )
    second = run(workspace)
    assert second.documents == DocumentDifferences()
    assert second.messages == MessageDifferences(added=1, late=1, late_days=("2025-03-13",))
    assert second.posts is not None
    now = {path.name for path in workspace.posts_dir.glob("*.md")}
    assert {path.removeprefix("written/") for path in second.posts.written} == now - posts
    assert {path.removeprefix("written/") for path in second.posts.removed} == posts - now
    assert second.posts.kept == len(now & posts)

    third = run(workspace)
    assert third.documents == DocumentDifferences()
    assert third.messages == MessageDifferences()
    assert third.windows == WindowDifferences()
    assert third.posts is not None
    assert (third.posts.written, third.posts.removed, third.posts.kept) == ((), (), len(now))
    assert len(describe_differences(third)) == 1


def test_posts_that_are_documents_of_later_windows_are_told_as_posts_alone(
    make_workspace: Callable[..., Workspace],
) -> None:
    found = run(make_workspace(DIGEST.replace("digest}", 'digest, feedback: "on"}')))
    assert found.documents is not None
    assert len(found.documents.added) == 6
    assert found.posts is not None
    assert found.posts.written


def test_a_table_that_was_damaged_is_not_compared(made_workspace: Workspace) -> None:
    find_file(made_workspace.root, "documents", "all").write_bytes(b"damaged")
    found = run(made_workspace)
    assert (found.documents, found.unknown) == (None, ("documents",))
    assert found.messages == MessageDifferences()


def test_days_that_a_run_does_not_write_are_read_once(made_workspace: Workspace) -> None:
    before = read_reader_tables(made_workspace, {"windows"})
    [first, *_, last] = before.parts["windows"]
    chat = made_workspace.chats_dir / "garden.txt"
    text = chat.read_text(encoding="utf-8").replace("Book the train", "Book the night train")
    chat.write_text(f"{text}15/03/2025, 18:07 - Ada Lind: With a lamp\n", encoding="utf-8")
    run(made_workspace)
    after = read_reader_tables(made_workspace, {"windows"}, before)
    assert after.parts["windows"][first] is before.parts["windows"][first]
    assert after.parts["windows"][last] is not before.parts["windows"][last]
    now, anew = after.frames["windows"], read_reader_tables(made_workspace, {"windows"}).frames["windows"]
    assert now is not None
    assert anew is not None
    assert now.equals(anew)


def test_a_window_with_another_verdict_is_named_with_both(made_workspace: Workspace) -> None:
    before = read_reader_tables(made_workspace, {"windows", "window_contexts"})
    contexts = before.frames["window_contexts"]
    assert contexts is not None
    [window] = made_workspace.tables.read("windows").sort("started_at").tail(1).to_dicts()
    is_last = pl.col("window_id") == window["window_id"]
    verdict = pl.when(is_last).then(pl.lit("sufficient")).otherwise("verdict").alias("verdict")
    after = ReaderTables({}, {**before.frames, "window_contexts": contexts.with_columns(verdict)}, {})
    found = compare_tables(before, after).windows
    former = contexts.filter(is_last)["verdict"].item()
    assert found == WindowDifferences(
        verdicts=(
            VerdictChange(
                window["window_id"], window["conversation_id"], window["started_at"], former, "sufficient"
            ),
        )
    )


def test_documents_newer_than_every_window_are_named_unless_windows_are_given_any(
    made_workspace: Workspace,
) -> None:
    tables = read_reader_tables(made_workspace, {"windows", "documents"})
    assert compare_tables(tables, tables).unreached == ("later.md",)
    assert compare_tables(tables, tables, as_of=False).unreached == ()
    windows = tables.frames["windows"]
    assert windows is not None
    without = ReaderTables({}, {**tables.frames, "windows": windows.clear()}, {})
    assert compare_tables(tables, without).unreached == ()
    said = {
        len(differences): any("later.md" in line for line in describe_differences(Differences(**differences)))
        for differences in (
            {"unreached": ("later.md",)},
            {"unreached": ("later.md",), "messages": MessageDifferences(1)},
        )
    }
    assert said == {1: False, 2: True}, "a run that changes nothing need not repeat it"


def test_a_line_names_ten_and_counts_the_rest() -> None:
    many = tuple(f"{number:03}.md" for number in range(200))
    [line] = describe_differences(Differences(documents=DocumentDifferences(added=many)))
    assert [name for name in many if name in line] == list(many[:MOST_NAMES])
    assert f"{200 - MOST_NAMES} more" in line


def test_a_line_names_three_paths_of_posts() -> None:
    paths = tuple(f"posts/2025/{number:03}.md" for number in range(200))
    missing = tuple(MissingPost("", path, "rejected", "too long") for path in paths)
    for found in (
        PostDifferences(written=paths),
        PostDifferences(rewritten=paths),
        PostDifferences(edited=paths),
        PostDifferences(removed=paths),
        PostDifferences(missing=missing),
    ):
        line = describe_differences(Differences(posts=found))[-1]
        assert [path for path in paths if path in line] == list(paths[:3])
        assert "197 more" in line
