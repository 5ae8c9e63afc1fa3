"""Settings: defaults, errors with their line, and that no setting is without effect on what is read."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import Stemmer

from backstory.base.environment import cache_folder, find_workspace, read_api_key
from backstory.base.errors import InputError, ModelSetupError, SettingsError, WorkspaceError
from backstory.settings.models import SERVED_GROUPS, IndexSettings, Settings
from backstory.settings.paths import init_workspace
from backstory.settings.yaml_file import read_settings
from backstory.text.words import Words
from tests.errors import raises


def settings_file(folder: Path, text: str) -> Path:
    path = folder / "backstory.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    assert read_settings(settings_file(tmp_path, "")) == Settings()


def test_the_template_of_a_workspace_is_the_defaults(tmp_path: Path) -> None:
    root = init_workspace(tmp_path / "mine")
    assert read_settings(root / "backstory.yaml") == Settings()


def test_every_commented_setting_of_the_template_is_a_default(tmp_path: Path) -> None:
    template = (init_workspace(tmp_path / "mine") / "backstory.yaml").read_text(encoding="utf-8")
    body = template.partition("\n\n")[2]
    uncommented = re.sub(r"^( *)# ", r"\1", body, flags=re.MULTILINE)
    settings = read_settings(settings_file(tmp_path, uncommented))
    assert settings == Settings()
    assert settings.storage.model_fields_set >= {"database", "files"}


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("rag:\n  enabled: true\n  mode: fast\n", 3, "rag.mode"),
        ("rag:\n  top_k: 0\n", 2, "rag.top_k"),
        ("rag:\n  nprobe: 1.5\n", 2, "rag.nprobe"),
        ("rag:\n  tags:\n  - a\n  - 1\n", 4, "rag.tags.1"),
        ("rag:\n\nindex: {}\n", 1, "rag"),
        ("- a\n", 1, ""),
        ("windows:\n  size: 10\n  overlap: 10\n", 1, "windows"),
        ("queries:\n  granularities: [1, 1]\n", 2, "queries.granularities"),
        ("conversations:\n  timezone: Mars/Base\n", 2, "conversations.timezone"),
        ("partitions:\n  start: soon\n", 2, "partitions.start"),
        ("index:\n  language: klingon\n", 2, "index.language"),
        ("services:\n  mine: {}\nwriters: {provider: mine}\n", 2, "services.mine"),
        ("services:\n  mine: {kind: opnai}\n", 2, "services.mine.kind"),
        ("services:\n  gemini:\n    kind: openai\n", 3, "services.gemini.kind"),
        ("services:\n  local: {kind: openai}\n", 2, "services.local"),
        ("services:\n  openai:\n    base_url: http://10.0.0.7/v1\n", 2, "services.openai"),
        ("services:\n  openai:\n    base_url: 10.0.0.7\n", 3, "services.openai.base_url"),
        ("services: [1]\n", 1, "services"),
        ("services:\n  openai:\n", 2, "services.openai"),
        ("writers:\n  provider: [1]\n", 2, "writers.provider"),
        ("writers:\n  provider: openai\n  base_url: x\n", 3, "writers.base_url"),
        (
            "services: {mine: {kind: gemini}}\nembedding:\n  provider: mine\n  texts_per_minute: 1\n",
            4,
            "embedding.texts_per_minute",
        ),
    ],
)
def test_a_bad_setting_is_named_with_its_line_and_the_file_is_untouched(
    tmp_path: Path, text: str, line: int, name: str
) -> None:
    path = settings_file(tmp_path, text)
    with raises(SettingsError, "invalid_setting", path, line, name) as caught:
        read_settings(path)
    assert str(caught.value).startswith(f"{path}:{line}: {name}")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("text", "line", "name", "near"),
    [
        ("rag:\n  topk: 3\n", 2, "rag.topk", "top_k"),
        ("rags:\n  top_k: 3\n", 1, "rags", "rag"),
        ("services:\n  openai:\n    base_urls: x\n", 3, "services.openai.base_urls", "base_url"),
        (
            "documents:\n  sources:\n  - {excluded: [x], path: x}\n",
            3,
            "documents.sources.0.excluded",
            "exclude",
        ),
        ("conversations: {overrides: {a: {zone: UTC}}}\n", 1, "conversations.overrides.a.zone", "timezone"),
        ("writers:\n  base_ur: x\n", 2, "writers.base_ur", "provider, model, temperature"),
    ],
)
def test_an_unknown_setting_is_told_with_the_nearest_names(
    tmp_path: Path, text: str, line: int, name: str, near: str
) -> None:
    with raises(SettingsError, "unknown_setting", line, name) as caught:
        read_settings(settings_file(tmp_path, text))
    assert near in str(caught.value).partition(f"{name}: ")[2]


def test_every_language_that_is_named_is_known() -> None:
    for language in (*Stemmer.algorithms(), "none"):
        assert Words(IndexSettings(language=language).language).split("word")


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (b"rag:\n\ttop_k: 1\n", "invalid_yaml", 2),
        (b"rag:\n  top_k: 1\n  top_k: 2\n", "invalid_yaml", 3),
        (b"rag:\n  top_k: 5 \x01\n", "invalid_yaml", 2),
        (b"\0", "invalid_yaml", 1),
        (b"\xff", "invalid_yaml", None),
        (b'a: "\\UFFFFFFFF"', "invalid_yaml", None),
        (b"partitions: {start: 2024-99-01}\n", "invalid_yaml", None),
        (b"a: " + b"[" * 3000, "invalid_yaml", None),
        (b"a:\n- " + b"- " * 3000, "invalid_yaml", None),
        (b"rag: &r\n  <<: *r\n", "invalid_yaml", None),
    ],
)
def test_what_breaks_a_parser_is_said_in_a_sentence(
    tmp_path: Path, content: bytes, code: str, line: int | None
) -> None:
    path = tmp_path / "backstory.yaml"
    path.write_bytes(content)

    with raises(SettingsError, code, path, line):
        read_settings(path)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("rag:\n  topk: 3\n  mode: fast\n", ["2", "3"]),
        ("writers:\n  base_url: x\nrerank:\n  base_url: y\n", ["2", "4"]),
    ],
)
def test_all_bad_settings_are_named_at_once(tmp_path: Path, text: str, lines: list[str]) -> None:
    with raises(SettingsError, "invalid_setting") as caught:
        read_settings(settings_file(tmp_path, text))
    assert [line.split(":")[1] for line in str(caught.value).splitlines()] == lines


def test_a_file_that_may_not_be_read_is_said(
    open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]]
) -> None:
    path = settings_file(open_folder, "")
    with (
        shut(path, 0),
        raises(WorkspaceError, "unreadable_file", path),
    ):
        read_settings(path)


@pytest.mark.parametrize("name", [".", "new", "new/deeper"])
def test_a_workspace_cannot_be_made_where_nothing_may_be_written(
    open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]], name: str, tmp_path: Path
) -> None:
    init_workspace(tmp_path / "read")  # reads what the other user may not: the library's own folder
    with (
        shut(open_folder, 0o555),
        raises(InputError, "unwritable_folder", open_folder / name),
    ):
        init_workspace(open_folder / name)
    assert list(open_folder.iterdir()) == []


def test_a_file_in_place_of_a_folder_of_a_workspace_is_said(tmp_path: Path) -> None:
    (tmp_path / "posts").touch()
    with raises(InputError, "file_in_the_way", tmp_path / "posts"):
        init_workspace(tmp_path)
    assert not (tmp_path / "backstory.yaml").exists()


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with raises(WorkspaceError, "no_workspace", tmp_path / "backstory.yaml"):
        read_settings(tmp_path / "backstory.yaml")


def test_the_workspace_is_the_given_folder_else_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, given = init_workspace(tmp_path / "named"), init_workspace(tmp_path / "given")
    monkeypatch.setenv("BACKSTORY_WORKSPACE", str(named))
    assert find_workspace() == named
    assert find_workspace(given) == given
    monkeypatch.delenv("BACKSTORY_WORKSPACE")
    monkeypatch.chdir(given)
    assert find_workspace() == given
    with raises(WorkspaceError, "no_workspace", tmp_path):
        find_workspace(tmp_path)


def test_the_key_is_taken_from_either_variable_and_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    with raises(ModelSetupError, "missing_key", *("GEMINI_API_KEY", "GOOGLE_API_KEY")):
        read_api_key()
    monkeypatch.setenv("GOOGLE_API_KEY", "secret-value")
    assert read_api_key().get_secret_value() == "secret-value"
    assert "secret-value" not in repr(read_api_key())
    monkeypatch.setenv("GEMINI_API_KEY", "secret\nvalue")
    with raises(ModelSetupError, "unusable_key", "GEMINI_API_KEY") as caught:
        read_api_key()
    assert "secret" not in str(caught.value)


def test_the_model_cache_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("BACKSTORY_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache" / "backstory"


SERVICES = """\
services:
  gemini: {timeout_seconds: 5, tokens_per_minute: 7}
  ollama: {kind: openai, base_url: "http://127.0.0.1:11434/v1/", max_attempts: 2, texts_per_minute: 8}
embedding: {provider: ollama, model: bge-m3}
rerank: {provider: gemini}
writers: {provider: ollama, model: "qwen3:8b"}
"""


def test_a_group_takes_from_its_service_what_the_table_says(tmp_path: Path) -> None:
    settings = read_settings(settings_file(tmp_path, SERVICES))
    embedding, rerank, writers = settings.embedding, settings.rerank, settings.writers
    address = "http://127.0.0.1:11434/v1"
    assert (embedding.provider, embedding.model, embedding.base_url) == ("openai", "bge-m3", address)
    assert (embedding.max_attempts, embedding.per_minute, embedding.seconds) == (2, (8, 1_000_000), 60)
    assert (writers.provider, writers.base_url, writers.max_attempts) == ("openai", address, 2)
    assert (writers.per_minute, writers.seconds) == ((10, 250_000), 120)
    assert (rerank.provider, rerank.base_url, rerank.max_attempts) == ("gemini", None, 6)
    assert (rerank.per_minute, rerank.seconds) == ((10, 7), 5)
    assert settings.summaries == Settings().summaries


@pytest.mark.parametrize("provider", ["gemini", "openai"])
def test_a_service_with_a_name_of_its_kind_needs_no_entry(tmp_path: Path, provider: str) -> None:
    groups = [f"{group}: {{provider: {provider}, model: m}}\n" for group in SERVED_GROUPS]
    written = read_settings(settings_file(tmp_path, "".join(groups)))
    for group, model in SERVED_GROUPS.items():
        assert getattr(written, group) == model.model_validate({"provider": provider, "model": "m"})
