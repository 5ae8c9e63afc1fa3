"""The widths of the vectors of models behind services, so that a service is asked for them once."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from backstory.atomic_files import exclusive_temporary, publish, temporary_path

logger = logging.getLogger(__name__)


class KnownWidths:
    """A small JSON file that all processes of a user share: the width by the name of the embedding space.

    Attributes:
        path: The file, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, space: str) -> int | None:
        """Give the width of an embedding space; None if it is not known."""
        return self._read().get(space)

    def note(self, space: str, width: int) -> None:
        """Remember the width of an embedding space."""
        with exclusive_temporary(self.path) as file:
            file.write(json.dumps(self._read() | {space: width}, indent=1, sort_keys=True).encode())
            file.flush()
            publish(temporary_path(self.path), self.path)

    def _read(self) -> dict[str, int]:
        try:
            widths = json.loads(self.path.read_text(encoding="utf-8"))
            return {str(space): int(width) for space, width in widths.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError, TypeError) as error:
            logger.warning("%s is damaged (%s); the widths of vectors are asked for again", self.path, error)
            return {}
