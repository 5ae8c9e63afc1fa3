"""Nothing that runs write or say holds a real name, a phone number or the key: every file and every cell is searched.

The runs are processes of ``python -m pipelines``, so that Dagster's storage and logs are searched, too: one run that
fails while it embeds, and one that finishes beside damaged exports.
"""

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import polars as pl

from backstory.ingest.privacy.forms import fold
from backstory.interfaces.pages.report.window_page import write_window_page
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.views import VIEWS_FILE
from tests.environment import KEY
from tests.interfaces.cli.test_foreign_errors import NAME as DAMAGED_NAME
from tests.interfaces.cli.test_foreign_errors import WORDS as DAMAGED_WORDS
from tests.interfaces.cli.test_foreign_errors import write_unreadable
from tests.models.services.gemini_server import Answer, GeminiServer, Request, fail, run_gemini_server
from tests.started_python import run_python
from tests.workspaces import SETTINGS, write_workspace

ROOT = Path(__file__).resolve().parents[3]
PHONE = "+44 7700 900123"
CHAT = f"""\
13/03/2025, 09:00 - Ada Lind created group "Moths"
13/03/2025, 09:01 - Ada Lind: <attached: IMG-Ada_Lind-2025.jpg>
13/03/2025, 09:02 - Ben Okri: Ada Lind, call me on 07700 900123
13/03/2025, 09:03 - {PHONE}: The drip irrigation line that ada-lind laid
13/03/2025, 09:04 - Cleo Mársh: PTT-Cleo_Marsh.opus (file attached)
13/03/2025, 09:05 - Ben Okri: @Cleo Marsh and CLEO MÁRSH, mail ben.okri@example.org
99/99/2025, 09:06 - Ben Okri: a day that is none
15/03/2025, 18:00 - Ben Okri: The night train to Lisbon needs a seat reservation
"""
OTHER_CHATS = {
    "garden.mbox": """\
From ada.lind@example.org Thu Mar 13 10:00:00 2025
From: "Lind, Ada" <ada.lind@example.org>
To: Dora Quill <dora.quill@example.org>
Date: Thu, 13 Mar 2025 10:00:00 +0000
Subject: The compost heap
Message-ID: <1@mail.example.org>

Ada Lind and Dora Quill turn the compost heap; write to dora.quill@example.org

""",
    "garden/#moths_20250313.log": """\
[10:00:00] *** Joins: efa_toft77 (~efa@efa-toft.example)
[10:01:00] <efa_toft77> Ada Lind: the trap is out
[10:02:00] *** efa_toft77 is now known as toft77_off
[10:03:00] <gil_ny88> @toft77_off: and the lamp
""",
    "GMT20250313-100000_Recording.transcript.vtt": """\
WEBVTT

00:00:02.000 --> 00:00:05.000
Hal Innes: Ada Lind brings the ladder

00:00:09.000 --> 00:00:11.000
<v Ivy Jarl>and Hal Innes the saw</v>
""",
    "2025-03-13 chat.txt": "10:01:02 From Kim Lowe to Ivy Jarl(Direct Message):\n\tthe saw is at Kim Lowe's\n",
}
OTHER_NAMES = (
    *(
        "Dora Quill",
        "ada.lind@example.org",
        "dora.quill@example.org",
        "efa_toft77",
        "efa-toft.example",
        "toft77_off",
    ),
    *("gil_ny88", "Hal Innes", "Ivy Jarl", "Kim Lowe"),
)
WANTED = {
    name: fold(name)
    for name in ("Ada Lind", "Ben Okri", "Cleo Marsh", PHONE, "7700 900123", DAMAGED_NAME, KEY, *OTHER_NAMES)
}


def echo_the_key(request: Request) -> Answer | None:
    """Refuse a call, and repeat what the caller sent."""
    sent = {name.casefold(): value for name, value in request.headers.items()}
    return fail(400, f"API key {sent['x-goog-api-key']} is not valid")(request)


def run_pipelines(workspace: Workspace) -> subprocess.CompletedProcess[str]:
    return run_python(
        ["-m", "pipelines", "materialize", "--workspace", str(workspace.root)],
        with_dagster=True,
        cwd=ROOT,
        env={**os.environ, "GEMINI_API_KEY": KEY, "NO_PROXY": "127.0.0.1"},
    )


def make_workspace(root: Path, server: GeminiServer) -> Workspace:
    settings = SETTINGS.replace("{provider: hashing}", "{provider: gemini, dimension: 16}")
    settings += f"services: {{gemini: {{base_url: '{server.url}', texts_per_minute: 10000}}}}\n"
    workspace = write_workspace(root, settings)
    (workspace.chats_dir / "garden.txt").unlink()
    (workspace.chats_dir / "WhatsApp_Chat_with_Ada_Lind.txt").write_text(CHAT, encoding="utf-8")
    for name, content in OTHER_CHATS.items():
        path = workspace.chats_dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    (workspace.chats_dir / "IMG-Ada_Lind-2025.jpg").write_bytes(b"a picture")
    (workspace.chats_dir / "Ben Okri").mkdir()
    (workspace.chats_dir / "Ben Okri" / "damaged.zip").write_bytes(b"PK\x03\x04 of Ben Okri")
    write_unreadable(workspace.chats_dir)
    return workspace


def run_twice(root: Path) -> tuple[Workspace, dict[str, str]]:
    """Make a workspace after a run that failed and one that finished, and what these said."""
    with run_gemini_server() as server:
        workspace = make_workspace(root, server)
        server.script.append(echo_the_key)
        failed = run_pipelines(workspace)
        server.script.clear()
        finished = run_pipelines(workspace)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert finished.returncode == 3, finished.stdout + finished.stderr
    write_window_page(open_workspace(workspace.root), "latest")
    said = {"failed run": failed.stdout + failed.stderr, "finished run": finished.stdout + finished.stderr}
    return workspace, said


def find_held(text: str) -> list[str]:
    letters = fold(text)
    return [name for name, wanted in WANTED.items() if wanted in letters]


def read_cells(path: Path) -> Iterator[str]:
    """Give the decoded rows of a table or database; compressed ones hide their texts from a search of bytes."""
    head = path.read_bytes()[:16]
    if head.startswith(b"PAR1"):
        yield str(pl.read_parquet(path).to_dicts())
    elif head.startswith(b"SQLite"):
        with closing(sqlite3.connect(path)) as connection:
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            ).fetchall():
                yield str(connection.execute(f'SELECT * FROM "{name}"').fetchall())
    elif head[8:12] == b"DUCK" and path.name != VIEWS_FILE:
        with closing(duckdb.connect(path, read_only=True)) as connection:
            for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                yield str(connection.table(name).fetchall())


def test_nothing_that_runs_write_or_say_holds_a_name_a_number_or_the_key(tmp_path: Path) -> None:
    workspace, said = run_twice(tmp_path / "workspace")
    inputs = (workspace.chats_dir, workspace.documents_dir)
    files = [
        path
        for path in workspace.root.rglob("*")
        if path.is_file() and not any(path.is_relative_to(folder) for folder in inputs)
    ]
    kinds = {path.relative_to(workspace.root).parts[0] for path in files}
    assert kinds >= {"data", "index", "reports", ".dagster", ".backstory"}
    held = {}
    for path in files:
        place = str(path.relative_to(workspace.root))
        texts = [place, path.read_bytes().decode(errors="replace"), *read_cells(path)]
        if found := {name for text in texts for name in find_held(text)}:
            held[place] = found
    assert held == {}

    # What the runs say.
    assert "[key]" in said["failed run"]
    assert "could not be read" in said["finished run"]
    assert not any(DAMAGED_WORDS in text for text in said.values())
    assert {run: find_held(text) for run, text in said.items()} == {"failed run": [], "finished run": []}

    # The exports of every kind were read, and the search finds what the inputs hold.
    sources = workspace.tables.read("sources", ["conversations"])
    assert set(sources.filter(status="read")["format"]) == {
        "whatsapp_text",
        "csv",
        "mail",
        "irc",
        "transcript",
        "zoom_chat",
    }
    export = workspace.chats_dir / "WhatsApp_Chat_with_Ada_Lind.txt"
    assert set(find_held(export.read_text(encoding="utf-8"))) >= {
        "Ada Lind",
        "Cleo Marsh",
        PHONE,
        "7700 900123",
    }
    assert set(find_held("".join(OTHER_CHATS.values()))) >= set(OTHER_NAMES)
