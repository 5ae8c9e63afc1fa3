"""The context that a run made for a window, unless it holds documents of another tenant."""

from __future__ import annotations

from typing import Any

from backstory.base.errors import InputError
from backstory.interfaces.library.library import Library
from backstory.pipeline.chats.named_documents import NameView


def read_own_context(library: Library, reference: str) -> dict[str, Any]:
    """Read the context of a window as the last run made it, maybe before the setting ``rag.tenant`` was changed.

    Args:
        library: The library.
        reference: Names the window; see :func:`backstory.operations.inspection.windows.find_window`.

    Returns:
        The context; see :func:`backstory.operations.inspection.windows.read_window_context`.

    Raises:
        InputError: There is no such window, it has no context yet, or its context holds a document that is not of the
            tenant, or that no model is sent.
    """
    # Imported late: the contracts of the tables take longer to load than a client waits for its first answer.
    from backstory.operations.inspection.windows import read_window_context

    context = read_window_context(library.workspace, reference)
    view = NameView(library.workspace, "agent")
    if view.list_withheld([row["document_id"] for row in context["documents"]]):
        raise InputError(
            f"the context of window {context['window_id']} is not given to a model: {view.list_notes()[0]}; "
            "cover_conversation leaves such documents out",
            code="withheld_document",
        )
    if library.workspace.settings.rag.tenant is None:
        return context
    own = {entry.document_id for entry in library.documents().documents}
    if any(row["document_id"] not in own for row in context["documents"]):
        raise InputError(
            f"the context of window {context['window_id']} holds a document of another tenant than rag.tenant; run "
            "`backstory run`, which makes the context again"
        )
    return context
