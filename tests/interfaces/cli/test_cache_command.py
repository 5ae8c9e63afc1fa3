"""What ``status`` counts and ``doctor --prune-caches`` deletes, and that a run then computes nothing again."""

import json
import threading

import numpy as np

from backstory import run_pipeline
from backstory.base.errors import WorkspaceError
from backstory.models.embeddings.embed import embedding_key
from backstory.pipeline.run.cache_use import measure_caches, prune_caches
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.turns import running
from backstory.writing.draft import Draft
from tests.errors import raises
from tests.interfaces.cli.invocation import run
from tests.models.rerankers.rerank_requests import RATED


def store(workspace: Workspace, space: str, text: str) -> None:
    vector = np.zeros((1, workspace.embedder.dimension), np.float32)
    vector[0, 0] = 1
    workspace.embeddings.put(space, [embedding_key(space, "query", text)], vector)


def test_pruning_deletes_what_no_table_uses_and_nothing_that_the_next_run_needs(
    made_workspace: Workspace,
) -> None:
    used = measure_caches(made_workspace).vectors[made_workspace.embedder.id]
    store(made_workspace, made_workspace.embedder.id, "a question that was asked once")
    store(made_workspace, "local:another:0123:8", "a text of another model")
    made_workspace.drafts.put("a request", "a context that no post has", Draft("A title", "A text"))
    [kept, *_] = made_workspace.tables.read("windows")["window_id"]
    made_workspace.judgements.put({kept: ("a request", RATED), "a window that is gone": ("a request", RATED)})
    result = run("doctor", "--prune-caches", "--json", "--workspace", str(made_workspace.root))
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["pruned"].items() >= {"vectors": 2, "drafts": 1, "judgements": 1}.items()
    assert told["vectors"] == {made_workspace.embedder.id: used}
    assert (told["drafts"], told["judgements"]) == (0, 1)
    (made_workspace.documents_dir / "frost.md").write_text(
        "# Frost\n\nFrost cracks elbows.\n", encoding="utf-8"
    )
    reports = {report.table: report.counts for report in run_pipeline(open_workspace(made_workspace.root))}
    assert reports["search_index"]["embedding_computed"] == 1
    assert reports["hits"]["embedding_computed"] == 0


def test_status_names_a_damaged_cache_and_leaves_it(made_workspace: Workspace) -> None:
    path = made_workspace.tables_dir / "cache.sqlite"
    made_workspace.cache.close()
    for log in path.parent.glob("cache.sqlite-*"):
        log.unlink()
    path.write_bytes(b"no database " * 500)
    told = run("status", "--workspace", str(made_workspace.root))
    assert told.exit_code == 0
    assert f"Caches: the cache {path} is damaged" in told.output
    assert path.exists()


def test_without_tables_nothing_is_pruned(workspace: Workspace) -> None:
    store(workspace, workspace.embedder.id, "a text")
    with raises(WorkspaceError, "no_tables", workspace.tables_dir):
        prune_caches(workspace)
    assert measure_caches(workspace).vectors == {workspace.embedder.id: 1}


def test_pruning_waits_for_a_run(made_workspace: Workspace) -> None:
    store(made_workspace, made_workspace.embedder.id, "a text that the run has yet to put into a table")
    pruning = threading.Thread(target=prune_caches, args=(made_workspace,))
    before = measure_caches(made_workspace)
    with running(made_workspace.catalog.state, "another run"):
        pruning.start()
        pruning.join(timeout=0.2)
        assert measure_caches(made_workspace).vectors == before.vectors
    pruning.join(timeout=600)
    assert measure_caches(made_workspace).vectors != before.vectors
