"""``Library.answer``: what is asked, what is found, and what is refused."""

from collections.abc import Callable

import pytest

from backstory.base.errors import InputError
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.search import SearchFilters
from backstory.writing.answers.answer import Turn
from tests.errors import raises
from tests.ingest.documents.pdf_files import make_pdf, write_lines
from tests.interfaces.library.conftest import SETTINGS


def test_a_claim_leads_to_its_words_in_the_document(indexed_once: Library) -> None:
    answer = indexed_once.answer("which night train needs a seat reservation?")
    assert (answer.kind, answer.refused) == ("lookup", None)
    place = answer.claims[0].citations[0]
    text = indexed_once.text(place.document_id).text
    assert text[place.char_start : place.char_end] == place.quote
    assert text.splitlines()[(place.line_start or 0) - 1] == place.quote
    assert f"[1] {place.cite}" in answer.markdown


def test_talk_searches_nothing(indexed_once: Library) -> None:
    answer = indexed_once.answer("thanks!")
    assert (answer.kind, answer.refused, answer.hits, answer.index_version) == ("casual", None, (), None)


@pytest.mark.parametrize(
    ("before", "question", "shown", "of", "told"),
    [
        ("", "list all posts of 2024", 4, 4, "which are all"),
        ("", "the two newest posts", 2, 6, "2 of 6"),
        ("list all posts of 2023", "and of 2024?", 4, 4, "which are all"),
        ("list all posts of 2024", "and the 2 newest of them?", 2, 4, "2 of 4"),
        ("list all posts of 2024", "how many of them are about sourdough?", 1, 1, ""),
        ("list all posts of 2024", "welche davon handeln von sourdough?", 1, 1, ""),
    ],
)
def test_a_list_of_documents_says_whether_it_is_complete(
    indexed_once: Library, before: str, question: str, shown: int, of: int, told: str
) -> None:
    answer = indexed_once.answer(question, history=[Turn(before, "Some.")] if before else [])
    assert (answer.kind, answer.refused) == ("list", None)
    assert (len(answer.documents), answer.document_count, told in answer.markdown) == (shown, of, True)


def test_a_list_of_documents_by_their_pages(make_library: Callable[..., Library]) -> None:
    library = make_library()
    content = make_pdf([write_lines("The first page"), write_lines("The second page")])
    (library.workspace.documents_dir / "paper.pdf").write_bytes(content)
    library.index()
    answer = library.answer("documents of at least two pages")
    assert ([each.uri for each in answer.documents], answer.document_count) == (["paper.pdf"], 1)
    assert "6 documents have no pages, and are not in the list" in answer.notes
    assert library.answer("PDFs of more than two pages").document_count == 0


def test_a_list_on_a_topic_is_not_said_to_be_complete(indexed_once: Library) -> None:
    answer = indexed_once.answer("list all posts of 2024 that mention bread or a starter")
    [listed] = answer.documents
    assert listed.uri == "sourdough.md"
    assert "all" not in answer.markdown.partition("\n")[0]
    assert (answer.confidence != "high", answer.not_found) == (True, ())


def test_filters_hold_for_the_catalog_and_the_search(indexed_once: Library) -> None:
    only = SearchFilters(documents=("backup-disk.md",))
    assert [each.uri for each in indexed_once.answer("list all posts", filters=only).documents] == [
        "backup-disk.md"
    ]
    answer = indexed_once.answer("what do we feed the sourdough starter?", filters=only)
    assert {hit.uri for hit in answer.hits} <= {"backup-disk.md"}


def test_a_list_hides_undated_documents_as_a_search_does(make_library: Callable[..., Library]) -> None:
    library = make_library(f"{SETTINGS}rag: {{undated: hide}}\n")
    (library.workspace.documents_dir / "undated.md").write_text("Some bread.", encoding="utf-8")
    library.index()
    assert library.answer("list all documents").document_count == 6
    assert "undated.md" not in {hit.uri for hit in library.search("some bread", top_k=9).hits}


def test_a_follow_up_is_completed(indexed_once: Library) -> None:
    history = [Turn("where did the photos of the backup disk go?", "Somewhere.")]
    assert indexed_once.answer("and the drip irrigation?", history=history).rewritten is not None
    assert indexed_once.answer("how long is the drip irrigation line?", history=history).rewritten is None


def test_a_list_by_a_word_that_is_a_tag_names_documents_and_quotes_nothing(indexed_once: Library) -> None:
    answer = indexed_once.answer("list all posts about moths")
    assert ([each.uri for each in answer.documents], answer.claims) == (["unrelated.md"], ())
    assert "all" not in answer.markdown.partition("\n")[0]


def test_what_no_document_says_is_refused(indexed_once: Library) -> None:
    answer = indexed_once.answer("who painted the harbour mural of Zanzibar?")
    assert (answer.refused, answer.claims, answer.confidence) == ("not_in_documents", (), "low")
    near = indexed_once.answer("what does the night train to Lisbon cost per person and year?")
    assert (near.refused, bool(near.nearest)) == ("not_in_documents", True)
    for place in near.nearest:
        assert indexed_once.text(place.document_id).text[place.char_start : place.char_end] == place.quote
    assert indexed_once.answer("what does the night train to Lisbon need?").nearest == ()


@pytest.mark.parametrize(
    ("question", "understood"),
    [
        ("list posts tagged nope", "of the kind post, tagged nope"),
        ("list all documents before 1999", "until 1998-12-31"),
        ("documents of more than 20 pages", "of at least 21 pages"),
        ("which PDFs since may 1999 mention mosses", "a .pdf file, since 1999-05-01, on the topic “mosses”"),
        ("what is the weather today", None),
        ("tell me a joke", None),
    ],
)
def test_a_refusal_says_what_was_looked_for_or_that_no_document_can_say_it(
    indexed_once: Library, question: str, understood: str | None
) -> None:
    answer = indexed_once.answer(question)
    if understood is None:
        assert answer.refused == "outside"
    else:
        assert (answer.refused, answer.document_count) == ("not_in_documents", 0)
        assert understood in answer.markdown


def test_without_an_index_only_talk_is_answered(make_library: Callable[..., Library]) -> None:
    library = make_library()
    assert library.answer("how are the photos kept?").refused == "no_index"
    assert library.answer("how are the photos kept?").notes
    assert library.answer("hello!").refused is None


def test_a_question_longer_than_the_input_of_the_embedder_is_answered(indexed_once: Library) -> None:
    long = "tank " * (2 * indexed_once.workspace.embedder.max_input_tokens)
    answer = indexed_once.answer(f"which night train needs a seat reservation? {long}")
    assert answer.kind == "lookup"
    assert answer.hits


def test_a_blank_question_is_an_error(indexed_once: Library) -> None:
    with raises(InputError, "blank_text", "question"):
        indexed_once.answer("  ")


@pytest.mark.parametrize(
    ("question", "language", "notes"),
    [
        ("welche Beiträge gibt es von 2019?", "de", 0),
        ("quels articles y a-t-il de 2019 ?", "fr", 0),
        ("które wpisy są z 2019 roku?", "en", 1),
    ],
)
def test_an_answer_names_the_language_of_its_words(
    indexed_once: Library, question: str, language: str, notes: int
) -> None:
    answer = indexed_once.answer(question)
    assert (answer.language, answer.refused) == (language, "not_in_documents")
    assert sum("Polish" in note for note in answer.notes) == notes
