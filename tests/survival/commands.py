"""What each command of the command line is called with, and calls of all of them in one process.

``python -m tests.survival.commands WORKSPACE FOLDER KIND`` calls those that look at a workspace (``looking``), those
of them that only read (``reading``), those that change it (``changing``), or the one that has a number among those that
look. It prints a line of JSON for each
call: its words, its exit code, what it printed if it failed, and the databases of which it opened a descriptor, which
only SQLite may do.
"""

import json
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from backstory.interfaces.cli.app import app

LOOKING: Final[tuple[tuple[str, ...], ...]] = (
    ("check",),
    ("run", "--estimate"),
    ("documents",),
    ("windows",),
    ("context", "latest"),
    ("explain", "latest"),
    ("report", "latest"),
    ("site",),
    ("export", "--output", "{new}", "--format", "hugo"),
    ("search", "a sluggish starter"),
    ("ask", "what is a sluggish starter?"),
    ("grep", "starter"),
    ("show", "sourdough.md"),
    ("summarize", "sourdough.md"),
    ("dump", "sourdough.md", "--output", "{new}.txt"),
    ("mcp",),
    ("prompt",),
    ("status",),
    ("status", "--runs"),
    ("doctor",),
    ("doctor", "--alerts"),
    ("doctor", "--files"),
    ("backup", "{new}.tar.gz"),
    ("backup", "file://{new}"),
    ("storage", "copy", "--to", "file://{new}"),
)
"""Calls of the commands that look at a workspace; ``{new}`` is a path at which nothing lies yet."""
READING: Final = tuple(
    call
    for call in LOOKING
    if call[0] in {"search", "ask", "grep", "show", "documents", "windows", "context", "explain", "status"}
)
"""Those that write no file, which whoever may only read the workspace can call."""
CHANGING: Final[tuple[tuple[str, ...], ...]] = (
    ("run",),
    ("add", "{root}/posts"),
    ("learn",),
    ("doctor", "--prune-caches"),
    ("remove", "unrelated.md"),
    ("forget", "--document", "sourdough.md"),
)
"""Calls of the commands that change a workspace."""
ELSEWHERE: Final = {"init", "restore", "eval", "dagster", "serve"}
"""Commands that make a workspace, use one for its settings alone, or start a program whose own tests call it."""


_CHANGED: Final = "changed_file"
"""Code of a refusal that asks to run the same command again."""


def fill_in(call: tuple[str, ...], root: Path, folder: Path, number: int) -> list[str]:
    """Give the words of a call, with paths in the place of what stands for them."""
    words = [word.format(root=root, new=folder / f"made-{number}") for word in call]
    return [*words, "--workspace", str(root)]


def call_all(root: Path, folder: Path, kind: str) -> Iterator[dict[str, Any]]:
    """Call the commands one after another, and watch which files they open."""
    opened: list[str] = []

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        path = str(arguments[0]) if event == "open" else ""
        if path.startswith(str(root)) and path.endswith((".sqlite", ".db", "-shm")):
            opened.append(path)

    sys.addaudithook(watch)
    numbers = count()
    calls = {"looking": LOOKING, "reading": READING, "changing": CHANGING}
    for call in calls[kind] if kind in calls else (LOOKING[int(kind)],):
        opened.clear()
        result = CliRunner().invoke(app, fill_in(call, root, folder, next(numbers)))
        while (
            getattr(result.exception, "code", "") == _CHANGED
        ):  # as it says itself, since others write the chats
            result = CliRunner().invoke(app, fill_in(call, root, folder, next(numbers)))
        yield {
            "call": " ".join(call),
            "code": result.exit_code,
            "told": f"{result.output}{result.exception!r}" if result.exit_code else "",
            "opened": sorted(set(opened)),
        }


def main() -> None:
    for call in call_all(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]):
        print(json.dumps(call), flush=True)


if __name__ == "__main__":
    main()
