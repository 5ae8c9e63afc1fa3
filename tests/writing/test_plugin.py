"""A writer of the user's own, as docs/writers-guide.md shows it."""

import re
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.base.errors import ModelError, SettingsError
from backstory.pipeline.workspace import open_workspace
from backstory.writing.plugin import load_plugin
from tests.errors import raises
from tests.workspaces import SETTINGS, write_workspace
from tests.writing.material import make_context, make_window

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "writers-guide.md").read_text(encoding="utf-8")
SECTION = DOCS.partition("\n### Your own writer\n")[2].partition("\n## ")[0]
(CODE,) = re.findall(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
(YAML,) = re.findall(r"^```yaml\n(writers:\n  provider: custom\n.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)


def test_the_documented_writer_writes_posts_and_a_changed_file_writes_them_again(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace", SETTINGS + YAML)
    path = workspace.root / "writers" / "headlines.py"
    path.parent.mkdir()
    path.write_text(CODE, encoding="utf-8")
    run_pipeline(workspace)
    posts = workspace.tables.read("posts")
    assert set(posts["status"]) == {"written"}
    assert set(posts["title"]) == {"Chat of 13 March", "Chat of 15 March"}
    assert any(posts["cited_documents"].list.len())
    path.write_text(CODE.replace("Chat of", "News of"), encoding="utf-8")
    run_pipeline(open_workspace(workspace.root))
    assert set(workspace.tables.read("posts")["title"]) == {"News of 13 March", "News of 15 March"}


@pytest.mark.parametrize(
    ("source", "name", "code", "named"),
    [
        ("", "absent.py:Mine", "absent_file", []),
        ("", "mine.py:Mine", "unusable_plugin", ["Mine"]),
        ("class Mine: id = 'a'", "mine.py:Mine", "unusable_plugin", []),
        ("class Mine\n", "mine.py:Mine", "invalid_python", [1]),
        ("", "no_such_module_of_anybody:Mine", "absent_module", ["no_such_module_of_anybody"]),
    ],
)
def test_what_is_no_writer_is_said(
    tmp_path: Path, source: str, name: str, code: str, named: list[object]
) -> None:
    (tmp_path / "mine.py").write_text(source, encoding="utf-8")
    with raises(SettingsError, code, "writers.plugin", *named):
        load_plugin(name, tmp_path)


def test_what_is_no_draft_is_said(tmp_path: Path) -> None:
    source = "class Mine:\n    id = prompt_hash = 'a'\n    def write(self, window, context):\n        return 'text'\n"
    (tmp_path / "mine.py").write_text(source, encoding="utf-8")
    with raises(ModelError, "no_draft"):
        load_plugin("mine.py:Mine", tmp_path).write(make_window(), make_context())
