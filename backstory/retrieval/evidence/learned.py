"""The file of what a workspace has learned: a fit that weighs documents."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import write_file
from backstory.retrieval.evidence.document_fit import LearnedFit

_FIT = TypeAdapter(LearnedFit)


def write_learned(path: Path, learned: LearnedFit) -> None:
    """Write what was learned as JSON, atomically."""
    write_file(path, _FIT.dump_json(learned, indent=1) + b"\n")


def read_learned(path: Path) -> LearnedFit | None:
    """Read what a workspace has learned; None if there is no file.

    Raises:
        WorkspaceError: The file is damaged (code ``damaged_record``).
    """
    try:
        learned = _FIT.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise _damaged(path) from error
    if not learned.fit.is_sound:
        raise _damaged(path)
    return learned


def _damaged(path: Path) -> WorkspaceError:
    return WorkspaceError(
        f"{path} is damaged, and it weighs documents. Restore it from a backup; or run `backstory learn --undo` to go "
        "on without it, and `backstory learn` to fit again",
        code="damaged_record",
    )
