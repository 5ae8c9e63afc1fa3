"""Several exports of one conversation: recognized, brought into the same terms, and kept once under one id."""

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.ingest.chats.exports import read_exports
from backstory.ingest.chats.merging import NAMED_SCHEMA, assign_message_ids, merge_exports
from backstory.settings.inputs import ConversationSettings
from tests.builders.messages import raw_messages
from tests.long_tests import some

START = datetime(2024, 3, 4, 8, tzinfo=UTC)
WORDS = (
    "garden", "bread", "train", "frost", "moth", "lamp", "river", "stone", "cloud", "letter", "window", "apple",
    "candle", "drawer", "engine", "ferry",
)  # fmt: skip
PEOPLE = ("Ann Miller", "Ben Okri", "Cleo Marsh")


@dataclass(frozen=True)
class Message:
    moment: datetime
    author: str | None
    text: str | None
    kind: str = "message"


@dataclass(frozen=True)
class Phone:
    """How one phone exports a conversation.

    Attributes:
        source: The file.
        offset: Minutes that its clock is ahead.
        has_seconds: Whether its clock shows them.
        delay: Most seconds until it received what others sent.
        names: Other names of people in its contacts.
        first: Share of the conversation that was before its owner joined.
        last: Share of the conversation that was before it was exported.
        lost: Share of messages that it does not hold.
        media: What stands for media; lines of the app are in its language, too.
    """

    source: str
    offset: int = 0
    has_seconds: bool = True
    delay: int = 0
    names: tuple[tuple[str, str], ...] = ()
    first: float = 0.0
    last: float = 1.0
    lost: float = 0.0
    language: str = "en"

    def export(self, conversation: list[Message], seed: int = 0) -> pl.DataFrame:
        rng = random.Random(f"{seed} {self.source}")
        names = dict(self.names)
        begin, end = round(self.first * len(conversation)), round(self.last * len(conversation))
        rows = []
        for message in conversation[begin:end]:
            if rng.random() < self.lost:
                continue
            moment = message.moment + timedelta(minutes=self.offset, seconds=rng.randint(0, self.delay))
            if not self.has_seconds:
                moment = moment.replace(second=0)
            author = None if message.author is None else names.get(message.author, message.author)
            text = f"{message.text} ({self.language})" if message.kind == "system" else message.text
            rows.append((moment, author, text, message.kind))
        rows.sort(key=lambda row: row[0])
        stem = self.source.rpartition("/")[0] or self.source.removesuffix(".txt")
        return raw_messages(
            (stem, moment, place, author, text, kind, self.source)
            for place, (moment, author, text, kind) in enumerate(rows)
        )


def talk(messages: int, seed: int = 0, *, gap: int = 40) -> list[Message]:
    """Make up a conversation with long and short texts, some of them twice, media and lines of the app."""
    rng = random.Random(seed)
    moment = START
    conversation = []
    for number in range(messages):
        moment += timedelta(seconds=rng.randint(1, gap * 60))
        author = rng.choice(PEOPLE)
        kind = rng.choices(["long", "short", "media", "system"], [6, 3, 1, 0.5])[0]
        if kind == "long":
            text = f"{' '.join(rng.choices(WORDS, k=rng.randint(3, 9)))} {seed} {number}"
            conversation.append(Message(moment, author, text))
        elif kind == "short":
            conversation.append(Message(moment, author, rng.choice(["ok", "yes", "haha", "no"])))
        elif kind == "media":
            conversation.append(Message(moment, author, None, "media"))
        else:
            conversation.append(Message(moment, None, f"{author} changed the subject"))
            conversation[-1] = replace(conversation[-1], kind="system")
    return conversation


def merged(*frames: pl.DataFrame) -> pl.DataFrame:
    return assign_message_ids(merge_exports(pl.concat(frames)).messages)


A = Phone("family/a.txt")


def test_what_only_one_phone_holds_is_in_the_terms_of_the_leading_one() -> None:
    conversation = talk(200)
    early = replace(A, last=0.6)
    late = Phone("family/b.txt", offset=60, first=0.3, names=(("Ann Miller", "Mum"),), language="de")

    both = merged(early.export(conversation), late.export(conversation))

    texts = both.filter(pl.col("kind") != "system").select("timestamp", "author", "text", "kind").rows()
    assert texts == [
        (message.moment, message.author, message.text, message.kind)
        for message in conversation
        if message.kind != "system"
    ]
    assert len(both) == len(conversation)


@settings(max_examples=some(30))
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(120, 180),
    offset=st.integers(-48, 48).map(lambda quarters: 15 * quarters),
    has_seconds=st.booleans(),
    delay=st.sampled_from([0, 20, 100]),
    first=st.sampled_from([0.0, 0.2, 0.4]),
    last=st.sampled_from([0.7, 1.0]),
    lost=st.sampled_from([0.0, 0.05]),
    renamed=st.booleans(),
)
def test_two_phones_give_the_conversation(
    seed: int,
    size: int,
    offset: int,
    has_seconds: bool,
    delay: int,
    first: float,
    last: float,
    lost: float,
    renamed: bool,
) -> None:
    conversation = talk(size, seed)
    names = (("Ann Miller", "Mum"), ("Cleo Marsh", "Cleo work")) if renamed else ()
    one = replace(A, last=last, lost=lost)
    two = Phone("family/b.txt", offset, has_seconds, delay, names, first, 1.0, lost, "de")
    frames = [one.export(conversation, seed), two.export(conversation, seed)]

    both = merged(*frames)

    # Every message that a phone holds is there, and none twice.
    long_texts = [message.text for message in conversation if message.text and len(message.text) > 20]
    held = set(pl.concat(frames)["text"].drop_nulls())
    written = both.filter(kind="message")
    assert sorted(text for text in written["text"] if len(text) > 20) == sorted(set(long_texts) & held)
    assert set(both["conversation_id"]) == {"family"}
    assert set(both["author"].drop_nulls()) <= set(PEOPLE)
    assert both["message_id"].is_unique().all()
    if not lost:
        assert both.group_by("kind").len().sort("kind").rows() == [
            (kind, sum(message.kind == kind for message in conversation))
            for kind in sorted({message.kind for message in conversation})
        ]
    assert merged(*reversed(frames)).equals(both)
    if (first, last, lost) == (0.0, 1.0, 0.0):
        assert both["message_id"].equals(merged(frames[0])["message_id"])


@given(seed=st.integers(0, 1000), size=st.integers(30, 80))
@settings(max_examples=some(30))
def test_different_conversations_stay_apart(seed: int, size: int) -> None:
    frames = [
        A.export(talk(size, seed)),
        Phone("family/b.txt").export(talk(size, seed + 5000)),
    ]

    assert merge_exports(pl.concat(frames)).messages.equals(pl.concat(frames))


def test_copies_by_name_need_few_texts_and_lose_their_number() -> None:
    conversation = talk(12)
    whole, part = Phone("family (1).txt"), Phone("family.txt", last=0.8)

    both = merge_exports(pl.concat([whole.export(conversation), part.export(conversation)]))

    assert set(both.messages["conversation_id"]) == {"family"}
    assert both.merges.keys() == {"family (1).txt"}
    assert len(assign_message_ids(both.messages)) == len(conversation)


def test_chats_of_two_people_of_one_name_stay_apart_though_posts_are_sent_to_both() -> None:
    posts = [message for message in talk(40, 1, gap=600) if message.kind == "message"]
    chats = [
        sorted([*posts, *talk(300, seed, gap=60)], key=lambda message: message.moment) for seed in (2, 3)
    ]
    frames = [Phone("ann.txt").export(chats[0]), Phone("ann (1).txt").export(chats[1])]

    assert set(merge_exports(pl.concat(frames)).messages["conversation_id"]) == {"ann", "ann (1)"}


def test_a_tiny_copy_is_recognized_by_equal_messages() -> None:
    conversation = [Message(START, "Ann Miller", "hi"), Message(START, "Ben Okri", "yo")]
    frames = [Phone("family.txt").export(conversation), Phone("family (1).txt").export(conversation)]

    assert len(assign_message_ids(merge_exports(pl.concat(frames)).messages)) == 2


def test_months_of_a_subfolder_are_left_as_they_are() -> None:
    conversation = talk(100)
    frames = [
        Phone("team/january.txt", last=0.5).export(conversation),
        Phone("team/february.txt", first=0.5).export(conversation),
    ]

    assert merge_exports(pl.concat(frames)).merges == {}
    assert len(merged(*frames)) == len(conversation)


def test_a_subfolder_leads_and_takes_its_other_files_along() -> None:
    conversation = talk(150)
    frames = [
        Phone("team.txt", offset=120).export(conversation),
        Phone("team/early.txt", last=0.5).export(conversation),
        Phone("team/late.txt", first=0.5).export(conversation),
    ]

    both = merged(*frames)

    assert set(both["conversation_id"]) == {"team"}
    assert both["timestamp"].to_list() == [message.moment for message in conversation]


def test_three_phones_in_any_order_give_the_same() -> None:
    conversation = talk(240)
    frames = [
        Phone("a/1.txt", last=0.5).export(conversation),
        Phone("a/2.txt", offset=60, first=0.5).export(conversation),
        Phone("a/3.txt", offset=-60, first=0.25, last=0.75).export(conversation),
    ]

    both = merged(*frames)

    assert set(both["conversation_id"]) == {"a"}
    assert len(both) == len(conversation)
    for order in ((2, 1, 0), (1, 2, 0)):
        assert merged(*(frames[place] for place in order)).equals(both)


def test_a_change_of_the_clock_on_one_side_is_followed() -> None:
    conversation = talk(200, gap=120)
    change = conversation[100].moment
    other = Phone("family/b.txt").export(conversation)
    shifted = other.with_columns(
        pl.when(pl.col("timestamp") < change)
        .then(pl.col("timestamp").dt.offset_by("5h"))
        .otherwise(pl.col("timestamp").dt.offset_by("6h"))
    )

    both = merged(A.export(conversation), shifted)

    assert len(both) == len(conversation)


def test_who_writes_short_texts_alone_is_one_person_under_both_names() -> None:
    brief = [Message(START + timedelta(minutes=1 + 61 * number), "Dan Yew", "ok") for number in range(9)]
    conversation = sorted([*talk(120), *brief], key=lambda message: message.moment)
    other = Phone("family/b.txt", offset=60, names=(("Dan Yew", "Dad"),))

    both = merged(A.export(conversation), other.export(conversation))

    assert both.filter(author="Dan Yew").height == len(brief)
    assert both.filter(author="Dad").is_empty()


def test_what_was_written_twice_in_a_minute_stays_twice() -> None:
    conversation = [*talk(60), *(Message(START + timedelta(days=3), "Ben Okri", "ok") for _ in range(2))]

    both = merged(A.export(conversation), Phone("family/b.txt", has_seconds=False).export(conversation))

    assert len(both) == len(conversation)
    assert both["text"].to_list()[-2:] == ["ok", "ok"]


def write_whatsapp(path: Path, frame: pl.DataFrame, header: str, media: str) -> None:
    lines = [
        f"{moment.strftime(header)}{f'{author}: ' if author else ''}{media if kind == 'media' else text}\n"
        for moment, author, text, kind in frame.select("timestamp", "author", "text", "kind").rows()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")


def test_two_files_of_one_folder_are_one_conversation_and_said_to_be(tmp_path: Path) -> None:
    conversation = talk(150)
    ios = Phone("family/WhatsApp Chat - Family.txt")
    names = (("Ann Miller", "Mama"),)
    android = Phone("family/WhatsApp-Chat mit Familie.txt", 60, False, 0, names, 0.2, 1.0, 0.0, "de")
    brackets, dashes = "[%Y-%m-%d, %H:%M:%S] ", "%d.%m.%y, %H:%M - "
    write_whatsapp(tmp_path / ios.source, ios.export(conversation), brackets, "\u200eimage omitted")
    write_whatsapp(tmp_path / android.source, android.export(conversation), dashes, "<Medien ausgeschlossen>")

    read = read_exports(tmp_path, ConversationSettings())

    assert set(read.messages["conversation_id"]) == {"family"}
    assert len(assign_message_ids(read.messages)) == len(conversation)
    assert dict(read.aliases) == {"Mama": "Ann Miller"}
    assert "Mama" in read.names
    first, second = read.sources["reason"]
    assert first is None
    assert "+1 h" in second
    assert read.sources["rows"].to_list() == [len(conversation), round(len(conversation) * 0.8)]


def numbered(*rows: tuple[int, str | None, str | None, str]) -> pl.DataFrame:
    return raw_messages(
        ("team", START + timedelta(minutes=minute), seq, author, text, "message", source)
        for seq, (minute, author, text, source) in enumerate(rows)
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        (
            [(1, "Ann", "b", "x"), (0, "Ann", "a", "x"), (1, "Ann", "c", "x")],
            [("a", "x"), ("b", "x"), ("c", "x")],
        ),
        # What two exports hold is kept once.
        (
            [(0, "Ann", "a", "x"), (1, "Ann", "b", "x"), (1, "Ann", "b", "y"), (2, "Ann", "c", "y")],
            [("a", "x"), ("b", "x"), ("c", "y")],
        ),
        # What was written twice stays twice.
        ([(0, "Ann", "ok", source) for source in "xxyy"], [("ok", "x"), ("ok", "x")]),
        # Absent and empty values are different.
        (
            [(0, None, "a", "x"), (0, "", "a", "x"), (0, "Ann", None, "x"), (0, "Ann", "", "x")],
            [("a", "x"), ("a", "x"), (None, "x"), ("", "x")],
        ),
    ],
)
def test_messages_are_ordered_and_kept_once_whatever_the_order_of_the_rows(
    rows: list[tuple[int, str | None, str | None, str]], expected: list[tuple[str | None, str]]
) -> None:
    named = assign_message_ids(numbered(*rows))

    assert named.select("text", "source").rows() == expected
    assert named["message_id"].is_unique().all()
    assert named.schema == NAMED_SCHEMA
    assert assign_message_ids(numbered(*rows).reverse()).equals(named)


def test_ids_do_not_change_when_an_export_is_added(tmp_path: Path) -> None:
    settings = ConversationSettings()
    folder = tmp_path / "team"
    folder.mkdir()
    january = "15.01.24, 21:05 - Ann: hello\n16.01.24, 21:05 - Ben: hi\n"
    (folder / "b.txt").write_text(january, encoding="utf-8")
    before = assign_message_ids(read_exports(tmp_path, settings).messages)

    (folder / "a.txt").write_text(january + "17.01.24, 21:05 - Ann: bye\n", encoding="utf-8")
    after = assign_message_ids(read_exports(tmp_path, settings).messages)

    assert after["message_id"].to_list()[:2] == before["message_id"].to_list()
    assert after["text"].to_list() == ["hello", "hi", "bye"]
