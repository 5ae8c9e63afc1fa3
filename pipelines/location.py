"""Where this code location lies: in a checkout, or in the wheel, which holds its packages under names of its own."""

from pathlib import Path
from typing import Final

PACKAGE: Final = __name__.rpartition(".")[0]
"""Name of this package: ``pipelines`` in a checkout, ``backstory_pipelines`` in the wheel (``hatch_build.py``)."""

DEFINITIONS: Final = f"{PACKAGE}.definitions"
"""The module that Dagster loads."""

IS_CHECKOUT: Final = PACKAGE == "pipelines"
"""Whether this package is that of a checkout."""

_HERE = Path(__file__).resolve().parent
IMPORT_ROOT: Final = _HERE.parent
"""The folder from which Python imports this package: that of the checkout, or the environment's packages."""

INSTANCE_SETTINGS: Final = next(
    folder / "dagster.yaml" for folder in (_HERE, IMPORT_ROOT) if (folder / "dagster.yaml").is_file()
)
"""The settings of an instance, which each new home gets a copy of."""
