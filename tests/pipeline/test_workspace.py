"""Opening a workspace: what of its settings is refused before anything is read."""

import pytest

from backstory.base.errors import SettingsError
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.errors import raises
from tests.workspaces import SETTINGS


@pytest.mark.parametrize("folder", ["chats", "./chats/", "chats/posts", "linked"])
def test_documents_may_not_lie_among_the_chats(workspace: Workspace, folder: str) -> None:
    (workspace.root / "linked").symlink_to(workspace.chats_dir)
    settings = workspace.root / "backstory.yaml"
    settings.write_text(f"{SETTINGS}documents: {{folder: {folder}}}\n", encoding="utf-8")
    with raises(SettingsError, "nested_folders", settings, "documents.folder") as caught:
        open_workspace(workspace.root)
    assert "name another folder for one of them" in str(caught.value)
