"""Builds one partition after another, where written posts are documents for later windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from backstory.pipeline.chats.named_documents import record_named_documents
from backstory.pipeline.checks.checks import checks_after
from backstory.pipeline.incremental.report import StageResult, join_rounds, log_report
from backstory.pipeline.run.builder import Builder, OnProgress, ignore_progress
from backstory.pipeline.run.plan import ANSWERS, CHATS, CORPUS
from backstory.pipeline.run.run import Run, RunPosition
from backstory.pipeline.stages.posts import WAITING
from backstory.pipeline.stages.search_index import AddedPostsStage, find_added_posts
from backstory.pipeline.stages.stage import Stage
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.tables import WHOLE

_GROWTH: Final = 4


class TurnBuilder(Builder):
    """Builds one partition after another, where written posts are documents for later windows.

    A partition is searched and written when the posts of all earlier windows are in the index. Partitions without
    changes are passed over together, so a run that changes one day costs as much as without feedback, unless its post
    changes what later windows are given.

    The tables of the documents and the snapshot are made before the first partition and after the last; in between, the
    posts lie over the snapshot in memory. After each partition only blocking checks run that need not wait for the end,
    on its rows. All checks run at the end, and the results of a stage are joined to one, as if it had been built once.
    """

    def __init__(
        self, workspace: Workspace, run: Run, stages: Sequence[type[Stage]], on_progress: OnProgress
    ) -> None:
        super().__init__(workspace, run, stages, on_progress)
        self._rounds: dict[str, list[tuple[Sequence[str], StageResult]]] = {}
        self._left: list[str] = []
        self._chats = [stage for stage in CHATS if stage in stages]

    def build_in_turn(self) -> None:
        """Build the tables of the chats and documents, the others in turn, and the index of all posts at last."""
        self.build_each(CHATS)
        run = self._run
        self._left = list(run.partitions)
        self._build_round(CORPUS, [])
        if self._may_go_on() and self._add_posts():
            self._build_round(CORPUS, [])
            record_named_documents(self._workspace)
        reason = run.stopped or f"{CORPUS[-1].table} is broken"
        if run.stopped and self._left:
            run.stopped = f"{run.stopped}; and {len(self._left)} later partitions"
        for stage in ANSWERS:
            run.leave(stage.table, dict.fromkeys(self._left, reason))
        for stage in self._stages:
            if stage.table in self._rounds:
                self._report_rounds(stage, self._rounds[stage.table])

    def _add_posts(self) -> bool:
        """Search and write one stale partition after another; return whether posts were added that are not published.

        After a stop or a failure, too, those that were written are in the index for everybody.
        """
        resources = self.resources
        # A name that is found in a document changes contexts of earlier days, which must be made in their turn.
        record_named_documents(self._workspace)
        published = resources.posts = find_added_posts(resources)
        with resources.sharing_index():
            while self._left and self._may_go_on():
                place = self._find_first_stale()
                # The partitions before it have nothing to search, or nothing that has changed.
                self._build_with_posts(self._left[: place + 1])
                self._left = self._left[place + 1 :]
        added, resources.posts = resources.posts, None
        return added.documents is not published.documents

    def _locate(self, stage: type[Stage]) -> RunPosition:
        total = len(self._chats) + len(self._run.partitions) + 1
        if stage in self._chats:
            return RunPosition(stage.table, self._chats.index(stage), total)
        return RunPosition(stage.table, total - 1 - len(self._left), total, has_turns=True)

    def _may_go_on(self) -> bool:
        run = self._run
        return not (run.stopped or run.refused_at) and WHOLE not in run.broken.get(CORPUS[-1].table, {})

    def _build_with_posts(self, partitions: Sequence[str]) -> None:
        """Search and write partitions of which the last is stale, until no window waits for the post of another.

        Within a partition, a window that begins after another has ended waits for the post of that other window. The
        stages are then repeated, once for each window in such a chain at most.
        """
        waiting = None
        while True:
            posts = self._build_round(ANSWERS, partitions)
            self._build_round([AddedPostsStage], [])
            partitions = partitions[-1:]
            still = posts.counts.get(WAITING, 0) if posts else 0
            if not still or still == waiting or not self._may_go_on():
                return
            waiting = still

    def _build_round(self, stages: Sequence[type[Stage]], keys: Sequence[str]) -> StageResult | None:
        """Build stages for some partitions, and return the result of the last one."""
        made = None
        for stage in stages:
            if self._run.refused_at:
                return None
            places = self.leave_kept(stage, keys)
            made = self.build(stage, places)
            if made is None:
                continue
            is_first = stage.table not in self._rounds
            self._rounds.setdefault(stage.table, []).append((places if stage.partitioned else [WHOLE], made))
            if made.computed and (stage.partitioned or is_first):
                for check in checks_after(stage.table):
                    if check.blocking and not check.waits:
                        self._check(stage, check, places, ignore_progress)
        return made

    def _report_rounds(self, stage: type[Stage], rounds: Sequence[tuple[Sequence[str], StageResult]]) -> None:
        """Report the rounds of a stage as one, and run all its checks."""
        keys = sorted({key for places, _ in rounds for key in places})
        entries = self._workspace.catalog.read(stage.table)
        made = join_rounds(rounds, rows=sum(entries[key].rows for key in keys if key in entries))
        log_report(made)
        self._report(stage, made, keys)

    def _find_first_stale(self) -> int:
        """Find the first partition with windows that must be searched or written again.

        The files of a partition are hashed to know, so that only a few partitions are looked at if the first is
        pending.
        """
        windows = self._workspace.catalog.read("windows")
        first, many = 0, 1
        while first < len(self._left):
            group = self._left[first : first + many]
            wanted = [key for key in group if key in windows and windows[key].rows]
            found: str | None = None
            for stage in ANSWERS:
                # Only what comes before the first one that is known to be stale can change the answer.
                earlier = wanted if found is None else wanted[: wanted.index(found)]
                earlier = list(self.leave_kept(stage, earlier))
                stale = stage(self.resources, earlier).stale_partitions() if earlier else []
                found = next(iter(stale), found)
            if found is not None:
                return self._left.index(found)
            first, many = first + many, many * _GROWTH
        return len(self._left)
