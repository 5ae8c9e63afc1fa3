"""From the answer of a model behind a real server to a row of table posts."""

import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mdurl import _encode

from backstory.base.errors import ModelSetupError
from backstory.ingest.privacy.pseudonyms import find_naming_texts
from backstory.settings.writers import WriterSettings
from backstory.text.people import Discretion
from backstory.writing.draft_cache import DraftCache
from backstory.writing.model_writer import ModelWriter
from backstory.writing.posts import count_unfinished, tabulate, write_posts
from backstory.writing.writer_calls import WriterCalls
from tests.caches import open_cache
from tests.errors import raises
from tests.models.services import chat_server
from tests.models.services.chat_server import ChatBehaviour, ChatReply, ChatRequest, ChatServer
from tests.writing.material import make_context, make_window

REFUSAL = chat_server.complete(None, refusal="I will not.")
WINDOWS = [
    (make_window(f"Question {number}?", "Yes.", window_id=f"w{number}"), make_context())
    for number in range(6)
]

Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def rows_of(ask_chat: Callable[..., ModelWriter], tmp_path: Path) -> Rows:
    """Give a function that makes the rows of six windows, as one run does."""

    def make(**settings: Any) -> list[dict[str, Any]]:
        given = WriterSettings.model_validate(settings)
        drafts = DraftCache(open_cache(tmp_path))
        writer = ask_chat(max_attempts=1)
        rows = write_posts(
            WINDOWS,
            writer,
            given,
            Discretion(partial(find_naming_texts, names=["Ada Lind"])),
            drafts,
            WriterCalls(),
        )
        assert list(rows) == [window.window_id for window, _ in WINDOWS]
        return list(rows.values())

    return make


def statuses(rows: list[dict[str, Any]]) -> list[str]:
    return [row["status"] for row in rows]


def test_the_same_input_makes_no_call(chat: ChatServer, rows_of: Rows) -> None:
    rows = rows_of()
    assert set(statuses(rows)) == {"written"}
    assert rows_of() == rows
    assert len(chat.requests) == len(WINDOWS)
    used = [rows[0][name] for name in ("model", "tokens_in", "tokens_out")]
    assert used == ["tiny-2026", 120, 30]


def test_no_two_threads_fill_the_table_of_characters_of_addresses(
    ask_chat: Callable[..., ModelWriter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_encode, "encode_cache", {})
    discretion, drafts = Discretion(partial(find_naming_texts, names=[])), DraftCache(open_cache(tmp_path))
    write_posts([], ask_chat(), WriterSettings(), discretion, drafts, WriterCalls())
    assert _encode.encode_cache


def test_a_rejected_draft_is_not_asked_for_again(chat: ChatServer, rows_of: Rows) -> None:
    chat.always = REFUSAL
    rows = rows_of()
    assert {(row["status"], row["reason"], row["tokens_in"]) for row in rows} == {
        ("rejected", "refused: 11 characters", 120)
    }
    assert len(chat.requests) == len(WINDOWS)
    assert count_unfinished(tabulate([row | {"cost": None} for row in rows])) == 0
    chat.always = chat_server.post()
    assert rows_of() == rows
    assert len(chat.requests) == len(WINDOWS)


def test_a_window_that_is_not_answered_is_asked_about_by_the_next_run(
    chat: ChatServer, rows_of: Rows
) -> None:
    chat.script.extend([REFUSAL, chat_server.refuse(400, "the context is too long")])
    rows = rows_of(threads=1)
    assert statuses(rows)[:3] == ["rejected", "failed", "written"]
    assert count_unfinished(tabulate(rows)) == 1
    assert statuses(rows_of())[:3] == ["rejected", "written", "written"]
    assert len(chat.requests) == len(WINDOWS) + 1


def test_a_draft_is_judged_again_without_a_call_if_a_limit_changes(chat: ChatServer, rows_of: Rows) -> None:
    assert set(statuses(rows_of(min_characters=1000))) == {"rejected"}
    assert set(statuses(rows_of())) == {"written"}
    assert len(chat.requests) == len(WINDOWS)


def test_a_used_up_quota_lets_the_other_windows_wait(chat: ChatServer, rows_of: Rows) -> None:
    chat.script.append(chat_server.post())
    chat.always = chat_server.refuse(402, "no credit")
    rows = rows_of(threads=1)
    assert statuses(rows) == ["written", *["waiting"] * 5]
    assert all("no credit" in row["reason"] for row in rows[1:])
    assert len(chat.requests) == 2
    chat.always = chat_server.post()
    assert set(statuses(rows_of())) == {"written"}
    assert len(chat.requests) == 2 + 5


def test_a_service_that_is_down_is_not_asked_for_every_window(chat: ChatServer, rows_of: Rows) -> None:
    chat.always = chat_server.refuse(503)
    rows = rows_of(threads=1)
    assert statuses(rows) == [*["failed"] * 3, *["waiting"] * 3]
    assert rows[-1]["reason"] == "not asked, since 3 windows in a row were not answered; the next run asks"
    assert len(chat.requests) == 3


def test_one_refused_request_does_not_stop_the_others(chat: ChatServer, rows_of: Rows) -> None:
    chat.script.append(chat_server.refuse(400, "the context is too long"))
    assert statuses(rows_of(threads=1)) == ["failed", *["written"] * 5]


def test_a_refused_key_is_an_error(chat: ChatServer, rows_of: Rows) -> None:
    chat.always = chat_server.refuse(401, "bad key")
    with raises(ModelSetupError, "refused_key", *("BACKSTORY_WRITER_KEY", "OPENAI_API_KEY")):
        rows_of()


def test_windows_are_asked_about_at_once(chat: ChatServer, rows_of: Rows) -> None:
    together = threading.Barrier(2)

    def meet(_: ChatRequest) -> ChatReply | None:
        together.wait(timeout=600)
        return chat_server.post()(_)

    chat.script.extend([meet, meet])
    rows_of(threads=2)
    assert chat.most_at_once == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Ada Lind said that the drip irrigation line broke again.", "leak: "),
        ("---\ntitle: Mine\n---\nThe drip irrigation line broke again.", "front matter: "),
        ("+++\ntitle = 'Mine'\n+++\nThe drip irrigation line broke again.", "front matter: "),
        ("I'm sorry, but I can't help with that request.", "refused: "),
        ("I’m sorry, but I cannot write about this.", "refused: "),
        ("As an AI language model, I am unable to write this post.", "refused: "),
        ("Es tut mir leid, aber dabei kann ich nicht helfen.", "refused: "),
        ("Lo siento, pero no puedo ayudar con esta solicitud.", "refused: "),
        ("  \n", "empty: "),
        ("Too short.", "too short: "),
        ("x" * 20_001, "too long: "),
        ("Der Schlauch im Garten ist gebrochen, und der Frost hat das Winkelstück gesprengt. " * 4, "language: "),
    ],
)  # fmt: skip
def test_a_draft_that_fails_a_check_is_no_post(
    chat: ChatServer, rows_of: Rows, tmp_path: Path, text: str, reason: str
) -> None:
    chat.always = chat_server.post(text)
    rows = rows_of()
    assert set(statuses(rows)) == {"rejected"}
    assert all(row["reason"].startswith(reason) for row in rows)
    if reason in ("leak: ", "refused: "):
        assert not any(row["text"] or row["title"] for row in rows)
        assert not any(text.encode() in path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    "behaviour",
    [
        chat_server.complete("Ada Lind said: +44 7400 123456"),
        chat_server.complete(None, refusal="Ada Lind may not be named."),
        chat_server.post("I'm sorry, but I can't write about Ada Lind."),
    ],
)
def test_nothing_of_an_answer_that_is_no_post_is_kept_but_its_kind_and_length(
    chat: ChatServer, rows_of: Rows, tmp_path: Path, behaviour: ChatBehaviour
) -> None:
    chat.always = behaviour
    rows = rows_of()
    assert set(statuses(rows)) == {"rejected"}
    for row in rows:
        assert re.fullmatch(r"(refused|not JSON): .*\d+ characters", row["reason"])
    kept = [str(rows), *(path.read_bytes().decode(errors="replace") for path in tmp_path.iterdir())]
    assert not [word for word in ("Ada", "Lind", "7400 123456") for text in kept if word in text]


def test_what_a_post_may_hold(chat: ChatServer, rows_of: Rows) -> None:
    text = "I'm sorry to say that the line broke [1].\n\n---\n\nA rule, <b>HTML</b>, https://evil.example and [9]."
    chat.always = chat_server.post(text, "# A title\nof two lines", ("#garden", "garden", " "))
    row = rows_of()[0]
    assert (row["status"], row["title"], row["tags"]) == ("written", "A title of two lines", ["garden"])
    assert row["text"].startswith(
        "I'm sorry to say that the line broke [\\[1\\]](../posts/doc-1.md).\n\n---\n"
    )
    assert "\\<b>HTML\\</b>,  and ." in row["text"]
    assert (row["cited_documents"], row["removed_citations"]) == (["d1"], 2)
