"""Summaries of several sections by a model behind a loopback server: what fails is named, nothing is asked twice."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from backstory.base.errors import (
    BudgetExhaustedError,
    ModelSetupError,
    StoppedError,
)
from backstory.base.progress import listening
from backstory.models.chat_model import ChatModel
from backstory.models.usage import Settle, Usage
from backstory.settings.writers import SummarySettings
from backstory.writing.draft_cache import DraftCache
from backstory.writing.summaries.model_summarizer import ModelSummarizer
from backstory.writing.summaries.prompt import make_summary_form
from backstory.writing.summaries.request import Source, Style
from backstory.writing.summaries.summarizing import DocumentSummary, summarize
from tests.caches import open_cache
from tests.errors import raises
from tests.models.services import chat_server
from tests.models.services.chat_server import (
    ChatBehaviour,
    ChatReply,
    ChatRequest,
    ChatServer,
)
from tests.writing.summaries.texts import make_paged, make_plain

KEY = "sk-test-key-that-must-never-be-seen"
LIMIT = 130  # three sections of the paged text


def say(text: str) -> ChatBehaviour:
    return chat_server.complete(json.dumps({"summary": text}))


def answer_by_section(failing: dict[int, ChatBehaviour]) -> ChatBehaviour:
    """Answer each section by its number, which the prompt names, whatever the order of the calls."""

    def answer(request: ChatRequest) -> ChatReply | None:
        system = str(request.body["messages"][0]["content"])
        if "of whose sections" in system:
            return failing.get(0, say("All in one (p. 5)."))(request)
        named = re.search(r"summarize section (\d+) of", system)
        number = int(named[1]) if named else 1
        return failing.get(number, say(f"Section {number} said."))(request)

    return answer


class Budget:
    """A meter that allows a number of calls."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def require_room(self, needed: Usage) -> None:
        """Allow any calls; :meth:`reserve` counts them."""

    def reserve(self, most: Usage, *, seconds: float) -> Settle:  # noqa: ARG002
        if not self.left:
            raise BudgetExhaustedError("the budget of the day is used up")
        self.left -= 1
        return lambda _: None


@pytest.fixture
def chat(chat: ChatServer) -> ChatServer:
    chat.always = answer_by_section({})
    return chat


@pytest.fixture
def ask(chat: ChatServer, tmp_path: Path, open_service: Callable[..., Any]) -> Callable[..., DocumentSummary]:
    """Give a function that summarizes a document by the chat server; all calls share one cache."""

    def make(
        source: Source | None = None,
        style: Style = "detailed",
        limit: int = LIMIT,
        budget: int = 1000,
        **settings: Any,
    ) -> DocumentSummary:
        given = {
            "provider": "openai", "model": "tiny", "base_url": chat.url, "requests_per_minute": 10_000,
            "threads": 1,
        } | settings  # fmt: skip
        checked = SummarySettings.model_validate(given)
        model = ChatModel(checked, open_service(checked, key=SecretStr(KEY), meter=Budget(budget)))
        form, drafts = make_summary_form(checked.max_output_tokens), DraftCache(open_cache(tmp_path))
        summarizer = ModelSummarizer(model, form, drafts, threads=checked.threads)
        return summarize(source or make_paged(), summarizer, style, limit)

    return make


def test_each_section_is_asked_about_once(chat: ChatServer, ask: Callable[..., DocumentSummary]) -> None:
    made = ask(threads=3)
    assert (made.status, made.combining) == ("success", None)
    assert made.text == (
        "## Pages 1-4\n\nSection 1 said.\n\n## Pages 4-7\n\nSection 2 said.\n\n## Pages 7-10\n\nSection 3 said."
    )
    assert len(chat.requests) == 3
    form = chat.requests[0].body["response_format"]["json_schema"]
    assert (form["name"], form["schema"]["required"]) == ("summary", ["summary"])
    assert sum('<page number="4">' in request.user for request in chat.requests) == 2
    assert all(len(request.user.split()) < LIMIT + 30 for request in chat.requests)


def test_one_summary_is_made_of_several(chat: ChatServer, ask: Callable[..., DocumentSummary]) -> None:
    assert ask(style="brief").text == "All in one (p. 5)."
    assert len(chat.requests) == 4
    assert "Section 2 said." in chat.requests[-1].user


def test_many_summaries_are_combined_in_steps_within_the_limit(
    chat: ChatServer, ask: Callable[..., DocumentSummary]
) -> None:
    made = ask(style="bullets", limit=15)
    combining = [request for request in chat.requests if "of whose" in request.body["messages"][0]["content"]]
    assert made.text == "All in one (p. 5)."
    assert len(combining) > 2
    for request in combining:
        shown = request.user.split("\n", 2)[2]  # without the title
        assert len(re.sub("<[^>]*>", "", shown).split()) <= 15


def test_nothing_is_asked_twice_until_the_document_the_style_or_the_model_is_another(
    chat: ChatServer, ask: Callable[..., DocumentSummary]
) -> None:
    assert ask() == ask()
    assert len(chat.requests) == 3
    ask(temperature=0.5)
    assert len(chat.requests) == 6
    ask(style="bullets")
    assert len(chat.requests) == 10
    longer = make_paged((*(f"Page {number} is here." for number in range(9)), "The last one."))
    ask(longer, limit=1000)
    assert len(chat.requests) == 11


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (chat_server.complete(None, finish="content_filter"), "blocked (content_filter)"),
        (chat_server.complete("{", finish="length"), "cut (length): raise summaries.max_output_tokens"),
        (chat_server.complete(None, refusal="I will not."), "refused: 11 characters"),
        (chat_server.complete("Here it is"), "not JSON"),
        (chat_server.refuse(400, "too long"), "refused the request"),
    ],
)
def test_a_section_that_fails_is_named_and_the_rest_is_there(
    chat: ChatServer, ask: Callable[..., DocumentSummary], behaviour: ChatBehaviour, reason: str
) -> None:
    chat.always = answer_by_section({2: behaviour})
    made = ask()
    assert made.status == "partial"
    assert [outcome.summary for outcome in made.sections] == ["Section 1 said.", None, "Section 3 said."]
    assert reason in (made.sections[1].reason or "")
    last = made.text.split("\n\n")[-1]
    assert last.startswith("Not summarized: section 2, pages 4-7: ")
    assert reason.split(" (")[0] in last
    chat.always = answer_by_section({})
    before = len(chat.requests)
    assert ask().status == "success"
    assert len(chat.requests) == before + 1


def test_a_service_that_is_down_is_not_asked_about_every_section(
    chat: ChatServer, ask: Callable[..., DocumentSummary]
) -> None:
    down = chat_server.refuse(503, "down for repairs")
    chat.always = answer_by_section({2: down, 3: down})
    made = ask(max_attempts=2)
    assert len(chat.requests) == 3
    assert [outcome.reason is None for outcome in made.sections] == [True, False, False]
    assert (made.sections[2].reason or "").startswith("not asked: ")


def test_who_listens_is_told_of_each_section_and_may_stop_the_rest(
    chat: ChatServer, ask: Callable[..., DocumentSummary]
) -> None:
    told: list[tuple[int, int]] = []

    def hear(_: str, done: int, total: int) -> None:
        told.append((done, total))

    with listening(hear):
        ask()
    assert told == [(1, 3), (2, 3), (3, 3)]

    def stop(_: str, done: int, total: int) -> None:  # noqa: ARG001
        raise StoppedError("the call was cancelled")

    before = len(chat.requests)
    with listening(stop), raises(StoppedError):
        ask(limit=15)
    assert len(chat.requests) == before + 1

    with listening(stop), raises(StoppedError):
        ask(limit=16, threads=2)
    assert len(chat.requests) <= before + 3  # the first section, and the one that had begun beside it

    def stop_at_the_end(_: str, done: int, total: int) -> None:
        if done == total:
            raise StoppedError("the call was cancelled")

    with listening(stop_at_the_end), raises(StoppedError):
        ask(style="brief")
    assert not any("of whose sections" in request.body["messages"][0]["content"] for request in chat.requests)


def test_if_all_sections_fail_there_is_no_summary(
    chat: ChatServer, ask: Callable[..., DocumentSummary]
) -> None:
    chat.always = chat_server.complete(None, finish="content_filter")
    made = ask(style="brief")
    assert (made.status, made.text) == ("failed", "")
    assert len(chat.requests) == 3


@pytest.mark.parametrize("style", ["brief", "bullets"])
def test_sections_stay_apart_if_they_cannot_be_combined(
    chat: ChatServer, ask: Callable[..., DocumentSummary], style: Style
) -> None:
    chat.always = answer_by_section({0: chat_server.complete(None, finish="content_filter")})
    made = ask(style=style)
    assert (made.status, made.combining) == ("partial", "blocked (content_filter)")
    assert made.text.split() == ["Section", "1", "said.", "Section", "2", "said.", "Section", "3", "said."]


def test_summaries_too_long_to_be_combined_stay_apart(
    chat: ChatServer, ask: Callable[..., DocumentSummary]
) -> None:
    chat.always = say("very " * 100 + "long")
    made = ask(style="brief")
    assert made.status == "partial"
    assert made.combining == "no two of the 3 summaries have at most 130 words together"


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (chat_server.refuse(401, f"bad key {KEY}"), ModelSetupError),
        (chat_server.refuse(402, "no credit"), BudgetExhaustedError),
    ],
)
def test_what_concerns_the_account_is_raised_at_once_and_shows_no_key(
    chat: ChatServer, ask: Callable[..., DocumentSummary], behaviour: ChatBehaviour, error: type[Exception]
) -> None:
    chat.always = behaviour
    with pytest.raises(error) as caught:
        ask()
    assert KEY not in str(caught.value)
    assert len(chat.requests) == 1


def test_a_budget_ends_the_calls_and_the_next_one_goes_on(
    chat: ChatServer, ask: Callable[..., DocumentSummary]
) -> None:
    made = ask(budget=2)
    assert made.status == "partial"
    assert [outcome.summary is not None for outcome in made.sections] == [True, True, False]
    assert made.sections[2].reason == "the budget of the day is used up"
    with pytest.raises(BudgetExhaustedError):
        ask(make_plain("Another document of a few words."), budget=0)
    assert ask(budget=1).status == "success"
    assert len(chat.requests) == 3


def test_pages_that_were_not_shown_are_dropped(chat: ChatServer, ask: Callable[..., DocumentSummary]) -> None:
    chat.always = answer_by_section({1: say("Old (p. 2), new (p. 8).")})
    assert (ask().sections[0].summary) == "Old (p. 2), new."
