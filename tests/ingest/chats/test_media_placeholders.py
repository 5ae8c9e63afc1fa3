"""Placeholders of media are no text, in any language; captions are."""

import pytest

from backstory.ingest.chats.formats.whatsapp_phrases import list_phrases, split_caption
from tests.ingest.chats.conftest import ReadText

MARKS = ("", "\u200e", "\u200f", "\u202a", "\u2068")
ANDROID = sorted(list_phrases("media"))
IOS = sorted(list_phrases("kinds"))


@pytest.mark.parametrize(
    "text",
    [
        "<Media omitted>",
        "\u200e<Medien ausgeschlossen>",
        "<Mídia oculta>",
        "<\u200eMultimedia omitido>",
        "< Média vynechána >",
        "<省略多媒体文件>",
        "\u200eimage omitted",
        "image omitted",
        "\u200fהתמונה הושמטה",
        "\u200eGIF retiré",
        "Report.pdf • \u200e3 pages \u200edocument omitted",
        "\u200e<attached: 00000012-PHOTO-2024-01-15-21-05-00.jpg>",
        "\u200e<Anhang: 00000012-PHOTO.jpg>",
        "\u200e<添付ファイル：00000012-PHOTO.jpg>",
        "IMG-20240115-WA0001.jpg (file attached)",
        "Holiday plan.pdf (arquivo anexado)",
        "\u200ePTT-20240115-WA0001.opus (ไฟล์ที่แนบ)",
    ],
)
def test_a_placeholder_alone_is_media_without_a_text(read_text: ReadText, text: str) -> None:
    messages, _ = read_text(f"15.01.24, 21:05 - Ann: {text}\n")

    assert messages.select("author", "text", "kind").rows() == [("Ann", None, "media")]


@pytest.mark.parametrize(
    ("text", "caption"),
    [
        ("<Media omitted>\nOur view", "Our view"),
        (
            "\u200eIMG-20240115-WA0001.jpg (Datei angehängt)\nOur view\nfrom the hill",
            "Our view\nfrom the hill",
        ),
        ("Our view \u200eimage omitted", "Our view"),
        ("Our view\nfrom the hill \u200e<attached: 00000012-PHOTO.jpg>", "Our view\nfrom the hill"),
    ],
)
def test_a_caption_stays_text(read_text: ReadText, text: str, caption: str) -> None:
    messages, _ = read_text(f"15.01.24, 21:05 - Ann: {text}\n")

    assert messages.select("author", "text", "kind").rows() == [("Ann", caption, "media")]


@pytest.mark.parametrize(
    "text",
    [
        "<b>bold</b>",
        "media omitted again!",
        "the image omitted the dog",
        "a (file)",
        "ei kuvaa",
        "fără audio",
        "<grin>",
        "see notes.txt (the second part)",
        "look\n<Media omitted>\nis what it says",
    ],
)
def test_text_about_media_is_a_message(read_text: ReadText, text: str) -> None:
    messages, _ = read_text(f"15.01.24, 21:05 - Ann: {text}\n")

    assert messages.select("text", "kind").rows() == [(text, "message")]


@pytest.mark.parametrize("phrase", ANDROID)
def test_every_phrase_of_android_counts_in_brackets_after_any_mark(phrase: str) -> None:
    assert {split_caption(f"{mark}<{phrase}>") for mark in MARKS} == {""}


@pytest.mark.parametrize("phrase", IOS)
def test_every_phrase_of_ios_counts_after_the_mark_of_the_app(phrase: str) -> None:
    assert {split_caption(f"\u200e{phrase}"), split_caption(f"\u200e<{phrase}>")} == {""}


def test_phrases_that_people_also_write_count_only_after_the_mark() -> None:
    assert (split_caption("ei kuvaa"), split_caption("\u200eei kuvaa")) == (None, "")
