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

from backstory.base.environment import cache_folder, find_workspace, read_api_key
from backstory.base.errors import AuthenticationError, InputError, SettingsError, WorkspaceError
from backstory.index.calibration import DEFAULT_CALIBRATION
from backstory.index.request import KEYWORD_TERMS
from backstory.models.rerankers.protocol import QUERY_CHARACTERS, TEXT_CHARACTERS
from backstory.settings.allowed_values import describe_allowed
from backstory.settings.models import SERVED_GROUPS, IndexSettings, Settings
from backstory.settings.template import init_workspace
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
        ("services:\n  mine: {}\nwriters: {provider: mine}\n", 2, "services.mine: needs `kind: gemini`"),
        (
            "services:\n  mine: {kind: opnai}\n",
            2,
            "services.mine.kind is 'opnai', but must be gemini or openai",
        ),
        ("services:\n  gemini:\n    kind: openai\n", 3, "services.gemini.kind: this is always gemini"),
        ("services:\n  local: {kind: openai}\n", 2, "services.local: this is the name of a provider"),
        ("services:\n  openai:\n    base_urls: x\n", 3, "services.openai.base_urls; did you mean base_url?"),
        (
            "services:\n  openai:\n    base_url: http://10.0.0.7/v1\n",
            2,
            "services.openai: base_url is http://",
        ),
        ("services:\n  openai:\n    base_url: 10.0.0.7\n", 3, "services.openai.base_url"),
        ("services: [1]\n", 1, "services is [1], but must be names of your own"),
        ("services:\n  openai:\n", 2, "services.openai is empty, but must be a group of settings"),
        ("writers:\n  provider: [1]\n", 2, "writers.provider is [1], but must be none, digest"),
        ("writers:\n  provider: olama\n", 2, "openai or custom, or a name of services"),
        (
            "writers:\n  base_ur: x\n",
            2,
            "unknown setting writers.base_ur; known here: provider, model, temperature",
        ),
        (
            "writers:\n  provider: openai\n  base_url: x\n",
            3,
            "writers.base_url: write it as services.openai.base_url",
        ),
        ("rerank:\n  provider: none\n  max_attempts: 1\n", 3, "write it as services.openai.max_attempts"),
        (
            "services: {mine: {kind: gemini}}\nembedding:\n  provider: mine\n  texts_per_minute: 1\n",
            4,
            "embedding.texts_per_minute: write it as services.mine.texts_per_minute",
        ),
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
    ("text", "code"),
    [
        ("partitions: {start: 2024-99-01}\n", "invalid_yaml"),
        ("rag: " + "[" * 5000, "nested_too_deeply"),
    ],
)
def test_what_no_line_is_known_of_is_a_sentence_too(tmp_path: Path, text: str, code: str) -> None:
    with raises(SettingsError, code, path=tmp_path / "backstory.yaml", line=None):
        read_settings(settings_file(tmp_path, text))


SETTINGS = [
    *(
        (group, name)
        for group, model in Settings()
        if group != "services"
        for name in type(model).model_fields
    ),
    *(("services", name) for name in ("gemini", "openai", "local", "mine")),
]
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
    ("content", "code", "line"),
    [
        (b"rag:\n  top_k: 5 \x01\n", "invalid_yaml", 2),
        (b"\0", "invalid_yaml", 1),
        (b'a: "\\UFFFFFFFF"', "invalid_yaml", None),
        (b"a: " + b"[" * 3000, "nested_too_deeply", None),
        (b"a:\n- " + b"- " * 3000, "nested_too_deeply", None),
    ],
)
def test_what_breaks_a_parser_is_said_in_a_sentence(
    tmp_path: Path, content: bytes, code: str, line: int | None
) -> None:
    path = tmp_path / "backstory.yaml"
    path.write_bytes(content)

    with raises(SettingsError, code, path=path, line=line):
        read_settings(path)


def test_all_bad_settings_are_named_at_once(tmp_path: Path) -> None:
    path = settings_file(tmp_path, "rag:\n  topk: 3\n  mode: fast\n")
    with raises(SettingsError, "unknown_setting", line=2, settings=("rag.topk", "rag.mode")):
        read_settings(path)


def test_a_file_that_may_not_be_read_is_said(
    open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]]
) -> None:
    path = settings_file(open_folder, "")
    with (
        shut(path, 0),
        raises(WorkspaceError, "unreadable_file", path=path),
    ):
        read_settings(path)


@pytest.mark.parametrize("name", [".", "new", "new/deeper"])
def test_a_workspace_cannot_be_made_where_nothing_may_be_written(
    open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]], name: str
) -> None:
    with (
        shut(open_folder, 0o555),
        raises(InputError, "unwritable_folder", path=open_folder / name),
    ):
        init_workspace(open_folder / name)
    assert list(open_folder.iterdir()) == []


def test_a_file_in_place_of_a_folder_of_a_workspace_is_said(tmp_path: Path) -> None:
    (tmp_path / "posts").touch()
    with raises(InputError, "file_in_the_way", path=tmp_path / "posts"):
        init_workspace(tmp_path)
    assert not (tmp_path / "backstory.yaml").exists()


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with raises(WorkspaceError, "no_workspace", path=tmp_path / "backstory.yaml"):
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
    with raises(WorkspaceError, "no_workspace", path=tmp_path):
        find_workspace(tmp_path)


def test_the_key_is_taken_from_either_variable_and_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    with raises(AuthenticationError, "missing_key", variables=("GEMINI_API_KEY", "GOOGLE_API_KEY")):
        read_api_key()
    monkeypatch.setenv("GOOGLE_API_KEY", "secret-value")
    assert read_api_key().get_secret_value() == "secret-value"
    assert "secret-value" not in repr(read_api_key())
    monkeypatch.setenv("GEMINI_API_KEY", "secret\nvalue")
    with raises(AuthenticationError, "unusable_key", variable="GEMINI_API_KEY") as caught:
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
    ("text", "code"),
    [(REPEATED, "too_many_values"), ("rag: &r\n  <<: *r\n", "invalid_yaml")],
)
def test_names_of_values_cannot_multiply_them(tmp_path: Path, text: str, code: str) -> None:
    with raises(SettingsError, code, path=tmp_path / "backstory.yaml"):
        read_settings(settings_file(tmp_path, text))


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
    assert (embedding.max_attempts, embedding.texts_per_minute, embedding.timeout_seconds) == (2, 8, 60)
    assert (writers.provider, writers.base_url, writers.max_attempts) == ("openai", address, 2)
    assert (writers.timeout_seconds, writers.tokens_per_minute, writers.requests_per_minute) == (
        120,
        250_000,
        10,
    )
    assert (rerank.provider, rerank.base_url, rerank.max_attempts) == ("gemini", None, 6)
    assert (rerank.timeout_seconds, rerank.tokens_per_minute) == (5, 7)
    assert settings.summaries == Settings().summaries


@pytest.mark.parametrize("provider", ["gemini", "openai"])
def test_a_service_with_a_name_of_its_kind_needs_no_entry(tmp_path: Path, provider: str) -> None:
    groups = [f"{group}: {{provider: {provider}, model: m}}\n" for group in SERVED_GROUPS]
    written = read_settings(settings_file(tmp_path, "".join(groups)))
    for group, model in SERVED_GROUPS.items():
        assert getattr(written, group) == model.model_validate({"provider": provider, "model": "m"})


def test_everything_of_a_misplaced_setting_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(settings_file(tmp_path, "writers:\n  base_url: x\nrerank:\n  base_url: y\n"))
    assert [line.split(":")[1] for line in str(caught.value).splitlines()] == ["2", "4"]


def test_a_setting_under_its_former_name_is_an_error_that_says_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "backstory.yaml"
    path.write_text("partitions:\n  grain: day\n  admit_lone_messages: true\n", encoding="utf-8")
    with raises(SettingsError, "invalid_setting", line=3, setting="partitions.admit_lone_messages") as raised:
        read_settings(path)
    assert "partitions.allow_timestamp_outliers" in str(raised.value)


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("rag.temperature", [DEFAULT_CALIBRATION.temperature]),
        ("rag.keyword_weight", [DEFAULT_CALIBRATION.keyword_weight]),
        ("rag.keyword_terms", [KEYWORD_TERMS]),
        ("rerank.query_characters", [QUERY_CHARACTERS]),
        ("rerank.text_characters", [TEXT_CHARACTERS]),
        ("writers.max_attempts_per_window", [1]),
    ],
)
def test_a_setting_that_is_a_constant_now_is_an_error_that_says_its_value(
    tmp_path: Path, setting: str, values: list[float]
) -> None:
    group, _, name = setting.partition(".")
    with raises(SettingsError, "invalid_setting", line=2, setting=setting) as raised:
        read_settings(settings_file(tmp_path, f"{group}:\n  {name}: 1\n"))
    assert "is fixed now" in str(raised.value)
    numbers = re.findall(r"\d[\d.]*", str(raised.value).partition("is fixed now")[2])
    assert [float(number) for number in numbers] == values
