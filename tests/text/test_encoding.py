"""The encoding of a chat: told from its bytes, and damage kept apart from another encoding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.text.encoding import decode_head, decode_lines, describe_encoding, find_encoding

TEXTS = {
    "cp1252": (
        "grüß dich Zoë|schöne Grüße aus Köln",
        "où êtes-vous ?|ça va être génial, à bientôt",
        "mañana será otro día|¿cómo estás? – muy bien… 5 €",
        "não se esqueça da reunião|amanhã às três, então",
        "30 m² of cloth|2 × ½ cup",
        "der Behälter fasst 50 m³|über Nacht füllen",
    ),
    "cp1250": (
        "zítra ráno se sejdeme před nádražím|přijdu trochu později",
        "jutro spotkamy się o dziewiątej|dziękuję, będę później",
        "łódka płynie|żagiel i wiosło",
        "holnap reggel találkozunk|ne felejtsetek el esernyőt hozni, egész nap esőt mondanak|főzünk sűrű levest",
    ),
    "cp1254": ("yarın sabah buluşuyoruz|şemsiyenizi unutmayın, yağmur yağacakmış",),
    "cp1257": ("rytoj ryte susitinkame|nepamirškite skėčio, žadėjo lietų",),
    "cp1251": ("завтра утром встречаемся в девять часов|я немного опоздаю, трамвай не ходит",),
    "cp1253": ("αύριο το πρωί συναντιόμαστε στις εννέα|θα αργήσω λίγο γιατί έχει πολλή κίνηση",),
    "cp1255": ("מחר בבוקר נפגשים בתשע ליד התחנה|אני אאחר קצת כי יש הרבה תנועה",),
    "cp1256": ("غدا صباحا نلتقي في الساعة التاسعة أمام المحطة|سأتأخر قليلا بسبب الزحام",),
    "cp932": (
        "明日の朝九時に駅前で会いましょう|電車が止まっているので少し遅れます",
        "庭師は毎日、リンゴが甘いかどうか、木の根が乾いているかどうかを調べています。",
    ),
    "cp949": ("내일 아침 아홉 시에 역 앞에서 만나요|저는 조금 늦을 것 같아요",),
    "gb18030": (
        "明天早上九点在车站前面见面|我会晚一点到，因为电车不开",
        "园丁每天检查苹果是否香甜|树根是否干燥健康|并且把结果写在本子上",
        "园丁每天检查苹果是否香甜，树根是否干燥健康，并且把结果写在本子上。" * 3,
    ),
    "big5": ("明天早上九點在車站前面見面|我會晚一點到，因為電車不開",),
    "cp874": ("พรุ่งนี้เช้าเจอกันเก้าโมงหน้าสถานี|ฉันจะไปช้าหน่อย",),
}


def chat(text: str) -> str:
    return "".join(f"15.01.24, 21:05 - Ann: {line}\n" for line in text.split("|"))


@pytest.mark.parametrize(
    ("encoding", "text"), [(encoding, text) for encoding, texts in TEXTS.items() for text in texts]
)
def test_what_editors_save_is_read_as_it_was_written(encoding: str, text: str) -> None:
    lines = decode_lines(chat(text).encode(encoding))

    assert lines.lines.to_list() == chat(text).splitlines()
    assert lines.undecodable == {}
    assert lines.encoding == encoding


def test_a_text_without_letters_of_its_own_language_is_of_the_usual_code_page() -> None:
    assert find_encoding(chat("öde Düne").encode("cp1254")) == "cp1252"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_every_form_of_unicode_is_read(encoding: str) -> None:
    text = chat("hello|grüß dich|明日")

    assert decode_lines(text.encode(encoding)).lines.to_list() == text.splitlines()
    assert decode_head(text.encode(encoding)) == text.splitlines()


def test_one_letter_is_enough_where_it_makes_sense() -> None:
    assert find_encoding(chat("café").encode("cp1252")) == "cp1252"


@pytest.mark.parametrize(
    "content",
    [
        chat("hello|damaged \0 here").encode().replace(b"\0", b"\xff"),
        chat("hello|damaged \0 here").encode().replace(b"\0", b"\xc3"),
        chat("grüß dich").encode() + chat("schön").encode("cp1252"),
        chat("한국어").encode() + b"15.01.24, 21:05 - Ann: \xff\xfe\n",
    ],
)
def test_damaged_lines_do_not_make_another_encoding(content: bytes) -> None:
    lines = decode_lines(content)

    assert lines.encoding == "utf-8"
    assert len(lines.undecodable) == 1


def test_a_cut_letter_at_the_end_of_the_head_is_no_other_encoding() -> None:
    content = chat("ü" * 40_000).encode()

    assert find_encoding(content) == "utf-8"
    assert decode_head(content)[0].startswith("15.01.24, 21:05 - Ann: ")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("iso2022_jp", "明日の朝|hello|九時に駅前で"),
        ("iso2022_jp_ext", "ﾃﾚﾋﾞ|hello|駅"),
    ],
)
def test_letters_written_in_ascii_are_read_and_the_doubt_is_said(encoding: str, text: str) -> None:
    content = chat(text).encode(encoding)
    lines = decode_lines(content)
    assert lines.lines.to_list() == chat(text).splitlines()
    assert (lines.undecodable, lines.encoding) == ({}, "iso2022_jp_ext")
    assert decode_head(content) == chat(text).splitlines()
    assert "iso2022_jp" in (describe_encoding(find_encoding(content)) or "")
    cut_off_in_a_letter = content * 2 + content[: content.rindex(b"\n") - 2]
    assert find_encoding(cut_off_in_a_letter) == lines.encoding


@pytest.mark.parametrize(
    "text",
    [
        "C++ and +abc and a+b",
        "+1",
        "+4915123456789 or +49151234567",
        "1 +- 2 and 3 + 4",
        "\x1b[31mred\x1b(B\x1b[m",
    ],
)
def test_ascii_stays_ascii(text: str) -> None:
    content = chat(text).encode()
    assert find_encoding(content) == "utf-8"
    assert decode_lines(content).lines.to_list() == chat(text).splitlines()


def test_a_damaged_line_of_escapes_is_told() -> None:
    content = chat("明日|駅").encode("iso2022_jp").replace("明日".encode("iso2022_jp"), b"\x1b$BL@\x1b(Z")
    lines = decode_lines(content)
    assert lines.encoding == "iso2022_jp_ext"
    assert 1 in lines.undecodable


def test_binary_content_is_no_text() -> None:
    assert decode_head(b"\x89PNG\0\0\x01\x02\xff") == []


@given(st.text(alphabet="aé明x^\r\n\u2028"))
def test_lines_end_at_line_feeds_alone(text: str) -> None:
    texts = (text if "\n" in text else text.replace("\r", "\n")).split("\n")
    lines = [line.removesuffix("\r") for line in texts]
    assert decode_lines(text.encode()).lines.to_list() == lines[: len(lines) - (lines[-1] == "")]
    assert decode_lines(("x^" + text).encode()).lines.to_list()[:1] == ["x^" + lines[0]]
