"""The keys of the assets: the name of the table or source asset, after the prefix of the workspace if it has one."""

from typing import Final

import dagster as dg

from backstory.pipeline.workspace import Workspace

CHATS: Final = "chats"
"""Name of the source asset of the chat exports."""

DOCUMENT_FILES: Final = "document_files"
"""Name of the source asset of the documents."""


def asset_key(workspace: Workspace, name: str) -> dg.AssetKey:
    """Return the key of an asset.

    Args:
        workspace: An open workspace; its setting ``orchestration.key_prefix`` is the first part of the key.
        name: Name of a table, ``search_index``, or a source asset (``chats``, ``document_files``).
    """
    prefix = workspace.settings.orchestration.key_prefix
    return dg.AssetKey([name] if prefix is None else [prefix, name])


def name_of(key: dg.AssetKey) -> str:
    """Return the name of the table or source of an asset, without the prefix."""
    return key.path[-1]
