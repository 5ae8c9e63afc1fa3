"""The summarizer without a model: word for word, within the length, from every section, and always the same."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.writing.summaries.extraction import ExtractiveSummarizer
from backstory.writing.summaries.request import STYLES, Style, choose_length
from backstory.writing.summaries.sections import count_words, divide_sections
from backstory.writing.summaries.summarizing import summarize
from tests.long_tests import some
from tests.writing.summaries.texts import PAGES, TEXTS, make_paged, make_plain, request_of

ROOT = Path(__file__).resolve().parents[3]
EXTRACTIVE = ExtractiveSummarizer()


def fold(text: str) -> str:
    return " ".join(text.split())


@settings(max_examples=some(40))
@given(TEXTS, st.integers(1, 60), st.sampled_from(STYLES))
def test_a_summary_is_word_for_word_and_within_its_length(text: str, limit: int, style: Style) -> None:
    source = make_plain(text)
    made = summarize(source, EXTRACTIVE, style, limit)
    sections = divide_sections(text, source.pages, limit)
    assert len(made.sections) == len(sections)
    for outcome in made.sections:
        if outcome.summary is None:
            assert outcome.reason == "it holds no words"
            assert made.status in ("partial", "failed")
            continue
        section = outcome.section
        most = choose_length(style, section, len(sections), limit)
        lines = [line.removeprefix("- ") for line in outcome.summary.split("\n") if line]
        assert sum(map(count_words, lines)) <= most <= limit
        if style == "bullets":
            assert all(fold(line.removesuffix("…")) in fold(text) for line in lines)
    assert made == summarize(source, EXTRACTIVE, style, limit)


def test_every_section_is_in_the_summary_and_no_sentence_twice() -> None:
    source = make_paged()
    made = summarize(source, EXTRACTIVE, "bullets", 60)
    assert made.status == "success"
    assert len(made.sections) > 5
    lines = made.text.split("\n")
    assert len(lines) == len(set(lines))
    for line in lines:
        said = re.fullmatch(r"- (.*) \(p\. (\d+)\)", line)
        assert said is not None
        assert said[1] in PAGES[int(said[2]) - 1]


def test_a_summary_serves_all_subjects_before_one_twice() -> None:
    wordy = " ".join(
        f"The garden fence needs paint of colour {colour} this spring." for colour in ["red", "blue", "grey"]
    )
    text = f"{wordy}\n\nThe accountant sends all invoices on Friday morning.\n\nA wolf was seen behind the old mill."
    said = EXTRACTIVE.summarize(request_of(make_plain(text), most_words=30))
    assert said.count("fence") == 1
    assert "invoices" in said
    assert "wolf" in said


def test_styles_differ_in_length_and_form() -> None:
    source = make_plain("\n\n".join(PAGES * 12))
    brief, detailed, bullets = (summarize(source, EXTRACTIVE, style, 20_000).text for style in STYLES)
    assert count_words(brief) < count_words(detailed)
    assert "\n" not in brief
    assert "\n\n" in detailed
    assert all(line.startswith("- ") for line in bullets.split("\n"))


def test_a_detailed_summary_of_several_sections_has_a_heading_for_each() -> None:
    made = summarize(make_paged(), EXTRACTIVE, "detailed", 130)
    assert re.findall("^## (.*)$", made.text, re.MULTILINE) == ["Pages 1-4", "Pages 4-7", "Pages 7-10"]


def test_what_is_no_prose_is_chosen_from_where_there_is_none() -> None:
    rows = "| pump | 4 |\n" * 3
    said = EXTRACTIVE.summarize(request_of(make_plain(f"| part | count |\n|---|---|\n{rows}")))
    assert said == "| pump | 4 |"
    mixed = make_plain(f"# A heading\n\n{rows}\nThe pump of the cellar is counted here.")
    assert EXTRACTIVE.summarize(request_of(mixed)) == "The pump of the cellar is counted here."


def test_the_summary_of_a_document_without_words_is_a_failure() -> None:
    made = summarize(make_plain("..."), EXTRACTIVE, "brief", 100)
    assert (made.status, made.text) == ("failed", "")


def test_a_very_long_section_is_covered_from_end_to_end() -> None:
    text = "\n\n".join(
        f"Item {number} of the list says something plain about {number}." for number in range(2000)
    )
    said = EXTRACTIVE.summarize(request_of(make_plain(text), style="bullets", most_words=120))
    told = [int(number) for number in re.findall(r"Item (\d+)", said)]
    assert told == sorted(told)
    assert all(any(low <= number < low + 700 for number in told) for low in (0, 667, 1334))
    assert all(before < after for before, after in pairwise(told))


def test_what_is_chosen_is_the_same_in_every_process() -> None:
    """Each process has an order of sets of its own, so that what hangs on it differs in some run of the tests."""
    rooms = ("pump", "valve", "filter", "gauge", "boiler", "heater", "switch", "sensor", "drain", "hose")
    said = summarize(make_paged(), EXTRACTIVE, "detailed", 60).text
    sentences = [line for line in said.splitlines() if line and not line.startswith("#")]
    assert sentences == [
        sentence
        for page, room in enumerate(rooms, start=1)
        for sentence in (
            f"The {room} of room {page} is checked every {page} weeks by the caretaker. (p. {page})",
            f"A worn {room} is replaced before the winter, since spare parts for it are rare. (p. {page})",
        )
    ]


@pytest.mark.long
def test_the_order_of_sets_in_a_process_changes_nothing() -> None:
    code = (
        "from backstory.writing.summaries.summarizing import summarize\n"
        "from backstory.writing.summaries.extraction import ExtractiveSummarizer\n"
        "from tests.writing.summaries.texts import make_paged\n"
        "print(summarize(make_paged(), ExtractiveSummarizer(), 'detailed', 60).text)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)},
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.strip() == summarize(make_paged(), EXTRACTIVE, "detailed", 60).text
