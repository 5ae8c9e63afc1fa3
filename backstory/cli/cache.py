"""The command ``backstory cache``: the size of the caches of vectors, drafts and judgements, and their pruning."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from backstory.cli.options import JsonOption, WorkspaceOption
from backstory.cli.terminal import make_table, open_console, plain, print_json

_STEP = 1000
_UNITS = ("bytes", "kB", "MB", "GB")

PruneOption = Annotated[
    bool,
    typer.Option("--prune", help="Delete what the present tables and embedding model do not use."),
]


def cache(workspace: WorkspaceOption = None, prune: PruneOption = False, as_json: JsonOption = False) -> None:
    """Show how many vectors, drafts and judgements are kept, so that nothing is embedded, written or judged twice.

    Pruning also deletes the vectors of models that were set earlier: going back to one embeds its texts again. It
    waits for a run that is under way.
    """
    from backstory.pipeline.cache_use import measure_caches, prune_caches
    from backstory.workspace import open_workspace

    opened = open_workspace(workspace)
    pruned = prune_caches(opened) if prune else None
    use = measure_caches(opened)
    if as_json:
        print_json(use.as_record() | ({} if pruned is None else {"pruned": asdict(pruned)}))
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
