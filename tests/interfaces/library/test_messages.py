"""The messages of a conversation, in whichever way it is written, and their parts."""

import json
import random
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.base.errors import InputError
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.messages import Message, read_messages
from backstory.operations.inspection.windows import list_windows
from backstory.pipeline.workspace import open_workspace
from backstory.settings.inputs import ConversationSettings
from tests.errors import raises
from tests.interfaces.library.conftest import SETTINGS, write_documents
from tests.long_tests import each_of

CHATS = ConversationSettings()
TEXTS = (
    "Is the night train to Lisbon booked out in summer, or are there seats left?",
    "Book the seat reservation early. The couchettes go first!",
    "My sourdough starter is sluggish, it does not rise at all",
    "Feed it flour and water twice a day: once in the morning, once at night.",
    "Moths are best seen by a lamp behind a white sheet, see https://example.org/moths?a=b",
    "Gluons, quarks and leptons: nobody here knows anything of chromodynamics, I fear",
    "# this is no heading, and 10:15 is no time",
    "-- neither is this a list",
    "Wait - what (really)? I thought [no offence] that it was <b>cheaper</b> in spring",
    "Das Brot ist um 9:30 fertig, kommt alle vorbei und bringt Butter mit!",
    *("ok", "haha", "thanks!!", "👍", "thanks, I will try that on Sunday", "20 metres of hose, please"),
    *(
        "Is the night train cheaper in spring?",
        "My sourdough is flat again",
        "who books the seat reservation",
    ),
    *("the drip line leaks near the tomatoes", "there's a click in the backup disk", "Ist das Brot fertig"),
    *("Moths by the lamp: nobody's keen?", "夜行列车春天便宜吗", "面包又塌了。"),
)
AUTHORS = ("Ana", "Bob_42", "Zoë van Dyk", "李雷")
EXPORTS = (
    "{when:%d/%m/%Y, %H:%M} - {author}: {text}",  # WhatsApp on Android
    "[{when:%d.%m.%y, %H:%M:%S}] {author}: {text}",  # WhatsApp on iOS
    "{when:%H:%M} <{nick}> {text}",  # irssi
    "[{when:%H:%M:%S}] <{nick}> {text}",  # ZNC
)
MARKS = ("", "- ", "* ", "• ", "{}. ", "{}) ", "({}) ")


@dataclass(frozen=True)
class Said:
    """A message as an object."""

    author: str
    time: datetime
    text: str


Conversation = Sequence[Said]


def make_conversation(seed: int) -> list[Said]:
    """Make a conversation whose first author speaks twice."""
    chance = random.Random(seed)
    texts = chance.choices(TEXTS, k=chance.randint(3, 12))
    authors = [AUTHORS[seed % len(AUTHORS)], *chance.choices(AUTHORS, k=len(texts) - 1)]
    authors[-1] = authors[0]
    moment = datetime(2026, 6, 1, 9, 0) + timedelta(days=seed)
    return [
        Said(author, moment + timedelta(minutes=place), text)
        for place, (author, text) in enumerate(zip(authors, texts, strict=True))
    ]


def as_rows(conversation: Conversation) -> list[dict[str, str]]:
    return [
        {"author": said.author, "time": said.time.isoformat(), "text": said.text} for said in conversation
    ]


def as_own_rows(conversation: Conversation) -> list[dict[str, str]]:
    return [{**row, "timestamp": row["time"], "message": row["text"]} for row in as_rows(conversation)]


def render_json(conversation: Conversation, chance: random.Random) -> str:
    rows = chance.choice([as_rows(conversation), [said.text for said in conversation]])
    if chance.random() < 0.3:
        return "\n".join(map(json.dumps, as_rows(conversation)))
    value: object = chance.choice([rows, {"messages": rows}])
    return json.dumps(value, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 2]))


def render_lines(conversation: Conversation, chance: random.Random) -> str:
    """Write lines with random marks, separators, line ends and white space; those with names may be wrapped."""
    mark, end = chance.choice(MARKS), chance.choice(["\n", "\r\n"])
    blanks, indents = chance.choice([[0], [1], [0, 1, 2]]), chance.choice([[0], [2], [0, 1, 4]])
    between = ": " if mark else chance.choice(["", ": ", ":\n"])
    width = chance.choice([0, 50, 72]) if between == ": " and not mark else 0
    lines: list[str] = []
    for number, said in enumerate(conversation, start=1):
        written = f"{mark.format(number)}{between and said.author}{between}{said.text}"
        wrapped = textwrap.wrap(written, width, break_on_hyphens=False) if width else []
        lines += wrapped or [" " * chance.choice(indents) + line for line in written.split("\n")]
        lines[-1] += " " * chance.choice([0, 0, 2])
        lines += [" " * chance.choice([0, 3])] * chance.choice(blanks)
    return chance.choice(["", "\n", "\ufeff"]) + end.join(lines)


def render_export(conversation: Conversation, chance: random.Random) -> str:
    form = chance.choice(EXPORTS)
    return "\n".join(
        form.format(when=said.time, author=said.author, nick=said.author.replace(" ", "_"), text=said.text)
        for said in conversation
    )


def render(conversation: Conversation, chance: random.Random) -> str:
    return chance.choice([render_json, render_lines, render_export])(conversation, chance)


def read(text: str) -> list[str] | None:
    found = read_messages(text, CHATS)
    return None if found is None else found["text"].to_list()


@pytest.mark.parametrize("seed", range(25))
def test_a_conversation_is_the_same_messages_in_every_rendering(seed: int) -> None:
    conversation = make_conversation(seed)
    chance = random.Random(seed)
    for _ in range(8):
        text = render(conversation, chance)
        assert read(text) == [said.text for said in conversation], text


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A library of six posts after a run over 25 conversations, a day each."""
    settings = f"{SETTINGS}conversations: {{folder: chats, timezone: UTC}}\n"
    root = write_documents(tmp_path_factory.mktemp("chats") / "workspace", settings)
    (root / "chats").mkdir()
    for seed in range(25):
        lines = map(json.dumps, as_own_rows(make_conversation(seed)))
        (root / "chats" / f"c{seed}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    run_pipeline(open_workspace(root))
    return Library.open(root)


@pytest.mark.parametrize("seed", each_of(range(25), 5))
def test_every_rendering_has_the_parts_documents_and_verdict_of_a_run(chats: Library, seed: int) -> None:
    conversation = make_conversation(seed)
    chance = random.Random(seed)
    texts = [said.text for said in conversation]
    given: list[str | Sequence[Message]] = [conversation, as_rows(conversation), texts]
    given += [render(conversation, chance) for _ in range(8)]
    [window] = [row for row in list_windows(chats.workspace) if row["conversation_id"] == f"c{seed}"]
    run = chats.window_context(window["window_id"])
    for answer in map(chats.context, given):
        assert answer.parts == run.parts
        assert (answer.verdict, answer.confidence) == (run.verdict, run.confidence)
        assert answer.documents == run.documents
    # Every message is whole in one part.
    parts = [part.text.split("\n\n") for part in run.parts]
    assert [text for part in parts for text in part] == texts


@pytest.mark.parametrize(
    "text",
    [
        "Ingredients: flour and water.\nMethod: wait for a day.\nTime: a day.",
        "Remember this: the train leaves at nine.\nAnd one more thing: it is late.",
        "He said the following: go.\nShe said the following: stay.\nHe said the following: no.",
        "It leaves at 10:15 from Lisbon.\nAt 11:20 there is another.",
        "When was it founded?\n\nhttps://example.org/a: b",
    ],
)
def test_what_stands_before_a_colon_may_be_no_author(text: str) -> None:
    assert read(text) == [line for line in text.splitlines() if line]


MAIL = """\
Dear all,

The night train to Lisbon needs a seat reservation, and somebody should book it early. It is full in summer. Who has a \
card that the railway takes?

Die Reservierung für die Brüder aus Köln fehlt auch noch, sagt Maria, weil die Bahn die Plätze im Mai nicht verkauft \
hat. Fragt bitte im Büro nach, bevor der Sommer kommt.

Thanks!
Ana"""


@pytest.mark.parametrize(
    "text",
    [
        *(MAIL, MAIL.replace("\n", "\r\n")),
        *('{"quince": 1}', "[1, 2, 3]", '{"messages": "a train"}', "[see note] what does the train cost?"),
        "The train is late. It has no heating. Bring a coat.\n\nThe loaf is flat. The oven is cold. Wait longer.",
        "Which train is late,\nand why is it\ncold in there?",
        "a" * 400 + "\n\n12/03/2024, 10:15 - Ana: this is what she wrote",
    ],
)
def test_prose_is_no_conversation(text: str) -> None:
    assert read(text) is None


def test_wrapping_does_not_change_the_parts_of_prose(indexed_once: Library) -> None:
    parts = indexed_once.context(MAIL).parts
    assert len(parts) > 1
    for width in (40, 55, 66, 72, 79):
        for end in ("\n", "\r\n"):
            wrapped = end.join(textwrap.fill(line, width).replace("\n", end) for line in MAIL.split("\n"))
            assert read(wrapped) is None
            assert indexed_once.context(wrapped).parts == parts


def test_an_export_holds_messages_media_and_lines_that_look_like_messages() -> None:
    chat = (
        "12/03/2024, 10:16 - Ana: When does it leave?\nNote: I am late.\n"
        "12/03/2024, 10:17 - Bob: <Media omitted>\n"
        "31/12/2024, 10:18 - Bob: At nine."
    )
    found = read_messages(chat, CHATS)
    assert found is not None
    assert found.rows() == [
        ("When does it leave? Note: I am late.", "message"),
        (None, "media"),
        ("At nine.", "message"),
    ]


def test_a_list_holds_texts_objects_or_rows() -> None:
    given: list[Message] = ["One\ntwo", {"content": "three"}, SimpleNamespace(text=None)]
    given.append({"text": "left", "kind": "system"})
    found = read_messages(given, CHATS)
    assert found is not None
    assert found["text"].to_list() == ["One two", "three", None, None]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ([], "blank_text"),
        (["a", 5], "absent_text"),
        ([{"author": "Ana"}], "absent_text"),
        ([{"text": 5}], "absent_text"),
        (5, "wrong_type"),
        ({"text": "a"}, "wrong_type"),
        (pl.DataFrame({"text": ["a"]}), "wrong_type"),
        (["a \ud800 train"], "no_unicode"),
        (["\u200b", ""], "blank_text"),
    ],
)
def test_a_list_that_holds_no_messages_is_an_error(
    indexed_once: Library, given: Sequence[Message], code: str
) -> None:
    with raises(InputError, code):
        indexed_once.context(given)


def test_a_question_is_one_part(indexed_once: Library) -> None:
    for question in ("When does the night train leave?", "When does\nthe night train leave? "):
        assert [part.text for part in indexed_once.context(question).parts] == [
            "When does the night train leave?"
        ]
