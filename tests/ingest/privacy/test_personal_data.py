"""Contact and bank data in texts, in every script."""

import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.ingest.privacy.personal_data import DataKind, scrub
from tests.long_tests import some

IBAN = "DE89370400440532013000"
ALL: tuple[DataKind, ...] = ("email", "phone", "card", "iban")


def scrub_one(text: str, region: str | None = "DE") -> str:
    return str(scrub(pl.Series([text]), ALL, region)[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to ann.lind+x@example.co.uk, please", "write to [email], please"),
        ("mail:ann@müller.example!", "mail:[email]!"),
        ("ａｎｎ＠ｅｘａｍｐｌｅ．ｃｏｍ", "[email]"),
        ("लिखें नीता@उदाहरण.भारत आज", "लिखें [email] आज"),
        ("call +49 30 901820 tonight", "call [phone] tonight"),
        ("call 030 901820 tonight", "call [phone] tonight"),
        ("call 00376 712345 tonight", "call [phone] tonight"),
        ("اتصل ٠٣٠ ٩٠١٨٢٠", "اتصل [phone]"),
        ("＋４９ ３０ ９０１８２０", "[phone]"),
        ("+49\u200b 30\u200b 901820", "[phone]"),
        ("card 4111 1111 1111 1111 12/27", "card [card] 12/27"),
        ("٤١١١-١١١١-١١١١-١١١١", "[card]"),
        ("378282246310005", "[card]"),
        ("to DE89 3704 0044 0532 0130 00 by Monday", "to [iban] by Monday"),
        ("gb82west12345698765432.", "[iban]."),
        ("ＤＥ８９３７０４００４４０５３２０１３０００", "[iban]"),
        ("a@b.example c@d.example", "[email] [email]"),
        ("a@b.example +49 30 901820 DE89370400440532013000", "[email] [phone] [iban]"),
    ],
)
def test_data_becomes_a_marker(text: str, expected: str) -> None:
    assert scrub_one(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "@ann said 12:30, or 13:00 on 2024-01-15",
        "user@host and a @ b",
        "4111 1111 1111 1112",
        "order 1234567890123456",
        "DE88 3704 0044 0532 0130 00",
        "ZZ89 3704 0044 0532 0130 00",
        "192.168.100.200 and 3.14159265358979",
        "",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert scrub_one(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "I am on <07400 123456> until ten", "<(089) 1234 567> or <030/12345678>", "<06 12 34 56 78>", "<212-555-0187>",
        "the shop, <(212) 555 – 0187>, is shut", "call the harbour at <555-0199>", "Handy: <0171-2345678>",
        "<+44 7700 900321>, <(+44) 7700 900321>, <0044 7700 900321> or <+1-212-555-0123>", "it grew by +2 500 000 kr",
        "ring <912 34 567>", "☎ <81 23 45>", "звоните <495 123-45-67>",
        "it costs 1 234 567 kr, or 0,123456789", "from 03.02.2025 10:30 to 2025-02-14 12:00, every 24.12.1999",
        "ISBN 0-306-40615-2 and 978-3-16-148410-0", "order 0123456789, invoice no. 0171 2345678, #0123456789",
        "part 07400-123456-A, version 1.2.3.4, 192.168.0.12", "0.1234567890, 12.5 x 13.75, seasons 2024-2025",
        "id 550e8400-e29b-41d4-a716-446655440000", "call at 10:30 on 03.02.2025", "we counted 345 678 912 seals",
    ],
)  # fmt: skip
def test_a_number_without_country_code_is_found_by_shape_or_by_the_words_before_it(text: str) -> None:
    written = text.replace("<", "").replace(">", "")
    assert scrub_one(written, None) == re.sub("<.*?>", "[phone]", text)


def test_only_the_wanted_kinds_are_replaced() -> None:
    texts = pl.Series(["a@b.example +49 30 901820", None])

    assert scrub(texts, ["phone"], None).to_list() == ["a@b.example [phone]", None]
    assert scrub(texts, [], None).to_list() == texts.to_list()


@settings(max_examples=some(60), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["a@b.example", "@", ".", " ", "-", "+49 30 901820", "4111111111111111", "0", "٣", "x", IBAN]
        ),
        max_size=12,
    )
)
def test_scrubbing_twice_gives_what_scrubbing_once_gives(parts: list[str]) -> None:
    once = scrub_one("".join(parts))

    assert scrub_one(once) == once


def test_a_hostile_text_takes_time_that_grows_with_its_length() -> None:
    for text in ("a." * 50_000 + "@", "1 " * 50_000, "A@" * 50_000, "DE89" * 20_000):
        assert len(scrub_one(text)) > 0
