"""Opening a workspace: what of its settings is refused before anything is read."""

import re

import pytest

from backstory.errors import SettingsError
from backstory.workspace import Workspace, open_workspace
from tests.workspaces import SETTINGS


@pytest.mark.parametrize("folder", ["chats", "./chats/", "chats/posts", "linked"])
def test_documents_may_not_lie_among_the_chats(workspace: Workspace, folder: str) -> None:
    (workspace.root / "linked").symlink_to(workspace.exports)
    settings = workspace.root / "backstory.yaml"
    settings.write_text(f"{SETTINGS}documents: {{folder: {folder}}}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=re.escape(f"{settings}: documents.folder ({folder})")) as caught:
        open_workspace(workspace.root)
    assert "name another folder for one of them" in str(caught.value)
