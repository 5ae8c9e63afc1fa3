"""The check of claims on sentences of real documents, which decided no threshold."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from backstory.text.chunking.units import join_wrapped, split_sentences
from backstory.writing.answers.citations import StatedCitation, StatedClaim, check_claims
from tests.long_tests import some
from tests.writing.answers.passages import make_passage

_NEGATED = ((" is ", " is not "), (" are ", " are not "), (" was ", " was not "), (" can ", " cannot "))


def list_sentences(text: str) -> list[str]:
    places = join_wrapped(text, split_sentences(text, 0, len(text)))
    sentences = [text[start:end] for start, end in places]
    return [one for one in sentences if 40 < len(one) < 300 and one[0] not in "#|->`[" and "](" not in one]


def vary(quote: str, other: str) -> Iterator[tuple[str, str]]:
    """Yield claims that a quote says, or does not say: another sentence, another number, and the contrary."""
    yield "verbatim", quote
    yield "other", other
    if number := re.search(r"\d+", quote):
        yield "number", f"{quote[: number.start()]}{int(number[0]) + 1}{quote[number.end() :]}"
    for said, denied in _NEGATED:
        if said in quote:
            yield "negated", quote.replace(said, denied, 1)
            break


@pytest.mark.parametrize("name", [pytest.param("mtrag", marks=pytest.mark.long), "optech", "scifact"])
def test_sentences_say_themselves_and_nothing_else(shared_data: Path, name: str) -> None:
    documents = pl.read_parquet(shared_data / "eval" / name / "docs.parquet").sort("doc_id")
    draw = random.Random(8)
    supported: dict[str, list[bool]] = {"verbatim": [], "other": [], "number": [], "negated": []}
    for row in documents.sample(some(300), seed=8).iter_rows(named=True):
        text = row["text"][:1500]
        sentences = list_sentences(text)
        if len(sentences) < 3:
            continue
        passage = make_passage(text, title=row["title"] or "")
        quote, other = draw.sample(sentences, 2)
        for kind, claim in vary(quote, other):
            [checked] = check_claims([StatedClaim(claim, (StatedCitation("p1", quote),))], [passage])
            supported[kind].append(checked.fault is None)
    shares = {kind: sum(judged) / len(judged) for kind, judged in supported.items()}
    assert all(len(judged) >= 10 for judged in supported.values())
    assert shares["verbatim"] >= 0.98, shares
    assert max(shares["other"], shares["number"], shares["negated"]) <= 0.1, shares
