"""The checks of a run, each named for the cases that it looks for. Rows that break a contract are never written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl

from backstory.base.telemetry import log_event
from backstory.base.wording import count_rest
from backstory.index.graph import GOOD_RECALL, REMEDY
from backstory.index.snapshot import current_version, read_manifest
from backstory.pipeline.chats.leaks import SEARCHED_COLUMNS, find_leaks
from backstory.pipeline.chats.named_documents import find_shown_names
from backstory.pipeline.chats.stored_messages import PARTITIONED
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE
from backstory.text.languages import english_name, is_known
from backstory.text.prompts.entries import cut_line
from backstory.writing.post_files import draft_path
from backstory.writing.posts import PUBLISHED

Partitions = Sequence[str] | None
FindCases = Callable[[Workspace, Partitions], pl.DataFrame]

logger = logging.getLogger(__name__)
_WRITTEN_WITH: Final = {"quarantine": "messages", "sources": "documents"}
"""The last stage that also writes a table, which is not its own."""
_REMAKE: Final = "Delete data/{} and run `backstory run`."
_EXAMPLES: Final = 2
_EXAMPLE_CHARACTERS: Final = 160

LANGUAGE_REMEDY: Final = "Set embedding.model to multilingual, or embedding.provider to gemini."
"""What to do if the model does not know a language."""


@dataclass(frozen=True)
class Check:
    """One kind of case to find after a table, or the ``search_index``, was built; its name is unique in the table.

    ``find`` returns one row per case, ``what`` is a noun in the plural, and ``example`` a format string for a row. One
    that ``waits`` compares rows with documents, which a run that makes partitions in turn writes at its end.
    """

    table: str
    name: str
    find: FindCases
    what: str
    example: str
    remedy: str
    blocking: bool = True
    waits: bool = False


@dataclass(frozen=True)
class CheckResult:
    """What a check found among a number of rows: one row per case, and their number by partition."""

    check: Check
    cases: pl.DataFrame
    rows: int = 0
    by_partition: Mapping[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether there are no cases."""
        return self.cases.is_empty()

    @property
    def message(self) -> str:
        """Number of cases, the first of them, and the remedy."""
        if self.passed:
            return "none found"
        examples = [self.check.example.format_map(row) for row in self.cases.head(_EXAMPLES).to_dicts()]
        lines = [cut_line(example, _EXAMPLE_CHARACTERS) for example in examples]
        named = "; ".join(filter(None, [*lines, count_rest(len(self.cases), _EXAMPLES)]))
        found = f"{len(self.cases)} found among {self.rows} ({self.check.what})"
        end = "" if named.endswith("…") else "."
        return f"{found}: {named}{end} {self.check.remedy}"


def checks_after(table: str) -> list[Check]:
    """Return the checks to run after the stage of a table, including those of tables that it also writes."""
    return [check for check in CHECKS if _WRITTEN_WITH.get(check.table, check.table) == table]


def _reference(child: str, columns: Mapping[str, str], parent: str, name: str | None = None) -> Check:
    """Check that the rows that a table names, by its columns and those of the other table, are stored."""

    def find(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
        # The other columns, such as the texts of all documents, are not read. Windows overlap into the day before.
        is_whole = parent not in PARTITIONED or parent == "messages"
        known = workspace.tables.read(parent, None if is_whole else partitions, columns=[*columns.values()])
        place = [] if child not in PARTITIONED or "window_id" in columns else ["window_id"]
        named = workspace.tables.read(child, partitions, columns=[*place, *columns]).rename(dict(columns))
        for column in columns.values():
            if isinstance(named.schema[column], pl.List):
                named = named.explode(column).drop_nulls(column)
        orphans = named.join(known, on=[*columns.values()], how="anti")
        return orphans.unique([*columns.values()], keep="first", maintain_order=True)

    return Check(
        table=child,
        name=name or f"unknown_{parent}",
        find=find,
        what=f"rows of {child} that name a row of {parent} that is not stored",
        example=", ".join(f"{column} {{{column}}}" for column in columns.values()),
        remedy=_REMAKE.format(child),
        waits=parent in ("document_chunks", "documents"),
    )


def _real_names(table: str) -> Check:
    of_window = " of window {window_id}" if table in PARTITIONED else ""
    remedies = {
        "messages": "Run `backstory run` without --from and --to to rebuild every day.",
        "posts": "Look for the name in the documents of its context and in the prompt of the writer.",
    }
    return Check(
        table=table,
        name="real_names",
        find=lambda workspace, partitions: find_leaks(workspace, table, partitions),
        what="cells that hold what must not be there (a real name, a message of someone who opted out, contact data)",
        example="column {column}" + (" of message {message_id}" if table == "messages" else of_window),
        remedy=remedies.get(table, _REMAKE.format(table)),
    )


def _rows(table: str, columns: str, condition: pl.Expr | bool = True) -> FindCases:
    """Find the rows of a table that meet a condition."""
    return lambda workspace, partitions: (
        workspace.tables.read(table, partitions).filter(condition).select(columns.split())
    )


def _find_later_documents(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
    contexts = workspace.tables.read("contexts", partitions)
    starts = workspace.tables.read("windows", partitions).select("window_id", "started_at")
    is_late = pl.lit(workspace.settings.rag.as_of) & (pl.col("published_at") > pl.col("started_at"))
    late = contexts.join(starts, on="window_id").filter(is_late)
    return late.select("window_id", "document_id", "published_at", "started_at")


def _find_index_deviations(workspace: Workspace, _: Partitions) -> pl.DataFrame:
    """Compare the counts of the published index with those of the tables that it was built from."""
    manifest = read_manifest(workspace.index / current_version(workspace.index))
    key = ["document_id", "revision"]
    searched = workspace.tables.read("documents", columns=[*key, "status"]).filter(status="ok")
    indexed = workspace.tables.read("document_chunks", columns=key).join(searched, on=key, how="semi")
    rows = [
        ("documents", manifest.documents, len(searched)),
        ("document_chunks", manifest.rows, len(indexed)),
    ]
    counts = pl.DataFrame(rows, schema=["what", "indexed", "stored"], orient="row")
    return counts.filter(pl.col("indexed") != pl.col("stored"))


def _find_low_recall(workspace: Workspace, _: Partitions) -> pl.DataFrame:
    recall = read_manifest(workspace.index / current_version(workspace.index)).recall_at_5
    found = pl.DataFrame({"recall_at_5": [recall]}, schema={"recall_at_5": pl.Float64})
    return found.filter(pl.col("recall_at_5") < GOOD_RECALL)


def _find_unjudged_windows(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
    contexts = workspace.tables.read("window_contexts", partitions).filter(verdict="not_known")
    known, language = workspace.embedder.languages, pl.col("language")
    foreign = [each for each in contexts["language"].unique() if not is_known(each, known)]
    unjudged = contexts.filter(language.is_in(foreign)).sort("language", "window_id")
    return unjudged.select("window_id", "embedder_id", "recommendation", english_name(language))


def _find_posts(is_found: Callable[[Path], bool]) -> FindCases:
    """Find published posts by their files."""

    def find(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
        posts = workspace.tables.read("posts", partitions).filter(pl.col("status").is_in(PUBLISHED))
        found = pl.Series([is_found(workspace.root / path) for path in posts["path"]], dtype=pl.Boolean)
        return posts.filter(found).select("window_id", "path")

    return find


_warn = partial(Check, blocking=False)
_DRAWN: Final = "`backstory report WINDOW_ID` draws what each part of a window found."

CHECKS: Final = (
    _reference("window_chunks", {"window_id": "window_id"}, "windows"),
    _reference("document_chunks", {"document_id": "document_id", "revision": "revision"}, "documents"),
    _reference("hits", {"chunk_id": "chunk_id"}, "document_chunks"),
    _reference("decisions", {"query_chunk_id": "query_chunk_id", "chunk_id": "chunk_id"}, "hits"),
    _reference("contexts", {"window_id": "window_id", "chunk_id": "chunk_id"}, "decisions"),
    _reference("window_contexts", {"window_id": "window_id"}, "windows"),
    _reference("posts", {"window_id": "window_id"}, "windows"),
    _reference("windows", {"message_ids": "message_id"}, "messages"),
    _reference("posts", {"cited_documents": "document_id"}, "documents", "unknown_citations"),
    *map(_real_names, ("messages", *SEARCHED_COLUMNS)),
    Check(
        table="contexts",
        name="later_documents",
        find=_find_later_documents,
        what="rows that show a document published after their window began",
        example="document {document_id} of {published_at} in window {window_id} of {started_at}",
        remedy="Delete data/hits and run `backstory run`; `rag: {as_of: false}` allows later documents.",
    ),
    _warn(
        table="contexts",
        name="shown_names",
        find=lambda workspace, _: find_shown_names(workspace),
        what="documents of which readers see names of members, in the path or the text",
        example="{uri} ({names} names in its text)",
        remedy="Rename the file; `privacy: {documents: replace}` replaces names in texts.",
    ),
    _warn(
        table="quarantine",
        name="unread_lines",
        find=_rows("quarantine", "source line reason"),
        what="lines or records of chat exports that could not be read",
        example="{source} line {line}: {reason}",
        remedy="The table quarantine lists all of them.",
    ),
    _warn(
        table="sources",
        name="unread_files",
        find=_rows("sources", "source folder status reason", pl.col("status").is_in(["set_aside", "failed"])),
        what="files that were set aside or could not be read",
        example="{source}",
        remedy="The table sources says why, and what to do.",
    ),
    _warn(
        table="window_contexts",
        name="windows_without_context",
        find=_rows("window_contexts", "window_id query_chunk_count hit_count", pl.col("status") == "no_hits"),
        what="windows that were searched and got no context",
        example="window {window_id} asked with {query_chunk_count} query chunks and got {hit_count} hits",
        remedy=_DRAWN,
    ),
    _warn(
        table="window_contexts",
        name="insufficient_contexts",
        find=_rows(
            "window_contexts",
            "window_id confidence kept_count recommendation",
            (pl.col("verdict") == "insufficient") & (pl.col("status") != "disabled"),
        ),
        what="windows of which the context serves at most one tenth",
        example="window {window_id}: {recommendation}",
        remedy=_DRAWN,
    ),
    _warn(
        table="window_contexts",
        name="windows_in_unknown_languages",
        find=_find_unjudged_windows,
        what="windows without a verdict, since the model does not know their language",
        example="window {window_id} is in {language}",
        remedy=LANGUAGE_REMEDY,
    ),
    Check(
        table="search_index",
        name="chunks_beside_the_index",
        find=_find_index_deviations,
        what="counts in which the published index and the tables differ",
        example="{indexed} {what} are indexed and {stored} are stored",
        remedy="Delete index/CURRENT and run `backstory run`.",
        waits=True,
    ),
    _warn(
        table="search_index",
        name="low_recall",
        find=_find_low_recall,
        what="approximate indexes that miss too many of the best hits",
        example="recall@5 {recall_at_5:.3f}",
        remedy=f"To find more, {REMEDY}; `backstory doctor` measures it, too.",
    ),
    Check(
        table="posts",
        name="absent_files",
        find=_find_posts(lambda path: not path.is_file()),
        what="posts whose file is not there",
        example="{path} of window {window_id}",
        remedy="`backstory run` writes it again.",
    ),
    _warn(
        table="posts",
        name="refused_drafts",
        find=_rows("posts", "window_id status reason", pl.col("status").is_in(["failed", "rejected"])),
        what="windows without a post, since the writer failed or its draft was rejected",
        example="window {window_id} is {status}: {reason}",
        remedy="The next run asks again where the writer failed; a rejected draft stays until the window, its "
        "context, the prompt, the model or a setting changes.",
    ),
    _warn(
        table="posts",
        name="drafts_to_merge",
        find=_find_posts(lambda path: draft_path(path).is_file()),
        what="posts that a person has edited and that have a later draft",
        example="{path} of window {window_id}",
        remedy="Copy what you want from the file that ends in .draft.md, and delete that file.",
    ),
)
"""All checks."""


def make_check(workspace: Workspace, check: Check, partitions: Sequence[str] | None) -> CheckResult:
    """Run a check for some partitions, or None for all, and log its finding; a table without any is checked whole."""
    wanted = partitions if check.table in PARTITIONED else None
    entries = workspace.catalog.read(check.table)
    rows = sum(entry.rows for key, entry in entries.items() if wanted is None or key in wanted)
    finding = CheckResult(check, check.find(workspace, wanted), rows)
    found = len(finding.cases)
    log_event(logger, "checked", table=check.table, check=check.name, found=found, blocking=check.blocking)
    return finding


def find_cases(workspace: Workspace, check: Check, partitions: Sequence[str]) -> CheckResult:
    """Run a check, and tell which partitions have cases; the catalog remembers these until it runs there again."""
    finding = make_check(workspace, check, None if WHOLE in partitions else partitions)
    counts = _count_cases(workspace, check, finding.cases, partitions)
    name = _name_in_catalog(check)
    gone = dict.fromkeys(workspace.catalog.read(name).keys() & partitions)
    workspace.catalog.record(name, gone | {key: Entry("", "", number) for key, number in counts.items()})
    return replace(finding, by_partition=counts)


def _count_cases(
    workspace: Workspace, check: Check, cases: pl.DataFrame, partitions: Sequence[str]
) -> dict[str, int]:
    """Count cases by partition; one of no partition counts in each."""
    if cases.is_empty():
        return {}
    if len(partitions) == 1:
        return {partitions[0]: len(cases)}
    if "window_id" in cases.columns:
        windows = workspace.tables.read("windows", partitions, columns=["window_id", "partition"])
        named = cases.join(windows, on="window_id")["partition"]
        if len(named) == len(cases):
            return dict(named.value_counts().iter_rows())
    counts = {key: len(check.find(workspace, [key])) for key in partitions}
    return {key: number for key, number in counts.items() if number}


def remembered_cases(workspace: Workspace, check: Check) -> dict[str, int]:
    """Return the number of cases from the latest check of each partition; partitions without cases are absent."""
    return {key: entry.rows for key, entry in workspace.catalog.read(_name_in_catalog(check)).items()}


def _name_in_catalog(check: Check) -> str:
    return f"check {check.table} {check.name}"
