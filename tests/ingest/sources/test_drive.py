"""Google Drive as a source, against a server on this machine that answers the calls of version 3 that are used."""

from pathlib import Path
from typing import Any

import pytest

from backstory.base.errors import SettingsError
from backstory.ingest.documents.files import FileRules
from backstory.ingest.sources.mirror import list_mirror
from backstory.pipeline.workspace import Workspace
from backstory.settings.inputs import SourceSettings
from tests.errors import raises
from tests.ingest.sources.drive_server import FOLDER, GOOGLE, MARKDOWN, Answer, Drive, copies, fetch
from tests.loopback import Received, listen
from tests.workspaces import SETTINGS


def test_a_folder_is_read_with_its_subfolders_page_by_page(drive: Drive, tmp_path: Path) -> None:
    drive.put("d1", "Plan", f"{GOOGLE}.document", b"# Plan\n")
    drive.put("s1", "Costs", f"{GOOGLE}.spreadsheet", b"sheet")
    drive.put("p1", "Talk", f"{GOOGLE}.presentation", b"slides")
    drive.put("f1", "In/ner", FOLDER)
    drive.put("m1", "frost.md", MARKDOWN, b"# Frost\n", below="f1")
    state = fetch(drive, tmp_path)
    assert not state.problem
    assert copies(tmp_path) == {
        "Plan.md": b"text/markdown\n# Plan\n",
        "Costs.xlsx": b"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet\nsheet",
        "Talk.pdf": b"application/pdf\nslides",
        "In-ner/frost.md": b"# Frost\n",
    }
    assert drive.count()["files"] == 3


def test_only_what_was_changed_is_fetched_again_and_what_is_gone_is_dropped(
    drive: Drive, tmp_path: Path
) -> None:
    for key in "abc":
        drive.put(key, f"{key}.md", MARKDOWN, key.encode())
    fetch(drive, tmp_path)
    drive.count()
    drive.put("b", "b.md", MARKDOWN, b"later", day=2)
    drive.delete("c")
    fetch(drive, tmp_path)
    assert copies(tmp_path) == {"a.md": b"a", "b.md": b"later"}
    assert drive.count() == {"files/root": 1, "files": 1, "files/b media": 1}


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
        ([Answer(b"<html>")], "Drive gave no JSON: no further reason (JSONDecodeError)"),
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
    [entry] = list_mirror(tmp_path, "drive", FileRules()).skipped
    assert (entry.status, why in str(entry.reason)) == ("failed", True)


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
    assert list_mirror(tmp_path, "drive", FileRules()).unlisted == {"a.md"}


@pytest.mark.parametrize("drive", ["{}", "{folder: 'a b'}", "{files: ['x/../y']}"])
def test_ids_are_checked(make_workspace: Any, drive: str) -> None:
    with raises(SettingsError, "invalid_setting", "documents.sources.0.drive"):
        make_workspace(f"{SETTINGS}documents: {{sources: [{{drive: {drive}}}]}}\n")


def test_a_source_of_drive_has_a_name(make_workspace: Any) -> None:
    made: Workspace = make_workspace(f"{SETTINGS}documents: {{sources: [{{drive: {{folder: abc}}}}]}}\n")
    [source] = made.settings.documents.sources
    assert isinstance(source, SourceSettings)
    assert (source.label, source.is_remote) == ("drive", True)
