"""Google Drive as a source, against a server on this machine that answers the calls of version 3 that are used."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from backstory.base.errors import SettingsError
from backstory.ingest.documents.file_rules import FileRules
from backstory.ingest.sources.drive import DriveRemote
from backstory.ingest.sources.mirror import MirrorState, list_mirror, update_mirror
from backstory.pipeline.workspace import Workspace
from backstory.settings.sources import SourceSettings
from tests.errors import raises
from tests.loopback import Received, listen
from tests.workspaces import SETTINGS

GOOGLE = "application/vnd.google-apps"
MARKDOWN = "text/markdown"


@dataclass(frozen=True)
class Answer:
    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Drive:
    """Entries by id with their content, what was asked for, and answers that are given first."""

    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    page_size: int = 2
    asked: list[str] = field(default_factory=list)
    refusals: list[Answer] = field(default_factory=list)
    address: str = ""

    def put(
        self, key: str, name: str, kind: str, content: bytes = b"", *, day: int = 1, below: str = "root"
    ) -> None:
        self.entries[key] = {
            "id": key, "name": name, "mimeType": kind, "modifiedTime": f"2025-03-{day:02}T10:00:00.000Z",
            **({} if kind.startswith(GOOGLE) else {"size": str(len(content)), "md5Checksum": f"{hash(content)}"}),
        }  # fmt: skip
        self.contents[key] = content
        self.parents[key] = below

    def answer(self, received: Received) -> Answer:
        parts = urlsplit(received.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.asked.append(
            parts.path.removeprefix("/files") + (" media" if asked.get("alt") == "media" else "")
        )
        assert asked["supportsAllDrives"] == "true"
        if self.refusals:
            return self.refusals.pop(0)
        if parts.path == "/files":
            return self.list(asked)
        key = parts.path.split("/")[2]
        if key not in self.entries:
            return Answer(b'{"error": {"errors": [{"reason": "notFound"}]}}', 404)
        if parts.path.endswith("/export"):
            return Answer(f"{asked['mimeType']}\n".encode() + self.contents[key])
        if asked.get("alt") == "media":
            return Answer(self.contents[key])
        return Answer(json.dumps(self.entries[key]).encode())

    def list(self, asked: dict[str, str]) -> Answer:
        found = re.fullmatch(r"'(\w+)' in parents and trashed = false", asked["q"])
        assert found is not None
        inside = [entry for key, entry in self.entries.items() if self.parents[key] == found[1]]
        start = int(asked.get("pageToken", "0"))
        page: dict[str, Any] = {"files": inside[start : start + self.page_size]}
        if start + self.page_size < len(inside):
            page["nextPageToken"] = str(start + self.page_size)
        return Answer(json.dumps(page).encode())


@pytest.fixture
def drive() -> Iterator[Drive]:
    drive = Drive()
    with listen(drive.answer) as address:
        drive.address = address
        yield drive


def fetch(drive: Drive, folder: Path, *files: str) -> MirrorState:
    with requests.Session() as session:
        session.trust_env = False
        remote = DriveRemote(files, None if files else "root", address=drive.address, session=session)
        return update_mirror(folder, "drive", remote, FileRules(), 1 << 20)


def copies(folder: Path) -> dict[str, bytes]:
    files = folder / "files"
    return {
        path.relative_to(files).as_posix(): path.read_bytes() for path in files.rglob("*") if path.is_file()
    }


def test_a_folder_is_read_with_its_subfolders_page_by_page(drive: Drive, tmp_path: Path) -> None:
    drive.put("d1", "Plan", f"{GOOGLE}.document", b"# Plan\n")
    drive.put("s1", "Costs", f"{GOOGLE}.spreadsheet", b"sheet")
    drive.put("p1", "Talk", f"{GOOGLE}.presentation", b"slides")
    drive.put("f1", "In/ner", f"{GOOGLE}.folder")
    drive.put("m1", "frost.md", MARKDOWN, b"# Frost\n", below="f1")
    state = fetch(drive, tmp_path)
    assert not state.problem
    assert copies(tmp_path) == {
        "Plan.md": b"text/markdown\n# Plan\n",
        "Costs.xlsx": b"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet\nsheet",
        "Talk.pdf": b"application/pdf\nslides",
        "In-ner/frost.md": b"# Frost\n",
    }
    assert drive.asked.count("") == 3


def test_only_what_was_changed_is_fetched_again_and_what_is_gone_is_dropped(
    drive: Drive, tmp_path: Path
) -> None:
    for key in "abc":
        drive.put(key, f"{key}.md", MARKDOWN, key.encode())
    fetch(drive, tmp_path)
    drive.asked.clear()
    drive.put("b", "b.md", MARKDOWN, b"later", day=2)
    del drive.entries["c"]
    fetch(drive, tmp_path)
    assert copies(tmp_path) == {"a.md": b"a", "b.md": b"later"}
    assert [call for call in drive.asked if call] == ["/b media"]


def test_picked_files_are_read_and_one_that_is_gone_is_said(drive: Drive, tmp_path: Path) -> None:
    drive.put("a", "a.md", MARKDOWN, b"# A\n")
    state = fetch(drive, tmp_path, "a", "gone")
    assert copies(tmp_path) == {"a.md": b"# A\n"}
    assert state.failed == {"gone": "Drive answered with status 404"}


def test_a_picked_file_that_does_not_answer_keeps_its_copy(drive: Drive, tmp_path: Path) -> None:
    drive.put("a", "a.md", MARKDOWN, b"# A\n")
    drive.put("b", "b.md", MARKDOWN, b"# B\n")
    fetch(drive, tmp_path, "a", "b")
    for _ in range(2):
        drive.refusals = [Answer(b"{}", 503, {"Retry-After": "0.01"})] * 5
        state = fetch(drive, tmp_path, "a", "b")
        assert state.failed == {"a.md": "Drive answered with status 503, 5 times in a row"}
        assert copies(tmp_path) == {"a.md": b"# A\n", "b.md": b"# B\n"}
    assert not fetch(drive, tmp_path, "a", "b").failed


def test_files_of_one_name_are_kept_apart_and_kinds_without_text_are_said(
    drive: Drive, tmp_path: Path
) -> None:
    drive.put("x1", "same.md", MARKDOWN, b"1")
    drive.put("x2", "same.md", MARKDOWN, b"2")
    drive.put("q", "Poll", f"{GOOGLE}.form")
    drive.put("up", "a/../../up.md", MARKDOWN, b"3")
    state = fetch(drive, tmp_path)
    assert copies(tmp_path) == {"same-x1.md": b"1", "same-x2.md": b"2", "a-..-..-up.md": b"3"}
    assert state.failed == {"Poll": "Drive gives no document of this kind (form); save it as one"}


LIMITED = b'{"error": {"errors": [{"reason": "userRateLimitExceeded"}]}}'


@pytest.mark.parametrize("status", [403, 429, 503])
def test_a_limit_of_calls_is_waited_for(drive: Drive, tmp_path: Path, status: int) -> None:
    drive.put("a", "a.md", MARKDOWN, b"# A\n")
    drive.refusals = [Answer(LIMITED, status, {"Retry-After": "0.01"}) for _ in range(4)]
    assert not fetch(drive, tmp_path).problem
    assert copies(tmp_path) == {"a.md": b"# A\n"}


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (
            [Answer(b"{}", 403)],
            "Drive refused access (status 403); share the file with the account that reads it",
        ),
        (
            [Answer(b"{}", 503, {"Retry-After": "0.01"})] * 5,
            "Drive answered with status 503, 5 times in a row",
        ),
        ([Answer(b"<html>")], "Drive gave an answer that is not JSON; try again later"),
    ],
)
def test_a_drive_that_cannot_be_listed_keeps_its_copies_and_says_why(
    drive: Drive, tmp_path: Path, answers: list[Answer], why: str
) -> None:
    drive.put("a", "a.md", MARKDOWN, b"# A\n")
    fetch(drive, tmp_path)
    drive.refusals = list(answers)
    assert fetch(drive, tmp_path).problem == why
    assert copies(tmp_path) == {"a.md": b"# A\n"}
    [entry] = list_mirror(tmp_path, "drive", FileRules()).left_out
    assert (entry.status, why in entry.reason) == ("failed", True)


def test_a_document_that_is_too_large_to_export_is_said(drive: Drive, tmp_path: Path) -> None:
    drive.put("a", "a", f"{GOOGLE}.document", b"# A\n")
    drive.refusals = []
    fetch(drive, tmp_path)
    drive.put("a", "a", f"{GOOGLE}.document", b"# B\n", day=2)
    answer = drive.answer

    def refuse(received: Received) -> Answer:
        if "/export" in received.path:
            return Answer(b'{"error": {"errors": [{"reason": "exportSizeLimitExceeded"}]}}', 403)
        return answer(received)

    with listen(refuse) as address:
        drive.address = address
        state = fetch(drive, tmp_path)
    assert "no document of more than 10 MB" in state.failed["a.md"]
    assert list_mirror(tmp_path, "drive", FileRules()).unlisted == ("a.md",)


@pytest.mark.parametrize("drive", ["{}", "{folder: 'a b'}", "{files: ['x/../y']}"])
def test_ids_are_checked(make_workspace: Any, drive: str) -> None:
    with raises(SettingsError, "invalid_setting", setting="documents.sources.0.drive"):
        make_workspace(f"{SETTINGS}documents: {{sources: [{{drive: {drive}}}]}}\n")


def test_a_source_of_drive_has_a_name(make_workspace: Any) -> None:
    made: Workspace = make_workspace(f"{SETTINGS}documents: {{sources: [{{drive: {{folder: abc}}}}]}}\n")
    [source] = made.settings.documents.sources
    assert isinstance(source, SourceSettings)
    assert (source.label, source.is_remote, source.origin) == ("drive", True, "drive abc")
