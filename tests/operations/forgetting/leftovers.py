"""Searches every byte of a workspace: what no other test of forgetting has to take on trust."""

import json
from collections.abc import Iterable

import polars as pl

from backstory.pipeline.workspace import Workspace


def find_files_with(workspace: Workspace, parts: Iterable[str]) -> set[str]:
    """Find the files, but for inputs and settings, that hold one of some texts.

    Every file is searched for the bytes of the texts, plain and escaped as JSON, once and twice; of Parquet, the
    decoded rows are searched, too. Databases write no text in another form.
    """
    patterns = set()
    for part in parts:
        escaped = json.dumps(part)[1:-1]
        for written in (part, json.dumps(part, ensure_ascii=False)[1:-1], escaped, json.dumps(escaped)[1:-1]):
            patterns.add(written.encode("utf-8", "surrogatepass"))
    inputs = (workspace.chats_dir, workspace.documents_dir, workspace.root / "backstory.yaml")
    found = set()
    for path in sorted(workspace.root.rglob("*")):
        if path.is_file() and not any(path.is_relative_to(one) for one in inputs):
            content = path.read_bytes()
            if content.startswith(b"PAR1"):
                content += json.dumps(
                    pl.read_parquet(path).to_dicts(), default=str, ensure_ascii=False
                ).encode()
            if any(pattern in content for pattern in patterns):
                found.add(path.relative_to(workspace.root).as_posix())
    return found
