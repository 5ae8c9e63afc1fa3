"""The stage of the posts: asks the writer about each window, and keeps the files of the posts in step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import polars as pl

from backstory.base.ids import digest
from backstory.base.wording import name_some
from backstory.ingest.sources.web_address import list_link_places
from backstory.models.usage import Usage
from backstory.pipeline.chats.leaks import make_discretion
from backstory.pipeline.chats.named_documents import list_unlinked, list_withheld
from backstory.pipeline.chats.people import read_people
from backstory.pipeline.history.spending import estimate_cost, find_price
from backstory.pipeline.incremental.inputs import content_of, hash_dependencies
from backstory.pipeline.incremental.report import add_counts
from backstory.pipeline.stages.letters import Assignment, find_neighbours, read_assignment
from backstory.pipeline.stages.messages import list_chat_partitions
from backstory.pipeline.stages.post_folder import (
    FILES,
    describe_other_files,
    place_file,
    remove_files,
)
from backstory.pipeline.stages.stage import RunResources, TableStage
from backstory.pipeline.stages.writer_material import TABLES_READ
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.schemas import Posts
from backstory.text.people import Discretion
from backstory.writing.draft import Writer
from backstory.writing.model_writer import count_requests
from backstory.writing.post_files import hash_file
from backstory.writing.posts import (
    PUBLISHED,
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

_ASKED_AGAIN: Final = "posts_to_ask_again"
_EARLIER_FIRST: Final = "the posts of earlier windows are not documents yet; the next run resumes"
_WITHOUT_FILE: Final = ("no_messages", "no_context", "rejected")
_NAMED: Final = 3


class PostsStage(TableStage):
    """Writes a post for each window whose messages, context, prompt or writer have changed.

    Files that are lost are written again. A file that a person has edited stays, and the draft goes beside it. Where a
    budget or a quota of the writer is used up, the windows that are left wait, and the report says so.
    """

    table = POSTS
    reads = ("messages", "windows", "window_chunks", "contexts", "window_contexts")
    reads_previous = ("messages",)
    weighed_by = "window_chunks"

    def __init__(self, resources: RunResources, partitions: Sequence[str]) -> None:
        """Prepare an execution; see :class:`backstory.pipeline.stages.stage.Stage`."""
        super().__init__(resources, partitions)
        self._calls = WriterCalls()
        self._notes: list[str] = []
        self._left: list[str] = []

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """Hash the tables, the prompt and the writer."""
        workspace = self.workspace
        depends = hash_dependencies(workspace, POSTS)
        if workspace.writer is None:
            return dict.fromkeys(self.partitions, depends)
        neighbours = {key: find_neighbours(workspace, key) for key in self.partitions}
        told = sorted({key for one in neighbours.values() for key in one.told})
        contents = [content_of(workspace, table, told) for table in TABLES_READ]
        windows = content_of(
            workspace, "windows", sorted({key for one in neighbours.values() for key in one.later})
        )
        unlinked, places = list_unlinked(workspace), list_link_places(workspace)
        withheld = [] if workspace.settings.writers.paid_model is None else list_withheld(workspace)
        names = read_people(workspace).fingerprint(self.partitions)
        return {
            key: digest(
                [
                    *(content[one] for content in contents for one in near.told),
                    *(windows[one] for one in near.later),
                    depends,
                    names[key],
                    *unlinked,
                    *places,
                    *(f"{key} is withheld" for key in withheld),
                ]
            )
            for key, near in neighbours.items()
        }

    @classmethod
    def list_also_read(cls, workspace: Workspace, partitions: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """List the partitions of which a letter tells, with those of the period before."""
        return {key: find_neighbours(workspace, key).told for key in partitions}

    def stale_partitions(self) -> list[str]:
        """List the partitions of which a row or a file would be written."""
        changed = set(_find_unfinished(self.workspace, self.partitions))
        changed.update(super().stale_partitions())
        return [key for key in self.partitions if key in changed]

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:
        """Write the posts of the partitions and their files."""
        workspace, writer, calls = self.workspace, self.workspace.writer, self._calls
        if writer is None:
            return dict.fromkeys(partitions, empty(Posts))
        # Before any file changes: a row whose file is another one is made again, whatever its inputs say later.
        workspace.catalog.outdate(POSTS, partitions)
        self.seen = workspace.catalog.version
        requests = count_requests(writer)
        # With feedback, the context of a partition is read after the posts of the one before are written.
        assignments = (
            {} if workspace.feeds_back else {key: read_assignment(workspace, key) for key in partitions}
        )
        ready = self._write_at_once(writer, assignments.values()) if assignments else {}
        written = {
            key: self._write_posts(
                writer, key, assignments.get(key) or read_assignment(workspace, key), ready
            )
            for key in partitions
        }
        for key, rows in written.items():
            add_counts(self.counts, _count(rows))
            _remember_unfinished(workspace, key, rows)
        add_counts(self.counts, {"writing_api_calls": count_requests(writer) - requests})
        self.counts.update(calls.counts)
        self.stopped = calls.limit
        self._note()
        return written

    def begin(self) -> None:
        """Remove files whose windows are gone."""
        workspace = self.workspace
        workspace.catalog.outdate(POSTS, _find_unfinished(workspace, self.partitions))
        self.seen = workspace.catalog.version
        made, files = workspace.catalog.read("windows"), workspace.catalog.read(FILES)
        self._left += remove_files(
            workspace, [slug for slug, entry in files.items() if entry.inputs not in made]
        )
        self._notes = [
            *describe_other_files(workspace),
            *_describe_unknown_grains(workspace),
            *_describe_earlier(workspace, self.partitions),
        ]
        self._note()

    @cached_property
    def _discretion(self) -> Discretion:
        """What posts may say about people; the real names are read where the first draft is judged."""
        return make_discretion(self.workspace)

    def _write_at_once(
        self, writer: Writer, assignments: Collection[Assignment]
    ) -> Mapping[str, dict[str, Any]]:
        """Make the rows of all windows, which do not wait for each other without feedback."""
        material = [pair for assignment in assignments for pair in assignment.material]
        settings, drafts = self.workspace.settings.writers, self.workspace.drafts
        return write_posts(material, writer, settings, self._discretion, drafts, self._calls)

    def _write_posts(
        self, writer: Writer, partition: str, assignment: Assignment, ready: Mapping[str, dict[str, Any]]
    ) -> pl.DataFrame:
        """Write the posts of a partition and their files, and remove the files of windows that are gone."""
        workspace, settings = self.workspace, self.workspace.settings.writers
        # The files that were read as documents; None if no window waits for them.
        read = None if self.resources.posts is None else self.resources.posts.files
        placed: dict[str, Entry] = {}

        def is_served(row: Mapping[str, Any]) -> bool:
            if read is None or row["status"] in ("failed", "in_letter"):
                return True
            if row["status"] in _WITHOUT_FILE:
                return row["slug"] not in read  # its earlier post is a document until the next round
            return row["slug"] in placed and read.get(row["slug"]) == placed[row["slug"]]

        rows: list[dict[str, Any]] = []
        # By conversation, of which a window waits for the posts; under one key if it is given those of all.
        earlier: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        # A window that ended before another began comes before it in this order.
        for window, context in sorted(
            assignment.material, key=lambda pair: (pair[0].last_started_at, pair[0].window_id)
        ):
            seen = earlier[window.conversation_id if settings.feedback_scope == "conversation" else ""]
            if any(row["published_at"] < window.last_started_at and not is_served(row) for row in seen):
                row = make_wait(window, context, writer, settings, _EARLIER_FIRST)
            else:
                row = ready.get(window.window_id) or write_post(
                    window, context, writer, settings, self._discretion, workspace.drafts, self._calls
                )
                if row["status"] in PUBLISHED:
                    row, placed[row["slug"]] = place_file(workspace, partition, window.conversation_id, row)
            seen.append(row)
            rows.append(row)
        rows += [make_told(told.window, told.slug, writer, settings) for told in assignment.told]
        known = {slug for slug, entry in workspace.catalog.read(FILES).items() if entry.inputs == partition}
        kept = {row["slug"] for row in rows if row["status"] not in _WITHOUT_FILE}
        self._left += remove_files(workspace, known - kept)
        price = find_price(workspace.settings.costs, settings.paid_model) if settings.paid_model else None
        for row in rows:
            used = Usage(tokens_in=row["tokens_in"], tokens_out=row["tokens_out"])
            row["cost"] = estimate_cost(price, used)
        return tabulate(rows)

    def _note(self) -> None:
        """Add what stays in the folder of the posts to the figures, as a sentence."""
        if self._left or self._notes:
            self.counts["notice"] = " ".join([*self._left, *self._notes])


def _find_unfinished(workspace: Workspace, partitions: Sequence[str]) -> list[str]:
    """List the partitions with a window to ask about again, or with a file that is not the one that was written."""
    wanted = set(partitions)
    changed = {
        entry.inputs
        for slug, entry in workspace.catalog.read(FILES).items()
        if entry.inputs in wanted and hash_file(workspace.posts_dir / f"{slug}.md") != entry.content
    }
    if workspace.writer is None:
        return sorted(changed)
    return sorted(changed | (wanted & workspace.catalog.read(_ASKED_AGAIN).keys()))


def _remember_unfinished(workspace: Workspace, partition: str, rows: pl.DataFrame) -> None:
    again = count_unfinished(rows)
    if again:
        workspace.catalog.record(_ASKED_AGAIN, {partition: Entry("", "", again)})
    else:
        workspace.catalog.forget(_ASKED_AGAIN, [partition])


def _count(rows: pl.DataFrame) -> dict[str, int]:
    counts = {f"status_{status}": count for status, count in rows["status"].value_counts().iter_rows()}
    sums = {name: int(rows[name].sum()) for name in ("tokens_in", "tokens_out", "removed_citations")}
    return counts | sums | {WAITING: len(rows.filter(pl.col("reason") == _EARLIER_FIRST))}


def _describe_unknown_grains(workspace: Workspace) -> list[str]:
    """Return which conversations of ``writers.grains`` have no window."""
    named = workspace.settings.writers.grains
    if not named or workspace.writer is None:
        return []
    windows = workspace.tables.read("windows", columns=("conversation_id",)).unique()
    unknown = sorted(named.keys() - set(windows["conversation_id"]))
    if not unknown:
        return []
    known = name_some(sorted(windows["conversation_id"]), _NAMED)
    return [
        f"writers.grains names {name_some(unknown, _NAMED)}, of which there is no window; there is {known}."
    ]


def _describe_earlier(workspace: Workspace, partitions: Sequence[str]) -> list[str]:
    """Return which earlier partitions were left out, so that these partitions will be made again with their posts."""
    written = workspace.catalog.read(POSTS)
    if not is_made_in_turn(workspace) or not partitions or min(written, default="~") >= partitions[0]:
        return []
    earlier = [key for key in list_chat_partitions(workspace) if min(written) <= key < partitions[0]]
    absent = [key for key in earlier if key not in written]
    if not absent:
        return []
    sentence = (
        f"{name_some(absent, _NAMED)} has no posts yet, so this run writes later windows without them, and a later "
        "run writes these windows again. `backstory run` writes all of them in the order of time."
    )
    return [sentence]


def is_made_in_turn(workspace: Workspace) -> bool:
    """Return whether a run makes one partition after another, since posts are written that later windows are given."""
    return workspace.feeds_back and workspace.writer is not None
