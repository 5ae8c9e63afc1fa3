"""CPU time of reading a folder of thousands of small chats: ``python -m benchmarks.small_chats [CHATS]``.

Each chat has twelve messages, of which two are the same in every chat. What is measured is what a first run does with
the exports: it finds the partitions, makes the table ``messages``, and looks for real names.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from backstory.pipeline.chats.leaks import find_leaks
from backstory.pipeline.stages.messages import MessagesStage, find_partitions
from backstory.pipeline.stages.stage import RunResources
from backstory.pipeline.workspace import open_workspace

CHATS = 5000
MESSAGES = 12
COMMON = ("good morning everyone", "thank you very much")


def write_chats(root: Path, chats: int) -> None:
    """Write a workspace with chats of a few messages each, by 300 people."""
    for folder in ("chats", "posts"):
        (root / folder).mkdir(parents=True)
    (root / "backstory.yaml").write_text(
        "conversations: {folder: chats}\nembedding: {provider: hashing}\n", encoding="utf-8"
    )
    for chat in range(chats):
        lines = []
        for number in range(MESSAGES):
            text = COMMON[number] if number < len(COMMON) else f"message {number} of chat {chat}"
            moment = f"{1 + (chat + number) % 27:02}/03/2025, {9 + number:02}:{chat % 60:02}"
            lines.append(f"{moment} - Person {(chat + number % 2) % 300} Lind: {text}\n")
        (root / "chats" / f"chat {chat}.txt").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Print the CPU seconds of each step."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small_chats", description=__doc__)
    parser.add_argument(
        "chats", nargs="?", type=int, default=CHATS, help=f"number of chats (default {CHATS})"
    )
    chats = parser.parse_args().chats
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "workspace"
        write_chats(root, chats)
        workspace = open_workspace(root)
        started = moment = time.process_time()
        partitions = find_partitions(workspace)
        steps: tuple[tuple[str, Callable[[], object] | None], ...] = (
            ("find_partitions", None),
            ("messages", lambda: MessagesStage(RunResources(workspace), partitions).build()),
            ("real names", lambda: find_leaks(workspace, "messages", partitions)),
        )
        for name, step in steps:
            if step is not None:
                step()
            before, moment = moment, time.process_time()
            print(f"{name:<16} {moment - before:6.1f} s of CPU", flush=True)
        print(f"{'in all':<16} {moment - started:6.1f} s, {1000 * (moment - started) / chats:.1f} ms a chat")


if __name__ == "__main__":
    main()
