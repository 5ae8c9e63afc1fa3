"""Which days have changed, and which messages are lone, where an archive keeps what the exports have lost."""

from collections.abc import Callable

from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.workspaces import CHAT, SETTINGS, build_table

KEEP = SETTINGS.replace("{folder: chats}", "{folder: chats, removals: keep}")
BETWEEN = "02/05/2024, 10:00 - Ada Lind: The bees are back at the hive\n"


def read(workspace: Workspace) -> Workspace:
    """Read the exports as a run does first; give the workspace as another process opens it."""
    opened = open_workspace(workspace.root)
    build_table(opened, "messages", find_partitions(opened))
    return open_workspace(workspace.root)


def test_a_message_is_not_lone_where_the_archive_holds_the_messages_beside_it(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(KEEP)
    chat = workspace.chats_dir / "garden.txt"
    first, rest = CHAT.split("\n", 1)
    first = first.replace("13/03/2025", "13/06/2023")
    chat.write_text(f"{first}\n{BETWEEN}{rest}", encoding="utf-8")
    partitions = find_partitions(read(workspace))
    chat.write_text(f"{first}\n{rest}", encoding="utf-8")
    opened = open_workspace(workspace.root)
    assert find_partitions(opened) == partitions
    assert read(workspace).tables.keys("messages") == ["2023-06-13", "2024-05-02", "2025-03-13", "2025-03-15"]
