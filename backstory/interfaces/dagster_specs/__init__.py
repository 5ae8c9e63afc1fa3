"""Asset specs, partitions and a resource for building your own Dagster code location on Backstory's assets.

The assets that build the tables are not in the wheel: they are in the folders ``assets/`` and ``pipelines/`` of the
project. This is the only package of the library that imports Dagster; ``import backstory`` never loads it.
"""

from backstory.base.extras import require_extra

require_extra(
    "dagster", "backstory.interfaces.dagster_specs", "run the pipeline without Dagster by `backstory run`"
)
