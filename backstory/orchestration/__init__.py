"""What a Dagster code location of your own needs to build on Backstory's assets, from the wheel alone.

The assets themselves, which make the tables, are not here: they are in the folders ``assets/`` and ``pipelines/``
of the project. This is the only room of the library that imports Dagster; ``import backstory`` never loads it.
"""

from backstory.extras import require_extra

require_extra("dagster", "backstory.orchestration", "run the pipeline without Dagster by `backstory run`")

from backstory.orchestration.asset_specs import (  # noqa: E402
    CHATS,
    POSTS,
    asset_specs,
    specify_assets,
    specify_sources,
)
from backstory.orchestration.partitions import partitions_definition, partitions_of  # noqa: E402
from backstory.orchestration.tables_resource import TablesResource  # noqa: E402

__all__ = [
    "CHATS",
    "POSTS",
    "TablesResource",
    "asset_specs",
    "partitions_definition",
    "partitions_of",
    "specify_assets",
    "specify_sources",
]
