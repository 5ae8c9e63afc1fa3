"""A writer of the user's own, as docs/writers.md shows it."""

import re
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.errors import SettingsError, WriterError
from backstory.tables import read_table
from backstory.workspace import open_workspace
from backstory.writing.plugin import load_plugin
from tests.workspaces import SETTINGS, write_workspace
from tests.writing.material import make_context, make_window

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "writers.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"^```python\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)
(YAML,) = re.findall(r"^```yaml\n(writers:\n  provider: custom\n.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)


def test_the_documented_writer_writes_posts_and_a_changed_file_writes_them_again(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace", SETTINGS + YAML)
    path = workspace.root / "writers" / "headlines.py"
    path.parent.mkdir()
    path.write_text(CODE, encoding="utf-8")
    run_pipeline(workspace)
    posts = read_table(workspace.tables, "posts")
    assert set(posts["status"]) == {"written"}
    assert set(posts["title"]) == {"Chat of 13 March", "Chat of 15 March"}
    assert any(posts["cited_documents"].list.len())
    path.write_text(CODE.replace("Chat of", "News of"), encoding="utf-8")
    run_pipeline(open_workspace(workspace.root))
    assert set(read_table(workspace.tables, "posts")["title"]) == {"News of 13 March", "News of 15 March"}


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("", "absent.py:Mine", r"there is no file .*absent\.py"),
        ("", "mine.py:Mine", r"mine\.py holds no class Mine"),
        ("class Mine: id = 'a'", "mine.py:Mine", "no prompt_hash and no write"),
        ("class Mine\n", "mine.py:Mine", r"mine\.py:1: "),
        ("", "no_such_module_of_anybody:Mine", "no_such_module_of_anybody"),
    ],
)
def test_what_is_no_writer_is_said(tmp_path: Path, source: str, name: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(source, encoding="utf-8")
    with pytest.raises(SettingsError, match=message):
        load_plugin(name, tmp_path)


def test_what_is_no_draft_is_said(tmp_path: Path) -> None:
    source = "class Mine:\n    id = prompt_hash = 'a'\n    def write(self, window, context):\n        return 'text'\n"
    (tmp_path / "mine.py").write_text(source, encoding="utf-8")
    with pytest.raises(WriterError, match="returned str"):
        load_plugin("mine.py:Mine", tmp_path).write(make_window(), make_context())
