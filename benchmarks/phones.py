"""Measure what is found of phone numbers in national form: ``python -m benchmarks.phones [FILE.parquet ...]``.

Recall is over the example numbers of all regions that the package phonenumbers has, within a sentence and behind the
word ``call``; none of them was used to choose the shapes. What is found among generated numbers that are none is wrong.
Of each file with a column ``text``, such as docs.parquet of an evaluation set, it prints what is found, for a reader.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator

import phonenumbers
import polars as pl

from backstory.ingest.privacy.personal_data import find_phone_shapes

_KINDS = (phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE)
_NUMBERS = 2_000


def main() -> None:
    """Print recall, what is found wrongly, and what is found in files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="Parquet files with a column text")
    arguments = parser.parse_args()
    examples = [
        phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.NATIONAL)
        for region in sorted(phonenumbers.SUPPORTED_REGIONS)
        for kind in _KINDS
        if (number := phonenumbers.example_number_for_type(region, kind)) is not None
    ]
    for words in ("We met at {} tonight", "Please call {} tonight"):
        start = words.index("{")
        count = sum((start, start + len(one)) in find_phone_shapes(words.format(one)) for one in examples)
        print(f"{words}: {count} of {len(examples)} numbers")
    others = list(_list_others(random.Random(1)))
    wrong = [one for one in others if list(find_phone_shapes(f"We saw {one} there"))]
    print(f"{len(wrong)} of {len(others)} other numbers are taken for phone numbers: {wrong[:5]}")
    for path in arguments.files:
        texts = pl.read_parquet(path, columns=["text"])["text"].drop_nulls().to_list()
        found = [text[max(0, start - 30) : end] for text in texts for start, end in find_phone_shapes(text)]
        print(f"{path}: {len(found)} in {sum(map(len, texts)):,} characters")
        print(*(f"  {' '.join(one.split())}" for one in found), sep="\n")


def _list_others(chance: random.Random) -> Iterator[str]:
    """Yield prices, dates, times, measures, numbers of orders and books, addresses and versions."""
    for _ in range(_NUMBERS // 10):
        whole, year = chance.randrange(10**8), chance.randint(1950, 2050)
        day, month = chance.randint(1, 28), chance.randint(1, 12)
        yield f"{whole:,} dollars"
        yield f"€{whole:,}.00"
        yield f"{whole:_} kr".replace("_", " ")
        yield f"{day:02}.{month:02}.{year} {day:02}:{month:02}"
        yield f"{year}-{month:02}-{day:02}T{day:02}:{month:02}:00"
        yield f"order {whole:010}"
        yield f"{whole / 1e9:.9f}"
        yield f"{year}-{year + 1}"
        yield f"ISBN 978-3-{whole % 100:02}-{whole % 10**6:06}-0"
        yield f"10.{day}.{month}.{whole % 256}"


if __name__ == "__main__":
    main()
