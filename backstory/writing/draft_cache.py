"""Cache of the drafts of writers: one database, so no call is paid for twice, whatever else is lost.

Each draft is written as soon as it is there, so a killed process loses at most the drafts under way.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from backstory.base.database import Session
from backstory.storage.cache import CacheFile, CacheKind
from backstory.writing.draft import Draft

DRAFTS: Final = CacheKind(
    name="cache of drafts",
    table="drafts",
    key="number",
    owner="context_hash",
    hashed=("request", "draft"),
    separator=b"\0",
    again="requested again",
    paid=True,
    application_id=0x42534452,  # "BSDR" in the file's header
    format=1,
    schema="""
CREATE TABLE drafts (
    number INTEGER PRIMARY KEY,
    request TEXT NOT NULL,
    context_hash TEXT NOT NULL,
    draft TEXT NOT NULL,
    checksum BLOB NOT NULL
);
CREATE INDEX drafts_of_request ON drafts (request);
""",
)


class DraftCache(CacheFile):
    """Stores drafts by the hash of the request. Damaged ones are requested again.

    A draft belongs to what its writer was shown, :func:`backstory.writing.material.hash_material`.
    """

    def __init__(self, path: Path) -> None:
        """Set the path. The first :meth:`put` creates the file."""
        super().__init__(path, DRAFTS)

    def get(self, request: str) -> Draft | None:
        """Return the last draft of a request; None if there is none.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        query = "SELECT number, draft, checksum FROM drafts WHERE request = ? ORDER BY number"
        rows = self.read(lambda session: session.execute(query, (request,)).fetchall())
        right = [text for _, text, checksum in rows if checksum == DRAFTS.checksum(request, text)]
        self.drop_damaged(
            [
                (number, checksum)
                for number, text, checksum in rows
                if checksum != DRAFTS.checksum(request, text)
            ]
        )
        return _read_draft(right[-1]) if right else None

    def put(self, request: str, context_hash: str, draft: Draft) -> None:
        """Store the draft of a request.

        Args:
            request: Hash of the request.
            context_hash: Hash of what the writer was shown, :func:`backstory.writing.material.hash_material`.
            draft: The draft.

        Raises:
            CacheFileError: The file cannot be used, or was made by a later release.
        """
        text = json.dumps(asdict(draft))
        row = (request, context_hash, text, DRAFTS.checksum(request, text))

        def store(session: Session) -> None:
            session.execute(
                "INSERT INTO drafts (request, context_hash, draft, checksum) VALUES (?, ?, ?, ?)", row
            )

        self.write(store)


def _read_draft(text: str) -> Draft:
    fields = json.loads(text)
    return Draft(**{**fields, "tags": tuple(fields["tags"])})
