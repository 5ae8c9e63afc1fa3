"""The sensor of batch jobs: it stores finished vectors, and requests the runs that waited for them."""

from typing import Final

import dagster as dg

from backstory.base.ids import digest
from backstory.models.embeddings.batch_job_store import SENSOR
from backstory.pipeline.run.changes import join_ranges
from backstory.pipeline.stages.batches import collect_batches
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.partitions import partition_range
from pipelines.dagster_internals.types import AssetJob
from pipelines.run_plan import MOST_RUNS, tag_range

_SECONDS: Final = 600


def make_batch_sensors(workspace: Workspace, job: AssetJob) -> list[dg.SensorDefinition]:
    """Define the sensor of batch jobs, if the settings switch ``embedding.batch`` on.

    Args:
        workspace: The workspace; the sensor opens it at each tick.
        job: The job of the requested runs.
    """
    if not workspace.settings.embedding.batch:
        return []
    root = workspace.root

    @dg.sensor(
        name=SENSOR,
        job=job,
        minimum_interval_seconds=_SECONDS,
        description="Asks for the state of the batch jobs that embed texts. When all are done, requests the days that "
        "waited for them.",
    )
    def embedding_batches(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        opened = open_workspace(root)
        news = collect_batches(opened)
        # The same key as long as no other job was open, or a failed run would be requested for ever.
        cursor = digest(news.labels) if news.labels else context.cursor or ""
        if news.waiting:
            return dg.SensorResult(skip_reason=news.waiting, cursor=cursor)
        if not news.partitions:
            return dg.SkipReason("no partition waits for batch jobs")
        calendar = partition_range(news.partitions[0], news.partitions[-1], opened.settings.partitions.grain)
        return dg.SensorResult(
            run_requests=[
                dg.RunRequest(run_key=digest([cursor, first, last]), tags=tag_range(first, last))
                for first, last in join_ranges(news.partitions, calendar, MOST_RUNS)
            ],
            cursor=cursor,
        )

    return [embedding_batches]
