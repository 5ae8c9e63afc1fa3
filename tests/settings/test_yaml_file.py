"""Settings: defaults, errors with their line, and that no setting is without effect on what is read."""

import re
from pathlib import Path

import pytest

from backstory.errors import AuthenticationError, SettingsError, WorkspaceError
from backstory.settings import Settings
from backstory.settings.environment import cache_folder, find_workspace, read_api_key
from backstory.settings.template import create_workspace
from backstory.settings.yaml_file import read_settings


def settings_file(folder: Path, text: str) -> Path:
    path = folder / "backstory.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    assert read_settings(settings_file(tmp_path, "")) == Settings()


def test_the_template_of_a_workspace_is_the_defaults(tmp_path: Path) -> None:
    root = create_workspace(tmp_path / "mine")
    assert read_settings(root / "backstory.yaml") == Settings()


def test_every_commented_setting_of_the_template_is_a_default(tmp_path: Path) -> None:
    template = (create_workspace(tmp_path / "mine") / "backstory.yaml").read_text(encoding="utf-8")
    body = template.partition("\n\n")[2]
    uncommented = re.sub(r"^( *)# ", r"\1", body, flags=re.MULTILINE)
    assert read_settings(settings_file(tmp_path, uncommented)) == Settings()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("rag:\n  topk: 3\n", 2, "unknown setting rag.topk; did you mean top_k?"),
        ("rags:\n  top_k: 3\n", 1, "unknown setting rags; did you mean rag?"),
        ("rag:\n  top_k: 0\n", 2, "rag.top_k"),
        ("rag:\n  enabled: true\n  mode: fast\n", 3, "rag.mode"),
        ("windows:\n  size: 10\n  overlap: 10\n", 1, "overlap 10 must be below size 10"),
        ("queries:\n  granularities: [1, x]\n", 2, "granularities"),
        ("queries:\n  granularities: [1, 1]\n", 2, "different whole numbers"),
        ("conversations:\n  timezone: Mars/Base\n", 2, "not a time zone"),
        ("partitions:\n  start: soon\n", 2, "YYYY-MM-DD"),
        ("rag: [1]\n", 1, "rag"),
        ("rag:\n  top_k: 1\n  top_k: 2\n", 3, "duplicate key"),
        ("- a\n", 1, "expected groups of settings"),
    ],
)
def test_a_bad_setting_is_named_with_its_line_and_the_file_is_untouched(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    path = settings_file(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        read_settings(path)
    assert f"{path}:{line}: " in str(caught.value)
    assert words in str(caught.value)
    assert path.read_text(encoding="utf-8") == text


def test_all_bad_settings_are_named_at_once(tmp_path: Path) -> None:
    path = settings_file(tmp_path, "rag:\n  topk: 3\n  mode: fast\n")
    with pytest.raises(SettingsError, match=r"(?s)(:3: .*:2: |:2: .*:3: )"):
        read_settings(path)


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="backstory init"):
        read_settings(tmp_path / "backstory.yaml")


def test_the_workspace_is_the_given_folder_else_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, given = create_workspace(tmp_path / "named"), create_workspace(tmp_path / "given")
    monkeypatch.setenv("BACKSTORY_WORKSPACE", str(named))
    assert find_workspace() == named
    assert find_workspace(given) == given
    monkeypatch.delenv("BACKSTORY_WORKSPACE")
    monkeypatch.chdir(given)
    assert find_workspace() == given
    with pytest.raises(WorkspaceError, match=r"holds no backstory\.yaml"):
        find_workspace(tmp_path)


def test_the_key_is_taken_from_either_variable_and_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AuthenticationError, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        read_api_key()
    monkeypatch.setenv("GOOGLE_API_KEY", "secret-value")
    assert read_api_key().get_secret_value() == "secret-value"
    assert "secret-value" not in repr(read_api_key())


def test_the_model_cache_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("BACKSTORY_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache" / "backstory"
