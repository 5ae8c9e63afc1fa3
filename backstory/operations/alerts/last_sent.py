"""Alerts already sent to each hook, stored in ``.backstory/alerts.json``."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from backstory.base.files.atomic import exclusive_temporary, publish, temporary_path
from backstory.operations.alerts.problems import Problem

logger = logging.getLogger(__name__)


class SentAlerts(BaseModel):
    """The alerts already sent to one hook.

    Attributes:
        problems: The open problems in the last alert, by identity.
        time: Time of the last alert, ISO 8601; None before the first.
    """

    problems: dict[str, Problem] = Field(default_factory=dict)
    time: str | None = None


class Memory(BaseModel):
    """The alerts already sent, by name of the hook."""

    hooks: dict[str, SentAlerts] = Field(default_factory=dict)


def read_memory(path: Path) -> Memory:
    """Read the file. If it is absent or damaged, the memory is empty, and every open problem is sent again."""
    try:
        return Memory.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Memory()
    except ValidationError:
        logger.warning("%s is damaged; the run rewrites it and sends every open problem again", path)
        return Memory()


@contextmanager
def exclusive_memory(path: Path) -> Iterator[Memory]:
    """Read the file, and write it at the end of the block. Meanwhile no other process sends alerts.

    Yields:
        The memory, to be changed in place.
    """
    with exclusive_temporary(path) as file:
        memory = read_memory(path)
        yield memory
        file.write(memory.model_dump_json(exclude_defaults=True).encode())
        file.flush()
        publish(temporary_path(path), path)
