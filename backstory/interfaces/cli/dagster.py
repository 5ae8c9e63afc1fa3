"""The command ``dagster``: starts the command line of the code location that the wheel or the checkout holds."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import typer

import backstory
from backstory.base.extras import require_extra

_PACKAGES = ("backstory_pipelines", "pipelines")
"""The code location in the wheel, and in a checkout."""


def dagster(context: typer.Context) -> None:
    """Run the workspace in Dagster: its UI with schedules and backfills, and runs that the UI shows.

    `backstory dagster --help` lists the commands.
    """
    require_extra("dagster", "`backstory dagster`", "use `backstory run` instead")
    commands = import_module(f"{_find_package()}.__main__")
    commands.app(context.args, prog_name=commands.NAME)


def _find_package() -> str:
    """Return the name of the package beside this one; another package of that name is none of ours."""
    beside = Path(backstory.__file__).resolve().parent.parent
    for name in _PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin and Path(spec.origin).resolve().parent.parent == beside:
            return name
    raise ModuleNotFoundError(f"neither {' nor '.join(_PACKAGES)} lies in {beside}; install Backstory again")
