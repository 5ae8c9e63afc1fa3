"""Messages as a tree: a question that was changed, or an answer that was made again, begins another branch."""

from __future__ import annotations

from collections.abc import Mapping


def follow_branch(parents: Mapping[str, str | None], leaf: str) -> list[str]:
    """List the messages of a branch from its root to its leaf.

    Args:
        parents: The message before each message, by ids; None, or an id that is no key, for the first one.
        leaf: Id of the last message.

    Raises:
        ValueError: The messages form a ring.
    """
    branch: list[str] = []
    passed: set[str] = set()
    at: str | None = leaf
    while at is not None and at in parents:
        if at in passed:
            raise ValueError("the messages of the conversation form a ring")
        passed.add(at)
        branch.append(at)
        at = parents[at]
    return branch[::-1]
