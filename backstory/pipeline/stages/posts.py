"""The stage of the posts: asks the writer about each window, and keeps the files of the posts in step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import chain, product
from pathlib import Path, PurePosixPath
from typing import Any, Final

import polars as pl

from backstory.base.ids import digest
from backstory.base.wording import name_some
from backstory.ingest.documents.files import DRAFT_SUFFIX
from backstory.ingest.sources.listing import DocumentLinks
from backstory.models.usage import Usage
from backstory.pipeline.chats.copies import POST_FOLDERS
from backstory.pipeline.chats.leaks import make_discretion
from backstory.pipeline.chats.named_documents import list_unlinked, list_withheld
from backstory.pipeline.history.spending import estimate_cost, find_price
from backstory.pipeline.incremental.report import add_counts
from backstory.pipeline.stages.messages import list_known_partitions
from backstory.pipeline.stages.stage import Stage
from backstory.pipeline.stages.writer_material import (
    TABLES_READ,
    Assignment,
    find_neighbours,
    list_homes,
    read_assignment,
)
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.schemas import Posts
from backstory.text.people import Discretion
from backstory.writing.draft import Writer
from backstory.writing.model_writer import count_requests
from backstory.writing.post_files import (
    draft_path,
    hash_file,
    inspect_file,
    place_post,
    read_window_id,
    remove_post,
)
from backstory.writing.posts import (
    PUBLISHED,
    as_post,
    count_unfinished,
    make_told,
    make_wait,
    tabulate,
    write_post,
    write_posts,
)
from backstory.writing.writer_calls import WriterCalls

POSTS: Final = "posts"
WAITING: Final = "waiting_for_earlier_posts"
"""Count of the windows that wait until the posts of earlier windows are documents."""

FILES: Final = "post_files"
"""Name in the catalog of the files of the posts, by slug: partition and hash of the file."""

_BEING_WRITTEN: Final = "being written"
_UNFINISHED: Final = "unfinished"
_EARLIER_FIRST: Final = "the posts of earlier windows are not documents yet; the next run resumes"
_WITHOUT_FILE: Final = ("no_messages", "no_context", "rejected")
_NAMED: Final = 3


class PostsStage(Stage):
    """Writes a post for each window whose messages, context, prompt or writer have changed.

    Files that are lost are written again. A file that a person has edited stays, and the draft goes beside it.
    """

    table = POSTS
    reads = ("messages", "windows", "window_chunks", "contexts", "window_contexts")
    overlaps = True
    shows_people = True
    weighed_by = "window_chunks"

    def hash_contents(self) -> list[Mapping[str, str]]:
        """Hash what the writer is shown, also of the other partitions of a letter."""
        if self.workspace.writer is None:
            return []
        made, hashed = self.workspace.catalog.read_all(TABLES_READ), dict[str, str]()
        for key in self.partitions:
            told, later = find_neighbours(self.workspace, key)
            read = [*product(TABLES_READ, told), *product(["windows"], later)]
            hashed[key] = digest(
                made[table][one].content if one in made[table] else "not made" for table, one in read
            )
        return [hashed]

    def list_further(self) -> Sequence[str]:
        """List the documents that no model is sent, those that no post links, and where links lead."""
        workspace = self.workspace
        withheld = [] if workspace.settings.writers.paid_model is None else list_withheld(workspace)
        unsent = [f"{key} is withheld" for key in withheld]
        return [*list_unlinked(workspace), *DocumentLinks(workspace).list_places(), *unsent]

    def stale_partitions(self) -> list[str]:
        """List the partitions of which a row or a file would be written: also a lost one, or one to ask about again."""
        workspace = self.workspace
        changed = {*super().stale_partitions()}
        wanted = {*self.partitions}.difference(changed) if workspace.writer is not None else ()
        for slug, entry in workspace.catalog.read(FILES).items():
            if entry.inputs in wanted and hash_file(workspace.posts_dir / f"{slug}.md") != entry.content:
                changed.add(entry.inputs)
        return [key for key in self.partitions if key in changed]

    def compute(self, partitions: list[str], /, *_: pl.DataFrame) -> pl.DataFrame:
        """Write the posts of the partitions and their files."""
        workspace, writer, calls = self.workspace, self.workspace.writer, self._calls
        if writer is None:
            return empty(Posts)
        # Before any file changes: a row whose file is another one is made again, whatever its inputs say later.
        workspace.catalog.outdate(POSTS, partitions)
        workspace.catalog.record(POST_FOLDERS, {workspace.settings.writers.folder: Entry("", "", 0)})
        self.seen = workspace.catalog.version
        requests = count_requests(writer)
        assignments = {key: read_assignment(workspace, key) for key in partitions}
        settings, drafts = workspace.settings.writers, workspace.drafts
        # With feedback, a window may have to wait for the post of an earlier one.
        material = [] if workspace.feeds_back else [*chain(*(one.material for one in assignments.values()))]
        ready = write_posts(material, writer, settings, self._discretion, drafts, calls) if material else {}
        written = {key: self._write_posts(writer, key, one, ready) for key, one in assignments.items()}
        rows = pl.concat(written.values())
        add_counts(self.counts, {f"status_{one}": n for one, n in rows["status"].value_counts().iter_rows()})
        for name in ("tokens_in", "tokens_out", "removed_citations"):
            add_counts(self.counts, {name: int(rows[name].sum())})
        add_counts(self.counts, {WAITING: len(rows.filter(reason=_EARLIER_FIRST))})
        # The next run asks the writer again.
        self.inputs |= {key: _UNFINISHED for key, own in written.items() if count_unfinished(own)}
        add_counts(self.counts, {"writing_api_calls": count_requests(writer) - requests})
        self.counts.update(calls.counts)
        self.stopped = calls.limit
        return rows

    def end(self) -> None:
        """Tell what stays in the folder of the posts, and what of the settings names nothing."""
        workspace = self.workspace
        if (named := workspace.settings.writers.grains) and workspace.writer is not None:
            known = set(workspace.tables.read("windows", columns=["conversation_id"])["conversation_id"])
            if unknown := name_some(sorted(named.keys() - known), _NAMED):
                there = name_some(sorted(known), _NAMED)
                self._note(f"writers.grains names {unknown}, of which there is no window; there is {there}.")
        written = workspace.catalog.read(POSTS)
        if is_made_in_turn(workspace) and written and self.partitions:
            days, first = list_known_partitions(workspace), min(written)
            absent = [key for key in days if first < key < self.partitions[0] and key not in written]
            if told := name_some(absent, _NAMED):
                self._note(
                    f"{told} has no posts yet, so this run writes later windows without them, and a later run writes "
                    "these windows again. `backstory run` writes all of them in the order of time."
                )
        if workspace.writer is None and (left := len(workspace.catalog.read(FILES))):
            use = "stay documents of later windows" if workspace.feeds_back else "stay as they are"
            self._note(
                f"{left} posts in {workspace.settings.writers.folder}/ were written before writers.provider was none: "
                f"they {use}; remove them if you do not need them."
            )

    def _note(self, sentence: str) -> None:
        if sentence:
            add_counts(self.counts, {"notice": sentence})

    @cached_property
    def _calls(self) -> WriterCalls:
        """What the stage asks, and whether it still asks."""
        return WriterCalls()

    @cached_property
    def _discretion(self) -> Discretion:
        """What posts may say about people; the real names are read where the first draft is judged."""
        return make_discretion(self.workspace)

    def _write_posts(
        self, writer: Writer, partition: str, assignment: Assignment, ready: Mapping[str, dict[str, Any]]
    ) -> pl.DataFrame:
        """Write the posts of a partition and their files, and remove the files of windows that are gone."""
        workspace, settings = self.workspace, self.workspace.settings.writers
        # The files that were read as documents; None if no window waits for them.
        read = None if self.resources.posts is None else self.resources.posts.files
        is_shared = settings.feedback_scope == "workspace"
        rows, awaited = list[dict[str, Any]](), list[tuple[str, datetime]]()
        # A window that ended before another began comes before it in this order.
        for window, context in sorted(
            assignment.material, key=lambda pair: (pair[0].last_started_at, pair[0].window_id)
        ):
            file, conversation = None, window.conversation_id
            if any(at < window.last_started_at and (is_shared or of == conversation) for of, at in awaited):
                row = make_wait(window, context, writer, settings, _EARLIER_FIRST)
            else:
                row = ready.get(window.window_id) or write_post(
                    window, context, writer, settings, self._discretion, workspace.drafts, self._calls
                )
                if row["status"] in PUBLISHED:
                    row, file = place_file(workspace, partition, conversation, row)
            # Where there is no file now, the earlier post is a document until the next round.
            is_read = read is None or (row["status"] != "waiting" and read.get(row["slug"]) == file)
            if not is_read and row["status"] != "failed":
                awaited.append((conversation, row["published_at"]))
            rows.append(row)
        rows += [make_told(told, slug, writer, settings) for told, slug in assignment.told]
        known = {slug for slug, entry in workspace.catalog.read(FILES).items() if entry.inputs == partition}
        kept = {row["slug"] for row in rows if row["status"] not in _WITHOUT_FILE}
        self._note(remove_files(workspace, known - kept))
        price = find_price(workspace.settings.costs, settings.paid_model) if settings.paid_model else None
        for row in rows:
            used = Usage(tokens_in=row["tokens_in"], tokens_out=row["tokens_out"])
            row["cost"] = estimate_cost(price, used)
        return tabulate(rows)


def is_made_in_turn(workspace: Workspace) -> bool:
    """Return whether a run makes one partition after another, since posts are written that later windows are given."""
    return workspace.feeds_back and workspace.writer is not None


def place_file(
    workspace: Workspace, partition: str, conversation_id: str, row: dict[str, Any]
) -> tuple[dict[str, Any], Entry]:
    """Write the file of a post. The row says ``edited`` and why if a person has edited the file."""
    path = workspace.posts_dir / f"{row['slug']}.md"
    # Before the file, so that a process killed here leaves no post that nobody knows and that stays a document.
    workspace.catalog.record(FILES, {row["slug"]: Entry(partition, _BEING_WRITTEN, 1)})
    if not place_post(path, as_post(row, conversation_id)):
        aside = PurePosixPath(row["path"]).with_name(draft_path(path).name)
        reason = f"a person has edited {row['path']}, which stays; a later draft is in {aside}"
        row = row | {"status": "edited", "reason": reason}
    entry = Entry(partition, hash_file(path), 1)
    workspace.catalog.record(FILES, {row["slug"]: entry})
    return row, entry


def list_files_of_people(workspace: Workspace) -> list[str]:
    """List what people did in the folder of the posts: files that they edited or added, by hash, and removed ones."""
    known, folder = workspace.catalog.read(FILES), workspace.posts_dir
    listed = [f"{slug} is removed" for slug in sorted(known) if not (folder / f"{slug}.md").exists()]
    for path in sorted(filter(Path.is_file, folder.rglob("*.md"))):
        is_ours = path.stem in known and inspect_file(path) == "ours"
        if not is_ours and not path.name.endswith(DRAFT_SUFFIX):
            listed.append(f"{path.relative_to(folder).as_posix()} {hash_file(path)}")
    return listed


def remove_posts_of_gone_windows(workspace: Workspace) -> str:
    """Remove the files of posts whose windows are gone, before anything reads them as documents; tell which stay.

    A letter goes, too, if its period has another last window now: no window is given the letter of its own period.
    """
    files, homes = workspace.catalog.read(FILES), list_homes(workspace)

    def is_gone(slug: str) -> bool:
        path = workspace.posts_dir / f"{slug}.md"
        return slug not in homes or (inspect_file(path) == "ours" and read_window_id(path) != homes[slug])

    gone = [*filter(is_gone, files)]
    # If this run is killed and the messages are put back, the next run writes the files again.
    workspace.catalog.outdate(POSTS, {files[slug].inputs for slug in gone})
    return remove_files(workspace, gone)


def remove_files(workspace: Workspace, slugs: Collection[str]) -> str:
    """Remove the files of posts, but those that a person has edited, which are told as documents of that person."""
    edited = [f"{slug}.md" for slug in sorted(slugs) if not remove_post(workspace.posts_dir / f"{slug}.md")]
    workspace.catalog.forget(FILES, slugs)
    if not edited:
        return ""
    return (
        f"{name_some(edited, _NAMED)} in {workspace.settings.writers.folder}/ stays after its window is gone, since a "
        "person has edited it; remove it, or use it as a document of your own."
    )
