"""Prompts: a post for a window, and an answer with citations. What documents and chats say is escaped in them."""

from __future__ import annotations

from typing import Any, Final

from mcp.server.mcpserver import MCPServer

from backstory.interfaces.library.library import Library
from backstory.interfaces.mcp.window_contexts import read_own_context
from backstory.text.prompts.escaping import escape_block
from backstory.writing.prompt import load_prompt

_ANSWER: Final = (
    "Answer the question at the end from the documents only. Cite after every claim the number of its document in "
    "brackets, such as [1]. Say which parts of the question the documents do not answer."
)
_NOTHING: Final = (
    "The documents hold nothing on the question below. Say so, and do not answer from elsewhere."
)


def add_prompts(server: MCPServer[Any], library: Library) -> None:
    """Offer the prompts."""

    @server.prompt(title="Write the post for a window")
    def write_post(window: str = "latest") -> list[dict[str, str]]:
        """The prompt by which Backstory itself has a model write the post for a window of a chat, or its letter."""
        # Imported late: the contracts of the tables take longer to load than a client waits for its first answer.
        from backstory.operations.inspection.windows import find_window
        from backstory.pipeline.stages.writer_material import read_post_material

        workspace = library.workspace
        found = find_window(workspace, window)
        read_own_context(
            library, found["window_id"]
        )  # raises where there is none, or a writer must not see it
        material, context = read_post_material(workspace, found["window_id"], found["partition"])
        for window_id in set(material.window_ids) - {found["window_id"]}:
            read_own_context(library, window_id)
        settings = workspace.settings.writers
        template = load_prompt(workspace.root / settings.prompt if settings.prompt else None)
        messages = template.fill_in(material, context, max_characters=settings.max_characters)
        return [_say(text) for text in (messages.system, messages.user) if text]

    @server.prompt(title="Answer with citations")
    def answer_with_citations(question: str) -> list[dict[str, str]]:
        """A question, with the passages that answer it, numbered to cite."""
        passages = library.context(question, format="cited").text
        return [
            _say(f"{_ANSWER}\n\n{passages}" if passages else _NOTHING),
            _say(f"Question:\n\n{escape_block(question)}"),
        ]


def _say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}
