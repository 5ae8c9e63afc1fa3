"""Names of topics: things that are talked about, in the words of the messages, and no chatter."""

import pytest

from backstory.writing.determiners import list_introducers
from backstory.writing.headings import find_phrases
from backstory.writing.sentences import choose_words


def name(language: str | None, *sentences: str, titles: tuple[str, ...] = ()) -> list[str]:
    """Name a topic all whose terms are equally rare."""
    words = choose_words(language)
    weights = {term: 1.0 for sentence in sentences for term in words.split(sentence)}
    phrases = find_phrases(sentences, titles, weights, words, list_introducers(language), 2)
    return [phrase.text for phrase in phrases]


@pytest.mark.parametrize(
    ("language", "sentences", "best"),
    [
        (
            "en",
            ["Yeah I know, the bottom bracket creaks", "I know, I know", "Did you know a bottom bracket can creak?"],
            "bottom bracket",
        ),
        ("de", ["Wir wissen, dass die Pumpe steht", "Ich wissen auch", "Der Filter der Pumpe wissen"], "Pumpe"),
        ("fr", ["Je vois la pompe", "On voit bien, la pompe fuit", "Tu vois ?"], "pompe"),
        ("es", ["Creo que la bomba suena", "Creo que no", "Creo en la bomba"], "bomba"),
        ("ru", ["Насос гудит ночью", "Почему насос гудит?"], "насос гудит"),
    ],
)  # fmt: skip
def test_a_topic_is_named_by_what_is_talked_about(language: str, sentences: list[str], best: str) -> None:
    assert name(language, *sentences)[0] == best


def test_a_name_occurs_in_the_messages_as_it_is() -> None:
    sentences = ("The night train to Lisbon is full", "We missed the night train", "Is Graça in Lisbon?")
    assert name("en", *sentences) == ["Lisbon", "night train"]


def test_a_word_of_the_title_is_preferred() -> None:
    sentences = ("the mesh in the filter", "a filter and the mesh")
    assert name("en", *sentences, titles=("Why the mesh clogs",))[0] == "mesh"
    assert name("en", *sentences, titles=("A filter",))[0] == "filter"


def test_people_and_words_that_say_nothing_are_no_names() -> None:
    found = name(
        "en", "the thing with @member-aaaa111111", "one thing for member-aaaa111111, a lot", "at the gate"
    )
    assert found[0] == "gate"
    assert not any("member" in text for text in found)


def test_chatter_alone_has_a_name_all_the_same() -> None:
    assert name("en", "maybe tomorrow")
    assert name(None, "👍") == []


def test_a_mark_of_a_transcript_is_no_word_and_parts_its_neighbours() -> None:
    sentences = (
        "The drip {disfmarker} line leaks {gap}",
        "A drip {disfmarker} line {gap}",
        "The {gap} drip {disfmarker} line",
    )
    assert name("en", *sentences) == ["drip"]
