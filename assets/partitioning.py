"""How the partitioned assets are backfilled, and which upstream partitions they read."""

import dagster as dg

# One run per slice: a run costs seconds whatever it does, and a failure retries only its slice.
BACKFILL = dg.BackfillPolicy.multi_run(max_partitions_per_run=366)

# Overlap messages of a window come from the partition before; the first partition has none before it.
PREVIOUS_TOO = dg.TimeWindowPartitionMapping(start_offset=-1, allow_nonexistent_upstream_partitions=True)
