"""The checks of posts: what they find in rows and files that are not as the stage made them."""

import polars as pl
import pytest

from backstory.pipeline.checks.checks import CHECKS, make_check
from backstory.pipeline.run.runner import run_pipeline
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.workspaces import SETTINGS, replace_recorded, write_workspace

DAY = "2025-03-13"
NAME = "Ada Lind"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("posts") / "workspace"
    workspace = write_workspace(root, f"{SETTINGS}writers: {{provider: digest}}\n")
    run_pipeline(workspace)
    return workspace


def count_cases(workspace: Workspace) -> dict[str, int]:
    """Count the cases that the checks of posts find in a day; those without cases are left out."""
    opened = open_workspace(workspace.root)
    found = [make_check(opened, check, [DAY]) for check in CHECKS if check.table == "posts"]
    return {finding.check.name: len(finding.cases) for finding in found if not finding.passed}


def change_first(posts: pl.DataFrame, **values: object) -> pl.DataFrame:
    return pl.DataFrame([{**posts.row(0, named=True), **values}, *posts[1:].to_dicts()], schema=posts.schema)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"cited_documents": ["no such document"]}, {"unknown_citations": 1}),
        ({"text": f"{NAME} fixed the elbow."}, {"real_names": 1}),
        ({"title": f"{NAME} and the elbow"}, {"real_names": 1}),
        ({"tags": ["elbow", NAME]}, {"real_names": 1}),
        ({"status": "failed", "reason": "the model did not answer"}, {"refused_drafts": 1}),
        ({"path": "written/gone.md"}, {"absent_files": 1}),
    ],
)
def test_a_row_that_is_wrong_is_found(
    written: Workspace, values: dict[str, object], found: dict[str, int]
) -> None:
    right = written.tables.read("posts", [DAY])
    assert count_cases(written) == {}
    replace_recorded(written, "posts", DAY, change_first(right, **values))
    assert count_cases(written) == found
    replace_recorded(written, "posts", DAY, right)
    assert count_cases(written) == {}


def test_a_draft_beside_an_edited_post_is_found(written: Workspace) -> None:
    path = written.root / written.tables.read("posts", [DAY])["path"][0]
    draft = path.with_name(f"{path.stem}.draft.md")
    draft.write_text("A later draft.\n", encoding="utf-8")
    assert count_cases(written) == {"drafts_to_merge": 1}
    draft.unlink()
