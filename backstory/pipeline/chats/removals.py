"""Messages and documents that a run would remove from the tables because the inputs no longer hold them.

A message that is in the tables but not in the exports is classified like this:

- If its export is byte-identical to the last complete run, nobody removed the message: another setting or another
  version of Backstory reads it differently.
- If it is now in another place, it was moved (a renamed export). If the same time and author now have another text, it
  was edited. If the same text is at most 26 hours away, it was read in another time zone.
- Otherwise it was removed. ``conversations.removals`` decides for each conversation: the run stops (``ask``), the
  tables drop the message (``mirror``), or it is restored from the archive (``keep``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

import polars as pl

from backstory.base.errors import RemovalError
from backstory.base.ids import WRITTEN_PREFIX
from backstory.base.wording import count, name_some
from backstory.ingest.chats.export_files import ExportFile
from backstory.pipeline.chats.exports_reading import Reading, drop_opted_out, list_unchanged
from backstory.pipeline.chats.message_archive import find_missing, find_policies
from backstory.pipeline.chats.stored_messages import are_written, read_intact_messages
from backstory.pipeline.workspace import Workspace

_NAMED: Final = 5


def refuse_removals(
    workspace: Workspace, reading: Reading, files: Sequence[ExportFile], partitions: Sequence[str]
) -> None:
    """Stop a run that would remove messages, unless the caller or the settings allow it."""
    if workspace.accept_removals:
        return
    missing = find_removals(workspace, reading, files, partitions)
    if len(missing):
        raise RemovalError(
            _describe(missing, reading, workspace.settings.conversations.folder), code="removed_messages"
        )


def find_removals(
    workspace: Workspace, reading: Reading, files: Sequence[ExportFile], partitions: Sequence[str]
) -> pl.DataFrame:
    """Find the stored messages that a run would remove, in conversations whose setting is to ask before; see above."""
    stored = drop_opted_out(read_intact_messages(workspace), reading.opted_out)
    policies = find_policies(workspace.settings.conversations, reading)
    default = workspace.settings.conversations.removals
    asking = [name for name in stored["conversation_id"].unique() if policies.get(name, default) == "ask"]
    missing = find_missing(stored, reading.messages).filter(
        pl.col("conversation_id").is_in(asking),
        ~pl.col("source").is_in(list_unchanged(workspace, reading, files)),
    )
    written = stored.filter(are_written(workspace, stored, reading.messages, partitions))
    return missing.join(written, on="message_id", how="semi")


def _describe(missing: pl.DataFrame, reading: Reading, folder: str) -> str:
    lines = []
    states = {row["source"].removesuffix("/"): row for row in reading.sources.iter_rows(named=True)}
    for rows in missing.sort("conversation_id").partition_by("conversation_id", maintain_order=True):
        days = rows["local_time"].dt.date()
        first, last = str(days.min()), str(days.max())
        span = first if first == last else f"{first} to {last}"
        reasons = [
            _describe_file(str(PurePosixPath(folder) / source), states, count)
            for source, count in rows["source"].value_counts().sort("source").iter_rows()
        ]
        lines.append(
            f"- {rows['conversation_id'][0]}: {count(len(rows), 'message')} of "
            f"{count(days.n_unique(), 'day')} ({span}); "
            f"{name_some(reasons, _NAMED, separator='; ')}"
        )
    return (
        f"the run wrote nothing, since it would remove {count(len(missing), 'message')} that an earlier run read:\n"
        + "\n".join(lines)
        + "\nPut the files back, or run again with --accept-removals to remove these messages from all tables, or set "
        "`conversations: {removals: keep}` to keep them (`mirror` removes them without asking)"
    )


def _describe_file(source: str, states: Mapping[str, Mapping[str, object]], count: int) -> str:
    path = PurePosixPath(source)
    state = next((states[str(place)] for place in (path, *path.parents) if str(place) in states), None)
    if state is None:
        return f"{source} is gone"
    if state["status"] == "read":
        return f"{source} no longer holds {count:,} of them"
    return f"{source} cannot be used ({state['status']}): {state['reason']}"


def require_documents(workspace: Workspace, before: pl.DataFrame, now: pl.DataFrame) -> None:
    """Stop a run that finds none of the documents of an earlier run, for example because a disk is not mounted."""
    before, now = (table.filter(~pl.col("uri").str.starts_with(WRITTEN_PREFIX)) for table in (before, now))
    served = before.filter(pl.col("status") == "ok").join(now, on="document_id", how="semi")
    left = now.filter(pl.col("status").is_in(["ok", "error"]))
    if len(served) and left.is_empty() and not workspace.accept_removals:
        folder = workspace.settings.documents.folder
        raise RemovalError(
            f"the run changed no document, since {folder}/ holds none, and an earlier run read "
            f"{count(len(served), 'document')}. If the folder should hold them, make it available (is its disk "
            "mounted?). To remove them from the index, run again with --accept-removals",
            code="removed_documents",
        )
