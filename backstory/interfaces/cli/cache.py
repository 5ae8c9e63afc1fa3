"""Print the caches of vectors, drafts and judgements: their size, and what pruning deleted."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from backstory.interfaces.cli.terminal import make_table, open_console, plain, print_json

if TYPE_CHECKING:
    from backstory.pipeline.workspace import Workspace

_STEP = 1000
_UNITS = ("bytes", "kB", "MB", "GB")


def show_caches(workspace: Workspace, *, prune: bool = False, as_json: bool) -> None:
    """Print the number and size of the cached vectors, drafts and judgements.

    Args:
        workspace: An open workspace.
        prune: Whether to delete entries first that the present tables and embedding model do not use. Returning to
            an earlier model then embeds its texts again. Pruning waits for a run that is under way.
        as_json: Whether to print JSON.
    """
    from backstory.pipeline.run.cache_use import measure_caches, prune_caches

    pruned = prune_caches(workspace) if prune else None
    use = measure_caches(workspace)
    if as_json:
        print_json(asdict(use) | ({} if pruned is None else {"pruned": asdict(pruned)}))
        return
    console = open_console()
    if pruned is not None:
        deleted = f"{pruned.vectors:,} vectors, {pruned.drafts:,} drafts and {pruned.judgements:,} judgements"
        console.print(plain(f"Deleted {deleted}: {describe_bytes(pruned.freed_bytes)} freed"), soft_wrap=True)
    table = make_table("cache", "entries", "size", right=("entries", "size"))
    for space, count in use.vectors.items():
        table.add_row(plain(f"vectors of {space}"), f"{count:,}", "")
    table.add_row("all vectors", f"{sum(use.vectors.values()):,}", describe_bytes(use.vector_bytes))
    table.add_row("drafts of posts", f"{use.drafts:,}", describe_bytes(use.draft_bytes))
    table.add_row("judgements of windows", f"{use.judgements:,}", describe_bytes(use.judgement_bytes))
    console.print(table)


def describe_bytes(size: int) -> str:
    """Write a size with a unit: ``512 bytes``, ``3.1 MB``."""
    scaled, unit = float(size), 0
    while scaled >= _STEP and unit < len(_UNITS) - 1:
        scaled, unit = scaled / _STEP, unit + 1
    return f"{scaled:.1f} {_UNITS[unit]}" if unit else f"{size} bytes"
