"""Names in chats: what is taken for a member's name in conversations without these members, and the speed.

``python -m benchmarks.names DATA`` reads the windows of several messages in ``DATA/*/windows.parquet`` (columns
``window_id`` and ``message``) and looks for the names of :data:`MEMBERS`, who take part in none of them. It prints one
line of JSON: how many spans are taken for a name, by form, and which.
``--messages`` generates a chat of that size with ``--members`` members instead, and gives the messages per CPU second
of replacing names and of searching for what is left.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import polars as pl

from backstory.ingest.privacy.forms import fold
from backstory.ingest.privacy.names import NameFinder, normalize_name
from backstory.ingest.privacy.pseudonyms import find_real_names, pseudonymize_messages
from benchmarks.chunking import WORDS

MEMBERS: Final = tuple(
    re.split(
        r",\s+",
        """Rose Park, Will Long, Mark Green, Grace May, Li Wei, Amy Cross, Ben Rivers, Frank Light, Anna Mount,
Sam Carpenter, Dan Walker, Hope King, Joy Price, Art Bridges, Jack Hill, Ian Green, Bill Best, Emma
Johnson, Oliver Smith, Mary Jane Watson, Sean O'Brien, Thomas Müller, Jürgen Schneider, Anna Bauer,
Stefan Fischer, Ute Klein, Lena von Berg, Björn Håkansson, Anna Lindqvist, Åsa Ek, Erik Lund, Maja
Sjöberg, José García, María del Carmen López, Ana Rosa Blanco, Juan Cruz, Luz Flores, Ana Campos,
Jan de Vries, Anna-Lena Winter""",
    )
)
"""Forty names; the first seventeen are made of ordinary words."""
_SHOWN: Final = 60


def count_false_alarms(data: Path) -> dict[str, object]:
    """Count what is taken for a name in labelled conversations.

    Args:
        data: A folder of folders with ``windows.parquet``.
    """
    paths = sorted(data.glob("*/windows.parquet"))
    frames = [pl.read_parquet(path, columns=["window_id", "message"]) for path in paths]
    windows = [frame.filter(pl.len().over("window_id") > 1) for frame in frames]
    texts = pl.concat([window["message"] for window in windows])
    finder = NameFinder(MEMBERS)
    names = {normalize_name(name): name for name in MEMBERS}
    forms, spans = Counter[str](), defaultdict[str, Counter[str]](Counter)
    for text, in_text in zip(texts, finder.find_in(texts, "message"), strict=True):
        for found in in_text:
            written = text[found.start : found.end]
            form = name_form(written, names.get(found.person, found.person))
            forms[form] += 1
            spans[form][f"{found.person}: {' '.join(written.split())}"] += 1
    return {
        "windows": sum(window["window_id"].n_unique() for window in windows),
        "messages": len(texts),
        "members": len(MEMBERS),
        "spans": dict(sorted(forms.items())),
        "texts": {form: dict(counts.most_common(_SHOWN)) for form, counts in sorted(spans.items())},
    }


def name_form(written: str, name: str) -> str:
    """Say in which form a name is written."""
    letters, words = fold(written), [fold(word) for word in name.split()]
    if written.startswith("@"):
        return "mention"
    if letters == "".join(words):
        return "in order"
    if letters in ("".join(words[cut:] + words[:cut]) for cut in range(1, len(words))):
        return "other order"
    if letters.startswith("".join(words)):
        return "ending"
    return "initials or spelling"


def measure_speed(messages: int, members: int) -> dict[str, object]:
    """Measure the messages per CPU second of replacing names, and of the search for what is left.

    Args:
        messages: Messages of the chat; every tenth holds a name, every fiftieth a tag or an escape.
        members: Authors of the chat.
    """
    source = random.Random(7)
    vocabulary = WORDS.split()
    # The generator's surnames are no words of the texts.
    names = [f"{source.choice(MEMBERS).split()[0]} {make_surname(source)}" for _ in range(members)]
    start = datetime(2025, 1, 1, tzinfo=UTC)
    rows = []
    for number in range(messages):
        text = " ".join(source.choices(vocabulary, k=1 + int(source.lognormvariate(2.5, 0.8)))).capitalize()
        name = source.choice(names)
        if number % 50 == 0:
            text = f"<b>{text}</b>&nbsp;{name}"
        elif number % 10 == 0:
            text = f"{text} {name}"
        rows.append(
            ("team", start + timedelta(seconds=number), source.choice(names), text, "message", "team.txt")
        )
    schema = ["conversation_id", "timestamp", "author", "text", "kind", "source"]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    began = time.process_time()
    hidden = pseudonymize_messages(frame, bytes(range(32)))
    replaced = time.process_time()
    left = len(find_real_names(hidden, sorted(set(names))))
    searched = time.process_time()
    return {
        "messages": messages,
        "members": members,
        "replaced_per_s": round(messages / (replaced - began)),
        "searched_per_s": round(messages / (searched - replaced)),
        "left": left,
    }


def make_surname(source: random.Random) -> str:
    """Make a surname of two to four syllables."""
    syllables = (
        source.choice("bdfgklmnprstv") + source.choice(["a", "e", "i", "o", "ö", "ar", "en"])
        for _ in range(4)
    )
    return "".join(list(syllables)[: source.randint(2, 4)]).capitalize()


def main() -> None:
    """Count or measure as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="folder of labelled conversations")
    parser.add_argument("--messages", type=int, help="size of a chat to measure the speed with")
    parser.add_argument("--members", type=int, default=5)
    given = parser.parse_args()
    if given.data is not None:
        print(json.dumps(count_false_alarms(given.data), ensure_ascii=False))
    if given.messages is not None:
        print(json.dumps(measure_speed(given.messages, given.members)))


if __name__ == "__main__":
    main()
