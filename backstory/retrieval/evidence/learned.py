"""What a workspace has learned: a fit that weighs documents, and a map of probabilities, each or none of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import write_file
from backstory.retrieval.evidence.document_fit import DocumentFit, LearnedFit
from backstory.retrieval.evidence.probability_map import LearnedMap, ProbabilityMap

FORMAT: Final = 2
"""Version of the file of what was learned."""

_NUMBERS: Final = frozenset({"windows", "links", "pairs", "gain", "gain_low", "gain_high"})


@dataclass(frozen=True)
class Learned:
    """What `backstory learn` has adopted.

    Attributes:
        documents: What weighs documents; None for the prior without labels.
        probabilities: What maps probabilities; None for those of the model of pairs.
    """

    documents: LearnedFit | None = None
    probabilities: LearnedMap | None = None

    def of_embedder(self, embedder: str) -> Learned:
        """Return what was learned from hits of an embedder; the hits of another differ too much."""
        documents, probabilities = self.documents, self.probabilities
        return Learned(
            documents if documents is not None and documents.embedder == embedder else None,
            probabilities if probabilities is not None and probabilities.embedder == embedder else None,
        )

    def describe(self) -> str:
        """Describe what is learned in a line; empty for nothing."""
        parts = []
        if self.documents is not None:
            parts.append(f"documents are weighed by the {self.documents.describe()}")
        if self.probabilities is not None:
            parts.append(f"probabilities are mapped by the {self.probabilities.describe()}")
        return "; ".join(parts)

    def write(self, path: Path) -> None:
        """Write what was learned as JSON, atomically."""
        content = json.dumps({"format": FORMAT, **asdict(self)}, indent=1)
        write_file(path, f"{content}\n".encode())


def read_learned(path: Path) -> Learned:
    """Read what a workspace has learned; nothing if there is no file.

    Raises:
        WorkspaceError: The file is damaged, or of another release.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Learned()
    except UnicodeDecodeError as error:
        raise _damaged(path) from error
    try:
        record = json.loads(text)
        learned = _read(record) if record.pop("format") == FORMAT else None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path) from error
    if learned is None:
        raise WorkspaceError(
            f"{path} is of another release of Backstory; run `backstory learn --undo` to go on without it, and "
            "`backstory learn` to fit again",
            code="other_format",
        )
    documents, probabilities = learned.documents, learned.probabilities
    is_sound = documents is None or documents.fit.is_sound
    if not is_sound or (probabilities is not None and not probabilities.map.is_sound):
        raise _damaged(path)
    return learned


def _read(record: dict[str, Any]) -> Learned:
    fitted, mapped = record["documents"], record["probabilities"]
    for name, value in (item for part in (fitted, mapped) if part is not None for item in part.items()):
        if name in _NUMBERS and not isinstance(value, int | float):
            raise TypeError(name)
    return Learned(
        None if fitted is None else LearnedFit(**{**fitted, "fit": DocumentFit(**fitted["fit"])}),
        None if mapped is None else LearnedMap(**{**mapped, "map": ProbabilityMap(**mapped["map"])}),
    )


def _damaged(path: Path) -> WorkspaceError:
    return WorkspaceError(
        f"{path} is damaged, and it weighs documents and probabilities. Restore it from a backup; or run `backstory "
        "learn --undo` to go on without it, and `backstory learn` to fit again",
        code="damaged_record",
    )
