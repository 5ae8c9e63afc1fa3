"""What became of the files of a workspace, in words: before a run, in its preview, and after it, by the doctor."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import polars as pl

from backstory.base.wording import count, name_some
from backstory.operations.inspection.probes import Examination
from backstory.pipeline.checks.checks import LANGUAGE_REMEDY
from backstory.pipeline.incremental.report import UNREAD_STATUSES
from backstory.pipeline.workspace import Workspace
from backstory.settings.models import Settings
from backstory.text.languages import is_known, name_language

STATUS_WORDS: Final = {
    "read": "read",
    "empty": "without text",
    "needs_ocr": "whose text is in images",
    "unsupported": "of a kind that is not read",
    "set_aside": "waiting for your answer",
    "failed": "that could not be read",
    "ignored": "left out by a rule",
}
"""Words for people by status of the table ``sources``."""

_MOST_FILES: Final = 20
_MOST_NAMES: Final = 5


def describe_statuses(files: pl.DataFrame) -> list[str]:
    """Count the files of each status, as "3 read"; ``files`` are rows of the table ``sources``."""
    counts = dict(files["status"].value_counts().iter_rows())
    return [f"{counts[status]} {words}" for status, words in STATUS_WORDS.items() if status in counts]


def note_documents(files: pl.DataFrame, began: pl.Series, settings: Settings) -> list[str]:
    """Name the documents of people whose dates decide that they go to every window or to none.

    ``files`` are rows of the table ``sources`` about documents, and ``began`` when windows began.
    """
    is_written = pl.col("source").str.starts_with(f"{settings.writers.folder}/")
    first = files.filter(~is_written, status="read").sort("source").select("source", "first")
    served = "every window, whatever its time" if settings.rag.undated == "serve" else "no window"
    undated = first.filter(pl.col("first").is_null())
    late = first.filter(pl.col("first") > pl.lit(began.max(), first.schema["first"]), settings.rag.as_of)
    kinds = {
        f"without a date, given to {served} (`rag: {{undated: ...}}`)": undated,
        "newer than every window, and so given to none (if a date is wrong, state the right one)": late,
    }
    return [
        f"{count(len(of_it), 'document')} {kind}: {_name(of_it)}"
        for kind, of_it in kinds.items()
        if len(of_it)
    ]


def note_languages(languages: pl.Series, known: Collection[str] | None) -> str:
    """Count what is in languages that an embedding model does not know; empty if it knows all."""
    counts = languages.drop_nulls().value_counts().sort(languages.name)
    unknown = [
        f"{name_language(code)} ({number})"
        for code, number in counts.iter_rows()
        if not is_known(code, known)
    ]
    return (
        f"the embedding model does not know {', '.join(unknown)}: windows in an unknown language get no verdict, and "
        f"documents in one are rarely found. {LANGUAGE_REMEDY}"
        if unknown
        else ""
    )


def examine_files(workspace: Workspace) -> list[Examination]:
    """Check that the last run read every chat export and document.

    There is one examination per folder, and one per file that is set aside or failed, with what to do. A folder does
    not pass while it has such a file, or while there is no document to serve.
    """
    sources = workspace.tables.read("sources")
    seen = {*workspace.catalog.read("sources"), *workspace.tables.keys("sources")}
    found: list[Examination] = []
    for part in sorted(seen & {"conversations", "documents"}):
        folder = getattr(workspace.settings, part).folder
        found += _examine_folder(f"files in {folder}/", sources.filter(folder=part))
    if "documents" in seen:
        found.append(_examine_documents(workspace, sources.filter(folder="documents")))
    return found


def _examine_folder(name: str, files: pl.DataFrame) -> list[Examination]:
    parts = describe_statuses(files)
    if lines := int(files["unread"].sum()):
        parts.append(f"{lines} of their lines or records could not be read; the table quarantine lists them")
    for status in ("needs_ocr", "unsupported"):
        if len(of_it := files.filter(status=status)):
            parts.append(f"{STATUS_WORDS[status]}: {_name(of_it)} ({of_it['reason'][0]})")
    unsettled = files.filter(pl.col("status").is_in(UNREAD_STATUSES))
    found = [Examination(name, unsettled.is_empty(), f"in the last run: {'; '.join(parts) or 'no file'}")]
    for source, status, reason in (
        unsettled.head(_MOST_FILES).select("source", "status", "reason").iter_rows()
    ):
        found.append(Examination(f"file {source}", False, f"{status.replace('_', ' ')}: {reason}"))
    if rest := len(unsettled[_MOST_FILES:]):
        more = f"{rest:,} more set aside or failed; the table sources lists them all"
        found.append(Examination(f"further {name}", False, more))
    return found


def _examine_documents(workspace: Workspace, files: pl.DataFrame) -> Examination:
    served = len(workspace.tables.read("documents", columns=("status",)).filter(status="ok"))
    if not served:
        folder = workspace.settings.documents.folder
        state = "holds no document to serve" if workspace.documents_dir.is_dir() else "is not there"
        return Examination(
            "documents",
            False,
            f"{folder}/ {state}, so windows get no context; put documents into it, or set `documents: {{folder: ...}}` "
            "in the settings, and run `backstory run`",
        )
    last = workspace.tables.keys("windows")[-1:]  # a window is in the partition in which it began
    began = workspace.tables.read("windows", last, columns=("started_at",))["started_at"]
    notes = note_documents(files, began, workspace.settings)
    return Examination("documents", True, "; ".join([f"{served} served", *notes]))


def _name(files: pl.DataFrame) -> str:
    return name_some(files["source"].to_list(), _MOST_NAMES)
