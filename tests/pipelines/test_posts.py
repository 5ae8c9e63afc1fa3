"""What Dagster shows of posts: their figures, and what makes them out of date."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg

from backstory.pipeline.workspace import Workspace, open_workspace
from pipelines.definitions import define
from pipelines.instance import open_instance
from tests.pipelines.test_days import FILLED, find_stale
from tests.workspaces import DIGEST, SETTINGS


def test_posts_show_what_they_are_and_are_out_of_date_after_a_changed_setting(
    told_once: Path, told: Workspace
) -> None:
    with open_instance(told) as instance:
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey("posts"), asset_partitions=FILLED[:1])
        [record] = instance.fetch_materializations(wanted, limit=5).records
        assert record.asset_materialization is not None
        metadata = record.asset_materialization.metadata
        assert metadata["dagster/row_count"].value == metadata["posts"].value == 2
        assert metadata["tokens_in"].value == 0
        file = metadata["file_1"].value
        assert isinstance(file, str)
        [path] = [path for path in open_workspace(told_once).posts_dir.iterdir() if path.as_uri() == file]
        post = metadata["post"].value
        assert isinstance(post, str)
        assert post.split("\n\n", 1)[1] in path.read_text(encoding="utf-8")
        assert find_stale(told, instance, "posts", FILLED[0]) == []

    (told.root / "backstory.yaml").write_text(
        DIGEST.replace("digest", "digest, max_characters: 9000"), encoding="utf-8"
    )
    with open_instance(told) as instance:
        [cause] = find_stale(told, instance, "posts", FILLED[0])
        assert cause.reason == "has a new code version"


def test_the_asset_says_that_no_writer_is_set(make_workspace: Callable[..., Workspace]) -> None:
    told: dict[str, bool] = {}
    for settings in (SETTINGS, DIGEST):
        graph = define(make_workspace(settings, name=f"w{len(told)}")).resolve_asset_graph()
        told[settings] = "No writer is set" in (graph.get(dg.AssetKey("posts")).description or "")
    assert told == {SETTINGS: True, DIGEST: False}
