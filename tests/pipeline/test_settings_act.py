"""Every setting of the original ``rag:`` block acts: changing it changes the outcome."""

import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.index.graph import VssGraph
from backstory.index.milvus import Collection, is_served
from backstory.index.snapshot import current_version, read_manifest
from backstory.operations.forgetting import forget
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.milvus import serve_milvus
from tests.workspaces import write_workspace

BASE = {
    "enabled": "true", "top_k": "3", "mode": "exact", "chunks_per_query": "3", "dedup_strategy": "document",
    "dedup_max_per_doc": "1", "min_similarity": "0.05", "ranking": "dense",
}  # fmt: skip
HNSW = "{ann_min_rows: 0}"

Outcome = dict[str, pl.DataFrame]


def write_settings(changes: Mapping[str, str], index: str = "{}") -> str:
    rag = ", ".join(f"{name}: {value}" for name, value in {**BASE, **changes}.items())
    chunks = "{max_tokens: 16, overlap_tokens: 0}"
    queries = "{min_tokens: 12}"
    return f"embedding: {{provider: hashing}}\nrag: {{{rag}}}\nindex: {index}\nchunks: {chunks}\nqueries: {queries}\n"


def read_outcome(workspace: Workspace) -> Outcome:
    tables = ("hits", "decisions", "contexts", "window_contexts")
    return {table: workspace.tables.read(table) for table in tables}


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Run the workspace once, with three more chunks in one post."""
    workspace = write_workspace(tmp_path_factory.mktemp("baseline") / "workspace", write_settings({}))
    post = workspace.documents_dir / "sourdough.md"
    more = "\n\n".join(f"Sourdough starter and flour, part {part}, to feed twice a day." for part in range(3))
    post.write_text(f"{post.read_text(encoding='utf-8')}\n{more}\n", encoding="utf-8")
    run_pipeline(workspace)
    return workspace


@pytest.fixture
def run_changed(baseline: Workspace, tmp_path: Path) -> Callable[..., tuple[Workspace, list[StageResult]]]:
    """Give a function that runs a copy of the baseline under changed settings."""

    def run(index: str = "{}", **changes: str) -> tuple[Workspace, list[StageResult]]:
        folder = tmp_path / f"workspace{len(list(tmp_path.iterdir()))}"
        shutil.copytree(baseline.root, folder)
        (folder / "backstory.yaml").write_text(write_settings(changes, index), encoding="utf-8")
        workspace = open_workspace(folder)
        return workspace, run_pipeline(workspace)

    return run


@pytest.fixture
def outcome_of(run_changed: Callable[..., tuple[Workspace, list[StageResult]]]) -> Callable[..., Outcome]:
    return lambda index="{}", **changes: read_outcome(run_changed(index, **changes)[0])


@pytest.mark.parametrize(
    ("changes", "table", "column"),
    [
        ({"enabled": "false"}, "window_contexts", "status"),
        ({"top_k": "1"}, "window_contexts", "kept_count"),
        ({"chunks_per_query": "1"}, "window_contexts", "hit_count"),
        ({"dedup_strategy": "none"}, "window_contexts", "after_dedup_count"),
        ({"dedup_max_per_doc": "2"}, "window_contexts", "after_dedup_count"),
        ({"min_similarity": "0.6"}, "window_contexts", "above_threshold_count"),
        ({"strategy": "mmr", "mmr_lambda": "0.1"}, "decisions", "rank"),
        ({"plan": "hybrid"}, "hits", "query_chunk_id"),
        ({"plan": "adaptive"}, "hits", "query_chunk_id"),
        ({"ranking": "hybrid"}, "hits", "score"),
        ({"ranking": "keyword"}, "hits", "engine"),
        ({"tags": "[sourdough]"}, "hits", "document_id"),
        ({"as_of": "false"}, "hits", "document_id"),
    ],
)
def test_changing_a_setting_changes_the_outcome(
    baseline: Workspace,
    outcome_of: Callable[..., Outcome],
    changes: dict[str, str],
    table: str,
    column: str,
) -> None:
    before, after = read_outcome(baseline), outcome_of(**changes)
    assert not before[table][column].equals(after[table][column])


def test_the_mode_decides_the_engine(outcome_of: Callable[..., Outcome]) -> None:
    assert set(outcome_of(HNSW, mode="ann")["hits"]["engine"]) == {"vss"}
    assert set(outcome_of(HNSW, mode="exact")["hits"]["engine"]) == {"exact"}
    assert set(outcome_of(mode="ann")["hits"]["engine"]) == {"exact"}


def test_milvus_answers_a_run_and_gets_again_what_it_lost(
    outcome_of: Callable[..., Outcome],
    run_changed: Callable[..., tuple[Workspace, list[StageResult]]],
    tmp_path: Path,
) -> None:
    exact = outcome_of(mode="exact")["hits"]
    with serve_milvus(tmp_path.with_name(f"{tmp_path.name}-milvus")) as uri:
        workspace, _ = run_changed(f"{{engine: milvus, uri: '{uri}'}}", mode="ann")
        hits = workspace.tables.read("hits")
        assert set(hits["engine"]) == {"milvus"}
        compared = ["query_chunk_id", "chunk_id", "similarity", "rank"]
        assert hits.select(compared).equals(exact.select(compared))
        [again] = [report for report in run_pipeline(workspace) if report.table == "search_index"]
        assert again.computed == 0
        manifest = read_manifest(workspace.index / current_version(workspace.index))
        with closing(Collection(workspace.settings.index, manifest.collection or "", "")) as server:
            with server.changing():
                server.client.drop_collection(server.name)
            [again] = [report for report in run_pipeline(workspace) if report.table == "search_index"]
            assert again.computed == 1
            assert is_served(workspace.index / current_version(workspace.index))
            forget(workspace, "document", workspace.tables.read("documents")["document_id"][0])
            snapshot = workspace.index / current_version(workspace.index)
            with server.calling():
                [counted] = server.client.query(server.name, output_fields=["count(*)"])
            assert (counted["count(*)"], is_served(snapshot)) == (read_manifest(snapshot).rows, True)


def test_nprobe_is_taken_as_ef_search_with_a_warning(
    run_changed: Callable[..., tuple[Workspace, list[StageResult]]],
) -> None:
    with pytest.warns(UserWarning, match="ef_search"):
        _, reports = run_changed(HNSW, mode="ann", nprobe="1")
    [hits] = [report for report in reports if report.table == "hits"]
    assert "with ef_search 1," in str(hits.counts["reason"])


@pytest.mark.parametrize(("overfetch", "candidates", "others"), [("1", 3, 6), ("2", 6, 3)])
def test_overfetch_says_how_many_candidates_are_fetched(
    outcome_of: Callable[..., Outcome],
    monkeypatch: pytest.MonkeyPatch,
    overfetch: str,
    candidates: int,
    others: int,
) -> None:
    fetched: list[int] = []
    fetch = VssGraph._fetch

    def note(self: VssGraph, *arguments: object) -> object:
        fetched.append(int(str(arguments[2])))
        return fetch(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(VssGraph, "_fetch", note)
    assert set(outcome_of(HNSW, mode="ann", overfetch=overfetch)["hits"]["engine"]) == {"vss"}
    assert candidates in fetched
    assert others not in fetched
