"""The tags by which Dagster compares versions, and those of its runs; a test compares them with the release in use."""

from typing import Final

import dagster as dg

DATA_VERSION: Final = "dagster/data_version"
CODE_VERSION: Final = "dagster/code_version"
DATA_VERSION_IS_USER_PROVIDED: Final = "dagster/data_version_is_user_provided"

INPUT_POINTER_PREFIX: Final = "dagster/input_event_pointer"
NO_POINTER: Final = "NULL"
"""Pointer to the latest event of an input that has none."""

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


def tag_input(asset: dg.AssetKey, version: str, pointer: str) -> dict[str, str]:
    """Return the tags of a materialization that name the version and the latest event of one of its inputs."""
    name = asset.to_user_string()
    return {f"dagster/input_data_version/{name}": version, f"{INPUT_POINTER_PREFIX}/{name}": pointer}
