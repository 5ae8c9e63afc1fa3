"""Cache of the drafts of writers, so no call is paid for twice, whatever else is lost.

Each draft is written as soon as it is there, so a killed process loses at most the drafts under way.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from backstory.storage.cache import Cache
from backstory.storage.state import State
from backstory.writing.draft import Draft


class DraftCache(Cache):
    """Stores the last draft of each request by its hash.

    A draft belongs to what its writer was shown, :func:`backstory.writing.material.hash_material`.
    """

    def __init__(self, state: State) -> None:
        """Use the cache of a workspace; the first :meth:`put` makes it."""
        super().__init__(state, "draft")

    def get(self, request: str) -> Draft | None:
        """Return the last draft of a request; None if there is none.

        Raises:
            StateError: The cache is damaged or cannot be used.
        """
        for _, value in self.find([request.encode()]):
            fields = json.loads(value)
            return Draft(**{**fields, "tags": tuple(fields["tags"])})
        return None

    def put(self, request: str, context_hash: str, draft: Draft) -> None:
        """Store the draft of a request.

        Args:
            request: Hash of the request.
            context_hash: Hash of what the writer was shown, :func:`backstory.writing.material.hash_material`.
            draft: The draft.

        Raises:
            StateError: The cache is damaged or busy.
        """
        self.put_rows(
            [(request.encode(), context_hash.encode(), json.dumps(asdict(draft)).encode())], replace=True
        )
