"""Runs that do not end as a run should: killed, or over a single day."""

import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

from backstory.pipeline.run.runner import execute_stages, find_wanted
from backstory.pipeline.workspace import open_workspace
from backstory.storage.tables.catalog import Catalog
from tests.pipeline.workspace_states import run
from tests.workspaces import run_workspace


class Killed(BaseException):
    """Ends a run between the writing of files and their recording, as a kill does."""


def run_and_kill(root: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run until something is to be recorded in the catalog for the nth time."""
    left = rng.randrange(30)
    change = Catalog.change

    def change_or_die(self: Catalog, *arguments: Any, **options: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        change(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "change", change_or_die)
        with contextlib.suppress(Killed):
            run(root)


def run_one_day(root: Path, rng: random.Random) -> None:
    workspace = open_workspace(root)
    day = rng.choice(find_wanted(workspace, None, None))
    run_workspace(workspace, [day], lambda _: None, execute_stages)
