"""One query for a whole window is asked fairly: as many documents, and none of the future."""

from collections.abc import Callable

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.pipeline.workspace import Workspace
from examples.demo import METHODS, ONE_KEYWORD_QUERY, compare_with_whole_windows
from tests.workspaces import SETTINGS


@pytest.mark.parametrize("top_k", [1, 3])
def test_every_method_gives_each_window_as_many_documents_as_its_context_holds(
    make_workspace: Callable[..., Workspace], top_k: int
) -> None:
    workspace = make_workspace(SETTINGS.replace("top_k: 3", f"top_k: {top_k}"))
    run_pipeline(workspace)
    answers = compare_with_whole_windows(workspace)
    held = workspace.tables.read("contexts").group_by("window_id").agg(pl.col("document_id").n_unique())
    for window_id, count in held.iter_rows():
        given = answers.filter(window_id=window_id)
        assert given["method"].unique(maintain_order=True).to_list() == list(METHODS)
        for (method,), documents in given.group_by("method"):
            places = documents["document_id"].n_unique()
            assert (
                places <= count if method == ONE_KEYWORD_QUERY else places == count
            )  # words may be in fewer
            assert documents["rank"].to_list() == list(range(1, places + 1))


def test_the_contexts_are_given_as_they_were_materialized(made_workspace: Workspace) -> None:
    contexts = made_workspace.tables.read("contexts").sort("window_id", "rank")
    mine = compare_with_whole_windows(made_workspace).filter(method="backstory").sort("window_id", "rank")
    assert mine.select("window_id", "slug").equals(contexts.select("window_id", "slug"))


@pytest.mark.parametrize(("as_of", "seen"), [("true", False), ("false", True)])
def test_a_whole_window_is_given_posts_of_the_future_only_where_contexts_are(
    make_workspace: Callable[..., Workspace], as_of: str, seen: bool
) -> None:
    workspace = make_workspace(SETTINGS.replace("top_k: 3", f"top_k: 5, as_of: {as_of}"))
    run_pipeline(workspace)
    answers = compare_with_whole_windows(workspace).filter(pl.col("method") != "backstory")
    assert ("later" in answers["slug"].to_list()) is seen
