"""The process that reads files: it answers, it is reused, and whatever ends it is said in a sentence."""

import os
import signal
from pathlib import Path

import pytest

from backstory.base.errors import ReadError
from backstory.base.sandbox import ReadingLimits, run_limited
from tests.errors import raises

LIMITS = ReadingLimits(seconds=1, megabytes=64)


class HastyLimits(ReadingLimits):
    """Limits of a test that waits for a process that takes no processor time."""

    def wall_seconds(self, size: int) -> float:  # noqa: ARG002 - that of every file
        return 0.1


def run(task: str, content: bytes = b"", limits: ReadingLimits = LIMITS) -> bytes:
    return run_limited(f"tests.base.sandbox_tasks:{task}", content, limits)


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


def test_what_an_earlier_task_left_does_not_count_against_the_next() -> None:
    run("take_half", b"40")  # ends a process that another file's tasks may have used
    before = run("name_process")
    run("keep", b"24")
    assert run("name_process") == before
    assert run("take_half", b"50") == str(50 << 20).encode()
    assert run("name_process") != before


def test_what_tasks_leave_does_not_pile_up() -> None:
    run("take_half", b"40")
    before = run("name_process")
    for _ in range(3):
        run("keep", b"24")
    assert run("name_process") != before


def test_a_process_that_was_ended_from_outside_is_replaced() -> None:
    os.kill(int(run("name_process")), signal.SIGKILL)
    with raises(ReadError, "broken_reader"):
        run("name_process")
    assert run("turn_around", b"ab") == b"ba"


def test_the_process_knows_no_key(api_key: str) -> None:
    assert b"PATH" in run("list_environment").splitlines()
    assert b"GEMINI_API_KEY" not in run("list_environment").splitlines()
    assert api_key


def test_what_a_library_prints_is_no_answer() -> None:
    assert run("print_and_answer", b"answer") == b"answer"


@pytest.mark.parametrize(
    ("task", "codes", "named"),
    [
        ("count_forever", ["too_slow"], ["read_seconds"]),
        ("fill_memory", ["too_large"], ["read_megabytes"]),
        ("ask_for_too_much", ["too_large"], ["read_megabytes"]),
        ("allocate_in_rust", ["too_large", "broken_reader"], []),
        ("panic", ["broken_reader"], []),
        ("read_address_zero", ["broken_reader"], []),
        ("raise_unexpected", ["broken_reader"], []),
    ],
)
def test_what_ends_the_process_is_said_and_the_next_task_runs(
    task: str, codes: list[str], named: list[str]
) -> None:
    with pytest.raises(ReadError) as caught:
        run(task)
    assert caught.value.code in codes
    assert all(name in str(caught.value) for name in named)
    assert "Example" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert run("turn_around", b"ab") == b"ba"


def test_a_process_that_only_waits_is_ended_too() -> None:
    with raises(ReadError, "too_slow", "read_seconds"):
        run("wait_forever", limits=HastyLimits(seconds=1, megabytes=64))


def test_a_program_that_a_process_started_ends_with_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with raises(ReadError, "broken_reader"):
        run("die_beside_program", str(pipe).encode())
    os.set_blocking(reading, True)
    with os.fdopen(reading, "rb") as opened:
        assert opened.read() in (b"", b"started\n"), "the pipe ends when the program does"


def test_a_larger_file_may_take_longer() -> None:
    limits = ReadingLimits(seconds=60, megabytes=2048)
    assert limits.processor_seconds(1000) == 60
    assert limits.processor_seconds(100 << 20) == 160
    assert limits.wall_seconds(100 << 20) > limits.wall_seconds(0) > 60
