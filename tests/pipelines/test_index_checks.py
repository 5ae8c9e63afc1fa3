"""What is said of a published index: that it holds every chunk, and how much its HNSW index finds."""

import json
from collections.abc import Callable

from backstory import run_pipeline
from backstory.index.snapshot import current_version
from backstory.operations.inspection.doctor import examine
from backstory.operations.inspection.inventory import read_status
from backstory.pipeline.checks.checks import CHECKS
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.workspaces import build_table

SETTINGS = "embedding: {provider: hashing}\nindex: {ann_min_rows: 1}\n"


def find(name: str, workspace: Workspace) -> list[tuple[object, ...]]:
    [check] = [check for check in CHECKS if check.name == name]
    return check.find(workspace, None).rows()


def test_the_index_holds_every_chunk_until_a_post_is_added(made_workspace: Workspace) -> None:
    assert find("chunks_beside_the_index", made_workspace) == find("low_recall", made_workspace) == []
    assert read_status(made_workspace).index_recall is None
    (made_workspace.documents_dir / "new.md").write_text(
        "# New\n\nA post that is not indexed yet.\n", encoding="utf-8"
    )
    reopened = open_workspace(made_workspace.root)
    build_table(reopened, "documents")
    build_table(reopened, "document_chunks")
    assert find("chunks_beside_the_index", reopened) == [
        ("documents", 6, 7),
        ("document_chunks", 6, 7),
    ]


def test_a_low_recall_is_found_by_check_status_and_doctor(make_workspace: Callable[..., Workspace]) -> None:
    workspace = make_workspace(SETTINGS)
    reports = {report.table: report for report in run_pipeline(workspace)}
    assert reports["search_index"].counts["recall_at_5"] == 1.0
    assert find("low_recall", workspace) == []
    path = workspace.index / current_version(workspace.index) / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["recall_at_5"] = 0.95
    path.write_text(json.dumps(manifest), encoding="utf-8")
    assert find("low_recall", workspace) == [(0.95,)]
    assert read_status(workspace).index_recall == 0.95
    examined = {examination.name: examination for examination in examine(workspace.root)}
    assert not examined["search index"].passed
    assert "95.0% of the best five" in examined["search index"].detail
