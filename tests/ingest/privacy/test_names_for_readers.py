"""Names of plants and birds for people: one for each, stable, and never like a real name."""

from collections.abc import Sequence

import pytest

from backstory.base.ids import digest
from backstory.ingest.privacy.forms import fold
from backstory.ingest.privacy.pseudonyms import assign_names, find_naming_texts, list_usable_words, load_words

WORDS = load_words()["en"]


def make_people(count: int) -> list[str]:
    return [f"member-{digest([str(number)], length=10)}" for number in range(count)]


def test_every_list_has_enough_different_words_of_letters_alone() -> None:
    expected = {"ar", "de", "en", "es", "fr", "hi", "id", "it", "ja", "ko", "nl", "pt", "ru", "tr", "zh"}
    assert expected <= load_words().keys()
    for language, words in load_words().items():
        assert len({fold(word) for word in words}) == len(words) >= 50, language
        assert all(fold(word) and not any(map(str.isdigit, word)) for word in words), language


@pytest.mark.parametrize("count", [12, 113, 700, 1500])
def test_names_are_different_and_who_joins_later_renames_nobody(count: int) -> None:
    people = make_people(count)
    names = assign_names(people, WORDS, {})
    assert len(set(names.values())) == len(people)
    assert assign_names(people[: count // 2], WORDS, {}).items() <= names.items()
    assert all(name in WORDS for name in [*names.values()][:100])


def test_a_person_keeps_the_preferred_word_in_any_order_of_people_who_prefer_others() -> None:
    people = make_people(6)
    alone = {person: assign_names([person], WORDS, {})[person] for person in people}
    assert len(set(alone.values())) == 6  # of these, no two prefer the same word
    assert assign_names(people[::-1], WORDS, {}) == alone
    assert (
        assign_names(people, [word for word in WORDS if word not in alone.values()], {}).keys()
        == alone.keys()
    )


def test_a_chosen_name_is_shown_and_given_to_nobody_else() -> None:
    people = make_people(3)
    usable = list_usable_words("en", ["Heron"])
    assert assign_names(people, usable, {people[1]: "Heron"})[people[1]] == "Heron"
    assert "Heron" not in usable
    assert assign_names(people, [], {people[1]: "Ada"}) == {people[1]: "Ada"}


@pytest.mark.parametrize(
    ("language", "names", "gone"),
    [
        ("sw", ["Tom Birch"], {"Birch"}),
        ("en", ["BIRCH"], {"Birch"}),
        ("en", ["Ada Burch"], {"Birch"}),
        ("en", ["Eva Alderson"], {"Alder"}),
        ("en", ["Pip"], set()),
        ("en", ["Al Der"], {"Alder"}),
        ("de", ["Jana Laerche", "Uwe Möwes"], {"Lärche", "Möwe"}),
        ("de", ["Anna Fink"], {"Buchfink"}),
        ("ru", ["Иван Соколов"], {"Айва", "Ива"}),
        ("zh", ["喜鹊"], {"喜鹊"}),
    ],
)
def test_a_word_that_resembles_a_real_name_is_not_used(
    language: str, names: Sequence[str], gone: set[str]
) -> None:
    assert {*load_words().get(language, WORDS)} - {*list_usable_words(language, names)} == gone


def test_no_usable_word_is_taken_for_a_real_name() -> None:
    names = ["Jo Heron", "Tom Birch", "Sandy Piper", "King Fisher", "Ada Lind", "+49 170 1234567", "Wag Tail"]
    for language in load_words():
        usable = list_usable_words(language, names)
        said = [
            text for word in usable for text in (word, f"@{word}", f"{word}: yes", f"{word} 27 and @{word} 8")
        ]
        assert not find_naming_texts(said, names), language


@pytest.mark.parametrize(
    ("text", "leaks"),
    [("Ada said so", False), ("ask @Ada", False), ("Ada Lind said so", True), ("ask @Ada Lind", True),
     ("A. Lind said so", True), ("Ben Okri said so", True), ("ask @Ben", True)],
)  # fmt: skip
def test_a_name_that_was_agreed_to_is_no_leak_and_a_longer_one_is(text: str, *, leaks: bool) -> None:
    assert bool(find_naming_texts([text], ["Ada Lind", "Ben Okri"], ["Ada"])) == leaks
    assert find_naming_texts(["ask @Ada"], ["Ada Lind"])
    assert not find_naming_texts(["Ada Lind said"], ["Ada Maria Lind"], ["Ada Lind"])
