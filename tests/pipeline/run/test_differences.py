"""What a run has changed for a reader: what is compared is exactly what was added, changed, renamed and removed."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from backstory.pipeline.run.differences import (
    MOST_NAMES,
    Differences,
    DocumentDifferences,
    MessageDifferences,
    MissingPost,
    PostDifferences,
    WindowDifferences,
    compare,
    compare_documents,
    compare_messages,
    compare_windows,
    describe_differences,
    look,
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


def tabulate(tree: dict[str, int]) -> pl.DataFrame:
    rows = [(name, f"{name}.md", f"r{content}", f"h{content}", "ok") for name, content in tree.items()]
    columns = ["document_id", "uri", "revision", "content_hash", "status"]
    return pl.DataFrame(rows, schema=[(column, pl.String()) for column in columns], orient="row")


@given(before=trees, after=trees)
def test_documents_are_added_changed_renamed_and_removed_to_what_they_are_now(
    before: dict[str, int], after: dict[str, int]
) -> None:
    found = compare_documents(tabulate(before), tabulate(after))
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


def tabulate_messages(chat: dict[int, tuple[bool, int]]) -> pl.DataFrame:
    rows = [
        (
            str(hour),
            str(group),
            moment := START + timedelta(hours=9 * hour),
            moment.replace(tzinfo=None),
            "Ada",
            str(content),
            "text",
        )
        for hour, (group, content) in chat.items()
    ]
    schema = pl.Schema(
        {
            "message_id": pl.String(),
            "conversation_id": pl.String(),
            "timestamp": pl.Datetime("us", "UTC"),
            "local_time": pl.Datetime("us"),
            "author": pl.String(),
            "text": pl.String(),
            "kind": pl.String(),
        }
    )
    return pl.DataFrame(rows, schema=schema, orient="row")


@given(before=messages, after=messages)
def test_messages_are_late_if_their_conversation_had_newer_ones(
    before: dict[int, tuple[bool, int]], after: dict[int, tuple[bool, int]]
) -> None:
    def day(hour: int) -> str:
        return (START + timedelta(hours=9 * hour)).date().isoformat()

    known = tabulate_messages(before)
    found = compare_messages(known, tabulate_messages(after), known)
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


def test_a_table_whose_former_file_is_damaged_is_not_compared(made_workspace: Workspace) -> None:
    find_file(made_workspace.root, "documents", "all").write_bytes(b"damaged")
    (made_workspace.documents_dir / "later.md").unlink()
    found = run(made_workspace)
    assert (found.documents, found.unknown) == (None, ("documents",))
    assert found.messages == MessageDifferences()


def test_a_window_with_another_verdict_is_counted(made_workspace: Workspace) -> None:
    tables = made_workspace.tables
    windows = tables.read("windows", columns=("window_id", "conversation_id", "started_at"))
    contexts = tables.read("window_contexts", columns=("window_id", "verdict"))
    before = windows.join(contexts, on="window_id").sort("started_at")
    verdict = pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("sufficient")).otherwise("verdict")
    after = before.with_columns(verdict.alias("verdict"), window_id=pl.lit("now ") + pl.col("window_id"))
    assert compare_windows(before, after) == WindowDifferences(changed=1)
    assert compare_windows(before.clear(), after).added["sufficient"] == 1
    assert compare_windows(before, after.clear()) == WindowDifferences(removed=len(before))


def test_documents_newer_than_every_window_are_named_unless_windows_are_given_any(
    made_workspace: Workspace,
) -> None:
    now, made = look(made_workspace), {"windows", "documents"}
    assert compare(made_workspace, now, made).unreached == ("later.md",)
    assert compare(made_workspace, now, {"documents"}).unreached == ()
    settings = made_workspace.root / "backstory.yaml"
    text = settings.read_text(encoding="utf-8").replace("rag: {", "rag: {as_of: false, ")
    settings.write_text(text, encoding="utf-8")
    assert compare(open_workspace(made_workspace.root), now, made).unreached == ()
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
