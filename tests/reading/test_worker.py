"""The process that reads files: it answers, it is reused, and whatever ends it is said in a sentence."""

import os
import signal
from pathlib import Path

import pytest

from backstory.errors import ReadingLimitError
from backstory.reading import ReadingLimits, run_limited

LIMITS = ReadingLimits(seconds=1, megabytes=64)


class HastyLimits(ReadingLimits):
    """Limits of a test that waits for a process that takes no processor time."""

    def wall_seconds(self, size: int) -> float:  # noqa: ARG002 - that of every file
        return 0.1


def run(task: str, content: bytes = b"", limits: ReadingLimits = LIMITS) -> bytes:
    return run_limited(f"tests.reading.tasks:{task}", content, limits)


@pytest.mark.parametrize("content", [b"", b"abc", b"\n{}\0" * 1000, bytes(range(256)) * 9000], ids=len)
def test_a_task_is_given_bytes_and_gives_bytes(content: bytes) -> None:
    assert run("turn_around", content) == content[::-1]


def test_one_process_does_one_task_after_another() -> None:
    assert run("name_process") == run("name_process") != str(os.getpid()).encode()


def test_a_process_has_the_limits_of_its_task() -> None:
    assert run("name_process") != run("name_process", limits=ReadingLimits(seconds=1, megabytes=128))


def test_a_process_that_held_much_is_not_used_again() -> None:
    before = run("name_process")
    assert run("take_half", b"40") == str(40 << 20).encode()
    assert run("name_process") != before


def test_a_process_that_was_ended_from_outside_is_replaced() -> None:
    os.kill(int(run("name_process")), signal.SIGKILL)
    with pytest.raises(ReadingLimitError, match="SIGKILL"):
        run("name_process")
    assert run("turn_around", b"ab") == b"ba"


def test_the_process_knows_no_key(api_key: str) -> None:
    assert b"PATH" in run("list_environment").splitlines()
    assert b"GEMINI_API_KEY" not in run("list_environment").splitlines()
    assert api_key


def test_what_a_library_prints_is_no_answer() -> None:
    assert run("print_and_answer", b"answer") == b"answer"


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ("count_forever", r"more than 1 seconds of processor time \(`read_seconds` is 1\)"),
        ("fill_memory", r"more than 64 MB of memory \(`read_megabytes`\)"),
        ("ask_for_too_much", r"more than 64 MB of memory"),
        ("allocate_in_rust", r"more than 64 MB of memory|breaks the reader"),
        ("panic", r"breaks the reader \(exit code 78\)"),
        ("read_address_zero", r"breaks the reader \(SIGSEGV\)"),
        ("raise_unexpected", r"breaks the reader \(exit code 78\)"),
    ],
)
def test_what_ends_the_process_is_said_and_the_next_task_runs(task: str, sentence: str) -> None:
    with pytest.raises(ReadingLimitError, match=sentence) as caught:
        run(task)
    assert "Example" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert run("turn_around", b"ab") == b"ba"


def test_a_process_that_only_waits_is_ended_too() -> None:
    with pytest.raises(ReadingLimitError, match="seconds"):
        run("wait_forever", limits=HastyLimits(seconds=1, megabytes=64))


def test_a_program_that_a_process_started_ends_with_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(ReadingLimitError, match="SIGKILL"):
        run("die_beside_program", str(pipe).encode())
    os.set_blocking(reading, True)
    with os.fdopen(reading, "rb") as opened:
        assert opened.read() in (b"", b"started\n"), "the pipe ends when the program does"


def test_a_larger_file_may_take_longer() -> None:
    limits = ReadingLimits(seconds=60, megabytes=2048)
    assert limits.processor_seconds(1000) == 60
    assert limits.processor_seconds(100 << 20) == 160
    assert limits.wall_seconds(100 << 20) > limits.wall_seconds(0) > 60
