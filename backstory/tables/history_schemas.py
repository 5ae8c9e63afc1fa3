"""Columns of the tables that tell what happened, beside those that follow from the inputs."""

from __future__ import annotations

import pandera.polars as pa

from backstory.tables.columns import Table, UtcDatetime
from backstory.tables.schemas import TABLES

RUN_STATUSES = ("running", "succeeded", "failed", "stopped", "waiting", "lost")


class Runs(Table):
    """One row is one run of the library or of Dagster; a run that found nothing changed has none.

    ``status`` is ``running``, ``succeeded``, ``failed``, ``stopped`` (a budget, a limit or a person ended it in order),
    ``waiting`` (it ended in order, and a later run goes on when batch jobs are done) or ``lost`` (its process was
    killed; the next run writes that). Costs are estimates: tokens times the prices of ``costs``. The files are
    partitioned by the month of ``started_at``. A running run is written every half a minute; ``backstory runs`` shows
    it as it is now.
    """

    run_id: str = pa.Field(description="Id of the run.")
    by: str = pa.Field(
        description="What ran: backstory run, dagster, library (documents only), or run_pipeline (a script)."
    )
    dagster_run_id: str = pa.Field(nullable=True, description="Id in Dagster; null for other runs.")
    started_at: UtcDatetime = pa.Field(description="Start.")
    ended_at: UtcDatetime = pa.Field(nullable=True, description="End; for a lost run its last progress.")
    heartbeat_at: UtcDatetime = pa.Field(description="Last progress.")
    status: str = pa.Field(isin=RUN_STATUSES, description="How it stands or ended, see above.")
    seconds: float = pa.Field(ge=0, description="Wall-clock time from the start to the end or last progress.")
    first_partition: str = pa.Field(nullable=True, description="First wanted partition; null for none.")
    last_partition: str = pa.Field(nullable=True, description="Last wanted partition; null for none.")
    partitions: int = pa.Field(ge=0, description="Number of wanted partitions.")
    stage: str = pa.Field(nullable=True, description="Table that it makes, or made last.")
    partition: str = pa.Field(nullable=True, description="Partition that it makes, or made last.")
    done: int = pa.Field(ge=0, description="Finished partitions of those that the stage makes again.")
    total: int = pa.Field(ge=0, description="Partitions that the stage makes again.")
    failures: int = pa.Field(ge=0, description="Number of failures.")
    failure: str = pa.Field(
        nullable=True, description="Why it failed, stopped or waits, without names of people and files."
    )
    embedding_model: str = pa.Field(
        nullable=True, description="Model that embedded; null if none was needed."
    )
    embedding_calls: int = pa.Field(ge=0, description="Calls of the embedding service, retries included.")
    embedding_texts: int = pa.Field(ge=0, description="Texts that were embedded.")
    embedding_tokens: int = pa.Field(ge=0, description="Tokens of these texts.")
    embedding_cached: int = pa.Field(ge=0, description="Texts whose vectors were in the cache.")
    embedding_cost: float = pa.Field(ge=0, nullable=True, description="Its cost; null without a price.")
    rerank_model: str = pa.Field(nullable=True, description="Paid model that reranked; null if none did.")
    rerank_calls: int = pa.Field(ge=0, description="Calls of the reranking service, retries included.")
    rerank_windows: int = pa.Field(ge=0, description="Windows that were reranked.")
    rerank_tokens_in: int = pa.Field(ge=0, description="Tokens that were sent.")
    rerank_tokens_out: int = pa.Field(ge=0, description="Tokens that the model wrote, thoughts included.")
    rerank_cost: float = pa.Field(ge=0, nullable=True, description="Its cost; null without a price.")
    writing_model: str = pa.Field(nullable=True, description="Paid model that wrote posts; null if none did.")
    writing_calls: int = pa.Field(ge=0, description="Calls of the writing service, retries included.")
    writing_tokens_in: int = pa.Field(ge=0, description="Tokens that were sent.")
    writing_tokens_out: int = pa.Field(ge=0, description="Tokens that the model wrote, thoughts included.")
    writing_cost: float = pa.Field(ge=0, nullable=True, description="Its cost; null without a price.")
    cost: float = pa.Field(
        ge=0, nullable=True, description="Cost of all calls; null if a price is not known."
    )
    currency: str = pa.Field(description="Currency of the costs.")
    budget_left: str = pa.Field(
        nullable=True, description="What was left of the budgets at the end; null without a budget."
    )

    class Config:
        unique = ["run_id"]


HISTORY_TABLES: dict[str, type[Table]] = {"runs": Runs}
"""The tables that tell what happened. They do not follow from the inputs, and the ledger does not record them."""

SERVED_TABLES = {**TABLES, **HISTORY_TABLES}
"""All tables that are read as Parquet, as views and through Ibis."""
