"""The tags by which Dagster compares versions, and those of its runs; a test compares them with the release in use."""

from typing import Final

DATA_VERSION: Final = "dagster/data_version"
CODE_VERSION: Final = "dagster/code_version"
DATA_VERSION_IS_USER_PROVIDED: Final = "dagster/data_version_is_user_provided"

INPUT_VERSION: Final = "dagster/input_data_version/"
"""Followed by an asset: the version of an input."""
INPUT_POINTER: Final = "dagster/input_event_pointer/"
"""Followed by an asset: the last event before this one, by which Dagster notices that a partition changed since."""

UNKNOWN_VERSION: Final = "INITIAL"
"""Data version of an asset that has no event."""

PARTITION: Final = "dagster/partition"
RANGE_START: Final = "dagster/asset_partition_range_start"
RANGE_END: Final = "dagster/asset_partition_range_end"
BACKFILL: Final = "dagster/backfill"
AUTOMATIC: Final = "backstory/automatic"
"""Tag of the runs that the sensor and the schedule request; its value names the workspace."""


def tag_range(first: str, last: str) -> dict[str, str]:
    """Return the tags that make Dagster execute a range of partitions in one run."""
    return {RANGE_START: first, RANGE_END: last}
