"""Files that change, and change back, while a stage reads them: what is stored is never taken for another content."""

import io
import itertools
import json
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from functools import partial
from pathlib import Path

import pytest

from backstory.base.errors import WorkspaceError
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.forms import Share
from tests.long_tests import each_of
from tests.workspaces import build_table, is_stale

SETTINGS = (
    "conversations: {removals: mirror, date_order: dmy}\nembedding: {provider: hashing}\n"
    "documents: {sources: [{path: more}]}\n"
)


def write_telegram(word: str) -> bytes:
    messages = [
        {
            "id": number,
            "type": "message",
            "date_unixtime": str(1_700_000_000 + number),
            "from": "Ada Lind",
            "from_id": "user1",
            "text": word,
        }
        for number in range(3)
    ]
    return json.dumps({"name": "Garden", "type": "private_group", "id": 7, "messages": messages}).encode()


def write_zip(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), content)
    return packed.getvalue()


def write_mail(word: str) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["Date"] = "Ada Lind <ada@example.org>", "Thu, 13 Mar 2025 09:00:00 +0000"
    mail["Subject"] = "Garden"
    mail.set_content(f"{word}\n")
    return mail.as_bytes()


def write_whatsapp(word: str) -> bytes:
    return f"13/03/2025, 09:00 - Ada Lind: {word}\n13/03/2025, 09:01 - Ben Okri: {word}\n".encode()


def write_table(word: str) -> bytes:
    row = {"timestamp": "2025-03-13T09:00:00Z", "author": "Ada Lind", "message": word}
    return f"{json.dumps(row)}\n".encode()


FILES: Mapping[str, Callable[[str], bytes]] = {
    "chats/whatsapp.txt": write_whatsapp,
    "chats/telegram.json": write_telegram,
    "chats/packed.zip": lambda word: write_zip("WhatsApp Chat with Garden.txt", write_whatsapp(word)),
    "chats/table.jsonl": write_table,
    "chats/mails/cur/1.eml": write_mail,
    "posts/note.md": lambda word: f"# Note\n\n{word}\n".encode(),
    "posts/table.csv": lambda word: f"plant,state\nquince,{word}\n".encode(),
    "posts/packed.zip": lambda word: write_zip("note.md", f"# Note\n\n{word}\n".encode()),
    "more/note.md": lambda word: f"# Note\n\n{word}\n".encode(),
    "more/packed.zip": lambda word: write_zip("note.md", f"# Note\n\n{word}\n".encode()),
}


def rename(path: Path, content: bytes) -> None:
    beside = path.with_name(".beside")
    beside.write_bytes(content)
    beside.replace(path)


def rewrite(path: Path, content: bytes) -> None:
    with path.open("r+b", buffering=0) as file:
        file.write(content)


@contextmanager
def changing(path: Path, contents: Sequence[bytes], change: Callable[[Path, bytes], None]) -> Iterator[None]:
    """Give a file one content after the other, as fast as possible."""
    is_over = threading.Event()

    def work() -> None:
        for content in itertools.cycle(contents):
            change(path, content)
            if is_over.is_set():
                return

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def store_chats(workspace: Workspace) -> None:
    build_table(workspace, "messages", find_partitions(workspace))


def is_pending(workspace: Workspace, name: str) -> bool:
    if name.startswith("chats/"):
        return is_stale(workspace, "messages", find_partitions(workspace))
    return is_stale(workspace, "documents")


def read_texts(workspace: Workspace, name: str) -> str:
    if name.startswith("chats/"):
        return " ".join(workspace.tables.read("messages")["text"])
    return " ".join(workspace.tables.read("documents").filter(status="ok")["text"])


@pytest.mark.parametrize(
    ("name", "change", "readings"),
    [
        # Every other file is changed in one of the ways, and `make test-long` changes each in both.
        *((name, (rename, rewrite)[place % 2], 2) for place, name in enumerate(each_of([*FILES], 2))),
        *(
            pytest.param(name, change, 50, marks=pytest.mark.long)
            for name in FILES
            for change in (rename, rewrite)
        ),
    ],
)
def test_what_is_stored_is_never_taken_for_another_content(
    tmp_path: Path, name: str, change: Callable[[Path, bytes], None], readings: int, share: Share
) -> None:
    root = tmp_path / "workspace"
    for folder in ("chats/mails/new", "posts", "more"):
        (root / folder).mkdir(parents=True)
    (root / "backstory.yaml").write_text(SETTINGS, encoding="utf-8")
    share(root)
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    contents = {word: FILES[name](word) for word in ("sown", "mown")}
    path.write_bytes(contents["sown"])
    store = store_chats if name.startswith("chats/") else partial(build_table, table="documents")
    store(open_workspace(root))
    for _ in range(readings):
        # A chat that was written during each of its readings is failed, and there is no other one.
        with changing(path, list(contents.values()), change), suppress(WorkspaceError):
            store(open_workspace(root))
        for word, content in contents.items():
            change(path, content)
            workspace = open_workspace(root)
            if not is_pending(workspace, name):
                assert word in read_texts(workspace, name)
    store(open_workspace(root))
    assert not is_pending(open_workspace(root), name)
    assert "mown" in read_texts(open_workspace(root), name)
