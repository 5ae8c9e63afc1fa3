"""Google Drive as a source, against a server on this machine: few calls, and the same copies as from scratch."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from backstory.base.errors import ReadError, SettingsError
from backstory.ingest.documents.files import FileRules
from backstory.ingest.sources.remotes import list_mirror
from backstory.pipeline.workspace import Workspace
from backstory.settings.inputs import SourceSettings
from tests.errors import raises
from tests.ingest.sources.drive_server import (
    FOLDER,
    GOOGLE,
    MARKDOWN,
    SHORTCUT,
    Answer,
    Drive,
    copies,
    fetch,
    open_remote,
)
from tests.loopback import Received, listen
from tests.workspaces import SETTINGS

KINDS = (MARKDOWN, MARKDOWN, f"{GOOGLE}.document", f"{GOOGLE}.form")
SEEDS = int(os.environ.get("BACKSTORY_DRIVE_SEEDS", "3"))
STEPS = 15


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


def test_a_picked_file_that_does_not_answer_keeps_its_copy(drive: Drive, tmp_path: Path) -> None:
    drive.put("a", "a.md", MARKDOWN, b"# A\n")
    drive.put("b", "b.md", MARKDOWN, b"# B\n")
    fetch(drive, tmp_path, "a", "b")
    for _ in range(2):
        drive.refusals = [Answer(b"{}", 503, {"Retry-After": "0.01"})] * 5
        state = fetch(drive, tmp_path, "a", "b")
        assert state.failed == {"a.md": "Drive answered with status 503, 5 times in a row"}
        assert copies(tmp_path) == {"a.md": b"# A\n", "b.md": b"# B\n"}
    assert fetch(drive, tmp_path, "a", "b", "gone").failed == {"gone": "Drive answered with status 404"}


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
        ([Answer(b"[]")], "Drive gave an answer that is no object of JSON"),
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


@pytest.mark.parametrize("call", ["files/root", "files"])
def test_an_outage_removes_nothing_and_loses_no_change(drive: Drive, tmp_path: Path, call: str) -> None:
    drive.put("a", "a.md", MARKDOWN, b"a")
    drive.put("b", "b.md", MARKDOWN, b"b")
    drive.put("in", "In", FOLDER, below="elsewhere")
    drive.put("c", "c.md", MARKDOWN, b"c", below="in")
    fetch(drive, tmp_path)
    drive.change("a", is_trashed=True)
    drive.change("in", parent="root")
    drive.outage = call
    assert fetch(drive, tmp_path).problem == "Drive answered with status 503, 5 times in a row"
    assert copies(tmp_path) == {"a.md": b"a", "b.md": b"b"}
    drive.outage = None
    assert not fetch(drive, tmp_path).problem
    assert copies(tmp_path) == {"b.md": b"b", "In/c.md": b"c"}


@pytest.mark.parametrize("fields", [{"is_trashed": True}, {"is_shared": False}, {"parent": "elsewhere"}])
def test_what_is_trashed_not_shared_or_moved_out_is_dropped_and_comes_back(
    drive: Drive, tmp_path: Path, fields: dict[str, object]
) -> None:
    drive.put("a", "a.md", MARKDOWN, b"a")
    drive.put("in", "In", FOLDER)
    drive.put("deep", "Deep", FOLDER, below="in")
    drive.put("c", "c.md", MARKDOWN, b"c", below="deep")
    fetch(drive, tmp_path)
    before = {name: getattr(drive.nodes["in"], name) for name in fields}
    drive.change("in", **fields)
    assert not fetch(drive, tmp_path).problem
    assert copies(tmp_path) == {"a.md": b"a"}
    drive.change("c", content=b"later", day=2)
    drive.change("in", **before)
    assert not fetch(drive, tmp_path).problem
    assert copies(tmp_path) == {"a.md": b"a", "In/Deep/c.md": b"later"}


@pytest.mark.parametrize("fields", [{"is_trashed": True}, {"is_shared": False}])
def test_a_folder_that_is_itself_gone_keeps_its_copies(
    drive: Drive, tmp_path: Path, fields: dict[str, object]
) -> None:
    drive.put("a", "a.md", MARKDOWN, b"a")
    fetch(drive, tmp_path)
    drive.change("root", **fields)
    for _ in range(2):
        assert fetch(drive, tmp_path).problem
        assert copies(tmp_path) == {"a.md": b"a"}
    drive.change("root", is_trashed=False, is_shared=True)
    assert not fetch(drive, tmp_path).problem


def test_a_file_is_no_folder(drive: Drive) -> None:
    drive.put("a", "a.md", MARKDOWN, b"a")
    with open_remote(drive, folder="a") as remote, raises(ReadError, "source_no_folder"):
        remote.list_files()


def test_a_picked_folder_is_read_beside_picked_files_and_a_folder(drive: Drive) -> None:
    drive.put("in", "In", FOLDER)
    drive.put("a", "a.md", MARKDOWN, b"a", below="in")
    drive.put("far", "Far", FOLDER, below="elsewhere")
    drive.put("b", "b.md", MARKDOWN, b"b", below="far")
    drive.put("c", "c.md", MARKDOWN, b"c", below="elsewhere")
    with open_remote(drive, "far", "c", folder="root") as remote:
        assert set(remote.list_files().files) == {"In/a.md", "Far/b.md", "c.md"}


def test_a_folder_of_a_shared_drive_is_read(drive: Drive, tmp_path: Path) -> None:
    drive.put("team", "Team", FOLDER, below="", drive="D1")
    drive.put("in", "In", FOLDER, below="team", drive="D1")
    drive.put("a", "a.md", MARKDOWN, b"a", below="in", drive="D1")
    fetch(drive, tmp_path, folder="team")
    assert copies(tmp_path) == {"In/a.md": b"a"}
    drive.change("a", content=b"later", day=2)
    fetch(drive, tmp_path, folder="team")
    assert copies(tmp_path) == {"In/a.md": b"later"}


def test_a_shortcut_is_read_once_and_never_in_a_circle(drive: Drive, tmp_path: Path) -> None:
    drive.put("a", "a.md", MARKDOWN, b"a")
    drive.put("b", "b.md", MARKDOWN, b"b", below="elsewhere")
    drive.put("far", "Far", FOLDER, below="elsewhere")
    drive.put("c", "c.md", MARKDOWN, b"c", below="far")
    drive.put("up", "to the far one", SHORTCUT, below="far", target="far")
    drive.put("back", "back", SHORTCUT, below="far", target="root")
    for key, target in {"s1": "a", "s2": "b", "s3": "b", "s4": "far", "s5": "root", "s6": "none"}.items():
        drive.put(key, key, SHORTCUT, target=target)
    state = fetch(drive, tmp_path)
    assert copies(tmp_path) == {"a.md": b"a", "b.md": b"b", "Far/c.md": b"c"}
    assert not state.failed
    unreachable = "the shortcut leads to nothing that is shared with the account which reads it"
    assert state.ignored == {
        "s1": "it is read as a.md",
        "s3": "it is read as b.md",
        "s5": "it is read as the folder itself",
        "s6": unreachable,
        "Far/to the far one": "it is read as Far",
        "Far/back": "it is read as the folder itself",
    }
    drive.change("b", content=b"later", day=2)
    fetch(drive, tmp_path)
    assert copies(tmp_path)["b.md"] == b"later"


def test_a_picked_shortcut_is_followed(drive: Drive, tmp_path: Path) -> None:
    drive.put("a", "a.md", MARKDOWN, b"a")
    drive.put("s", "s", SHORTCUT, target="a")
    drive.put("t", "t.md", MARKDOWN, b"t")
    drive.change("t", is_trashed=True)
    state = fetch(drive, tmp_path, "s", "a", "t")
    assert copies(tmp_path) == {"a.md": b"a"}
    assert state.ignored == {"s": "it is read as a.md", "t.md": "it is in the trash of Drive"}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_any_edits_the_copies_are_those_of_a_first_fetch(
    drive: Drive, tmp_path: Path, seed: int
) -> None:
    chosen = random.Random(seed)
    drive.put("stays", "stays.md", MARKDOWN, b"stays")
    drive.put("outside", "Outside", FOLDER, below="elsewhere")
    drive.put("team", "Team", FOLDER, below="", drive="D1")
    number = 0
    for step in range(STEPS):
        for _ in range(chosen.randint(1, 6)):
            number += 1
            edit(drive, chosen, number)
        state = fetch(drive, tmp_path / "kept")
        fresh = fetch(drive, tmp_path / f"fresh-{step}")
        assert state == fresh
        assert not state.problem
        assert copies(tmp_path / "kept") == copies(tmp_path / f"fresh-{step}")


def edit(drive: Drive, chosen: random.Random, number: int) -> None:
    """Make one change by chance: of what is there, or of what is added."""
    folders = [key for key, node in drive.nodes.items() if node.kind == FOLDER]
    others = [key for key in drive.nodes if key not in ("root", "stays", "outside", "team")]
    what = chosen.choice(
        ["add", "add", "folder", "shortcut", "change", "rename", "move", "trash", "share", "delete"]
    )
    if what in ("add", "folder", "shortcut") or not others:
        below = chosen.choice(folders)
        kind = {"folder": FOLDER, "shortcut": SHORTCUT}.get(what) or chosen.choice(KINDS)
        name = {"folder": f"F{number % 7}", "shortcut": f"S{number % 5}"}.get(what, f"{number % 9}.md")
        target = chosen.choice([*drive.nodes, "none"]) if kind == SHORTCUT else ""
        in_drive = drive.nodes[below].drive
        drive.put(f"k{number}", name, kind, f"{number}".encode(), below=below, drive=in_drive, target=target)
        return
    key = chosen.choice(
        [each for each in others if drive.nodes[each].kind == FOLDER or chosen.random() < 0.3] or others
    )
    node = drive.nodes[key]
    if what == "change" and node.kind not in (FOLDER, SHORTCUT):
        drive.change(key, content=f"{number}".encode(), day=1 + number % 28)
    elif what == "rename":
        prefix = {FOLDER: "F", SHORTCUT: "S"}.get(node.kind, "")
        drive.change(key, name=f"{prefix}{number % 9}{'' if prefix else '.md'}")
    elif what == "move":
        apart = [
            each
            for each in folders
            if drive.nodes[each].drive == node.drive and not _is_below(drive, each, key)
        ]
        drive.change(key, parent=chosen.choice([*apart, *["elsewhere"] * len(apart)]))
    elif what == "trash":
        drive.change(key, is_trashed=not node.is_trashed)
    elif what == "share":
        drive.change(key, is_shared=not node.is_shared)
    elif what == "delete":
        for below in [each for each in drive.nodes if _is_below(drive, each, key)]:
            drive.delete(below)


def _is_below(drive: Drive, key: str, folder: str) -> bool:
    return drive.nodes[folder] in drive.above(key)
