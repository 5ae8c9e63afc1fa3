"""The messages of a conversation, in whichever way it is written."""

import json
import random
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace

import polars as pl
import pytest

from backstory import consolidate_messages_to_markdown
from backstory.base.errors import InputError
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.messages import Message, list_messages, read_messages
from backstory.settings.inputs import ConversationSettings
from tests.errors import raises
from tests.long_tests import each_of

SETTINGS = ConversationSettings()
TEXTS = (
    "Is the night train to Lisbon booked out in summer, or are there seats left?",
    "Book the seat reservation early. The couchettes go first!",
    "My sourdough starter is sluggish, it does not rise at all",
    "Feed it flour and water twice a day: once in the morning, once at night.",
    "ok",
    "thanks, I will try that on Sunday",
    "Moths are best seen by a lamp behind a white sheet, see https://example.org/moths?a=b",
    "Gluons, quarks and leptons: nobody here knows anything of chromodynamics, I fear",
    "# this is no heading, and 10:15 is no time",
    "- neither is this a list",
    "Wait - what (really)? I thought [no offence] that it was <b>cheaper</b> in spring",
    "Das Brot ist um 9:30 fertig, kommt alle vorbei und bringt Butter mit!",
)
AUTHORS = ("Ana", "Bob_42", "Zoë van Dyk", "李雷")


@dataclass(frozen=True)
class Said:
    """A message as an object."""

    author: str
    time: datetime
    text: str


Conversation = Sequence[Said]
Rendering = Callable[[Conversation], str]


def make_conversation(seed: int) -> list[Said]:
    """Make a conversation in which the first author speaks twice."""
    chance = random.Random(seed)
    count = chance.randint(3, 12)
    authors = [chance.choice(AUTHORS) for _ in range(count)]
    authors[-1] = authors[0]
    moment = datetime(2024, 5, chance.randint(1, 28), 9, 0)
    return [
        Said(author, moment + timedelta(minutes=7 * place), chance.choice(TEXTS))
        for place, author in enumerate(authors)
    ]


def as_rows(conversation: Conversation) -> list[dict[str, str]]:
    return [
        {"author": said.author, "time": said.time.isoformat(), "text": said.text} for said in conversation
    ]


def write_own(conversation: Conversation) -> str:
    rows = [{**row, "timestamp": row["time"], "message": row["text"]} for row in as_rows(conversation)]
    return consolidate_messages_to_markdown(rows)


def write_lines(form: str) -> Rendering:
    """Write a message per line, by a format of ``when``, ``author``, ``nick`` and ``text``."""
    return lambda conversation: "\n".join(
        form.format(
            when=said.time,
            author=said.author,
            nick=said.author.replace(" ", "_"),
            text=said.text,
            number=number,
        )
        for number, said in enumerate(conversation, start=1)
    )


LINES: dict[str, Rendering] = {
    "names": write_lines("{author}: {text}"),
    "bold names": write_lines("**{author}:** {text}"),
    "blank lines": write_lines("{author}: {text}\n"),
    "names alone": write_lines("{author}:\n{text}\n"),
    "WhatsApp on Android": write_lines("{when:%d/%m/%Y, %H:%M} - {author}: {text}"),
    "WhatsApp on iOS": write_lines("[{when:%d.%m.%y, %H:%M:%S}] {author}: {text}"),
    "irssi": write_lines("{when:%H:%M} <{nick}> {text}"),
    "WeeChat": write_lines("{when:%Y-%m-%d %H:%M:%S}\t{nick}\t{text}"),
    "ZNC": write_lines("[{when:%H:%M:%S}] <{nick}> {text}"),
    "dates": write_lines("{when:%Y-%m-%d %H:%M} {author}: {text}"),
    "clock": write_lines("[{when:%H:%M}] {author}: {text}"),
    "writer's input": write_lines("- ({number}) {when:%Y-%m-%d %H:%M} **{author}**: {text}"),
    "own Markdown": write_own,
}
WHOLE: dict[str, Rendering] = {
    "JSON": lambda conversation: json.dumps(as_rows(conversation)),
    "indented JSON": lambda conversation: json.dumps({"messages": as_rows(conversation)}, indent=2),
    "JSON lines": lambda conversation: "\n".join(map(json.dumps, as_rows(conversation))),
}


def disturb(text: str, chance: random.Random) -> str:
    """Change what says nothing about the messages: wrapping, blank lines, white space at the ends, line ends."""
    width = chance.choice([0, 34, 50, 72])
    lines = []
    for line in text.split("\n"):
        is_long = width and len(line) > width and "\t" not in line
        wrapped = wrap(line, width) if is_long else [line]
        lines += [part + " " * chance.choice([0, 0, 2]) for part in wrapped]
        lines += [""] * chance.choice([0, 0, 1, 2])
    return chance.choice(["", "\n", "\ufeff"]) + chance.choice(["\n", "\r\n"]).join(lines)


def wrap(line: str, width: int) -> list[str]:
    """Wrap a line; what begins it, up to the name, stays together."""
    head, colon, _ = line.partition(": ")
    kept = len(head) + 2 if colon and len(head) < 45 else 45
    return textwrap.wrap(
        line, max(width, kept), break_long_words=False, break_on_hyphens=False, subsequent_indent="  "
    )


def read(text: str) -> list[str] | None:
    found = read_messages(text, SETTINGS)
    return None if found is None else found["text"].to_list()


@pytest.mark.parametrize("seed", each_of(range(8), 2))
def test_a_conversation_is_the_same_messages_in_every_rendering(seed: int) -> None:
    conversation = make_conversation(seed)
    texts = [said.text for said in conversation]
    chance = random.Random(seed)
    assert list_messages(conversation)["text"].to_list() == texts
    for name, write in LINES.items():
        assert read(write(conversation)) == texts, name
        assert read(disturb(write(conversation), chance)) == texts, name
    for name, write in WHOLE.items():
        assert read(write(conversation)) == texts, name


@pytest.mark.parametrize(
    "seed", [100, *(pytest.param(seed, marks=pytest.mark.long) for seed in (101, 102, 103))]
)
def test_every_rendering_has_the_same_parts_and_verdict(indexed_once: Library, seed: int) -> None:
    conversation = make_conversation(seed)
    chance = random.Random(seed)
    given: list[str | Sequence[Message]] = [
        conversation,
        as_rows(conversation),
        [said.text for said in conversation],
        *(disturb(write(conversation), chance) for write in LINES.values()),
        *(write(conversation) for write in WHOLE.values()),
    ]
    answers = [indexed_once.context(each) for each in given]
    first = answers[0]
    for answer in answers:
        assert answer.parts == first.parts
        assert (answer.verdict, answer.confidence) == (first.verdict, first.confidence)
        assert answer.documents == first.documents
    # Every message is whole in one part.
    parts = [part.text.split("\n\n") for part in first.parts]
    assert [text for part in parts for text in part] == [said.text for said in conversation]


@pytest.mark.parametrize(
    "text",
    [
        "Note: the night train is late.\nWarning: bring a coat.\nNote: it has no heating.",
        "Ingredients: flour and water.\nMethod: wait for a day.\nTime: a day.",
        "Remember this: the train leaves at nine.\nAnd one more thing: it is late.",
        "From: Ana\nTo: Bob\nSubject: Trains\n\nDear Bob,\n\nwhen does it leave?\n\nAna",
        "He said the following: go.\nShe said the following: stay.\nHe said the following: no.",
        "It leaves at 10:15 from Lisbon.\nAt 11:20 there is another.",
        '{"quince": 1}',
        "[1, 2, 3]",
        '{"messages": "a train"}',
        "[see note] what does the first train cost?",
        "When was it founded?\n\nhttps://example.org/a: b",
        "a" * 400 + "\n\n12/03/2024, 10:15 - Ana: this is what she wrote",
    ],
)
def test_prose_is_no_conversation(text: str) -> None:
    assert read(text) is None


def test_what_stands_before_a_chat_and_what_an_app_writes() -> None:
    chat = (
        "12/03/2024, 10:15 - Messages and calls are end-to-end encrypted.\n"
        "12/03/2024, 10:16 - Ana: When does it leave?\n\nNote: I am late.\n"
        "12/03/2024, 10:17 - Bob: <Media omitted>\n"
        "31/12/2024, 10:18 - Bob: At nine."
    )
    found = read_messages(f"Who is late?\n\n{chat}", SETTINGS)
    assert found is not None
    assert found.rows() == [
        ("Who is late?", "message"),
        ("When does it leave? Note: I am late.", "message"),
        (None, "media"),
        ("At nine.", "message"),
    ]


def test_a_list_holds_texts_objects_or_rows() -> None:
    given: list[Message] = ["One\ntwo", {"content": "three"}, SimpleNamespace(text=None)]
    given.append({"text": "left", "kind": "system"})
    assert list_messages(given).rows() == [
        ("One two", "message"),
        ("three", "message"),
        (None, "message"),
        (None, "message"),
    ]


@pytest.mark.parametrize(
    ("given", "code", "values"),
    [
        ([], "blank_text", {"name": "query"}),
        (["a", 5], "absent_text", {"number": 2, "type": "int"}),
        ([{"author": "Ana"}], "absent_text", {"number": 1, "type": "dict"}),
        ([{"text": 5}], "wrong_type", {"name": "text", "number": 1, "type": "int"}),
        (5, "wrong_type", {"name": "query", "type": "int"}),
        ({"text": "a"}, "wrong_type", {"name": "query", "type": "dict"}),
        (pl.DataFrame({"text": ["a"]}), "wrong_type", {"name": "query", "type": "DataFrame"}),
        (["a \ud800 train"], "no_unicode", {"name": "text"}),
        (["\u200b", ""], "blank_text", {"name": "text"}),
    ],
)
def test_a_list_that_holds_no_messages_is_an_error(
    indexed_once: Library, given: Sequence[Message], code: str, values: dict[str, object]
) -> None:
    with raises(InputError, code, **values):
        indexed_once.context(given)


def test_wrapping_does_not_change_the_parts_of_prose(indexed_once: Library) -> None:
    train = "The night train to Lisbon needs a seat reservation, which somebody should book early. " * 3
    starter = "The sourdough starter is sluggish, so that it needs flour and water twice a day. " * 3
    paragraphs = [train.strip(), starter.strip()]
    parts = indexed_once.context("\n\n".join(paragraphs)).parts
    assert len(parts) > 1
    for width in (40, 60, 79):
        for blank in ("\n\n", "\r\n \r\n"):
            wrapped = blank.join(textwrap.fill(paragraph, width) for paragraph in paragraphs)
            assert indexed_once.context(wrapped).parts == parts


def test_lines_without_names_are_kept_whole(indexed_once: Library) -> None:
    texts = [text for text in TEXTS if "." in text or "!" in text] * 2
    assert indexed_once.context("\n".join(texts)).parts == indexed_once.context(texts).parts


def test_a_question_is_one_part(indexed_once: Library) -> None:
    for question in ("When does the night train leave?", "When does\nthe night train leave? "):
        assert [part.text for part in indexed_once.context(question).parts] == [
            "When does the night train leave?"
        ]
