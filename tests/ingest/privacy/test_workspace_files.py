"""Names in the names of chats, through a whole workspace."""

from collections.abc import Callable

import pytest

from backstory.ingest.privacy.folding import fold
from backstory.pipeline.chats.leaks import find_privacy_breaches
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace
from tests.workspaces import build_table


@pytest.mark.parametrize(
    "file",
    [
        "WhatsApp_Chat_with_Ada_Lind.txt",
        "WhatsApp-Chat-mit-Ada-Lind (1).txt",
        "WhatsApp%20Chat%20with%20ada%20lind.txt",
        "Conversa.do.WhatsApp.com.AdaLind.txt",
    ],
)
def test_no_table_holds_the_name_that_a_chat_is_called_by(
    make_workspace: Callable[..., Workspace], file: str
) -> None:
    workspace = make_workspace()
    chat = workspace.chats_dir / "garden.txt"
    chat.rename(workspace.chats_dir / file)
    with (workspace.chats_dir / file).open("a", encoding="utf-8") as export:
        export.write("99/99/2025, 18:06 - Ada Lind: a day that is none\n")

    build_table(workspace, "messages", find_partitions(workspace))

    for table in ("messages", "quarantine"):
        assert "adalind" not in fold(str(workspace.tables.read(table).to_dicts()))
    assert find_privacy_breaches(workspace).is_empty()
    stored = [path for path in workspace.tables_dir.rglob("*") if path.is_file()]
    assert stored
    assert not any(spelling in path.read_bytes() for path in stored for spelling in (b"Ada_Lind", b"AdaLind"))
