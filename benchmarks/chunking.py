"""Speed of cutting texts into chunks, beside a plain paragraph packer in the same process.

``python -m benchmarks.chunking`` prints one line of JSON. Speeds are megabytes of text per CPU second, the best of
several rounds in which both are measured in turn. Both count a token for every four characters, so that neither
measures a tokenizer. The speed with :func:`backstory.text.chunking.units.estimate_tokens` is given as well, and for
texts of one kind of line each the CPU seconds with the default model's tokenizer, as a multiple of those of prose.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from backstory.models.embeddings.packs import read_granite_pack
from backstory.models.onnx_text import TextTokenizer
from backstory.settings.inputs import ChunkerName, ChunkSettings
from backstory.text.chunking.cut import Span, TitledText, choose_chunker, cut_chunks, cut_titled_texts
from backstory.text.chunking.units import ESTIMATED_TOKENS, Pages, TokenCounter

MAX_TOKENS = 1800
OVERLAP_TOKENS = 150
MESSAGES_PER_WINDOW = 500
WORDS = """the a of to in it we you is that and but so not maybe think should really again tomorrow train
tickets harbour meeting release build server index query recipe flour oven bread salt weather rain window
probably everybody forgot remember screenshot question answer thanks morning evening projector hotel"""

Result = TypeVar("Result")


def generate_windows(megabytes: float, seed: int = 1) -> list[str]:
    """Make windows of a group chat in the form of ``consolidate_messages_to_markdown``.

    Args:
        megabytes: Least total size.
        seed: Seed of the random messages.

    Returns:
        One Markdown text per window of 500 messages.
    """
    source = random.Random(seed)
    words = WORDS.split()
    windows: list[str] = []
    size = 0
    while size < megabytes * 1e6:
        text = "\n\n".join(
            _write_message(source, words, number) for number in range(1, MESSAGES_PER_WINDOW + 1)
        )
        windows.append(text)
        size += len(text)
    return windows


def _write_message(source: random.Random, words: list[str], number: int) -> str:
    length = 1 + int(source.lognormvariate(2.9, 0.8))
    text = " ".join(source.choices(words, k=length)).capitalize()
    author = f"member-{source.getrandbits(40):010x}"
    timestamp = f"2025-01-15 10:{number % 60:02d}"
    return f"## Message {number}\n**Author:** {author}\n**Timestamp:** {timestamp}\n\n{text}."


class Quarters:
    """Counts one token per four characters, plus one."""

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count the tokens of each text."""
        return np.fromiter(map(len, texts), np.int64, len(texts)) // 4 + 1

    def find_token_ends(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Find the end of each token of each text."""
        return [np.arange(len(text) // 4 + 1, dtype=np.int64) * 4 for text in texts]


class Model:
    """Counts with the tokenizer of the default model."""

    def __init__(self) -> None:
        tokenizer = TextTokenizer(read_granite_pack().read_tokenizer())
        self.count_tokens = tokenizer.count
        self.find_token_ends = tokenizer.find_ends


def generate_kinds(characters: int, seed: int = 1) -> dict[str, tuple[ChunkerName, str]]:
    """Make one long text of each kind of line, prose first, with the chunker that cuts it."""
    source = random.Random(seed)
    words = WORDS.split()

    def say() -> str:
        return " ".join(source.choices(words, k=source.randint(5, 20))).capitalize() + "."

    def fill(make: Callable[[], str]) -> str:
        lines: list[str] = []
        size = 0
        while size < characters:
            lines.append(make())
            size += len(lines[-1])
        return "".join(lines)[:characters]

    return {
        "prose": ("markdown", fill(lambda: f"{say()} {say()} {say()}\n\n")),
        "headings": ("markdown", fill(lambda: f"# {say()}\n")),
        "shortest headings": ("markdown", fill(lambda: "# h\n")),
        "rows": ("rows", fill(lambda: f"name: {source.choice(words)}; amount: {source.randint(1, 999)}\n")),
        "one word": ("markdown", fill(lambda: f"{source.getrandbits(64):016x}")),
        "nested lists": ("markdown", fill(lambda: f"{'  ' * source.randint(0, 12)}- {say()}\n")),
        "quotes": ("markdown", fill(lambda: f"{'>' * source.randint(1, 20)} {say()}\n")),
    }


def compare_kinds(characters: int) -> dict[str, float]:
    """Return the CPU seconds of each kind of text as a multiple of those of prose."""
    counter = Model()
    seconds = {}
    for kind, (name, text) in generate_kinds(characters).items():
        titled = TitledText(
            kind, "A title", text, Pages(), choose_chunker(name, ChunkSettings(), max_tokens=512)
        )
        seconds[kind], _ = measure(lambda titled=titled: cut_titled_texts([titled], counter))  # type: ignore[misc]
    return {kind: round(taken / seconds["prose"], 2) for kind, taken in seconds.items()}


def pack_paragraphs(text: str, max_tokens: int, overlap_tokens: int) -> list[str]:
    """Pack paragraphs in the simplest way: without offsets or checks, and without cutting a paragraph."""
    chunks: list[str] = []
    current: list[str] = []
    total = 0
    for paragraph in text.split("\n\n"):
        tokens = len(paragraph) // 4 + 1
        if current and total + tokens > max_tokens:
            chunks.append("\n\n".join(current))
            kept: list[str] = []
            total = 0
            for previous in reversed(current):
                size = len(previous) // 4 + 1
                if total + size > overlap_tokens:
                    break
                kept.append(previous)
                total += size
            current = kept[::-1]
        current.append(paragraph)
        total += tokens
    if current:
        chunks.append("\n\n".join(current))
    return chunks


def count_losses(texts: Sequence[str], spans: Sequence[list[Span]], counter: TokenCounter) -> tuple[int, int]:
    """Count the non-whitespace characters that no chunk holds, and the chunks over the ceiling."""
    lost = oversize = 0
    for text, cut in zip(texts, spans, strict=True):
        covered = 0
        for span in cut:
            lost += len("".join(text[covered : max(span.start, covered)].split()))
            covered = span.end
        lost += len("".join(text[covered:].split()))
        counts = counter.count_tokens([text[span.start : span.end] for span in cut])
        oversize += int((counts > MAX_TOKENS).sum())
    return lost, oversize


def measure(run: Callable[[], Result]) -> tuple[float, Result]:
    """Call a function; give its CPU seconds and its result."""
    started = time.process_time()
    result = run()
    return time.process_time() - started, result


def main() -> None:
    """Measure and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    texts = generate_windows(arguments.megabytes)
    megabytes = sum(map(len, texts)) / 1e6

    def cut(counter: TokenCounter) -> list[list[Span]]:
        return cut_chunks(texts, max_tokens=MAX_TOKENS, overlap_tokens=OVERLAP_TOKENS, counter=counter)

    seconds: dict[str, list[float]] = {"chunks": [], "plain": [], "estimate": []}
    for _ in range(arguments.rounds):
        elapsed, spans = measure(lambda: cut(Quarters()))
        seconds["chunks"].append(elapsed)
        elapsed, _plain = measure(
            lambda: [pack_paragraphs(text, MAX_TOKENS, OVERLAP_TOKENS) for text in texts]
        )
        seconds["plain"].append(elapsed)
        elapsed, estimated = measure(lambda: cut(ESTIMATED_TOKENS))
        seconds["estimate"].append(elapsed)
    losses = count_losses(texts, spans, Quarters())
    losses_estimated = count_losses(texts, estimated, ESTIMATED_TOKENS)
    speeds = {name: megabytes / min(values) for name, values in seconds.items()}
    line = {
        "benchmark": "chunking",
        "megabytes": round(megabytes, 1),
        "chunks": sum(map(len, spans)),
        "mb_per_cpu_second": round(speeds["chunks"], 1),
        "reference": "plain paragraph packer",
        "reference_mb_per_cpu_second": round(speeds["plain"], 1),
        "ratio": round(speeds["plain"] / speeds["chunks"], 3),
        "estimate_tokens_mb_per_cpu_second": round(speeds["estimate"], 1),
        "lost": losses[0] + losses_estimated[0],
        "times_prose": compare_kinds(1_000_000),
        "oversize": losses[1] + losses_estimated[1],
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
