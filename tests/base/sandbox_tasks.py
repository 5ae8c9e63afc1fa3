"""What the process that reads is made to do in its tests."""

import ctypes
import os
import signal
import subprocess
import threading
from pathlib import Path

import polars as pl

KEPT: list[bytes] = []


def turn_around(content: bytes) -> bytes:
    return content[::-1]


def name_process(_: bytes) -> bytes:
    return str(os.getpid()).encode()


def list_environment(_: bytes) -> bytes:
    return "\n".join(os.environ).encode()


def print_and_answer(content: bytes) -> bytes:
    print("a library says something")
    return content


def count_forever(_: bytes) -> bytes:
    number = 0
    while True:
        number += 1


def wait_forever(_: bytes) -> bytes:
    threading.Event().wait()
    return b""


def die_beside_program(content: bytes) -> bytes:
    """Start a program that holds the named pipe open, and die."""
    with Path(content.decode()).open("wb") as pipe:
        subprocess.Popen(["sh", "-c", "echo started; exec sleep 600"], stdout=pipe)
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def fill_memory(_: bytes) -> bytes:
    held = []
    while True:
        held.append(b"x" * (16 << 20))


def take_half(content: bytes) -> bytes:
    return str(len(b"x" * (int(content) << 20))).encode()


def keep(content: bytes) -> bytes:
    KEPT.append(b"x" * (int(content) << 20))
    return b""


def ask_for_too_much(_: bytes) -> bytes:
    return b"x" * (1 << 50)


def allocate_in_rust(_: bytes) -> bytes:
    return str(pl.zeros(1 << 40, dtype=pl.Int64, eager=True).sum()).encode()


def panic(_: bytes) -> bytes:
    return str(pl.Series([-(2**31)]).cast(pl.Int32).cast(pl.Date).to_list()).encode()


def read_address_zero(_: bytes) -> bytes:
    return ctypes.string_at(0)


def raise_unexpected(_: bytes) -> bytes:
    raise ZeroDivisionError("Ann Example")
