"""A word without end, in a message and in a document, costs a run neither its memory nor its day."""

import os
import random
import resource
import subprocess
import sys
from pathlib import Path

from backstory.tables import read_table
from backstory.workspace import open_workspace

_BASE_MEGABYTES = 450
_SECONDS = 40
_RUN = "from backstory.cli import main; import sys; sys.argv = ['backstory', 'run']; main()"


def write_workspace(folder: Path, characters: int) -> Path:
    letters = "".join(random.Random(1).choices("abcdefghij0123456789+/", k=characters))
    words = ["a" * characters, letters, "1" * characters, "[" * characters]
    (folder / "chats").mkdir()
    (folder / "posts").mkdir()
    (folder / "backstory.yaml").write_text(
        "embedding: {provider: hashing}\nwriters: {provider: digest}\nprivacy: {scrub: [email, phone, card, iban]}\n",
        encoding="utf-8",
    )
    texts = ["the irrigation pump failed again", *words, "done, it arrives on Monday @Anna Weber"]
    lines = [f"13/02/2024, 10:{minute:02} - Anna Weber: {text}\n" for minute, text in enumerate(texts)]
    (folder / "chats" / "garden.txt").write_text("".join(lines), encoding="utf-8")
    for number, word in enumerate(words):
        text = f"The pump of the garden.\n\n{word}\n\nThe end of it.\n"
        (folder / "posts" / f"long-{number}.md").write_text(text, encoding="utf-8")
    return folder


def check_run(folder: Path, megabytes: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS)),
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    if sys.platform == "linux":  # kibibytes there, bytes on macOS
        assert used.ru_maxrss < megabytes << 10
    workspace = open_workspace(folder)
    assert set(read_table(workspace.tables, "documents")["status"]) == {"ok"}
    assert read_table(workspace.tables, "messages").height == len(list((folder / "posts").glob("*.md"))) + 2


def test_a_run_over_long_words_ends_in_little_memory(tmp_path: Path) -> None:
    check_run(write_workspace(tmp_path, 250_000), _BASE_MEGABYTES + 200)
