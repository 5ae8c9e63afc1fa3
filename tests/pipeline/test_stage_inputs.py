"""Which stages each setting makes again: exactly those that read it and those that what they made reaches."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from backstory import run_pipeline
from backstory.documents.markdown_reader import MarkdownReader
from backstory.documents.parsed_document import ParsedDocument
from backstory.pipeline import STAGES
from backstory.pipeline.inputs import CODE_VERSIONS, hash_dependencies
from backstory.settings import Settings
from backstory.tables import read_table
from backstory.workspace import Workspace, open_workspace
from tests.embeddings.local.tiny_bert import write_tiny_bert
from tests.long_tests import LONG_TESTS
from tests.pipeline.test_run import hash_files
from tests.rerankers.tiny_cross_encoder import write_cross_encoder
from tests.workspaces import write_workspace

BASE: dict[str, dict[str, Any]] = {
    "partitions": {"start": "2025-03-01"},
    "windows": {"unit": "messages", "size": 6, "overlap": 2},
    "embedding": {"provider": "hashing"},
    "rag": {"top_k": 3},
}

NOTHING = ""
IDLE = (NOTHING, "messages", "documents", "document_chunks")
"""What is made again where the rows of the small workspace stay as they are."""
JUDGED = "decisions window_contexts"
SHOWN = f"{JUDGED} contexts"
SEARCHED = f"hits {SHOWN}"
ASKED = f"window_chunks {SEARCHED}"
CUT = f"windows {ASKED}"
INDEXED = f"search_index {SEARCHED}"


@dataclass(frozen=True)
class Change:
    """One change of a setting.

    Attributes:
        setting: Its dotted name.
        value: What it is changed to.
        remade: Tables that are made again, separated by blanks.
        given: Other settings, by dotted name.
        rename: A folder of the workspace and its name after the change.
    """

    setting: str
    value: Any
    remade: str
    given: Mapping[str, Any] = field(default_factory=dict)
    rename: tuple[str, str] | None = None

    def __str__(self) -> str:
        under = "".join(f",{name}={value}" for name, value in self.given.items())
        return f"{self.setting}={self.value}{under}"


HNSW = {"index.ann_min_rows": 1}
DIGEST = {"writers.provider": "digest"}
SENTENCES = {"chunks.chunkers": {"markdown": "sentence"}, "chunks.sentence_overlap_tokens": 4}
CHARACTERS = {"chunks.chunkers": {"markdown": "character"}, "chunks.overlap_characters": 20}
DENSE_HNSW = {**HNSW, "rag.ranking": "dense"}

CHANGES = (
    Change("orchestration.key_prefix", "family", NOTHING),
    Change("agents.roots", ["~/notes"], NOTHING),
    Change("conversations.folder", "talks", "messages", rename=("chats", "talks")),
    Change("conversations.timezone", "Europe/Berlin", f"messages {CUT}"),
    Change("conversations.date_order", "dmy", "messages"),
    Change("conversations.overrides", {"garden": {"date_order": "dmy"}}, "messages"),
    Change("conversations.removals", "mirror", "messages"),
    Change("conversations.timestamp_column", "sent", "messages"),
    Change("conversations.author_column", "sender", "messages"),
    Change("conversations.message_column", "body", "messages"),
    Change("conversations.read_seconds", 61, "messages"),
    Change("conversations.read_megabytes", 1024, "messages"),
    Change("privacy.pseudonyms", False, f"messages {CUT}"),
    Change("privacy.exclude", ["Nobody"], "messages"),
    Change("privacy.scrub", ["email"], "messages"),
    Change("privacy.phone_region", "DE", NOTHING),
    Change("privacy.phone_region", "DE", "messages", {"privacy.scrub": ["phone"]}),
    Change("partitions.grain", "week", f"messages {CUT} posts"),
    Change("partitions.start", "2020-01-01", NOTHING),
    Change("partitions.look_back", 9, NOTHING),
    Change("partitions.after_posts", "all", NOTHING),
    Change("partitions.admit_lone_messages", True, NOTHING),
    Change("partitions.rows_at_once", 1, NOTHING),
    Change("windows.unit", "tokens", CUT),
    Change("windows.unit", "day", CUT, {"windows.overlap": 0}),
    Change("windows.size", 5, CUT),
    Change("windows.size", 5, NOTHING, {"windows.unit": "day", "windows.overlap": 0}),
    Change("windows.overlap", 0, CUT),
    Change("documents.folder", "blog", "documents", rename=("posts", "blog")),
    Change("documents.pattern", "**/*.md", "documents"),
    Change("documents.sources", [{"path": "absent"}], "documents"),
    Change("documents.secrets", ["*.private"], "documents"),
    Change("documents.kind", "note", f"documents document_chunks {INDEXED}"),
    Change("documents.tenant", "us", f"documents document_chunks {INDEXED}"),
    Change("documents.drafts", True, "documents"),
    Change("documents.ocr", "off", "documents"),
    Change("documents.ocr_languages", ["eng", "deu"], "documents"),
    Change("documents.read_seconds", 61, "documents"),
    Change("documents.read_megabytes", 1024, "documents"),
    Change("chunks.max_tokens", 9000, NOTHING, {"chunks.max_tokens": 8500}),
    Change("chunks.max_tokens", 16, f"document_chunks {INDEXED} window_chunks", {"chunks.overlap_tokens": 0}),
    Change("chunks.overlap_tokens", 10, f"document_chunks {INDEXED}"),
    Change("chunks.chunkers", {"markdown": "page"}, f"document_chunks {INDEXED}"),
    Change("chunks.sentence_max_tokens", 20, "document_chunks", {"chunks.sentence_overlap_tokens": 4}),
    Change("chunks.sentence_max_tokens", 20, f"document_chunks {INDEXED}", SENTENCES),
    Change("chunks.sentence_overlap_tokens", 10, f"document_chunks {INDEXED}", SENTENCES),
    Change("chunks.max_characters", 300, f"document_chunks {INDEXED}", CHARACTERS),
    Change("chunks.overlap_characters", 10, f"document_chunks {INDEXED}", CHARACTERS),
    Change("queries.granularities", [2], ASKED),
    Change("queries.min_tokens", 12, NOTHING),
    Change("queries.min_tokens", 40, ASKED),
    Change("embedding.model_dir", "models/mine", NOTHING),
    Change("embedding.languages", ["de"], "window_contexts"),
    Change("embedding.languages", ["de"], NOTHING, {"rag.enabled": False}),
    Change("embedding.runtime", "openvino", NOTHING),
    Change("embedding.model", "gemini-embedding-2", NOTHING),
    Change("embedding.dimension", 256, NOTHING),
    Change("embedding.query_prefix", "query: ", NOTHING),
    Change("embedding.document_prefix", "passage: ", NOTHING),
    Change("embedding.max_input_tokens", 256, NOTHING),
    Change("embedding.allow_http", True, NOTHING),
    Change("embedding.base_url", "http://127.0.0.1:9", NOTHING),
    Change("embedding.timeout_seconds", 5, NOTHING),
    Change("embedding.max_attempts", 1, NOTHING),
    Change("embedding.texts_per_minute", 5, NOTHING),
    Change("embedding.tokens_per_minute", 5, NOTHING),
    Change("embedding.threads", 1, NOTHING),
    Change("embedding.batch_min_texts", 5, NOTHING),
    Change("index.ann_min_rows", 500_000, INDEXED),
    Change("index.hnsw_m", 8, NOTHING),
    Change("index.hnsw_m", 8, INDEXED, HNSW),
    Change("index.hnsw_ef_construction", 64, NOTHING),
    Change("index.hnsw_ef_construction", 64, INDEXED, HNSW),
    Change("index.ef_search", 64, NOTHING),
    Change("index.ef_search", 64, INDEXED, HNSW),
    Change("index.keep_snapshots", 1, NOTHING),
    Change("index.language", "german", INDEXED),
    Change("rag.enabled", False, SEARCHED),
    Change("rag.top_k", 1, SHOWN),
    Change("rag.top_k", 1, NOTHING, {"rag.enabled": False}),
    Change("rag.mode", "exact", NOTHING),
    Change("rag.mode", "exact", f"hits {JUDGED}", DENSE_HNSW),
    Change("rag.nprobe", 4, NOTHING),
    Change("rag.nprobe", 4, "hits window_contexts", DENSE_HNSW),
    Change("rag.overfetch", 2, NOTHING),
    Change("rag.overfetch", 2, "hits window_contexts", DENSE_HNSW),
    Change("rag.chunks_per_query", 2, SEARCHED),
    Change("rag.dedup_strategy", "none", JUDGED),
    Change("rag.dedup_max_per_doc", 2, JUDGED),
    Change("rag.dedup_max_per_doc", 2, NOTHING, {"rag.dedup_strategy": "none"}),
    Change("rag.near_duplicate_similarity", 0.9, JUDGED),
    Change("rag.min_similarity", 0.05, NOTHING),
    Change("rag.min_similarity", 0.6, SHOWN),
    Change("rag.plan", "hybrid", SEARCHED),
    Change("rag.adaptive_max_messages", 2, NOTHING),
    Change("rag.adaptive_max_messages", 2, SEARCHED, {"rag.plan": "adaptive"}),
    Change("rag.ranking", "dense", SEARCHED),
    Change("rag.keyword_weight", 0.9, SEARCHED),
    Change("rag.keyword_weight", 0.9, NOTHING, {"rag.ranking": "dense"}),
    Change("rag.temperature", 1.0, SHOWN),
    Change("rag.temperature", 0.5, NOTHING, {"rag.strategy": "similarity"}),
    Change("rag.keyword_terms", 1, SEARCHED),
    Change("rag.keyword_terms", 1, NOTHING, {"rag.ranking": "dense"}),
    Change("rag.strategy", "mmr", SHOWN),
    Change("rag.mmr_lambda", 0.1, NOTHING),
    Change("rag.mmr_lambda", 0.1, SHOWN, {"rag.strategy": "mmr"}),
    Change("rag.as_of", False, SEARCHED),
    Change("rag.undated", "hide", "hits window_contexts"),
    Change("rag.undated", "hide", NOTHING, {"rag.as_of": False}),
    Change("rag.kinds", ["post"], "hits window_contexts"),
    Change("rag.tags", ["drip"], SEARCHED),
    Change("rag.document_ids", ["none"], SEARCHED),
    Change("rag.tenant", "us", SEARCHED),
    *(
        Change(f"rerank.{name}", value, NOTHING)
        for name, value in {
            "candidates": 30, "query_characters": 100, "text_characters": 10, "model_dir": "models/mine",
            "max_tokens": 8, "model": "gemini-2.5-pro", "base_url": "http://127.0.0.1:9", "timeout_seconds": 5,
            "max_attempts": 1, "requests_per_minute": 1, "tokens_per_minute": 1, "threads": 1,
            "allow_http": True, "temperature": 1.0,
        }.items()
    ),
    Change("context.max_tokens", 150, SHOWN),
    Change("context.snippet_characters", 20, SHOWN),
    Change("context.excerpt", "head", "window_contexts"),
    Change("writers.provider", "digest", "posts"),
    Change("writers.folder", "elsewhere", NOTHING),
    Change("writers.folder", "elsewhere", "posts", DIGEST),
    Change("writers.max_characters", 200, "posts", DIGEST),
    Change("writers.without_context", "skip", "posts", DIGEST),
    Change("writers.min_characters", 100, "posts", DIGEST),
    *(
        Change(f"writers.{name}", value, NOTHING, DIGEST)
        for name, value in {
            "plugin": "mine.py:Mine", "prompt": "mine.j2", "model": "gemini-2.5-pro",
            "base_url": "http://127.0.0.1:9", "allow_http": True, "temperature": 1, "max_output_tokens": 64,
            "timeout_seconds": 5, "max_attempts": 1, "max_attempts_per_window": 1, "requests_per_minute": 1,
            "tokens_per_minute": 1, "threads": 1,
        }.items()
    ),
    *(
        Change(f"summaries.{name}", value, NOTHING)
        for name, value in {
            "provider": "gemini", "model": "gemini-2.5-pro", "base_url": "http://127.0.0.1:9", "allow_http": True,
            "temperature": 1, "max_output_tokens": 64, "timeout_seconds": 5, "max_attempts": 1,
            "requests_per_minute": 1, "tokens_per_minute": 1, "threads": 1,
        }.items()
    ),
    Change("writers.feedback", "on", f"documents {SEARCHED}"),
    Change("rag.posts_top_k", 1, NOTHING),
    Change("rag.posts_top_k", 1, f"hits {JUDGED}", {"writers.feedback": "on"}),
    Change("context.posts_max_tokens", 200, NOTHING),
    Change("context.posts_max_tokens", 200, SHOWN, {"writers.feedback": "on"}),
    *(
        Change(f"alerts.{name}", value, NOTHING)
        for name, value in {
            "command": ["true"], "webhook": "http://127.0.0.1:9/x", "on": ["failure"], "repeat_hours": 1,
            "timeout_seconds": 1,
        }.items()
    ),
    Change("costs.currency", "EUR", NOTHING),
    Change("costs.prices", {"gemini-embedding-001": {"input": 1}}, NOTHING),
    Change("costs.run", {"calls": 1}, NOTHING),
    Change("costs.day", {"calls": 1}, NOTHING),
    Change("runs.max_minutes", 60, NOTHING),
    Change("runs.keep_months", 1, NOTHING),
)  # fmt: skip
"""At least one change of every setting but those that name a model, which :data:`MODEL_CHANGES` holds."""


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
    """Give each change alone, but those together that change no row under the same settings."""
    idle: dict[tuple[str, str], list[Change]] = {}
    for change in CHANGES:
        if change.remade in IDLE:
            idle.setdefault((write_settings(change.given), change.remade), []).append(change)
    assert all(len({change.setting for change in group}) == len(group) for group in idle.values())
    alone = [(change,) for change in CHANGES if change.remade not in IDLE]
    return [*alone, *(tuple(group) for group in idle.values())]


def find_reread(made: Workspace, folder: Path, change: Change) -> set[str]:
    """List the stages whose inputs a change is one of."""
    changed = copy_changed(made, folder, [change])
    return {
        stage.table
        for stage in STAGES
        if hash_dependencies(made, stage.table) != hash_dependencies(changed, stage.table)
    }


@pytest.mark.filterwarnings("ignore:nprobe is a parameter of IVF")
@pytest.mark.parametrize(
    "changes",
    group_changes(),
    ids=lambda group: f"{group[0]}{f' and {len(group) - 1} more' * (len(group) > 1)}",
)
def test_a_changed_setting_makes_again_what_reads_it(
    made_under: Callable[[Mapping[str, Any]], Workspace], tmp_path: Path, changes: tuple[Change, ...]
) -> None:
    made = made_under(changes[0].given)
    changed = copy_changed(made, tmp_path / "changed", changes)
    remade = {report.table for report in run_pipeline(changed) if not report.unchanged}
    assert remade == set(changes[0].remade.split())
    if remade and len(changes) > 1:
        for change in changes:
            assert find_reread(made, tmp_path / change.setting, change) == remade, change
    if LONG_TESTS:  # 65 runs from nothing; the histories of edits compare with such runs, too
        fresh = copy_changed(made, tmp_path / "fresh", changes, ignore="data index")
        run_pipeline(fresh)
        assert hash_files(changed.tables) == hash_files(fresh.tables)


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
    "embedding.base_url": "http://127.0.0.1:9/v1",
}
LOCAL = {"embedding.provider": "local"}
TINY_BERT = {**LOCAL, "embedding.model_dir": "models/a"}
RERANKED = {"decisions", "window_contexts"}
CROSS = {"rerank.provider": "cross_encoder", "rerank.model_dir": "models/cross a"}
GEMINI_RERANKED = {"rerank.provider": "gemini"}

MODEL_CHANGES = (
    ({}, "embedding.provider", "gemini", SPACE),
    (GEMINI, "embedding.model", "gemini-embedding-2", SPACE),
    (GEMINI, "embedding.dimension", 256, SPACE),
    *(
        (GEMINI, f"embedding.{name}", value, set())
        for name, value in {
            "base_url": "http://127.0.0.1:9", "timeout_seconds": 5, "max_attempts": 1, "texts_per_minute": 5,
            "tokens_per_minute": 5, "threads": 1, "model_dir": "models/b", "runtime": "openvino", "batch": True,
            "batch_min_texts": 5,
        }.items()
    ),
    (OPENAI, "embedding.model", "bge-small", SPACE),
    (OPENAI, "embedding.base_url", "http://127.0.0.1:9/v2", SPACE),
    (OPENAI, "embedding.dimension", 256, SPACE),
    (OPENAI, "embedding.query_prefix", "query: ", SPACE),
    (OPENAI, "embedding.document_prefix", "passage: ", SPACE),
    (OPENAI, "embedding.max_input_tokens", 256, {"document_chunks", "window_chunks", "window_contexts"}),
    (OPENAI, "embedding.allow_http", True, set()),
    (TINY_BERT, "embedding.model_dir", "models/b", SPACE),
    (LOCAL, "embedding.precision", "int8", SPACE),
    (TINY_BERT, "embedding.runtime", "openvino", set()),
    ({"rerank.model_dir": "models/cross a"}, "rerank.provider", "cross_encoder", RERANKED),
    (CROSS, "rerank.model_dir", "models/cross b", RERANKED),
    (CROSS, "rerank.max_tokens", 8, RERANKED),
    (CROSS, "rerank.candidates", 30, RERANKED),
    (CROSS, "rerank.candidates", 2, set(), {"rerank.candidates": 1}),
    (CROSS, "rerank.query_characters", 100, RERANKED),
    (CROSS, "rerank.text_characters", 10, RERANKED),
    (CROSS, "rerank.model", "gemini-2.5-pro", set()),
    (GEMINI_RERANKED, "rerank.model", "gemini-2.5-pro", RERANKED),
    (GEMINI_RERANKED, "rerank.temperature", None, RERANKED),
    ({"rerank.model": "tiny"}, "rerank.provider", "openai", RERANKED),
    *(
        (GEMINI_RERANKED, f"rerank.{name}", value, set())
        for name, value in {
            "base_url": "http://127.0.0.1:9", "timeout_seconds": 5, "max_attempts": 1, "requests_per_minute": 1,
            "tokens_per_minute": 1, "threads": 1, "max_tokens": 8, "allow_http": True,
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
        workspace = open_workspace(model_folders)
        hashes.append({stage.table: hash_dependencies(workspace, stage.table) for stage in STAGES})
    assert {table for table in hashes[0] if hashes[0][table] != hashes[1][table]} == expected


def test_every_setting_is_changed_by_some_test() -> None:
    groups = {name: info.annotation for name, info in Settings.model_fields.items()}
    settings = {
        f"{group}.{name}"
        for group, model in groups.items()
        if isinstance(model, type) and issubclass(model, BaseModel)
        for name in model.model_fields
    }
    changed = {change.setting for change in CHANGES} | {setting for _, setting, *_ in MODEL_CHANGES}
    assert changed == settings


def test_every_stage_has_a_version_of_its_code() -> None:
    assert list(CODE_VERSIONS) == [stage.table for stage in STAGES]


def raise_version(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    versions = {**CODE_VERSIONS, table: CODE_VERSIONS[table] + 1}
    monkeypatch.setattr("backstory.pipeline.inputs.CODE_VERSIONS", versions)


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
    remade = [report.table for report in run_pipeline(upgraded) if not report.unchanged]
    assert remade == [table]
    assert hash_files(upgraded.tables) == hash_files(made.tables)


def test_another_version_of_the_readers_parses_unchanged_documents_again(
    made_under: Callable[[Mapping[str, Any]], Workspace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = made_under({})
    for name, ignored in (("upgraded", ""), ("fresh", "data index")):
        shutil.copytree(made.root, tmp_path / name, ignore=shutil.ignore_patterns(*ignored.split()))
    read = MarkdownReader.read

    def read_loudly(self: MarkdownReader, content: bytes, uri: str, *, drafts: bool) -> ParsedDocument:
        document = read(self, content, uri, drafts=drafts)
        assert document is not None
        return replace(document, title=(document.title or "").upper())

    monkeypatch.setattr(MarkdownReader, "read", read_loudly)
    raise_version(monkeypatch, "documents")
    upgraded, fresh = open_workspace(tmp_path / "upgraded"), open_workspace(tmp_path / "fresh")
    run_pipeline(upgraded)
    run_pipeline(fresh)
    assert "DRIP IRRIGATION" in set(read_table(upgraded.tables, "contexts")["title"])
    assert hash_files(upgraded.tables) == hash_files(fresh.tables)
