"""A workspace works in a folder of any name, or says which character of the name it cannot bear."""

from pathlib import Path

from backstory import connect
from backstory.base.errors import WorkspaceError
from backstory.interfaces.library.library import Library
from backstory.interfaces.pages.report.window_page import write_window_page
from backstory.pipeline.run.plan import find_wanted
from backstory.pipeline.workspace import open_workspace
from tests.errors import raises
from tests.forms import BOTH_FORMS, Share
from tests.workspaces import run_workspace, write_workspace

NAME = "o'br\"ien'); DROP TABLE messages; --[x]*{y}\n$(id)`id`%s{0}\u202e\x1b[31m"


@BOTH_FORMS
def test_the_name_of_the_folder_is_a_name_to_every_reader_and_writer(tmp_path: Path, share: Share) -> None:
    root = write_workspace(tmp_path / NAME).root
    share(root)
    workspace = open_workspace(root)

    outcome = run_workspace(workspace, find_wanted(workspace, None, None))

    assert not outcome.failures
    assert connect(workspace.tables).table("messages").to_polars().height == 12
    with Library(workspace) as library:
        assert library.search("sourdough starter").hits
    page = write_window_page(workspace, "latest").read_text(encoding="utf-8")
    assert not {"\x1b", "\u202e"} & set(page)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_question_mark_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with raises(WorkspaceError, "unusable_path", tmp_path / "which?"):
        write_workspace(tmp_path / "which?")
    with raises(WorkspaceError, "unusable_path", tmp_path / "which?"):
        open_workspace(tmp_path / "which?")
