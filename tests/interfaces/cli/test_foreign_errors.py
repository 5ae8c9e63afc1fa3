"""What a run says of files that it cannot read holds none of their names and cells."""

import logging
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from backstory.pipeline.workspace import Workspace
from tests.interfaces.cli.invocation import run

NAME = "Zelda Quarrington"
WORDS = "zanzibar"
ROW = f"2025-03-13T09:00:00,{NAME},{WORDS}"


def write_unreadable(folder: Path) -> None:
    """Write tables and chats that fail in every way that their readers know, full of a name and a word."""
    files = {
        "headerless.csv": f"{ROW}\n{ROW}\n",
        "columns.csv": f"timestamp,{NAME},{WORDS}\n{ROW}\n",
        "cells.csv": (
            f'timestamp,author,message\n{WORDS},{NAME},{WORDS}\n{ROW},{WORDS}\n{WORDS}"{NAME},"{WORDS}"x,{NAME}\n'
            f'"{NAME}\n{ROW}\n'
        ),
        "keys.jsonl": f'{{"{NAME}": "{WORDS}", "{WORDS}": 1}}\n',
        "cells.jsonl": (
            f'{{"timestamp": "{WORDS}", "author": "{NAME}", "message": "{WORDS}"}}\n'
            f'{{"timestamp": 1, "author": ["{NAME}"], "message": {{"{WORDS}": 1}}}}\n'
            f'{{"timestamp": 1, "author": "{NAME}\n["{WORDS}"]\n'
        ),
        "damaged.parquet": f"PAR1{NAME}{WORDS}PAR1",
        "undated.txt": f"{NAME}: {WORDS}\n{NAME}: {WORDS}\n",
        "ambiguous.txt": f"01/02/2025, 09:00 - {NAME}: {WORDS}\n",
        "damaged.zip": f"PK\x03\x04{NAME}{WORDS}",
        "another.json": f'[{{"{NAME}": "{WORDS}"}}]',
    }
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    pl.DataFrame({NAME: [WORDS], WORDS: [NAME]}).write_parquet(folder / "columns.parquet")
    pl.DataFrame({"timestamp": [WORDS], "author": [NAME], "message": [WORDS]}).write_parquet(
        folder / "cells.parquet"
    )
    (folder / "undecodable.csv").write_bytes(f"timestamp,author,message\n{ROW}".encode() + b"\xff\x00\x81")


@pytest.mark.parametrize("pseudonyms", ["true", "false"])
def test_no_name_and_no_cell_of_an_unreadable_file_is_told(
    make_workspace: Callable[..., Workspace], caplog: pytest.LogCaptureFixture, pseudonyms: str
) -> None:
    workspace = make_workspace()
    settings = workspace.root / "backstory.yaml"
    settings.write_text(f"{settings.read_text()}privacy: {{pseudonyms: {pseudonyms}}}\n")
    write_unreadable(workspace.chats_dir)
    with caplog.at_level(logging.DEBUG):
        result = run("run", "--workspace", str(workspace.root))
    sources = workspace.tables.read("sources")
    failed = sources.filter(pl.col("status") != "read")
    told = {
        "output": result.output,
        "log": caplog.text,
        "sources": str(sources.to_dicts()),
        "quarantine": str(workspace.tables.read("quarantine").to_dicts()),
    }
    assert len(failed) > 8, "the files were meant to be unreadable"
    for place, text in told.items():
        for secret in (*NAME.split(), WORDS):
            assert secret.casefold() not in text.casefold(), place
