"""Settings: defaults, errors with their line, and that no setting is without effect on what is read."""

import json
import re
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from backstory.errors import AuthenticationError, InputError, SettingsError, WorkspaceError
from backstory.index.engines.words import Words
from backstory.settings import IndexSettings, Settings
from backstory.settings.allowed_values import describe_allowed
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
        ("rag:\n  top_k: many\n", 2, "rag.top_k is 'many', but must be a whole number, at least 1"),
        ("rag:\n  nprobe: 1.5\n", 2, "rag.nprobe is 1.5, but must be a whole number, at least 1, or null"),
        ("rag:\n  mode: fast\n", 2, "rag.mode is 'fast', but must be ann or exact"),
        ("rag:\n  as_of: perhaps\n", 2, "rag.as_of is 'perhaps', but must be true or false"),
        ("rag:\n  kinds: post\n", 2, "rag.kinds is 'post', but must be a list of texts in brackets"),
        ("rag:\n  tags:\n  - a\n  - 1\n", 4, "rag.tags.1 is 1, but must be a text (put a number"),
        ("embedding:\n  dimension: 4\n", 2, "is 4, but must be a whole number, at least 8 and at most 8192"),
        ("rag:\n\nindex: {}\n", 1, "rag is empty, but must be a group of settings, one to a line below it"),
        (
            "index:\n  language: klingon\n",
            2,
            "index.language: there is no stemmer for this language; use one of arabic,",
        ),
        ("rag:\n\ttop_k: 1\n", 2, "not valid YAML: found character '\\t'"),
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("partitions: {start: 2024-99-01}\n", "not valid YAML: month must be in 1..12"),
        ("rag: " + "[" * 5000, "nested too deeply"),
    ],
)
def test_what_no_line_is_known_of_is_a_sentence_too(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(
        SettingsError, match=rf"^{re.escape(str(tmp_path))}/backstory\.yaml: {re.escape(words)}.*; "
    ):
        read_settings(settings_file(tmp_path, text))


SETTINGS = [(group, name) for group, model in Settings() for name in type(model).model_fields]
VALUES: st.SearchStrategy[object] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates().map(str)
    | st.lists(st.integers() | st.text(max_size=3), max_size=3) | st.just({}) | st.just({"x": 1})
)  # fmt: skip


@given(st.sampled_from(SETTINGS), VALUES)
def test_no_words_of_pydantic_reach_a_person(setting: tuple[str, str], value: object) -> None:
    group, name = setting
    try:
        Settings.model_validate({group: {name: value}})
    except ValidationError as error:
        own_words = [str(problem["msg"]) for problem in error.errors() if problem["type"] != "value_error"]
    else:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = settings_file(Path(folder), f"{group}:\n  {name}: {json.dumps(value)}\n")
        with pytest.raises(SettingsError) as caught:
            read_settings(path)
    message = str(caught.value)
    assert not [words for words in [*own_words, "Value error"] if words in message]
    assert re.search(rf"backstory\.yaml:\d+: (unknown setting )?{group}", message)
    assert own_words == [] or f"{group}.{name}" in message


def test_every_setting_says_what_is_allowed() -> None:
    for setting in SETTINGS:
        assert describe_allowed(setting) != "a group", setting
    assert "names of your own, each with one of: " in describe_allowed(("chunks", "chunkers"))


def test_every_language_that_is_named_is_known() -> None:
    for language in (*Stemmer.algorithms(), "none"):
        assert Words(IndexSettings(language=language).language).split("word")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"rag:\n  top_k: 5 \x01\n", ":2: not valid YAML: a control character (U+0001); remove it"),
        (b"\0", ":1: not valid YAML: a control character (U+0000)"),
        (b'a: "\\UFFFFFFFF"', ": not valid YAML"),
        (b"a: " + b"[" * 3000, ": nested too deeply"),
        (b"a:\n- " + b"- " * 3000, ": nested too deeply"),
    ],
)
def test_what_breaks_a_parser_is_said_in_a_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "backstory.yaml"
    path.write_bytes(content)

    with pytest.raises(SettingsError, match=re.escape(f"{path}{words}")):
        read_settings(path)


def test_all_bad_settings_are_named_at_once(tmp_path: Path) -> None:
    path = settings_file(tmp_path, "rag:\n  topk: 3\n  mode: fast\n")
    with pytest.raises(SettingsError, match=r"(?s)(:3: .*:2: |:2: .*:3: )"):
        read_settings(path)


def test_a_file_that_may_not_be_read_is_said(
    open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]]
) -> None:
    path = settings_file(open_folder, "")
    with (
        shut(path, 0),
        pytest.raises(WorkspaceError, match=r"cannot be read \(Permission denied\); permit it"),
    ):
        read_settings(path)


@pytest.mark.parametrize("name", [".", "new", "new/deeper"])
def test_a_workspace_cannot_be_made_where_nothing_may_be_written(
    open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]], name: str
) -> None:
    with (
        shut(open_folder, 0o555),
        pytest.raises(
            InputError, match=r"cannot be made a workspace: .* \(Permission denied\); name another"
        ),
    ):
        create_workspace(open_folder / name)
    assert list(open_folder.iterdir()) == []


def test_a_file_in_place_of_a_folder_of_a_workspace_is_said(tmp_path: Path) -> None:
    (tmp_path / "posts").touch()
    with pytest.raises(
        InputError, match=r"posts cannot be made: a file is in the way; remove it, or name another"
    ):
        create_workspace(tmp_path)
    assert not (tmp_path / "backstory.yaml").exists()


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
    monkeypatch.setenv("GEMINI_API_KEY", "secret\nvalue")
    with pytest.raises(AuthenticationError, match=r"^GEMINI_API_KEY holds a line break") as caught:
        read_api_key()
    assert "secret" not in str(caught.value)


def test_the_model_cache_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("BACKSTORY_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache" / "backstory"


REPEATED = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (REPEATED, r"more than 10,000 values by names such as `\*a`"),
        ("rag: &r\n  <<: *r\n", "not valid YAML"),
    ],
)
def test_names_of_values_cannot_multiply_them(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        read_settings(settings_file(tmp_path, text))
