"""Long texts: memory and the number of chunks grow with the length, whatever the text and the counter."""

import subprocess
import sys
from pathlib import Path

import pytest

LENGTH = 250_000

CUT_ONE_MESSAGE = """
import sys, resource
import polars as pl
from backstory.models.embeddings.hashing import HashingEmbedder
from backstory.settings.models import QuerySettings
from backstory.retrieval.query_chunks import cut_window_chunks

def peak():
    with open("/proc/self/status") as status:
        return int(status.read().partition("VmHWM:")[2].split()[0]) // 1024

length, *units = sys.argv[1:]
windows = pl.DataFrame({"window_id": ["w"], "message_ids": [["m"]]})
before, counts = peak(), []
embedder = HashingEmbedder()
for unit in units:
    text = unit * (int(length) // len(unit))
    messages = pl.DataFrame({"message_id": ["m"], "text": [text], "kind": ["message"]})
    counts.append(
        len(cut_window_chunks(windows, messages, QuerySettings(), max_tokens=512, counter=embedder))
    )
print(peak() - before, *counts)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
def test_one_long_message_takes_a_bounded_memory() -> None:
    units = ("word ", "ab\n")
    result = subprocess.run(
        [sys.executable, "-c", CUT_ONE_MESSAGE, str(LENGTH), *units],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    megabytes, *chunks = map(int, result.stdout.split())
    assert megabytes < 300
    assert len(chunks) == len(units)
    assert max(chunks) < 300
