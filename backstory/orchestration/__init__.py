"""Asset specs, partitions and a resource for building your own Dagster code location on Backstory's assets.

The assets that build the tables are not in the wheel: they are in the folders ``assets/`` and ``pipelines/`` of the
project. This is the only package of the library that imports Dagster; ``import backstory`` never loads it.
"""

from backstory.extras import require_extra

require_extra("dagster", "backstory.orchestration", "run the pipeline without Dagster by `backstory run`")

from backstory.orchestration.asset_keys import asset_key, name_of  # noqa: E402
from backstory.orchestration.asset_specs import (  # noqa: E402
    asset_specs,
    specify_assets,
    specify_sources,
)
from backstory.orchestration.column_origins import CHATS, DOCUMENT_FILES  # noqa: E402
from backstory.orchestration.partitions import partitions_definition, partitions_of  # noqa: E402
from backstory.orchestration.tables_resource import TablesResource  # noqa: E402

__all__ = [
    "CHATS",
    "DOCUMENT_FILES",
    "TablesResource",
    "asset_key",
    "asset_specs",
    "name_of",
    "partitions_definition",
    "partitions_of",
    "specify_assets",
    "specify_sources",
]
