"""No page, feed or export shows the name of a member, a number or an address that documents and messages hold."""

import base64
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import get_args
from urllib.parse import unquote

import pytest

from backstory import run_pipeline
from backstory.ingest.privacy.forms import fold
from backstory.interfaces.pages.export.build import export_posts
from backstory.interfaces.pages.export.formats import FormatName
from backstory.interfaces.pages.report.window_page import write_window_page
from backstory.interfaces.pages.site.build import build_site
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.workspaces import CHAT, DIGEST, POSTS, write_workspace

SETTINGS = f"{DIGEST}site: {{base_url: 'https://moths.example/site'}}\n".replace("top_k: 3", "top_k: 2")
PHONE, MAIL = "+44 7400 123456", "zoe@mail.example"
PLANTED = ("Ada Lind", "Ben Okri", "Cleo Marsh", "7400 123456", MAIL)
LETTER = """\
---
title: '{title}: a letter to {name}, {phone}'
date: {date}
tags: [{tag}, Ada Lind]
url: https://letters.example/{tag}/ada-lind
---

# For {name}, at {mail}

{text} {name} knows, and so does Ben Okri.

## What Cleo Marsh says of it, {phone}

Call {phone} or write to {mail}: {text}
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = write_workspace(tmp_path_factory.mktemp("canary") / "workspace", SETTINGS)
    chat = made.chats_dir / "garden.txt"
    said = f"14/03/2025, 09:00 - Ben Okri: @Ada Lind call {PHONE} or {MAIL} about the plastic elbow\n"
    chat.write_text(CHAT + said, "utf-8")
    for name, ending in (("Ada Lind", "of Ada Lind"), ("Cleo Marsh", "again")):
        for title, date, text in POSTS.values():
            path = made.documents_dir / f"{title} {ending}.md"
            filled = LETTER.format(
                name=name, title=title, date=date, text=text, tag=title.split()[0], phone=PHONE, mail=MAIL
            )
            path.write_text(filled, "utf-8")
    run_pipeline(made)
    return open_workspace(made.root)


def read_shown(path: Path) -> Iterator[str]:
    """Give what a file shows: its own text, as a browser decodes it, and what a mail holds encoded."""
    text = path.read_bytes().decode(errors="replace")
    yield from (path.name, unquote(unescape(text)))
    if path.suffix == ".mbox":
        for part in re.findall(r"(?:^[A-Za-z0-9+/=]{4,}\n)+", text, re.MULTILINE):
            yield base64.b64decode(part).decode(errors="replace")


def find_planted(folder: Path) -> dict[str, set[str]]:
    wanted = {planted: fold(planted) for planted in PLANTED}
    found = {
        path.relative_to(folder).as_posix(): {
            planted
            for text in read_shown(path)
            for planted, letters in wanted.items()
            if letters in fold(text)
        }
        for path in folder.rglob("*")
        if path.is_file()
    }
    return {name: planted for name, planted in found.items() if planted}


def test_the_search_finds_what_was_planted(workspace: Workspace) -> None:
    held = find_planted(workspace.documents_dir)
    assert len(held) == 2 * len(POSTS)
    assert set().union(*held.values()) == set(PLANTED)


def test_no_page_and_no_feed_shows_what_was_planted(workspace: Workspace) -> None:
    decisions = workspace.tables.read("decisions")
    assert decisions.filter(~decisions["kept"]).height > 10
    for window in workspace.tables.read("windows")["window_id"]:
        write_window_page(workspace, window)
    assert find_planted(workspace.root / "reports") == {}
    folder = build_site(workspace, windows=True).index.parent
    kinds = {path.parent.name for path in folder.rglob("*.html")}
    assert kinds >= {"posts", "documents", "windows", "tags"}
    assert {path.name for path in folder.iterdir()} >= {"feed.xml", "feed.json", "sitemap.xml"}
    assert find_planted(folder) == {}


@pytest.mark.parametrize("format_name", get_args(FormatName))
def test_no_export_shows_what_was_planted(workspace: Workspace, format_name: FormatName) -> None:
    made = export_posts(workspace, format_name, None)
    assert any(made.folder.rglob("*"))
    assert find_planted(made.folder) == {}
