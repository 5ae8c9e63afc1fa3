from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backstory.text.chunking.units import ESTIMATED_TOKENS, TokenCounter, estimate_tokens

PROSE = """The ferry had left before anyone noticed that the rucksack with the tickets was still under the
bench. Martha laughed, since it was her own fault, and suggested that we walk along the harbour until the next
one came. It was a mild evening; a few people were fishing from the wall, and nobody seemed to catch
anything. "We could simply stay," she said. We stayed for nine years.

Most of what I know about bread I learned there. A dough with too little salt rises quickly and tastes
of nothing, and a hot oven forgives nearly everything else."""

CHAT = """## Message 12
**Author:** member-3f9c0ad1e2
**Timestamp:** 2025-01-15 10:35

ok so who's bringing the projector?? mine broke lol

## Message 13
**Author:** member-77b1e0c4d9
**Timestamp:** 2025-01-15 10:36

I can, but only after 6pm. Also: did anybody reply to the hotel?"""

CODE = '''def read_lines(path: Path, *, limit: int = 10_000) -> Iterator[tuple[int, str]]:
    """Yield numbered lines; stops after ``limit``."""
    with path.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            if number > limit or not raw:
                raise ValueError(f"{path}:{number}: more than {limit} lines")
            yield number, raw.rstrip(b"\\r\\n").decode("utf-8", errors="surrogateescape")
'''


def sample_random_bytes(count: int) -> bytes:
    return random.Random(7).randbytes(count)


SAMPLES = {
    "prose": PROSE,
    "chat": CHAT,
    "code": CODE,
    "hexadecimal": sample_random_bytes(200).hex(),
    "JSON with hashes": json.dumps(
        {
            "block": 19_234_881,
            "hash": "0x" + sample_random_bytes(32).hex(),
            "transactions": [sample_random_bytes(32 + n).hex() for n in range(6)],
        },
        indent=2,
    ),
    "base64": base64.b64encode(sample_random_bytes(600)).decode(),
    "URLs": "https://example.org/archive/2023/11/04/why-it-rains?utm_source=feed&id=8f3Qk2xZ#c-19\n"
    "https://cdn.example.com/assets/v3/img_0042@2x.png\nhttp://[2001:db8::1]:8080/a/b.php?x=1&y=%20",
    "Chinese": "昨天我们在河边散步，看到很多人在钓鱼。老师说：“明天要下雨！”结果真的下了一整天。",
    "Japanese": "昨日は雨だったので、家で本を読みました。新しい喫茶店は駅の近くにあります。とても静かです。",
    "Korean": "어제는 비가 와서 하루 종일 집에 있었어요. 내일은 친구와 함께 산에 가기로 했습니다.",
    "Russian": "Вчера вечером мы долго искали дорогу к станции, потому что карта намокла.",
    "emoji": "👍🏽🎉 🇩🇪👨‍👩‍👧‍👦 ❤️‍🔥🙏🏿✨😂😂😂 🥐☕️",
    "table": "| city | km | ok |\n|------|---:|:--:|\n| Łódź | 12.5 | ✅ |\n| Brno | 7 | ❌ |",
    "indented": "a:\n" + "\n".join(" " * depth + f"- item_{depth}" for depth in range(0, 40, 4)),
    "white space": "\n" * 40 + "\t" * 20 + " " * 60,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_estimate_is_never_below_the_tokenizer(name: str, granite_tokens: TokenCounter) -> None:
    text = SAMPLES[name]
    parts = [text, *text.split("\n"), *(text[:end] for end in range(20, len(text), 20))]
    estimated, counted = estimate_tokens(parts), granite_tokens.count_tokens(parts)
    short = [(part, e, c) for part, e, c in zip(parts, estimated, counted, strict=True) if e < c]
    assert not short
    assert name not in ("prose", "chat") or estimated[0] <= 1.6 * counted[0]


@pytest.mark.parametrize("source", ["optech", "mtrag", "qmsum", "topicalchat", "scifact", "rustblog"])
def test_estimate_holds_for_real_documents(
    source: str, shared_data: Path, granite_tokens: TokenCounter
) -> None:
    texts = pl.read_parquet(shared_data / "eval" / source / "docs.parquet")["text"].drop_nulls()
    texts = texts.filter(texts.str.len_chars() >= 500).sample(150, seed=3, with_replacement=True).unique()
    estimated, counted = estimate_tokens(texts.to_list()), granite_tokens.count_tokens(texts.to_list())
    assert (estimated >= counted).all()
    assert estimated.sum() <= 1.6 * counted.sum()


@example("\ud800", "\ud800")
@given(st.text(max_size=60), st.text(max_size=60))
def test_a_longer_text_never_has_fewer_tokens(text: str, more: str) -> None:
    shorter, longer = estimate_tokens([text, text + more])
    assert shorter <= longer


@pytest.mark.parametrize("name", SAMPLES)
def test_tokens_before_a_place_are_those_of_the_beginning(name: str, granite_tokens: TokenCounter) -> None:
    text = SAMPLES[name]
    places = range(0, len(text), 7)
    for counter in (ESTIMATED_TOKENS, granite_tokens):
        (ends,) = counter.find_token_ends([text])
        assert len(ends) == counter.count_tokens([text])[0]
        assert (np.diff(ends) >= 0).all()
        before = ends.searchsorted(places, "right")
        counted = counter.count_tokens([text[:place] for place in places])
        assert np.abs(before - counted).max() <= 3, "a place may lie in a token"
