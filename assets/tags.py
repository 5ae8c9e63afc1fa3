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
BACKFILL: Final = "dagster/backfill"


def tag_input(asset: dg.AssetKey, version: str, pointer: str = NO_POINTER) -> dict[str, str]:
    """Return the tags of a materialization that name the version of one of its inputs.

    Args:
        asset: Key of the input.
        version: Its data version.
        pointer: Storage id of its latest event, as text.
    """
    name = asset.to_user_string()
    return {f"dagster/input_data_version/{name}": version, f"{INPUT_POINTER_PREFIX}/{name}": pointer}
