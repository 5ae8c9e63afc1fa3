"""What Dagster shows of posts: their figures, nothing for a rerun, and what makes them out of date."""

from collections.abc import Callable

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleCause
from dagster._core.loader import LoadingContextForTest

from backstory.pipeline.workspace import Workspace, open_workspace
from pipelines.dagster_internals.instance import open_instance
from pipelines.definitions import JOB, define
from pipelines.run_plan import tag_range
from tests.workspaces import SETTINGS, run_job

DAYS = ["2025-03-13", "2025-03-14", "2025-03-15"]
FILLED = ["2025-03-13", "2025-03-15"]
DIGEST = f"{SETTINGS}writers: {{provider: digest}}\n"


def run(workspace: Workspace) -> None:
    assert run_job(open_workspace(workspace.root), DAYS).failures == []


def count_events(instance: dg.DagsterInstance, day: str) -> int:
    wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey("posts"), asset_partitions=[day])
    return len(instance.fetch_materializations(wanted, limit=50).records)


def find_stale(workspace: Workspace, instance: dg.DagsterInstance, table: str, day: str) -> list[StaleCause]:
    graph = define(open_workspace(workspace.root)).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    return list(resolver.get_stale_root_causes(dg.AssetKey(table), day))


def test_posts_show_what_they_are_and_change_only_with_their_inputs(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(DIGEST)
    run(workspace)
    with open_instance(workspace) as instance:
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey("posts"), asset_partitions=FILLED[:1])
        [record] = instance.fetch_materializations(wanted, limit=5).records
        assert record.asset_materialization is not None
        metadata = record.asset_materialization.metadata
        assert metadata["dagster/row_count"].value == metadata["posts"].value == 2
        assert metadata["tokens_in"].value == 0
        file = metadata["file_1"].value
        assert isinstance(file, str)
        [path] = [path for path in workspace.posts_dir.iterdir() if path.as_uri() == file]
        post = metadata["post"].value
        assert isinstance(post, str)
        assert post.split("\n\n", 1)[1] in path.read_text(encoding="utf-8")
        assert find_stale(workspace, instance, "posts", FILLED[0]) == []

    run(workspace)
    with open_instance(workspace) as instance:
        assert [count_events(instance, day) for day in DAYS] == [1, 0, 1]

    (workspace.root / "backstory.yaml").write_text(
        DIGEST.replace("digest", "digest, max_characters: 9000"), encoding="utf-8"
    )
    with open_instance(workspace) as instance:
        [cause] = find_stale(workspace, instance, "posts", FILLED[0])
        assert cause.reason == "has a new code version"


def test_a_day_is_out_of_date_if_only_its_upstream_day_has_changed(workspace: Workspace) -> None:
    run(workspace)
    chat = workspace.chats_dir / "garden.txt"
    chat.write_text(chat.read_text(encoding="utf-8").replace("flat", "very flat"), encoding="utf-8")
    job = define(workspace).resolve_job_def(JOB)
    with open_instance(workspace) as instance:
        result = job.execute_in_process(
            instance=instance, tags=tag_range(DAYS[0], DAYS[-1]), asset_selection=[dg.AssetKey("messages")]
        )
        assert result.success
        assert find_stale(workspace, instance, "windows", FILLED[0]) == []
        [cause] = find_stale(workspace, instance, "windows", FILLED[1])
        assert (cause.asset_key, cause.partition_key) == (dg.AssetKey("messages"), FILLED[1])
        assert cause.reason == "has a new data version"
    run(workspace)
    with open_instance(workspace) as instance:
        assert find_stale(workspace, instance, "windows", FILLED[1]) == []


def test_the_asset_says_that_no_writer_is_set(make_workspace: Callable[..., Workspace]) -> None:
    told: dict[str, bool] = {}
    for settings in (SETTINGS, DIGEST):
        graph = define(make_workspace(settings, name=f"w{len(told)}")).resolve_asset_graph()
        told[settings] = "No writer is set" in (graph.get(dg.AssetKey("posts")).description or "")
    assert told == {SETTINGS: True, DIGEST: False}
