"""A changed setting, model or version of the code leaves what a fresh workspace has under it."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from backstory import run_pipeline
from backstory.base.environment import SETTINGS_FILE
from backstory.ingest.documents.formats.texts import MARKDOWN, read_markdown
from backstory.ingest.documents.metadata import ParsedDocument
from backstory.pipeline.incremental.inputs import (
    CODE_VERSIONS,
    hash_dependencies,
)
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.settings.groups import SERVICE_FIELDS, Service
from backstory.settings.models import SERVED_GROUPS, Settings
from backstory.settings.yaml_file import read_settings
from tests.long_tests import LONG_TESTS
from tests.models.embeddings.local.tiny_bert import write_tiny_bert
from tests.models.rerankers.tiny_cross_encoder import write_cross_encoder
from tests.pipeline.setting_changes import CHANGES, Change
from tests.pipeline.test_run import hash_files
from tests.workspaces import write_workspace

BASE: dict[str, dict[str, Any]] = {
    "partitions": {"start": "2025-03-01"},
    "windows": {"unit": "messages", "size": 6, "overlap": 2},
    "embedding": {"provider": "hashing"},
    "rag": {"top_k": 3},
}


def write_settings(changes: Mapping[str, Any]) -> str:
    groups = {name: dict(settings) for name, settings in BASE.items()}
    for name, value in changes.items():
        group, _, setting = name.partition(".")
        groups.setdefault(group, {})[setting] = value
    return json.dumps(groups)  # JSON is YAML


@pytest.fixture(scope="module")
def made_under(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Mapping[str, Any]], Workspace]:
    """Give a function that runs the small workspace under some settings, once for all tests."""
    made: dict[str, Workspace] = {}

    def make(given: Mapping[str, Any]) -> Workspace:
        settings = write_settings(given)
        if settings not in made:
            workspace = write_workspace(tmp_path_factory.mktemp("made") / "workspace", settings)
            workspace.secret.parent.mkdir()
            workspace.secret.write_text("ab" * 32, encoding="ascii")
            workspace.secret.chmod(0o600)
            run_pipeline(workspace)
            made[settings] = workspace
        return made[settings]

    return make


def copy_changed(made: Workspace, folder: Path, changes: Sequence[Change], *, ignore: str = "") -> Workspace:
    """Copy a workspace, and change settings that are changed under the same other ones."""
    shutil.copytree(made.root, folder, ignore=shutil.ignore_patterns(*ignore.split()))
    settings = dict(changes[0].given)
    for change in changes:
        if change.rename:
            (folder / change.rename[0]).rename(folder / change.rename[1])
        settings[change.setting] = change.value
    (folder / "backstory.yaml").write_text(write_settings(settings), encoding="utf-8")
    return open_workspace(folder)


def group_changes() -> list[tuple[Change, ...]]:
    """Give each change alone, but those together that no stage reads, under the same settings."""
    idle: dict[str, list[Change]] = {}
    for change in CHANGES:
        if not change.acts:
            idle.setdefault(write_settings(change.given), []).append(change)
    assert all(len({change.setting for change in group}) == len(group) for group in idle.values())
    return [*((change,) for change in CHANGES if change.acts), *map(tuple, idle.values())]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_setting_is_an_input_of_some_stage_if_it_acts(
    made_under: Callable[[Mapping[str, Any]], Workspace], change: Change
) -> None:
    root = made_under({}).root
    before, after = (
        Workspace(root, validate_settings(settings) or pytest.fail(f"{settings} do not go together"))
        for settings in (change.given, {**change.given, change.setting: change.value})
    )
    tables = [stage.table for stage in STAGES]
    reads = [hash_dependencies(before, table) != hash_dependencies(after, table) for table in tables]
    assert any(reads) == change.acts


@pytest.mark.filterwarnings("ignore:nprobe is a parameter of IVF")
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            group,
            id=f"{group[0]}{f' and {len(group) - 1} more' * (len(group) > 1)}",
            marks=() if group[0].quick or not (group[0].acts or group[0].given) else pytest.mark.long,
        )
        for group in group_changes()
    ],
)
def test_after_a_changed_setting_the_rows_are_those_of_a_fresh_workspace(
    made_under: Callable[[Mapping[str, Any]], Workspace], tmp_path: Path, changes: tuple[Change, ...]
) -> None:
    made = made_under(changes[0].given)
    changed = copy_changed(made, tmp_path / "changed", changes)
    reports = run_pipeline(changed)
    assert changes[0].acts or all(not report.computed for report in reports)
    fresh = copy_changed(made, tmp_path / "fresh", changes, ignore="data index")
    run_pipeline(fresh)
    assert hash_files(changed.tables_dir) == hash_files(fresh.tables_dir)


SWITCH_NEEDS: dict[str, dict[str, Any]] = {
    "windows.unit=day": {"windows.overlap": 0},
    "writers.feedback=on": {"writers.provider": "digest"},
    "writers.without_context=skip": {"writers.provider": "digest"},
}
NEEDS_A_MODEL = {"embedding", "rerank", "summaries", "answers"}
"""Groups of which `MODEL_CHANGES` compares the inputs, since their models are not here."""
QUICK = ("rag.enabled=False", "writers.feedback=on")


def list_switches() -> dict[str, dict[str, Any]]:
    """Give the settings that set each switch or mode to each other value than its default, by their names."""
    switches: dict[str, dict[str, Any]] = {}
    for group, info in Settings.model_fields.items():
        if not isinstance(info.annotation, type) or not issubclass(info.annotation, BaseModel):
            continue
        for name, field in info.annotation.model_fields.items():
            choices = (True, False) if field.annotation is bool else get_args(field.annotation)
            if field.annotation is not bool and get_origin(field.annotation) is not Literal:
                continue
            if group in SERVED_GROUPS and name in SERVICE_FIELDS:
                continue
            for value in choices:
                switch = f"{group}.{name}"
                if value != field.default and group not in NEEDS_A_MODEL:
                    key = f"{switch}={value}"
                    switches[key] = {switch: value, **SWITCH_NEEDS.get(key, {})}
    del switches["conversations.date_order=mdy"]  # no date of the small workspace is one
    for provider in ("gemini", "openai", "custom"):
        del switches[f"writers.provider={provider}"]
    return switches


def group_by_inputs(made: Workspace, given: Mapping[str, Any]) -> list[tuple[frozenset[str], dict[str, Any]]]:
    """Give groups of changes that go together, with the stages that take each of them for an input."""
    before = {stage.table: hash_dependencies(made, stage.table) for stage in STAGES}
    groups: list[tuple[frozenset[str], dict[str, Any]]] = []
    for change in CHANGES:
        if change.setting in given or change.rename or dict(change.given) not in ({}, given):
            continue
        one = {change.setting: change.value}
        settings = validate_settings({**given, **one})
        if settings is None:
            continue
        changed = Workspace(made.root, settings)
        reread = {table for table, value in before.items() if hash_dependencies(changed, table) != value}
        for tables, changes in groups:
            together = {**given, **changes, **one}
            if tables == reread and change.setting not in changes and validate_settings(together):
                changes.update(one)
                break
        else:
            groups.append((frozenset(reread), one))
    return groups


def validate_settings(changes: Mapping[str, Any]) -> Settings | None:
    """Give settings, or None if they do not go together."""
    try:
        return Settings.model_validate(json.loads(write_settings(changes)))
    except ValidationError:
        return None


@pytest.mark.filterwarnings("ignore:nprobe is a parameter of IVF")
@pytest.mark.parametrize(
    "switch",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in list_switches()],
)
def test_under_every_switch_what_is_no_input_of_a_stage_changes_none_of_its_rows(
    made_under: Callable[[Mapping[str, Any]], Workspace], tmp_path: Path, switch: str
) -> None:
    given = list_switches()[switch]
    made = made_under(given)
    groups = group_by_inputs(made, given)
    assert any(not reread for reread, _ in groups)
    for number, (reread, changes) in enumerate(groups):
        if reread and not (LONG_TESTS and switch in QUICK):
            continue  # the test above compares these without the switch
        both = []
        for name, ignored in (("changed", ""), ("fresh", "data index written")):
            folder = tmp_path / f"{name} {number}"
            shutil.copytree(made.root, folder, ignore=shutil.ignore_patterns(*ignored.split()))
            (folder / "backstory.yaml").write_text(write_settings({**given, **changes}), encoding="utf-8")
            if reread or ignored:
                run_pipeline(open_workspace(folder))
            both.append(hash_files(folder / "data"))
        assert both[0] == both[1], (reread, changes)


SPACE = {
    "windows",
    "window_chunks",
    "document_chunks",
    "search_index",
    "hits",
    "decisions",
    "contexts",
    "window_contexts",
}
GEMINI = {"embedding.provider": "gemini"}
OPENAI = {
    "embedding.provider": "openai",
    "embedding.model": "bge-m3",
    "services.openai": {"base_url": "http://127.0.0.1:9/v1"},
}
LOCAL = {"embedding.provider": "local"}
TINY_BERT = {**LOCAL, "embedding.model_dir": "models/a"}
RERANKED = {"decisions", "window_contexts"}
CROSS = {"rerank.provider": "cross_encoder", "rerank.model_dir": "models/cross a"}
GEMINI_RERANKED = {"rerank.provider": "gemini"}

SERVED = {"index.engine": "milvus", "index.uri": "https://milvus.example"}

MODEL_CHANGES = (
    ({}, "embedding.provider", "gemini", SPACE),
    ({}, "storage.database", "postgresql:///backstory", set()),
    ({}, "storage.files", "s3://bucket/prefix", set()),
    ({}, "index.uri", "https://milvus.example", {"search_index"}),
    ({}, "index.allow_http", True, set()),
    (SERVED, "index.uri", "https://other.example", {"search_index"}),
    ({"index.uri": "https://milvus.example"}, "index.engine", "milvus", {"search_index"}),
    (GEMINI, "embedding.model", "gemini-embedding-2", SPACE),
    (GEMINI, "embedding.dimension", 256, SPACE),
    *(
        (GEMINI, f"embedding.{name}", value, set())
        for name, value in {
            "threads": 1, "model_dir": "models/b", "runtime": "cuda",
        }.items()
    ),
    *(
        (model, "services.gemini", {name: value}, set())
        for model in (GEMINI, GEMINI_RERANKED)
        for name, value in {
            "base_url": "http://127.0.0.1:9", "allow_http": True, "timeout_seconds": 5, "max_attempts": 1,
            "texts_per_minute": 5, "requests_per_minute": 1, "tokens_per_minute": 5,
        }.items()
    ),
    (OPENAI, "embedding.model", "bge-small", SPACE),
    (OPENAI, "services.openai", {"base_url": "http://127.0.0.1:9/v2"}, SPACE),
    (OPENAI, "embedding.dimension", 256, SPACE),
    (OPENAI, "embedding.query_prefix", "query: ", SPACE),
    (OPENAI, "embedding.document_prefix", "passage: ", SPACE),
    (OPENAI, "embedding.max_input_tokens", 256, {"document_chunks", "window_chunks", "window_contexts"}),
    (OPENAI, "services.openai", {"base_url": "http://127.0.0.1:9/v1", "allow_http": True}, set()),
    (TINY_BERT, "embedding.model_dir", "models/b", SPACE),
    (LOCAL, "embedding.precision", "int8", SPACE),
    (TINY_BERT, "embedding.runtime", "cuda", set()),
    ({"rerank.model_dir": "models/cross a"}, "rerank.provider", "cross_encoder", RERANKED),
    (CROSS, "rerank.model_dir", "models/cross b", RERANKED),
    (CROSS, "rerank.max_tokens", 8, RERANKED),
    (CROSS, "rerank.candidates", 30, RERANKED),
    (CROSS, "rerank.candidates", 2, set(), {"rerank.candidates": 1}),
    (CROSS, "rerank.model", "gemini-2.5-pro", set()),
    (GEMINI_RERANKED, "rerank.model", "gemini-2.5-pro", RERANKED),
    (GEMINI_RERANKED, "rerank.temperature", None, RERANKED),
    ({"rerank.model": "tiny"}, "rerank.provider", "openai", RERANKED),
    *(
        (GEMINI_RERANKED, f"rerank.{name}", value, set())
        for name, value in {
            "threads": 1, "max_tokens": 8,
        }.items()
    ),
)  # fmt: skip
"""Given settings, the one that changes, its value, and the stages whose inputs change by it; and further given ones."""


@pytest.fixture(scope="module")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a workspace with models, of which every test writes the settings."""
    root = tmp_path_factory.mktemp("models") / "workspace"
    write_workspace(root)
    for name, weight in (("cross a", 1.0), ("cross b", 2.0)):
        write_cross_encoder(root / "models" / name, {"of": weight})
    for name, seed in (("a", 1), ("b", 2)):
        write_tiny_bert(root / "models" / name, seed=seed)
    return root


@pytest.mark.parametrize("change", MODEL_CHANGES, ids=lambda change: f"{change[1]}={change[2]}")
def test_a_changed_model_changes_the_inputs_of_what_it_makes(
    model_folders: Path, change: tuple[Any, ...]
) -> None:
    given, setting, value, expected, *more = change
    hashes = []
    for settings in ({**given, **dict(*more)}, {**given, **dict(*more), setting: value}):
        (model_folders / "backstory.yaml").write_text(write_settings(settings), encoding="utf-8")
        # Not opened, since that looks at the store that the settings name.
        workspace = Workspace(model_folders, read_settings(model_folders / SETTINGS_FILE))
        hashes.append({stage.table: hash_dependencies(workspace, stage.table) for stage in STAGES})
    assert {table for table in hashes[0] if hashes[0][table] != hashes[1][table]} == expected


@pytest.mark.parametrize(
    ("constant", "given", "expected"),
    [
        ("KEYWORD_TERMS", {}, {"hits", "window_contexts"}),
        ("WIDENING", {}, {"hits", "window_contexts"}),
        ("QUERY_CHARACTERS", CROSS, RERANKED),
        ("TEXT_CHARACTERS", CROSS, RERANKED),
    ],
)
def test_a_constant_that_was_a_setting_is_an_input_of_what_it_decides(
    model_folders: Path,
    monkeypatch: pytest.MonkeyPatch,
    constant: str,
    given: Mapping[str, Any],
    expected: set[str],
) -> None:
    (model_folders / "backstory.yaml").write_text(write_settings(given), encoding="utf-8")
    workspace = open_workspace(model_folders)
    before = {stage.table: hash_dependencies(workspace, stage.table) for stage in STAGES}
    monkeypatch.setattr(f"backstory.pipeline.incremental.inputs.{constant}", 7)
    assert {table for table in before if hash_dependencies(workspace, table) != before[table]} == expected


def test_every_setting_is_changed_by_some_test() -> None:
    groups = {name: info.annotation for name, info in Settings.model_fields.items()}
    settings = {
        f"{group}.{name}"
        for group, model in groups.items()
        if isinstance(model, type) and issubclass(model, BaseModel)
        for name in model.model_fields
        if group not in SERVED_GROUPS or name not in SERVICE_FIELDS
    }
    changes: list[tuple[str, Any]] = [(change.setting, change.value) for change in CHANGES]
    changes += [(str(setting), value) for _, setting, value, *_ in MODEL_CHANGES]
    assert {setting for setting, _ in changes if not setting.startswith("services.")} == settings
    entries = [value for setting, value in changes if setting.startswith("services.")]
    assert set().union(*entries) == set(Service.model_fields)


def test_every_stage_has_a_version_of_its_code() -> None:
    assert list(CODE_VERSIONS) == [stage.table for stage in STAGES]


def raise_version(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    versions = {**CODE_VERSIONS, table: CODE_VERSIONS[table] + 1}
    monkeypatch.setattr("backstory.pipeline.incremental.inputs.CODE_VERSIONS", versions)


@pytest.mark.parametrize("table", [stage.table for stage in STAGES if stage.table != "search_index"])
def test_another_version_of_the_code_makes_its_stage_again_and_no_other(
    made_under: Callable[[Mapping[str, Any]], Workspace],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
) -> None:
    made = made_under({})
    shutil.copytree(made.root, tmp_path / "upgraded")
    raise_version(monkeypatch, table)
    upgraded = open_workspace(tmp_path / "upgraded")
    remade = [report.table for report in run_pipeline(upgraded) if report.computed]
    assert remade == [table]
    assert hash_files(upgraded.tables_dir) == hash_files(made.tables_dir)


def test_another_version_of_the_readers_parses_unchanged_documents_again(
    made_under: Callable[[Mapping[str, Any]], Workspace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = made_under({})
    for name, ignored in (("upgraded", ""), ("fresh", "data index")):
        shutil.copytree(made.root, tmp_path / name, ignore=shutil.ignore_patterns(*ignored.split()))

    def read_loudly(content: bytes, uri: str) -> ParsedDocument:
        document = read_markdown(content, uri)
        return replace(document, title=(document.title or "").upper())

    # The format is frozen, as every format is one object everywhere.
    monkeypatch.setitem(vars(MARKDOWN), "read", read_loudly)
    raise_version(monkeypatch, "documents")
    upgraded, fresh = open_workspace(tmp_path / "upgraded"), open_workspace(tmp_path / "fresh")
    run_pipeline(upgraded)
    run_pipeline(fresh)
    assert "DRIP IRRIGATION" in set(upgraded.tables.read("contexts")["title"])
    assert hash_files(upgraded.tables_dir) == hash_files(fresh.tables_dir)
