"""What a run has changed for a reader, in lines: the one wording of the terminal, of Dagster, and of logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from backstory.base.wording import count, name_some
from backstory.pipeline.run.differences import (
    Differences,
    DocumentDifferences,
    MessageDifferences,
    PostDifferences,
    WindowDifferences,
)

MOST_NAMES: Final = 10
"""Most documents, days or windows that a line names."""

_MOST_PATHS: Final = 3
"""Most posts that a line names: each by its whole path, and a run may write hundreds."""

NOTHING: Final = "Nothing is different for a reader"


def describe_differences(differences: Differences) -> list[str]:
    """Describe what a run has changed, one line for each kind of thing; and each window that has no post.

    Returns:
        The lines; one that says so if nothing is different.
    """
    lines = [
        *_describe_documents(differences.documents or DocumentDifferences()),
        *_describe_messages(differences.messages or MessageDifferences()),
        *_describe_windows(differences.windows or WindowDifferences()),
        *_describe_posts(differences.posts or PostDifferences()),
    ]
    if differences.unknown:
        tables = ", ".join(differences.unknown)
        lines.append(
            f"Not known: what has changed in {tables}, whose files were damaged or of another version"
        )
    if lines and differences.unreached:
        lines.append(_describe_unreached(differences.unreached))
    if not lines:
        kept = count(differences.posts.kept, "post") if differences.posts else ""
        lines = [f"{NOTHING}; {kept} kept" if kept else NOTHING]
    return [*lines, *_describe_missing(differences.posts or PostDifferences())]


def _describe_unreached(names: Sequence[str]) -> str:
    """Name the documents that no window can be given."""
    is_one = len(names) == 1
    return (
        f"Newer than every window, so that none is given {'it' if is_one else 'them'}: "
        f"{count(len(names), 'document')} ({name_some(names, MOST_NAMES)})"
    )


def _describe_documents(found: DocumentDifferences) -> list[str]:
    renamed = [f"{former} is now {present}" for former, present in found.renamed]
    return _join(
        "Documents",
        [
            _name(found.added, "added"),
            _name(found.changed, "changed"),
            _name(renamed, "renamed"),
            _name(found.removed, "removed"),
        ],
    )


def _describe_messages(found: MessageDifferences) -> list[str]:
    late = f", {found.late:,} of them late" if found.late else ""
    return _join(
        "Messages",
        [
            f"{found.rebuilt:,} rebuilt under other ids, at the times that they had" if found.rebuilt else "",
            f"{found.added:,} new{late}" if found.added else "",
            f"{found.changed:,} changed" if found.changed else "",
            f"{found.removed:,} removed" if found.removed else "",
            _name(found.new_days, "with messages for the first time", "day"),
            _name(found.late_days, "with late messages", "day"),
        ],
    )


def _describe_windows(found: WindowDifferences) -> list[str]:
    added = ", ".join(f"{number:,} {verdict}" for verdict, number in found.added.items())
    changes = [
        f"{change.started_at:%Y-%m-%d %H:%M} {change.conversation_id} from {change.before} to {change.after}"
        for change in found.verdicts
    ]
    return _join(
        "Windows",
        [
            f"{sum(found.added.values()):,} new ({added})" if found.added else "",
            _name(changes, "with another verdict"),
            f"{found.removed:,} gone" if found.removed else "",
            *_describe_zones(found.zones),
        ],
    )


def _describe_zones(zones: Sequence[tuple[str, str, str]]) -> list[str]:
    """Name the conversations whose days and times follow another zone, together for all that changed alike."""
    alike: dict[tuple[str, str], list[str]] = {}
    for conversation, former, present in zones:
        alike.setdefault((former, present), []).append(conversation)
    return [
        f"days and times of {name_some(names, MOST_NAMES)} follow {present} (before: {former})"
        for (former, present), names in alike.items()
    ]


def _describe_posts(found: PostDifferences) -> list[str]:
    changes = [
        _name(found.written, "written", most=_MOST_PATHS),
        _name(found.rewritten, "written again", most=_MOST_PATHS),
        _name(found.edited, "edited by a person, whose text stays", most=_MOST_PATHS),
        _name(found.removed, "removed", most=_MOST_PATHS),
    ]
    removed = count(found.removed_citations, "link or citation removed", "links or citations removed")
    kept = f"{found.kept:,} kept" if found.kept and any(changes) else ""
    return _join("Posts", [*changes, kept, removed if found.removed_citations else ""])


def _describe_missing(found: PostDifferences) -> list[str]:
    """Describe the windows without a post, one line for all that have the same reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for post in found.missing:
        groups.setdefault((post.status, post.reason), []).append(post.path)
    return [
        f"No post, {status}: {name_some(paths, _MOST_PATHS)}: {reason}"
        for (status, reason), paths in groups.items()
    ]


def _name(names: Sequence[str], what: str, noun: str = "", most: int = MOST_NAMES) -> str:
    """Count things, and name the first of them; empty for none."""
    number = count(len(names), noun) if noun else f"{len(names):,}"
    return f"{number} {what} ({name_some(names, most)})" if names else ""


def _join(title: str, parts: Sequence[str]) -> list[str]:
    said = [part for part in parts if part]
    return [f"{title}: {'; '.join(said)}"] if said else []
