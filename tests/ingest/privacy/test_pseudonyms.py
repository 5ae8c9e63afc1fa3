"""Pseudonyms."""

import hashlib
import hmac
import time
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.ingest.privacy.names import NameFinder
from backstory.ingest.privacy.pseudonyms import (
    find_members,
    find_real_names,
    make_pseudonym,
    pseudonymize_messages,
    replace_in_identifiers,
)
from backstory.settings.inputs import ConversationSettings
from tests.builders.messages import raw_messages
from tests.ingest.chats.chat_strategies import AUTHORS, TEXTS
from tests.ingest.chats.single_exports import read_export
from tests.long_tests import some

SECRET = bytes(range(32))
MEMBER = "member-0123456789"


def chat(
    *messages: tuple[str | None, str | None], conversation: str = "team", source: str = "team.txt"
) -> pl.DataFrame:
    moment = datetime(2024, 1, 15, 21, 5, tzinfo=UTC)
    return raw_messages(
        (conversation, moment, seq, author, text, "message" if author else "system", source)
        for seq, (author, text) in enumerate(messages)
    )


def pseudonym(name: str) -> str:
    return "member-" + hmac.new(SECRET, name.encode(), hashlib.sha256).hexdigest()[:10]


def test_mentions_and_names_in_texts_become_keyed_hashes_of_names() -> None:
    rows = chat(
        ("Ann", "@Ben Lee and @\u2068Ann\u2069: ask Ben Lee, +49 151 2345678, or @Joe"),
        ("Ben Lee", "Ann, will do"),
        ("+49 151 2345678", None),
        (None, "Ann added Zoe"),
        ("Joe Hill", "ask @Zoe"),
        ("Joe Park", "hi"),
    )

    messages = pseudonymize_messages(rows, SECRET)

    ann, ben, zoe, phone, joe = map(pseudonym, ("ann", "ben lee", "zoe", "+491512345678", "joe"))
    assert messages["author"][:4].to_list() == [ann, ben, phone, None]
    assert messages["text"].to_list() == [
        f"@{ben} and @{ann}: ask {ben}, {phone}, or @{joe}",
        "Ann, will do",
        None,
        f"{ann} added {zoe}",
        f"ask @{zoe}",
        "hi",
    ]
    assert make_pseudonym("ann", SECRET) == ann != make_pseudonym("ann", bytes(32))


def test_an_alias_has_the_pseudonym_of_its_author() -> None:
    rows = chat(("ben.lee", "hi"), ("Ann", "ask @Ben the Baker, or Ben the Baker of Ulm"))

    messages = pseudonymize_messages(rows, SECRET, aliases={"Ben the Baker": "ben.lee"})

    ben = messages["author"][0]
    assert messages["text"].to_list() == ["hi", f"ask @{ben}, or {ben} of Ulm"]


def test_a_message_of_unknown_kind_is_read_as_written_by_a_person() -> None:
    rows = chat(("Ann", "Ann added Zoe, says @Ann"), (None, "Ann added Zoe"))

    messages = pseudonymize_messages(rows.with_columns(kind=pl.lit(None, pl.String)), SECRET)

    as_message = pseudonymize_messages(rows.with_columns(kind=pl.lit("message")), SECRET)
    assert messages["text"].to_list() == as_message["text"].to_list()
    assert messages["text"][0] == f"Ann added Zoe, says @{pseudonym('ann')}"


def test_conversations_and_sources_lose_names_of_authors() -> None:
    rows = chat(("Ann", "hi"), conversation="WhatsApp Chat with Ann", source="WhatsApp Chat with Ann.txt")

    messages = pseudonymize_messages(rows, SECRET)

    assert messages["conversation_id"].to_list() == [f"WhatsApp Chat with {pseudonym('ann')}"]
    assert messages["source"].to_list() == [f"WhatsApp Chat with {pseudonym('ann')}.txt"]
    quarantine = pl.DataFrame({"source": rows["source"], "line": [1], "reason": ["bad"]})
    assert (
        replace_in_identifiers(quarantine, NameFinder(["Ann"]), SECRET)["source"].to_list()
        == messages["source"].to_list()
    )


def test_everything_else_stays() -> None:
    rows = chat(("Ann", "hi"), (None, None), ("Ben", "no @ at all"))

    messages = pseudonymize_messages(rows, SECRET)

    assert messages.schema == rows.schema
    assert messages.drop("author").equals(rows.drop("author"))
    assert pseudonymize_messages(rows.clear(), SECRET).equals(rows.clear())


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (chat(("Ann", "hi")), ["author"]),
        (chat(("ann ", "hi")), ["author"]),
        (chat((MEMBER, "hi @Ann")), ["text"]),
        (chat((MEMBER, "by Ben Lee")), ["text"]),
        (chat((None, "Ann left")), ["text"]),
        (chat((MEMBER, "hi @\u2068Anybody\u2069")), ["text"]),
        (chat((MEMBER, "hi"), conversation="with Ann"), ["conversation_id"]),
        (chat((MEMBER, "hi"), source="ben lee.txt"), ["source"]),
        (chat(("Ann", "@Ann"), conversation="Ann"), ["author", "text", "conversation_id"]),
        (chat((MEMBER, "Ann says hi to Benny")), []),
        (chat((MEMBER, None)), []),
        (chat(("Somebody whom nobody named", "hi")), ["author"]),
    ],
)
def test_real_names_are_found_in_every_column(rows: pl.DataFrame, columns: list[str]) -> None:
    breaches = find_real_names(rows, ["Ann", "Ben Lee"])

    assert breaches["column"].to_list() == columns
    assert breaches["message_id"].null_count() == len(columns)


@pytest.mark.parametrize("text", ["so Ben Lee", "BEN LEE's", "ben\u00a0\u200blee", "Ben\nLee", "ben_lee.txt"])
def test_a_name_that_the_search_for_forms_misses_is_found(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NameFinder, "find", lambda *_: [])

    found = find_real_names(chat((MEMBER, text)), ["Ben Lee"])

    assert len(found) == 1


@pytest.mark.parametrize("name", ["*", "@", "@@~_-.", "~~", "\ufffc"])
def test_a_name_of_signs_alone_is_nobody_in_texts(name: str) -> None:
    texts = [f"{name} and @{name}, **so** ~~it~~ @ home", f"{name} added {name}"]

    messages = pseudonymize_messages(chat((name, texts[0]), (None, texts[1])), SECRET)

    assert find_real_names(messages, [name]).is_empty()
    assert messages["text"].to_list() == texts
    assert NameFinder([name]).person("Nobody") == "nobody"


@settings(max_examples=some(60), deadline=None)
@given(names=st.lists(AUTHORS, min_size=1, max_size=4), data=st.data())
def test_no_real_name_is_left(names: list[str], data: st.DataObject) -> None:
    texts = [
        data.draw(
            st.lists(
                st.one_of(TEXTS, st.sampled_from([f"@{name}", name, f"@\u2068{name}\u2069"])), max_size=4
            )
        )
        for name in names
    ]
    rows = chat(
        *((name, " ".join(parts)) for name, parts in zip(names, texts, strict=True)),
        (None, f"{names[0]} added {names[-1]}"),
        conversation=f"with {names[0]}",
    )

    messages = pseudonymize_messages(rows, SECRET)

    assert find_real_names(messages, rows["author"].drop_nulls().unique()).is_empty()
    assert messages["author"].drop_nulls().str.contains("^member-[0-9a-f]{10}$").all()
    assert messages.equals(pseudonymize_messages(rows, SECRET))
    assert messages.drop("author", "text", "conversation_id").equals(
        rows.drop("author", "text", "conversation_id")
    )


@pytest.mark.parametrize(
    ("names", "text", "hidden"),
    [
        (["Anna🌸 Lind"], "Anna Lind, anna🌸 lind", 1),
        (["@Ann Lee"], "Ann Lee, @Ann Lee", 1),
        (["member", "The Member", MEMBER.removeprefix("member-")], "@member the @member", 2),
    ],
)
def test_names_with_signs_and_of_letters_of_pseudonyms(names: list[str], text: str, hidden: int) -> None:
    messages = pseudonymize_messages(chat(*((name, text) for name in names)), SECRET)

    assert messages["text"][0].count("member-") == hidden
    assert find_real_names(messages, names).is_empty()


def test_real_exports_hold_no_name_afterwards(shared_data: Path) -> None:
    for path in sorted((shared_data / "exports" / "rendered").glob("*/chat.txt")):
        messages, _ = read_export(path, ConversationSettings())
        names = messages["author"].drop_nulls().unique()

        pseudonymous = pseudonymize_messages(messages, SECRET)

        assert find_real_names(pseudonymous, names).is_empty()
        assert pseudonymous["author"].n_unique() == messages["author"].n_unique()
        assert not find_real_names(messages, names).is_empty()


def test_more_authors_cost_no_more_per_message() -> None:
    def measure(authors: int) -> float:
        names = [f"Author{number:04d} Lastname{number:04d}" for number in range(authors)]
        texts = [
            f"@{names[n % authors].split()[0]} has {n} words of Lastname, {'so ' * 40}" for n in range(1500)
        ]
        rows = chat(*((names[n % authors], text) for n, text in enumerate(texts)))
        started = time.process_time()
        messages = pseudonymize_messages(rows, SECRET)
        assert find_real_names(messages, names).is_empty()
        return time.process_time() - started

    measure(2)  # what is loaded and compiled once

    assert measure(1500) < 5 * measure(15) + 1


@pytest.mark.parametrize(
    ("line", "members"),
    [
        ("Ann added Ben, Zoe Hill and +49 170 1234567", ["+49 170 1234567", "Ann", "Ben", "Zoe Hill"]),
        ("Ann removed Ben", ["Ann", "Ben"]), ("You added Ben", ["Ben"]), ("Ben left", ["Ben"]), ("You left", []),
        ("Ben joined using this group's invite link", ["Ben"]), ('Ann created group "Trip"', ["Ann"]),
        ("Ann hat Ben hinzugefügt.", ["Ann", "Ben"]), ("Ann hat die Gruppe verlassen.", ["Ann"]),
        ("Ann hat den Betreff geändert.", ["Ann"]), ("Ann ist über einen Link beigetreten", ["Ann"]),
        ("Ann hat den Bus verpasst", []), ("Ann adicionou Ben", ["Ann", "Ben"]), ("Ann saiu", ["Ann"]),
        ("Ann criou o grupo", ["Ann"]), ("Ann añadió a Ben", ["Ann", "Ben"]), ("Ann cambió el asunto", ["Ann"]),
        ("Ann a ajouté Ben", ["Ann", "Ben"]), ("Ann a créé le groupe", ["Ann"]),
        ("Ann ha aggiunto Ben", ["Ann", "Ben"]), ("Ann ha creato il gruppo", ["Ann"]),
        ("Ann changed the description to:\nBen left", ["Ann"]), ("This group was added to the community", []),
        ("Messages and calls are end-to-end encrypted.", []),
    ],
)  # fmt: skip
def test_a_line_of_the_app_names_its_members(line: str, members: list[str]) -> None:
    assert find_members([line]) == members


@pytest.mark.parametrize(
    "words", ["Ann hat ", "Ann ist ", "Ann changed ", "Ann added ", "Ann hat den ", "a, ", "  "]
)
def test_a_long_line_costs_no_more_than_its_length(words: str) -> None:
    line = words * (65_536 // len(words)) + "x"
    started = time.process_time()

    find_members([line])

    assert time.process_time() - started < 1.5  # it takes 0.01 s; patterns that try every start took 6 s
