"""A preview says what a run then does, by the same readers, and leaves no trace."""

import hashlib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath

import polars as pl
import pytest

from backstory.base.errors import InputError, RemovalError, WorkspaceError
from backstory.ingest.privacy.exclusions import Forgotten
from backstory.operations.inspection.preview import Preview, preview_run
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.views import query_views, write_views
from tests.errors import raises
from tests.ingest.documents.office_files import make_zip, shape, slide_parts
from tests.workspaces import CHAT, SETTINGS, build_table, write_workspace

AMBIGUOUS = "01/02/2024, 10:00 - Ann: The frost\n02/03/2024, 10:00 - Bo: The elbow\n"
POST = "---\ndate: 2024-05-01\n---\nThe frost cracked the plastic elbow of the drip irrigation line.\n"
GERMAN = "---\ndate: 2024-05-02\n---\nDas Rohr für die Bewässerung ist geplatzt, und die Tür klemmt seit gestern.\n"
FILES: dict[str, str | bytes] = {
    "chats/zoe.txt": AMBIGUOUS,
    "chats/photo.jpg": "x",
    "chats/trip/IMG-20250313-WA0001.jpg": "x",
    "chats/trip/chat.txt": "preface\n2025-03-13, 10:00 - Ann: <Media omitted>\n2025-03-14, 10:00 - Bo: Hello\n",
    "chats/trip/empty.txt": "",
    "posts/latin.md": GERMAN.encode("cp1252"),
    "posts/_drafts/x.md": "Text",
    "posts/table.pdf": b"%PDF-1.7",
    "posts/soon.md": "---\ndate: soon\n---\nText",
    "posts/undated.md": "Text about the moths and the lamp in the evening",
}


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def taken(preview: Preview) -> dict[str, tuple[str | None, str]]:
    return {row["source"]: (row["taken_for"], row["status"]) for row in preview.files}


def snapshot(*folders: Path) -> dict[str, tuple[str, int]]:
    """Give the content and the time of change of everything below some folders."""
    return {
        str(path): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.stat().st_mtime_ns,
        )
        for folder in folders
        for path in [folder, *folder.rglob("*")]
        if path.exists() and not path.name.endswith(("-shm", "-wal"))  # what readers of SQLite lock with
    }


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the current folder, which is no workspace and lies in none."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_it_says_what_a_run_then_says(make_workspace: Callable[..., Workspace]) -> None:
    overrides = "conversations: {timezone: Europe/Berlin, overrides: {trip: {timezone: Asia/Tokyo}}}\n"
    workspace = make_workspace(
        f"{SETTINGS}privacy: {{pseudonyms: false}}\n".replace("conversations: {folder: chats}\n", overrides)
    )
    write(workspace.root, FILES)
    preview = preview_run([workspace.root])
    build_table(workspace, "messages", ["2025-03-13", "2025-03-14", "2025-03-15"])
    build_table(workspace, "documents")
    told = workspace.tables.read("sources").sort("source").drop("folder")
    assert preview.settings_file == workspace.root / "backstory.yaml"
    assert [{name: row[name] for name in told.columns} for row in preview.files] == told.to_dicts()
    assert preview.messages == len(workspace.tables.read("messages"))
    languages = {row["source"]: row["language"] for row in preview.files}
    assert (languages["chats/garden.txt"], languages["posts/latin.md"]) == ("en", "de")
    zones = {row["source"]: row["timezone"] for row in preview.files if row["timezone"]}
    assert zones == {"chats/garden.txt": "Europe/Berlin", "chats/trip/chat.txt": "Asia/Tokyo"}
    assert not preview.complete


def test_pages_and_chunks_are_those_of_the_run(make_workspace: Callable[..., Workspace]) -> None:
    workspace = make_workspace(f"{SETTINGS}chunks: {{chunkers: {{text: character}}}}\n")
    slides = make_zip(slide_parts([shape("Moths"), shape("Lamps")]))
    write(workspace.root, {"posts/a.pptx": slides, "posts/a.md": "word " * 5_000, "posts/a.txt": "x" * 3_000})
    rows = {row["source"]: (row["pages"], row["chunks"]) for row in preview_run([workspace.root]).files}
    build_table(workspace, "documents")
    build_table(workspace, "document_chunks")
    write_views(workspace.tables)
    catalog = query_views(workspace.tables, "FROM document_catalog")
    told = {f"posts/{row['uri']}": (row["pages"], row["chunks"]) for row in catalog.iter_rows(named=True)}
    assert rows == {**told, "chats/garden.txt": (None, None)}
    assert rows["posts/a.pptx"] == (2, 2)
    assert (rows["posts/a.md"][1] or 0) > 1


def test_chunks_are_not_known_without_the_model_and_what_stops_the_run_is_said(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(SETTINGS.replace("provider: hashing", "provider: local, model_dir: none"))
    preview = preview_run([workspace.root])
    assert {row["chunks"] for row in preview.files} == {None}
    assert any("chunks" in note for note in preview.notes)
    workspace = make_workspace(f"{SETTINGS}chunks: {{max_tokens: 20, overlap_tokens: 5}}\n", "second")
    write(workspace.root, {"posts/a.md": f"# {'word ' * 40}\n\nText"})
    assert any("cannot be cut into chunks" in problem for problem in preview_run([workspace.root]).problems)


def test_of_a_chat_people_media_and_lines_of_the_app_are_counted(workspace: Workspace) -> None:
    preview = preview_run(workspace=workspace.root)
    [chat] = [row for row in preview.files if row["taken_for"] == "chat"]
    assert (chat["rows"], chat["people"], chat["media"], chat["system"]) == (12, 3, 1, 1)
    assert (preview.messages, preview.people, preview.complete) == (12, 3, True)
    assert "Ada" not in str(preview.model_dump())


def test_nothing_is_written(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(cache))
    settings = SETTINGS.replace("provider: hashing", "provider: local")
    (workspace.root / "backstory.yaml").write_text(settings, encoding="utf-8")
    write(workspace.root, FILES)
    before = snapshot(tmp_path)
    assert preview_run([workspace.root, workspace.chats_dir / "zoe.txt"]).files
    assert snapshot(tmp_path) == before


def test_without_a_workspace_the_content_says_what_a_file_is(elsewhere: Path) -> None:
    write(
        elsewhere,
        {
            "mixed/chat.txt": CHAT,
            "mixed/quoting.md": f"# How a chat looks\n\n{CHAT}",
            "mixed/chat.md": CHAT,
            "mixed/json.md": '{"title": "A title"}\nThe text.\n',
            "mixed/post.md": POST,
            "mixed/notes.txt": "Just a text.\n",
            "mixed/run.log": "Just a text.\n",
            "mixed/.hidden/a.md": POST,
        },
    )
    preview = preview_run([Path("mixed")])
    assert preview.settings_file is None
    assert taken(preview) == {
        "mixed/.hidden/": (None, "ignored"),
        "mixed/chat.md": ("chat", "read"),
        "mixed/chat.txt": ("chat", "read"),
        "mixed/json.md": ("document", "read"),
        "mixed/notes.txt": ("document", "read"),
        "mixed/post.md": ("document", "read"),
        "mixed/quoting.md": ("document", "read"),
        "mixed/run.log": (None, "unsupported"),
    }
    assert preview.messages == 12, "chat.md holds the messages of chat.txt"
    assert not preview.complete
    alone = preview_run([Path("mixed/post.md"), elsewhere / "mixed" / "chat.txt"])
    assert taken(alone) == {
        "mixed/post.md": ("document", "read"),
        str(elsewhere / "mixed" / "chat.txt"): ("chat", "read"),
    }
    assert alone.complete


def test_an_export_with_a_fault_is_no_table_and_no_json_of_another_kind(elsewhere: Path) -> None:
    write(
        elsewhere,
        {
            "chat.csv": "timestamp,author,message\n2024-05-01,Ann,The lamp\nsoon,Bo,The moths\n",
            "sheet.csv": "timestamp,author,price\n2024-05-01,Ann,3\n",
            "result.json": '{"name": "A", "type": "private_group", "id": 1, "messages": [{"id": 1, "type": "message", '
            '"date_unixtime": "1707818400", "from": "Ann", "from_id": "user1", "text": "x"}, {"id": "',
        },
    )
    assert taken(preview_run([Path()])) == {
        "chat.csv": ("chat", "read"),
        "result.json": ("chat", "read"),
        "sheet.csv": ("document", "read"),
    }


def test_the_parts_of_a_folder_that_is_one_export_are_files_only_where_it_is_not_read(
    elsewhere: Path,
) -> None:
    whole = '[{"type": "message", "user": "U1", "ts": "1704103200.0001", "text": "hello"}]'
    for name, people, chats, day in (
        ("slack", '[{"id": "U1"}]', '[{"id": "C1", "name": "general"}]', whole),
        ("damaged", "[]", '{"x', '[{"text": "hello"}]'),
    ):
        lists = {"users.json": people, "channels.json": chats}
        write(elsewhere / name, {**lists, "general/2024-01-01.json": day, "notes.md": POST})
    assert taken(preview_run([Path("slack")])) == {
        "slack/": ("chat", "read"),
        "slack/notes.md": ("document", "read"),
    }
    damaged = taken(preview_run([Path("damaged")]))
    assert damaged["damaged/"] == (None, "unsupported")
    assert damaged["damaged/general/2024-01-01.json"] == ("document", "read")


def test_a_picture_is_a_document_unless_it_lies_beside_a_chat(elsewhere: Path) -> None:
    write(elsewhere, {"blog/post.md": POST, "blog/lamp.png": ""})
    assert taken(preview_run([Path("blog")]))["blog/lamp.png"] == ("document", "empty")
    write(elsewhere, {"blog/chat.txt": CHAT})
    assert taken(preview_run([Path("blog")]))["blog/lamp.png"] == (None, "ignored")
    files = [Path("blog/chat.txt"), Path("blog/lamp.png")]
    assert taken(preview_run(files))["blog/lamp.png"] == (None, "ignored")


def test_in_a_workspace_a_file_is_read_with_the_settings_of_its_conversation(
    make_workspace: Callable[..., Workspace], elsewhere: Path
) -> None:
    overrides = SETTINGS.replace("folder: chats", "overrides: {zoe: {date_order: mdy}}")
    workspace = make_workspace(overrides)
    write(workspace.root, {"chats/zoe.txt": AMBIGUOUS})
    write(elsewhere, {"zoe.txt": AMBIGUOUS})
    preview = preview_run([workspace.chats_dir / "zoe.txt"])
    assert [(row["source"], row["date_order"]) for row in preview.files] == [("chats/zoe.txt", "mdy")]
    assert preview.complete
    outside = preview_run([Path("zoe.txt")])
    assert taken(outside) == {"zoe.txt": ("chat", "set_aside")}
    assert not outside.complete
    borrowed = preview_run([Path("zoe.txt")], workspace.root)
    assert [row["date_order"] for row in borrowed.files] == ["mdy"]


def test_what_a_run_would_stop_at_is_a_problem(workspace: Workspace) -> None:
    (workspace.chats_dir / "garden.txt").unlink()
    preview = preview_run([workspace.root])
    [problem] = preview.problems
    assert str(workspace.chats_dir) in problem
    assert not preview.complete
    workspace.chats_dir.rmdir()
    assert any("does not exist; create it" in problem for problem in preview_run([workspace.root]).problems)


def test_what_was_read_before_and_is_gone_is_told_as_the_run_tells_it(workspace: Workspace) -> None:
    build_table(workspace, "messages", find_partitions(workspace))
    build_table(workspace, "documents")
    (workspace.chats_dir / "garden.txt").write_text(CHAT[CHAT.index("15/03/2025") :], encoding="utf-8")
    for post in workspace.documents_dir.iterdir():
        post.unlink()
    before = snapshot(workspace.tables_dir)
    messages, documents = preview_run([workspace.root]).problems
    after = snapshot(workspace.tables_dir)
    assert {path: after[path][0] for path in before} == {path: digest for path, (digest, _) in before.items()}
    opened = open_workspace(workspace.root)
    with pytest.raises(RemovalError) as caught:
        build_table(opened, "messages", find_partitions(opened))
    assert messages == f"a run would stop: {caught.value}"
    with pytest.raises(RemovalError) as caught:
        build_table(opened, "documents")
    assert documents == f"a run would stop: {caught.value}"


def test_what_was_forgotten_is_left_out_and_said(workspace: Workspace) -> None:
    (workspace.chats_dir / "moths.txt").write_text(CHAT.replace("2025", "2024"), encoding="utf-8")
    forgotten = Forgotten().add("conversation", ["moths"]).add("document", ["later.md"])
    forgotten.add("member", ["Cleo Marsh"]).write(workspace.forgotten)
    preview = preview_run([workspace.root])
    ignored = {row["source"]: row["reason"] for row in preview.files if row["status"] == "ignored"}
    assert set(ignored) == {"chats/moths.txt", "posts/later.md"}
    assert all("`backstory forget` removed" in reason for reason in ignored.values())
    [chat] = [row for row in preview.files if row["taken_for"] == "chat"]
    assert (chat["rows"], chat["people"], preview.messages, preview.people) == (8, 2, 8, 2)
    [note] = [note for note in preview.notes if "forgotten" in note]
    assert note.startswith("16 messages")
    assert preview.complete


def test_what_is_not_there_is_an_error(workspace: Workspace, elsewhere: Path) -> None:
    with raises(InputError, "absent_file", Path("nowhere")):
        preview_run([Path("nowhere")])
    with raises(WorkspaceError, "no_workspace"):
        preview_run()
    other = write_workspace(elsewhere / "other")
    with raises(InputError, "several_workspaces"):
        preview_run([workspace.chats_dir, other.chats_dir])
    (elsewhere / "void").mkdir()
    assert preview_run([Path("void")]).problems == ["void: there is no file in it"]


def test_real_exports_are_told_from_what_lies_beside_them(shared_data: Path) -> None:
    preview = preview_run([shared_data / "exports" / "rendered"])
    chats = pl.DataFrame([row for row in preview.files if row["taken_for"] == "chat"])
    assert set(chats.filter(format="whatsapp_text")["rows"]) == {309}
    assert set(chats.filter(pl.col("format").is_in(["telegram", "slack"]))["rows"]) == {308}
    assert preview.messages == 8 * 309 + 2 * 308, "exports are joined within a folder, and not over folders"
    assert [
        row["format"] for row in preview.files if "json" in row["source"] or "slack" in row["source"]
    ] == [
        "slack",
        "telegram",
    ]


def test_an_archive_is_previewed_as_a_chat_or_as_a_folder_of_documents(tmp_path: Path) -> None:
    for name, member, text in (
        ("talk.zip", "_chat.txt", CHAT),
        ("wiki.zip", "frost.md", "# Frost\n"),
        ("pictures.zip", "a.png", "x"),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(member, text)
    rows = preview_run([tmp_path]).files
    found = {PurePath(row["source"]).relative_to(tmp_path).as_posix(): row["taken_for"] for row in rows}
    assert found == {"talk.zip": "chat", "wiki.zip/frost.md": "document", "pictures.zip": None}
