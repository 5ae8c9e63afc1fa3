"""Puts the code location of Dagster into the wheel, under names that collide with no other package.

In the checkout, its packages are `assets` and `pipelines`, as Dagster's users expect. An environment may hold other
packages of these names, so the wheel holds them as `backstory_assets` and `backstory_pipelines`.
"""

import re
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGES = ("assets", "pipelines")
_IMPORT = re.compile(r"^(\s*(?:from|import) )(assets|pipelines)\b", re.MULTILINE)
_MODULE = re.compile(r"^(\s*module: )(pipelines)\b", re.MULTILINE)


class CodeLocationHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the renamed packages to the files of the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the renamed packages to a temporary folder, and name its files to the builder."""
        if version == "editable":
            return
        # Removed at the end of the process, after the builder has read it.
        self._folder = tempfile.TemporaryDirectory()
        root = Path(self.root)
        written = {
            f"backstory_{source.relative_to(root).as_posix()}": _IMPORT.sub(
                r"\1backstory_\2", source.read_text("utf-8")
            )
            for package in _PACKAGES
            for source in sorted((root / package).rglob("*.py"))
        }
        settings = (root / "dagster.yaml").read_text("utf-8")
        written["backstory_pipelines/dagster.yaml"] = _MODULE.sub(r"\1backstory_\2", settings)
        for name, text in written.items():
            file = Path(self._folder.name, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            build_data["force_include"][str(file)] = name
