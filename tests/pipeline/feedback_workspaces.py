"""Small workspaces in which written posts are documents for later windows."""

from datetime import date, timedelta
from pathlib import Path

import polars as pl

from backstory.pipeline.workspace import Workspace, open_workspace

SETTINGS = """\
conversations: {folder: chats, removals: mirror, date_order: dmy}
windows: {unit: messages, size: 2}
embedding: {provider: hashing}
rag: {top_k: 3, min_similarity: 0.05}
writers: {provider: digest, feedback: "on"}
"""
TOPICS = (
    "tomato blight",
    "night train to Lisbon",
    "sourdough starter",
    "drip irrigation",
    "backup disk",
    "moth trap",
)
COMPARED = (
    "messages",
    "windows",
    "window_chunks",
    "hits",
    "decisions",
    "contexts",
    "window_contexts",
    "posts",
)


def list_lines(days: int, *, windows: int) -> list[str]:
    """List two messages for each window of each day; each window begins after the one before it has ended."""
    lines = []
    for day in range(days):
        when = (date(2025, 1, 1) + timedelta(days=day)).strftime("%d/%m/%Y")
        for window in range(windows):
            topic, other = TOPICS[(day + window) % len(TOPICS)], TOPICS[(day * 5 + 1) % len(TOPICS)]
            lines += [
                f"{when}, {9 * window + 1:02}:00 - Ada Lind: How is the {topic} of day {day}?",
                f"{when}, {9 * window + 1:02}:05 - Ben Okri: Worse than the {other}, number {day * 7 + window}",
            ]
    return lines


def write_chat(folder: Path, days: int, *, windows: int, edited: str | None = None) -> None:
    """Write the messages into a chat, the first of the third day with another text if one is given."""
    lines = list_lines(days, windows=windows)
    if edited:
        lines[windows * 4] = f"{lines[windows * 4].partition(': ')[0]}: {edited}"
    folder.mkdir(exist_ok=True)
    (folder / "garden.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_second_chat(folder: Path, days: int) -> None:
    """Write a chat of another group, with one window in the evening of each day about the topics of the first chat."""
    lines = []
    for line in list_lines(days, windows=1):
        when, _, said = line.partition(", ")
        lines.append(f"{when}, 23:{said.partition(' - ')[0][3:]} - Cleo Marsh: {said.partition(': ')[2]}")
    (folder / "moths.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_workspace(root: Path) -> Workspace:
    """Write a workspace with settings and three documents, and without a chat."""
    (root / "posts").mkdir(parents=True)
    (root / "backstory.yaml").write_text(SETTINGS, encoding="utf-8")
    for topic in TOPICS[:3]:
        text = f"---\ntitle: About {topic}\ndate: 2024-05-01\n---\n\nAll that we know about {topic}.\n"
        (root / "posts" / f"{topic.replace(' ', '-')}.md").write_text(text, encoding="utf-8")
    return open_workspace(root)


def read_all(workspace: Workspace) -> dict[str, pl.DataFrame]:
    """Read what a writer's reader sees; the snapshot that was searched is a matter of history."""
    tables = {name: workspace.tables.read(name) for name in COMPARED}
    return {name: frame.drop("index_version", strict=False) for name, frame in tables.items()}


def read_files(workspace: Workspace) -> dict[str, bytes]:
    """Read the files of the posts by their names."""
    return {path.name: path.read_bytes() for path in sorted(workspace.posts_dir.iterdir())}
