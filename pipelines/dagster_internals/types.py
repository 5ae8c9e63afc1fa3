"""Types that the public API of Dagster returns and does not name; used in annotations alone."""

from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition as AssetJob
from dagster_shared.error import SerializableErrorInfo as StepError

__all__ = ["AssetJob", "StepError"]
