"""What ``backstory documents`` says of documents and files."""

import io
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from backstory.base.errors import InputError
from backstory.base.wording import write_size
from backstory.interfaces.cli.documents import print_files
from backstory.interfaces.cli.init import print_preview
from backstory.interfaces.library.library import Library
from backstory.operations.inspection.preview import preview_run
from tests.interfaces.cli.invocation import run

COLUMNS = ["state", "date", "from", "format", "pages", "chunks", "size", "path", "title"]


def list_json(made: Path) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(run("documents", "--json", "-w", str(made)).output)
    return listed


def test_files_are_listed_with_their_states_and_what_is_wrong(made: Path) -> None:
    posts = made / "posts"
    (posts / "moths.md").write_text("---\ndate: tomorrow\n---\nText", encoding="utf-8")
    irrigation = (posts / "irrigation.md").read_text("utf-8")
    (posts / "irrigation.md").write_text(f"---\ndate: 2025-01-05\n---\n{irrigation}", encoding="utf-8")
    (posts / "photo.heic").write_bytes(b"\0\0\0\x18ftypheic")
    (posts / "disk.md").unlink()
    states = {row["uri"]: row["state"] for row in list_json(made)}
    assert (states["irrigation.md"], states["disk.md"], states["photo.heic"]) == (
        "pending",
        "removed",
        "pending",
    )
    assert run("add", "-w", str(made)).exit_code == 3
    rows = {row["uri"]: row for row in list_json(made)}
    assert {uri: row["state"] for uri, row in rows.items()} == {
        "irrigation.md": "read",
        "moths.md": "failed",
        "photo.heic": "skipped",
    }
    assert rows["irrigation.md"]["chunks"] == 1
    assert rows["irrigation.md"]["size"] == (posts / "irrigation.md").stat().st_size
    shown = run("documents", "-w", str(made)).output
    assert shown.splitlines()[0].split() == COLUMNS
    [listed] = [line.split() for line in shown.splitlines() if "irrigation.md" in line]
    assert listed[:4] == ["read", "2025-01-05", "stated", "markdown"]
    assert "posts/moths.md: failed: " in shown


def test_documents_and_files_of_another_tenant_are_not_listed(made: Path) -> None:
    for owner in ("ana", "bob"):
        text = f"---\ntitle: Quince of {owner}\ntenant: {owner}\n---\n\nQuinces of {owner}."
        (made / "posts" / f"{owner}.md").write_text(text, encoding="utf-8")
    for more in ("", "rag: {tenant: ana}\n"):
        (made / "backstory.yaml").write_text(f"embedding: {{provider: hashing}}\n{more}", encoding="utf-8")
        assert run("add", "-w", str(made)).exit_code == 0
    (made / "posts" / "bob.md").write_text("---\ndate: tomorrow\n---\nOf bob", encoding="utf-8")
    assert "bob" not in run("status", "-w", str(made)).output
    run("add", "-w", str(made))
    titles = {row["uri"]: row["title"] for row in list_json(made)}
    assert titles["ana.md"] == "Quince of ana"
    assert "bob.md" not in titles
    for words in (
        ("documents",),
        ("documents", "--json"),
        ("show", "Quince of bo"),
        ("summarize", "Quince of bo"),
        ("dump", "Quince of bo"),
        ("forget", "--document", "Quince of bo"),
        ("grep", "quinces"),
        ("search", "quinces"),
    ):
        result = run(*words, "-w", str(made))
        told = result.output + str(result.exception)
        assert "bob.md" not in told, words
        assert "of bob" not in told, words


def test_a_narrow_terminal_leaves_out_columns_and_breaks_only_paths(made: Path) -> None:
    stream = io.StringIO()
    with Library.open(made) as library:
        files = [file.model_copy(update={"title": "A very long title " * 9}) for file in library.files()]
    print_files(Console(file=stream, width=80, force_terminal=True, color_system=None), files)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in stream.getvalue()
    shown = lines[0].split()
    assert shown == [name for name in COLUMNS if name in shown]
    assert {"state", "date", "path"} <= set(shown)
    assert all(name in lines[-1] for name in set(COLUMNS) - set(shown))
    assert all(f"{file.date:%Y-%m-%d}" in stream.getvalue() for file in files if file.date)
    assert all(file.uri in stream.getvalue() for file in files)


def test_sizes_are_written_with_their_unit() -> None:
    assert [write_size(size) for size in (7, 999, 1000, 1_250_000, 3 * 10**9, 10**14)] == [
        "7 B", "999 B", "1.0 kB", "1.2 MB", "3.0 GB", "100,000.0 GB",
    ]  # fmt: skip


def test_a_preview_is_readable_on_a_narrow_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    name = f"2025-04-04 {'a-long-name-' * 5}.md"
    (folder / name).write_text(
        "---\ndate: 2025-04-04\n---\n\nWho waters the greenhouse in the frost?", "utf-8"
    )
    stream = io.StringIO()
    preview = preview_run([folder])
    print_preview(Console(file=stream, width=80, force_terminal=True, color_system=None), preview)
    told = stream.getvalue()
    assert "…" not in told
    [listed] = [line.split() for line in told.splitlines() if line.startswith("  2025-04-04")]
    assert listed[:2] == ["2025-04-04", "markdown"]


def test_a_file_that_was_not_read_is_named_with_the_reason(made: Path) -> None:
    (made / "posts" / "photo.heic").write_bytes(b"\0\0\0\x18ftypheic")
    run("run", "-w", str(made))
    for words in (("explain", "latest", "photo.heic"), ("show", "posts/photo.heic")):
        failure = run(*words, "-w", str(made)).exception
        assert isinstance(failure, InputError), words
        assert failure.code == "unread_document"
        assert "posts/photo.heic" in str(failure)
