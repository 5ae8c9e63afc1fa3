"""``Library.summarize``: what it says of a document, and what becomes of what a model wrote."""

import json
from collections.abc import Callable

import pytest

from backstory.base.errors import BudgetExhaustedError, InputError
from backstory.interfaces.library.library import Library
from backstory.operations.forgetting import forget
from backstory.pipeline.run.cache_use import prune_caches
from backstory.pipeline.workspace import open_workspace
from tests.errors import raises
from tests.ingest.documents.pdf_files import make_pdf, write_lines
from tests.interfaces.library.conftest import SETTINGS
from tests.models.services.chat_server import ChatServer, complete

MODEL = """\
services: {mine: {kind: openai, base_url: '%s', requests_per_minute: 10000, max_attempts: 1}}
summaries: {provider: mine, model: tiny}
"""
LONG = "\n\n".join(
    f"The meeting of week {week} spoke about the {thing} and its price." for week, thing in enumerate(
        ["roof", "stairs", "cellar", "garden", "chimney", "gate", "well", "fence", "attic", "yard"] * 6
    )
)  # fmt: skip


@pytest.fixture
def chat(chat: ChatServer) -> ChatServer:
    chat.always = complete(json.dumps({"summary": "They met each week."}))
    return chat


@pytest.fixture
def asking(chat: ChatServer, make_library: Callable[..., Library]) -> Library:
    """A library whose summaries a model writes."""
    library = make_library(SETTINGS + MODEL % chat.url)
    assert library.add([LONG], ["meetings"]).success
    return library


def test_a_text_without_pages_is_summarized_within_the_limit(library: Library) -> None:
    library.add([LONG], ["meetings"])
    made = library.summarize("meetings", max_words_per_section=100)
    assert (made.status, made.style, made.model) == ("success", "detailed", "extractive:1")
    assert made.total_words == made.document.words == len(LONG.split())
    assert made.sections == made.sections_processed == len(made.section_summaries) > 6
    text = library.text("meetings").text
    for section in made.section_summaries:
        shown = text[section.char_start : section.char_end]
        assert section.words == len(shown.split()) <= 100
        assert section.cite.startswith("added/meetings.md, lines ")
        assert section.summary in text
        assert section.summary in made.summary
    assert made.citations == tuple(section.cite for section in made.section_summaries)
    assert library.summarize("meetings", max_words_per_section=100) == made


def test_pages_are_cited(library: Library) -> None:
    pages = [f"The {thing} was mended in spring, and it cost much." for thing in ("roof", "stairs", "cellar")]
    (library.workspace.documents_dir / "repairs.pdf").write_bytes(
        make_pdf([write_lines(page) for page in pages])
    )
    library.index()
    made = library.summarize("repairs.pdf", "bullets")
    assert made.summary.split("\n") == [f"- {page} (p. {number})" for number, page in enumerate(pages, 1)]
    assert made.citations == tuple(f"repairs.pdf, page {number}" for number in (1, 2, 3))
    [section] = made.section_summaries
    assert (section.page_start, section.page_end, section.cite) == (1, 3, "repairs.pdf, pages 1-3")


def test_a_document_that_has_changed_since_is_told(library: Library) -> None:
    assert not any("changed" in note for note in library.summarize("sourdough.md").notes)
    file = library.workspace.documents_dir / "sourdough.md"
    file.write_text(f"{file.read_text(encoding='utf-8')}\nIt rises twice.\n", encoding="utf-8")
    with Library.open(library.workspace.root) as again:
        told = [note for note in again.summarize("sourdough.md").notes if "changed" in note]
    assert len(told) == 1
    assert "sourdough.md" in told[0]


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (("no such",), "unknown_document", "no such"),
        (("sourdough.md", "long"), "unknown_value", "style"),
        (("sourdough.md", "brief", 0), "out_of_range", "max_words_per_section"),
    ],
)
def test_wrong_arguments_are_errors(
    indexed_once: Library, arguments: tuple[str], code: str, name: str
) -> None:
    with raises(InputError, code, name):
        indexed_once.summarize(*arguments)


def test_what_a_model_writes_is_kept_across_processes(asking: Library, chat: ChatServer) -> None:
    made = asking.summarize("meetings", "brief")
    assert (made.summary, made.status) == ("They met each week.", "success")
    assert made.model.endswith(":tiny:tNone:o8192")
    with Library.open(asking.workspace.root) as later:
        assert later.summarize("meetings", "brief") == made
    assert len(chat.requests) == 1


def test_a_failed_section_is_named(asking: Library, chat: ChatServer) -> None:
    chat.script.extend([chat.always, complete(None, finish="content_filter")])
    made = asking.summarize("meetings", max_words_per_section=500)
    assert made.status == "partial"
    assert made.sections == 2
    assert made.sections_processed == 1
    failed = next(section for section in made.section_summaries if section.status == "failed")
    assert failed.reason == "blocked (content_filter)"
    assert made.reasons == (f"section {failed.section}: blocked (content_filter)",)
    assert made.reasons[0] in made.summary


def test_pruning_keeps_the_summaries_of_documents_as_they_are(asking: Library, chat: ChatServer) -> None:
    asking.summarize("meetings", "brief")
    assert prune_caches(asking.workspace)["drafts"] == 0
    asking.summarize("meetings", "brief")
    assert len(chat.requests) == 1
    asking.add([f"{LONG} It is over."], ["meetings"])
    assert prune_caches(asking.workspace)["drafts"] == 1


def test_forgetting_a_document_takes_its_summaries(asking: Library) -> None:
    asking.workspace.chats_dir.mkdir()
    asking.summarize("meetings", "brief")
    asking.summarize("sourdough.md", "brief")
    forget(open_workspace(asking.workspace.root), "document", "meetings")
    assert asking.workspace.drafts.count() == 1
    assert b"They met each week" in (asking.workspace.tables_dir / "cache.sqlite").read_bytes()
    forget(open_workspace(asking.workspace.root), "document", "sourdough")
    assert asking.workspace.drafts.count() == 0
    assert b"They met each week" not in (asking.workspace.tables_dir / "cache.sqlite").read_bytes()


def test_calls_count_against_the_budget_of_the_day(
    chat: ChatServer, make_library: Callable[..., Library]
) -> None:
    library = make_library(SETTINGS + MODEL % chat.url + "costs: {day: {calls: 1}}\n")
    library.index()
    library.summarize("sourdough.md", "brief")
    with raises(BudgetExhaustedError, None, "costs.day.calls"):
        library.summarize("sourdough.md", "bullets")
    assert len(chat.requests) == 1
