from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from backstory.interfaces.pages.site.descriptions import describe_post
from backstory.interfaces.pages.site.entries import Entries
from backstory.interfaces.pages.site.library import Library, SitePost
from backstory.interfaces.pages.site.links import collect_links
from backstory.interfaces.pages.site.markdown import list_blocks, list_topics
from backstory.writing.material import WindowMaterial

MOMENT = datetime(2025, 3, 3, 9, tzinfo=UTC)
WINDOW = WindowMaterial("w", "us", "2025-03-03", MOMENT, MOMENT, "en", ())
POST = SitePost(WINDOW, "slug", "written/slug.md", None, "", (), "", (), "", "digest", ())

DIGEST = """*3 March 2025 08:03 to 19:21 UTC: 27 messages by Spruce and Lupin.*

## The shed

- **Lupin** 08:05: my phone thanks you

> “The roof of the shed is old and has holes.”
>
> Earlier: The roof [1](../posts/roof.md)

## Bread

- **Spruce** 3 March 2025 09:06: Why is the bread flat? Feed it daily, e.g. one part starter to five of flour. Then wait
"""


def describe(text: str, title: str = "") -> str:
    return describe_post(replace(POST, text=text, title=title, topics=list_topics(text)))


@pytest.mark.parametrize("title", ["Bread", "Week of 3 March 2025: Bread", "Elsewhere"])
def test_what_is_said_of_the_main_topic_describes_a_post(title: str) -> None:
    assert describe(DIGEST, title) == "Feed it daily, e.g. one part starter to five of flour."


def test_two_sentences_of_prose_describe_a_post_by_a_model() -> None:
    text = "# Title\n\nNo.\n\n**Ann** asked about [the train](x.md) to Lisbon. It leaves in the *early* morning.\n"
    assert describe(text) == "Ann asked about the train to Lisbon. It leaves in the early morning."


def test_a_post_that_says_nothing_is_described_by_its_topics() -> None:
    assert describe("## Trains\n\n- **Ann** 08:05: thanks\n\n## Bread\n\nok\n") == "Trains, Bread"


def test_a_description_is_one_line_of_bounded_length() -> None:
    described = describe("## T\n\n" + "word after word\n" * 100)
    assert "\n" not in described
    assert len(described) <= 202


def test_a_description_in_a_language_without_spaces_is_a_sentence() -> None:
    assert (
        describe("## 庭\n\n- **梅** 08:05: はい。昨日、庭の水道管が凍って割れました。\n")
        == "昨日、庭の水道管が凍って割れました。"
    )


def test_a_site_calls_a_conversation_by_its_name_and_its_people_by_theirs() -> None:
    window = replace(
        WINDOW, conversation_id="WhatsApp Chat with member-0123456789", people={"member-0123456789": "Alder"}
    )
    library = Library((replace(POST, window=window),), {}, ())
    assert library.conversation_names == {"WhatsApp Chat with member-0123456789": "Alder"}


def test_topics_are_the_words_of_headings_of_the_second_level() -> None:
    text = (
        "# Title\n\n## *The* [elbow][1] and `a # b`\n\nText\n\n```\n## Code\n```\n\n> ## Quoted\n\n"
        "### Third\n\nFrost & ice\n---\n\n[1]: https://example.org\n"
    )
    assert list_topics(text) == ("The elbow and a # b", "Quoted", "Frost & ice")
    assert list_topics(text) == tuple(
        block.text for block in list_blocks(text) if block.is_topic and block.text not in ("Title", "Third")
    )


def test_an_entry_of_a_list_names_the_topics_that_its_title_does_not() -> None:
    post = replace(POST, title="Bread", topics=("The shed", "Bread"))
    library = Library((post,), {}, ())
    entry = Entries(library, collect_links(library), several=False).describe("index.html", post)
    assert entry["topics"] == ["The shed"]
