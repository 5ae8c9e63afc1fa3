"""Time and memory of reading a large Telegram export: ``python -m benchmarks.large_export [--megabytes N]``.

What is measured is what a run does with the file: a process with the default limits reads it, and hands the messages
over to the process that runs.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Final

from backstory.ingest.chats.exports import read_file
from backstory.ingest.walk import ListedFile
from backstory.settings.inputs import ConversationSettings

_PEOPLE: Final = 300
_WORDS: Final = 5_000
_MEGABYTE: Final = 1 << 20
_BEGINNING: Final = '{\n "name": "Bakers",\n "type": "private_supergroup",\n "id": 4123,\n "messages": [\n'


def write_export(file: IO[str], megabytes: int) -> None:
    """Write an export as Telegram Desktop does, with random words, answers and reactions."""
    chance = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(_WORDS)]
    number, sent, size = 0, 1_400_000_000, file.write(_BEGINNING)
    while size < megabytes * _MEGABYTE:
        number, sent, person = number + 1, sent + chance.randint(5, 200), chance.randint(1, _PEOPLE)
        text = " ".join(chance.choices(words, k=chance.randint(3, 25)))
        record = {
            "id": number,
            "type": "message",
            "date": "2024-05-01T10:00:00",
            "date_unixtime": str(sent),
            "from": f"Person {person}",
            "from_id": f"user{person}",
            "text": text,
            "text_entities": [{"type": "plain", "text": text}],
            **({"reply_to_message_id": number - 3} if number % 7 == 0 else {}),
            **({"reactions": [{"type": "emoji", "count": 2, "emoji": "👍"}]} if number % 11 == 0 else {}),
        }
        size += file.write(("" if number == 1 else ",\n") + json.dumps(record, ensure_ascii=False, indent=1))
    file.write("\n ]\n}")


def peak_megabytes(who: int) -> int:
    """Return the peak memory of this process, or of the largest process that it started and that has ended."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss * unit // _MEGABYTE


def read_export(path: Path) -> None:
    """Read an export, and print what was read, seconds, and the peak memory of this process."""
    started = time.perf_counter()
    read = read_file(ListedFile(path.name, path.resolve(), path.resolve().parent), ConversationSettings())
    told = {"status": read.status, "reason": read.reason, "messages": len(read.rows)}
    measured = {
        "seconds": round(time.perf_counter() - started),
        "caller_MB": peak_megabytes(resource.RUSAGE_SELF),
    }
    print(json.dumps(told | measured), flush=True)


def main() -> None:
    """Make an export, read it in another process, and print the peak memory of the larger of both processes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_export", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2048, help="size of the export (default 2048)")
    parser.add_argument("--read", type=Path, help="only read this export")
    arguments = parser.parse_args()
    if arguments.read is not None:
        read_export(arguments.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        with path.open("w", encoding="utf-8") as file:
            write_export(file, arguments.megabytes)
        command = [sys.executable, "-m", "benchmarks.large_export", "--read", str(path)]
        subprocess.run(command, check=True)
        print(json.dumps({"largest_process_MB": peak_megabytes(resource.RUSAGE_CHILDREN)}))


if __name__ == "__main__":
    main()
