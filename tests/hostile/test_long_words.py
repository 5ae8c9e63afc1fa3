"""A word without end, in a message and in a document, costs a run neither its memory nor its day."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.interfaces.library.library import Library
from backstory.pipeline.workspace import open_workspace
from tests.long_tests import LONG_TESTS, some

_RUN = """
import resource, sys
from pathlib import Path
seconds = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
from backstory.interfaces.cli.app import app
app(["run"], standalone_mode=False)
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else ["VmHWM: 0"]  # only Linux tells it so
print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""
_SETTINGS = "writers: {provider: digest}\nprivacy: {scrub: [email, phone, card, iban]}\n"
_HASHING = "embedding: {provider: hashing}\n"


def write_word(kind: str, characters: int) -> str:
    """Write a run of characters without a blank; ``mixed`` holds what is sought in addresses and numbers, too."""
    numbers = random.Random(1)
    match kind:
        case "mixed":
            return "".join(numbers.choices("abcdefghij0123456789+/", k=characters))
        case "chinese":
            few = "".join(map(chr, range(0x4E00, 0x4E40)))
            return "".join(numbers.choices(few, k=characters))
        case _:
            return kind * characters


def write_workspace(folder: Path, words: list[str], settings: str) -> Path:
    (folder / "chats").mkdir()
    (folder / "posts").mkdir()
    (folder / "backstory.yaml").write_text(settings, encoding="utf-8")
    texts = ["the irrigation pump failed again", *words, "done, it arrives on Monday @Anna Weber"]
    lines = [f"13/02/2024, 10:{minute:02} - Anna Weber: {text}\n" for minute, text in enumerate(texts)]
    (folder / "chats" / "garden.txt").write_text("".join(lines), encoding="utf-8")
    for number, word in enumerate(words):
        text = f"The pump of the garden.\n\n{word}\n\nThe end of it.\n"
        (folder / "posts" / f"long-{number}.md").write_text(text, encoding="utf-8")
    return folder


def check_run(folder: Path, *, seconds: int, megabytes: int) -> None:
    # What a process reports of itself, since what is reported of a child counts what its parent held when it forked.
    ended = subprocess.run(
        [sys.executable, "-c", _RUN, str(seconds)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout.split()[-1]) < megabytes << 10
    workspace = open_workspace(folder)
    assert set(workspace.tables.read("documents")["status"]) == {"ok"}
    assert workspace.tables.read("messages").height == len(list((folder / "posts").glob("*.md"))) + 2


def test_a_run_over_long_words_ends_in_little_memory(tmp_path: Path) -> None:
    words = [write_word(kind, 250_000 if LONG_TESTS else 100_000) for kind in ("a", "mixed", "1", "[")]
    check_run(write_workspace(tmp_path, words, _HASHING + _SETTINGS), seconds=60, megabytes=650)


@pytest.mark.long
def test_a_run_over_a_word_of_a_megabyte_ends_in_little_memory(tmp_path: Path) -> None:
    check_run(write_workspace(tmp_path, ["a" * 1_000_000], _HASHING + _SETTINGS), seconds=60, megabytes=650)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "characters"), [("a", 10_000_000), ("1", 10_000_000), ("[", 10_000_000), ("mixed", 2_000_000)]
)
def test_a_run_over_megabytes_without_a_blank_ends_in_little_memory(
    tmp_path: Path, kind: str, characters: int
) -> None:
    words = [write_word(kind, characters)]
    check_run(write_workspace(tmp_path, words, _HASHING + _SETTINGS), seconds=200, megabytes=900)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "characters"), [("a", 10_000_000), ("mixed", 500_000), ("chinese", 200_000)]
)
def test_the_local_model_takes_a_long_word_in_parts(tmp_path: Path, kind: str, characters: int) -> None:
    check_run(
        write_workspace(tmp_path, [write_word(kind, characters)], _SETTINGS), seconds=400, megabytes=1500
    )


def test_a_question_of_megabytes_has_an_answer_or_an_error(tmp_path: Path) -> None:
    run_pipeline(open_workspace(write_workspace(tmp_path, ["word"], _HASHING)))
    question = "a" * some(10_000_000)
    with Library.open(tmp_path) as library:
        assert library.search(question).keys != (question,)
        assert library.context("the pump " + question[: some(1_000_000)]).text
