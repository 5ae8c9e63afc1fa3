"""``grep``, ``documents``, ``text`` and ``context``."""

from collections.abc import Callable
from functools import partial

import pytest

from backstory.base.errors import InputError
from backstory.interfaces.library import expressions
from backstory.interfaces.library.expressions import find_limited, find_places, fold
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.names import PlacedText
from backstory.interfaces.library.results import Match
from backstory.text.prompts.entries import FORMATS, ContextFormat
from tests.errors import raises


def test_grep_finds_every_place_with_its_line(indexed_once: Library) -> None:
    answer = indexed_once.grep("sourdough")
    assert (answer.count, answer.documents) == (4, 2)
    for match in answer.matches:
        text = indexed_once.text(match.uri).text
        assert text[match.char_start : match.char_end] == match.match
        line = text.split("\n")[match.line - 1]
        assert line[match.column - 1 :].startswith(match.match)
        assert match.text[match.text_start :].startswith(match.match)
    assert indexed_once.grep("sourdough", ignore_case=False).count < answer.count


def test_grep_gives_pages_and_counts_all(indexed_once: Library) -> None:
    whole = indexed_once.grep("o", limit=1000)
    pages: list[Match] = []
    offset = 0
    while True:
        page = indexed_once.grep("o", limit=7, offset=offset)
        assert page.count == whole.count == len(whole.matches)
        pages += page.matches
        if page.next_offset is None:
            break
        offset = page.next_offset
    assert pages == list(whole.matches)
    assert indexed_once.grep("o", limit=0).matches == ()


def test_grep_reads_a_text_as_a_text_unless_told(indexed_once: Library) -> None:
    with raises(InputError, "blank_text"):
        indexed_once.grep("")
    assert indexed_once.grep("n.ght").count == 0
    assert [match.match for match in indexed_once.grep(r"n\wght", regex=True).matches] == ["Night", "night"]
    assert indexed_once.grep("^# moths$", regex=True).count == 1


def test_a_long_line_is_shown_around_the_match(library: Library) -> None:
    library.add(["word " * 500 + "needle " + "(word) " * 500], ["long"])
    [match] = library.grep("needle").matches
    assert match.text[match.text_start :].startswith("needle")
    assert len(match.text) < 300
    assert library.grep("(word) " * 50).count == 10, "a long text is found as it is"


def test_documents_are_listed_with_true_sizes(indexed_once: Library) -> None:
    listed = indexed_once.documents()
    assert listed.count == len(listed.documents) == 6
    for entry in listed.documents:
        path = indexed_once.workspace.documents_dir / entry.uri
        assert (entry.path, entry.size) == (str(path), path.stat().st_size)
        assert entry.characters == len(indexed_once.text(entry.document_id).text)
    assert sum(entry.chunks for entry in listed.documents) == listed.chunks == indexed_once.status().chunks


def test_pages_and_lines_of_a_character(indexed_once: Library) -> None:
    assert indexed_once.text("Moths").page_start is None
    with raises(InputError, "no_pages"):
        indexed_once.text("Moths", 1)
    placed = PlacedText("one\ntwo\nthree", (0, 4, 8))
    assert [placed.page_of(character) for character in (0, 3, 4, 8, 12)] == [1, 1, 2, 3, 3]
    assert [placed.line_of(character) for character in (0, 3, 4, 8, 12)] == [1, 1, 2, 3, 3]
    assert placed.text[slice(*placed.bounds_of_pages(2, 3))] == "two\nthree"
    assert placed.text[slice(*placed.bounds_of_line(2))] == "two"
    for wrong in ((0, 1), (2, 1), (1, 4)):
        with raises(InputError, "out_of_range", "pages"):
            placed.bounds_of_pages(*wrong)


def test_a_context_says_which_parts_nothing_serves(indexed_once: Library) -> None:
    text = (
        "The sourdough starter is sluggish, feed it flour and water twice a day. " * 4
        + "\n\nQuantum chromodynamics confines quarks inside hadrons at low energies, gluons mediate. " * 2
    )
    answer = indexed_once.context(text, format="markdown")
    assert answer.documents[0].title == "Sourdough starter"
    assert answer.parts[0].citations[:1] == (1,)
    assert 1 not in answer.parts[-1].citations
    assert answer.tokens <= answer.max_tokens
    for part in answer.parts:
        assert part.citations == tuple(
            document.citation for document in answer.documents if part.part in document.serves
        )


def test_a_paragraph_is_a_part_unless_it_is_a_few_words(indexed_once: Library) -> None:
    train = "A night train goes to Lisbon. It needs a seat reservation. Book it early in summer."
    quarks = "Gluons bind the quarks. A muon is a lepton. Chromodynamics has asymptotic confinement."
    starter = "The sourdough starter is sluggish. It wants flour and water. Warm bread comes twice daily."
    answer = indexed_once.context("\n\n".join(["Hi all,", train, quarks, f"{starter} \n \nThanks!"]))
    assert [" ".join(part.text.split()) for part in answer.parts] == [
        f"Hi all, {train}",
        quarks,
        f"{starter} Thanks!",
    ]
    served = {document.title: document.serves for document in answer.documents}
    assert 1 in served["Night train"]
    assert 3 in served["Sourdough starter"]
    assert len(indexed_once.context("Hi\n\nAna").parts) == 2  # two short messages
    for blank in ("\n\n", "\n \n", "\r\n\r\n"):
        parts = indexed_once.context(f"{train}{blank}{quarks}").parts
        assert [" ".join(part.text.split()) for part in parts] == [train, quarks]


@pytest.mark.parametrize(
    ("text", "code"), [(" \n ", "blank_text"), ("\u200b", "blank_text"), ("a \ud800 train", "no_unicode")]
)
def test_a_text_without_words_has_no_context(indexed_once: Library, text: str, code: str) -> None:
    with raises(InputError, code, "text"):
        indexed_once.context(text)


@pytest.mark.parametrize("form", FORMATS)
def test_a_context_keeps_within_its_tokens(indexed_once: Library, form: ContextFormat) -> None:
    answer = indexed_once.context("sourdough bread and flour", max_tokens=500, format=form)
    assert answer.documents
    assert 0 < answer.tokens <= 500


def test_a_wrong_request_for_a_context_is_an_error(indexed_once: Library) -> None:
    for wrong in ({"query": " "}, {"query": "x", "format": "yaml"}, {"query": "x", "max_tokens": 0}):
        with pytest.raises(InputError):
            indexed_once.context(**wrong)


def test_an_expression_ends_within_its_limits_whatever_it_does(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add(["a" * 600_000], ["long"])
    fills_memory = ("(?:(?:(?:a{1000}){1000}){1000})", "(" * 5000 + "a" + ")" * 5000)
    with monkeypatch.context() as limited:
        limited.setattr(expressions, "SECONDS", 0.5)
        for pattern in (r"(?=a)(?R)", r"(?:a|aa)+b", "b" + "a" * 5000, *fills_memory):
            with pytest.raises(InputError) as raised:
                library.grep(pattern, regex=True)
            assert raised.value.code in ("too_slow", "nested_too_deeply"), pattern
    assert library.grep("a{400}", regex=True, limit=0).count == 1500, "the next search is not hindered"


def test_no_note_tells_a_tenant_of_a_file_of_another(make_library: Callable[..., Library]) -> None:
    library = make_library("embedding: {provider: hashing}\nrag: {tenant: one}\n")
    library.add(["Quinces ripen."], ["quinces"])
    assert (library.grep("quinces").count, library.grep("quinces").notes) == (1, ())
    assert library.summarize("quinces").notes == ()


@pytest.mark.parametrize("pattern", [r"\L<names>", r"(?P<a", r"a**", r"(?1)", r"\p{Foo}", "(", "[" * 300])
def test_an_expression_that_cannot_be_compiled_is_no_regular_one(indexed_once: Library, pattern: str) -> None:
    with raises(InputError, "invalid_expression"):
        indexed_once.grep(pattern, regex=True)
    with raises(InputError, "invalid_expression"):
        find_limited(pattern, [], ignore_case=True, limit=1, offset=0)


def test_an_expression_counts_over_all_batches_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["one pear", "", "no fruit", "Pears and pears", "é pear"]
    find = partial(find_limited, "pears?", texts, ignore_case=True)
    whole = find(limit=9, offset=0)
    assert (whole.total, whole.texts, whole.places[-1]) == (4, 3, (4, 2, 6))
    monkeypatch.setattr(expressions, "_BATCH_CHARACTERS", 9)
    assert find(limit=9, offset=0) == whole
    assert find(limit=2, offset=1).places == whole.places[1:3]


def test_many_long_texts_are_searched_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "_MEGABYTES", 90)
    texts = ["\u044f" * 500_000] * 60
    assert find_limited("z", texts, ignore_case=False, limit=1, offset=0).total == 0


@pytest.mark.parametrize("pattern", ["Br\u00fccke", "Bru\u0308cke", "Auflage", "Kitchen"])
def test_letters_are_found_however_they_are_written(pattern: str) -> None:
    texts = ["x Bru\u0308cke", "x Br\u00fccke", "x Au\ufb02age", "x Auf\u00adlage", "x \uff2bitchen"]
    found = find_places(fold(pattern)[0], texts, ignore_case=False, limit=9, offset=0)
    assert [texts[number][start:end] for number, start, end in found.places] == [
        text[2:] for text in texts if fold(text)[0] == f"x {fold(pattern)[0]}"
    ]
    assert found.total > 0
