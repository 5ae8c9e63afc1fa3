"""The digest: what a reader finds in it, in any language, and what no message can put into it."""

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from markdown_it import MarkdownIt

from backstory.settings.writers import WriterSettings
from backstory.writing.citations import link_citations
from backstory.writing.digest_writer import DigestWriter
from backstory.writing.draft import MOST_TITLE_CHARACTERS, Draft
from backstory.writing.draft_checks import clean_draft, find_fault
from backstory.writing.material import Citation, ContextMaterial, Period, WindowMaterial, WindowMessage
from backstory.writing.post_files import Post, render_post
from tests.injections import HARMLESS, INJECTIONS
from tests.long_tests import each_of

NINE = datetime(2025, 3, 3, 9, tzinfo=UTC)
ADA, BEN = "member-aaaa111111", "member-bbbb222222"
NAMES = {ADA: "Alder", BEN: "Birch"}
CITATIONS = [
    "[1]",
    "[x](1)",
    "[2](posts/1.md)",
    "**aaaa** 09:00: x",
    "a\\",
    "\\**b**",
    "<https://x.org>",
    "__b__",
]
PLAIN = {"p", "ul", "li", "strong", "br", "softbreak", "text", "inline", "blockquote"}
NOTHING = ContextMaterial("no_hits")


def make_window(*said: tuple[int, str, str], language: str | None = "en") -> WindowMaterial:
    """Make a window of minutes after nine, authors and texts."""
    messages = tuple(
        WindowMessage(f"m{place}", NINE + timedelta(minutes=minute), author, text)
        for place, (minute, author, text) in enumerate(said)
    )
    window = WindowMaterial(
        "w", "garden", "2025-03-03", messages[0].sent_at, messages[-1].sent_at, language, messages
    )
    return replace(window, people=NAMES)


def cite(number: int, title: str, passage: str, *messages: int, tags: tuple[str, ...] = ()) -> Citation:
    path = f"posts/{number}.md"
    published = datetime(2024, 5, 1, tzinfo=UTC)
    return Citation(number, f"d{number}", title, f"s{number}", path, published, tags, passage, messages)


def write(window: WindowMaterial, *citations: Citation) -> Draft:
    return DigestWriter().write(window, ContextMaterial("ok", citations) if citations else NOTHING)


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


TWO_TOPICS = make_window(
    (0, ADA, "The drip irrigation line burst at the elbow by the fence"),
    (2, BEN, "Is the elbow cracked?"),
    (3, ADA, "Yes, frost cracked the barb. We never drained the drip line"),
    (90, BEN, "My sourdough starter smells of nail varnish"),
    (92, ADA, "Feed the starter more flour, twice a day"),
    (93, BEN, f"@{ADA} that is a lot of flour for one starter"),
)
DRIP = cite(
    1, "How we built the drip irrigation",
    "# How we built the drip irrigation\n\nIt was *hot*.\n\nDrain the [drip line](x.md)\nbefore the frost. Buy pipe.",
    0, 1, 2, tags=("allotment", "water"),
)  # fmt: skip


def test_a_digest_names_its_topics_and_quotes_both_sides() -> None:
    draft = write(TWO_TOPICS, DRIP)
    assert draft.title == "How we built the drip irrigation"
    assert draft.tags == ("allotment", "water")
    drip, starter = draft.text.split("## ")[1:]
    assert drip.startswith("How we built the drip irrigation\n")
    assert "- **Alder** 09:00: The drip irrigation line burst at the elbow by the fence" in drip
    assert (
        "> “Drain the drip line before the frost.”\n>\n> Earlier: How we built the drip irrigation, 1 May 2024 [1]"
        in drip
    )
    assert "starter" in starter.splitlines()[0].casefold()
    assert "Earlier" not in starter
    assert "@Alder that is a lot of flour" in starter
    assert ADA not in draft.text
    assert "3 March 2025 09:00 to 10:33 UTC: 6 messages by Alder and Birch.*" in draft.text


def test_a_question_is_followed_by_its_answer() -> None:
    lines = write(TWO_TOPICS, DRIP).text.splitlines()
    asked = lines.index("- **Birch** 09:02: Is the elbow cracked?")
    assert lines[asked + 1].startswith("- **Alder** 09:03: Yes, frost cracked the barb.")


def test_documents_that_serve_the_same_messages_share_a_topic() -> None:
    frost = cite(2, "Frost and pipes", "Frost cracks every pipe that holds water.", 0, 1)
    text = write(TWO_TOPICS, DRIP, frost).text
    assert len(headings(text)) == 2
    assert text.index("[1]") < text.index("[2]") < text.rindex("## ")


def test_a_title_without_a_word_of_the_talk_names_no_topic() -> None:
    border = cite(1, "Nineteen minutes at the border", "We changed trains.", 3, 4, 5)
    assert not any("border" in heading for heading in headings(write(TWO_TOPICS, border).text))


def test_a_document_without_messages_is_listed_at_the_end() -> None:
    text = write(TWO_TOPICS, DRIP, cite(2, "Compost", "Turn it.")).text
    assert text.endswith("## Earlier posts\n\n- Compost, 1 May 2024 [2]\n")


def test_people_are_called_as_readers_see_them_and_a_pseudonym_without_a_name_stays() -> None:
    window = replace(make_window((0, ADA, "A lamp"), (1, BEN, f"Yes @{ADA}")), people={ADA: "Alder"})
    text = write(window).text
    assert "- **Alder** 09:00: A lamp" in text
    assert f"- **{BEN}** 09:01: Yes @Alder" in text


@pytest.mark.parametrize(
    ("said", "language", "words"),
    [
        ("昨日の自転車のチェーンが切れた。自転車屋はどこですか？", "ja", ["自転車"]),
        ("המחסן במטבח מלא קמח. הקמח טרי", "he", ["קמח"]),
        ("مضخة الماء في الحديقة معطلة. الماء بارد", "ar", ["الماء"]),
        ("👍🏽👨‍👩‍👧", None, ["👍🏽👨‍👩‍👧"]),
        ("ok", "en", ["ok"]),
    ],
)  # fmt: skip
def test_a_window_of_one_message_is_quoted_in_any_script(
    said: str, language: str | None, words: list[str]
) -> None:
    draft = write(make_window((0, ADA, said), language=language))
    assert draft.title
    assert all(word in draft.text for word in words)
    assert len(headings(draft.text)) == 1


def test_very_long_windows_and_sentences_stay_short() -> None:
    subjects = [
        "tomato blight",
        "night train",
        "moth trap",
        "backup disk",
        "swimming lessons",
        "street party",
    ] * 3
    said = [
        (
            place * 2,
            ADA if place % 2 else BEN,
            f"About the {subjects[place // 40 % 18]} number {place // 40}, round {place}",
        )
        for place in range(720)
    ]
    text = write(make_window(*said, (1500, ADA, "endless " * 2_000), (1501, BEN, "字" * 5_000))).text
    assert len(headings(text)) <= 16
    assert len(text) < 15_000
    assert "endless …" in text or "subjects" in text


@pytest.mark.parametrize(("number", "made"), list(enumerate(["message", "author", "title", "passage"])))
def test_no_text_forges_structure_emphasis_or_links(number: int, made: str) -> None:
    parser = MarkdownIt("commonmark")
    plain = outline(parser, "Forged text", made)
    assert (plain["h2"], plain["a"]) == (1, 1)
    texts = [*each_of(INJECTIONS[number:], 12), *HARMLESS, *CITATIONS]
    forged = {text: found for text in texts if (found := outline(parser, text, made)) != plain}
    assert forged == {}


def outline(parser: MarkdownIt, hostile: str, made: str) -> Counter[str]:
    """Count the marks, headings and links of a post of a window, into one part of which a text is put."""
    texts = {"message": "Talk of flour", "author": "Ada", "title": "Flour", "passage": "Flour."} | {
        made: hostile
    }
    window = make_window((0, texts["author"], texts["message"] or "-"), (1, "Ben", "flour forged text"))
    citation = cite(1, texts["title"], f"Forged flour: {texts['passage']}", 0, 1)
    draft = write(window, citation)
    linked = link_citations(draft.text, window, ContextMaterial("ok", (citation,)), folder="written")
    post = Post("w", "garden", "slug", draft.title, NINE, draft.tags, linked.text, "digest")
    assert render_post(post).count(b"\n---\n") == 1
    tokens = parser.parse(linked.text)
    inline = [child for token in tokens for child in token.children or []]
    # A removed address can take the end of a mark with it, which forges nothing.
    assert sum(token.tag == "strong" and token.nesting == 1 for token in inline) <= linked.text.count(
        "\n- **"
    )
    found = Counter(token.tag or token.type for token in [*tokens, *inline] if token.nesting >= 0)
    return Counter({tag: count for tag, count in found.items() if tag not in PLAIN})


def test_a_topic_without_a_document_is_named_by_a_phrase_or_by_a_short_sentence() -> None:
    named = headings(write(TWO_TOPICS).text)
    assert named
    said = " ".join(message.text.casefold() for message in TWO_TOPICS.messages)
    assert all(name.strip("“”").casefold() in said for name in named)
    assert not any(" and " in name and not name.startswith("“") for name in named)


def test_the_title_of_an_earlier_post_names_no_topic() -> None:
    earlier = replace(cite(1, "A starter and drip lines", "The drip line burst.", 0, 1, 2), is_post=True)
    draft = write(TWO_TOPICS, earlier)
    assert "A starter and drip lines" not in [draft.title, *headings(draft.text)]


def test_tags_of_earlier_posts_are_not_those_of_a_post() -> None:
    earlier = replace(cite(2, "Last week", "The drip line burst.", 0, 1, 2, tags=("whale",)), is_post=True)
    assert write(TWO_TOPICS, DRIP, earlier).tags == ("allotment", "water")


def test_a_quote_of_an_earlier_digest_has_neither_author_nor_time() -> None:
    passage = "- **Alder** 09:00: The drip irrigation line burst at the elbow. By the fence."
    of_person = cite(1, "Drip", passage, 0, 1, 2)
    quoted = "> “The drip irrigation line burst at the elbow.”"
    assert quoted in write(TWO_TOPICS, replace(of_person, is_post=True)).text
    assert quoted not in write(TWO_TOPICS, of_person).text


def test_an_earlier_post_moves_no_message_under_the_document_that_it_joins() -> None:
    both = "The drip line burst. Feed the starter more flour, twice a day: sourdough smells of varnish."
    earlier = replace(cite(2, "Last week", both, *range(6)), is_post=True)
    flour = cite(3, "A starter from nothing", "A starter needs flour.", 4, 5)
    alone, beside = (write(TWO_TOPICS, DRIP, flour, *more).text for more in ((), (earlier,)))
    drip, starter = beside.split("## ")[1:]
    assert "elbow" in drip
    assert "varnish" not in drip.replace("smells of varnish", "")
    assert headings(alone) == headings(beside)
    assert "twice a day" in starter


def test_talk_after_a_pause_stays_together_and_a_document_of_one_stray_message_is_still_cited() -> None:
    battery = cite(2, "A cheap solar battery", "The battery lasted a year in the winter sun.", 2, 5)
    text = write(TWO_TOPICS, DRIP, battery).text
    drip, starter = text.split("## ")[1:]
    assert [drip.count("- **"), starter.count("- **")] == [3, 3]
    assert "battery" not in " ".join(headings(text))
    assert "A cheap solar battery, 1 May 2024 [2]" in text


def test_a_quotation_of_an_earlier_post_names_its_day_and_not_the_main_topic_of_the_post() -> None:
    earlier = replace(cite(2, "Whales", "- The drip line burst.", 0, 1, 2), is_post=True)
    quoted = "> “The drip line burst.”\n>\n> Earlier: post of 1 May 2024 [2]"
    assert quoted in write(TWO_TOPICS, earlier).text


def test_a_title_names_a_topic_only_if_its_messages_hold_half_of_its_words() -> None:
    passage = "Drain the drip line before the frost."
    [first, *_] = headings(write(TWO_TOPICS, cite(1, "The drip line", passage, 0, 1, 2)).text)
    assert first == "The drip line"
    other = cite(1, "A line of verse for a winter evening by the fire", passage, 0, 1, 2)
    [first, *_] = headings(write(TWO_TOPICS, other).text)
    assert "verse" not in first


def test_a_greeting_is_no_heading() -> None:
    window = make_window(
        (0, ADA, "Hello, this is the watering round"),
        (1, BEN, "Hi Ben, the watering is round one"),
    )
    assert not any("Hello" in heading or "Hi" in heading for heading in headings(write(window).text))


def test_a_sentence_that_only_points_at_another_is_no_heading() -> None:
    window = make_window(
        (
            0,
            ADA,
            "The manager of passwords needs a password of its own, and that lies in it. It's a full circle",
        ),
        (1, BEN, "Five friends of the group could keep two of the envelopes"),
    )
    assert headings(write(window).text)[-1] == "“Five friends of the group could keep two of the envelopes”"


def test_a_title_names_a_topic_whose_main_word_it_holds() -> None:
    starter = cite(1, "Reviving a starter with patience and rye", "Feed the starter rye.", 3, 4, 5)
    assert headings(write(TWO_TOPICS, starter).text)[-1] == "Reviving a starter with patience and rye"


def test_a_phrase_that_is_no_name_loses_against_a_sentence_that_holds_it() -> None:
    window = make_window(
        (0, ADA, "We have the extra data from the tent on the hill, which came by the post on Monday"),
        (1, BEN, "Is the extra data from the rain gauge?"),
    )
    assert headings(write(window).text)[-1] == "“We have the extra data from the tent on the hill”"


def test_a_phrase_with_its_own_capital_letters_is_a_heading() -> None:
    window = make_window(
        (0, ADA, "We walked up the Mill Hill on Monday"),
        (1, BEN, "The way down the Mill Hill is icy"),
    )
    assert headings(write(window).text)[-1] == "Mill Hill"


def test_a_long_sentence_is_cut_where_there_is_no_short_one() -> None:
    said = "The tasting of the cakes by the blind judges of the county takes place behind the curtain of the hall"
    [heading] = headings(write(make_window((0, ADA, said))).text)
    assert heading.endswith("…”")
    assert said.startswith(heading.strip("“…”").rstrip())


@pytest.mark.parametrize("period", [None, Period("week", "2025-03-03")], ids=["window", "letter"])
def test_a_title_and_tags_of_a_document_that_are_too_long_for_a_post_do_not_withhold_it(
    period: Period | None,
) -> None:
    title = "How we built the drip irrigation " + "and its long line of narrow pipe " * 10
    long = replace(DRIP, title=title, tags=("allotment", "w" * 61))
    draft = clean_draft(write(replace(TWO_TOPICS, period=period), long))
    assert find_fault(draft, WriterSettings(), None) is None
    assert len(draft.title) <= MOST_TITLE_CHARACTERS
    assert draft.title.endswith("…")
    assert draft.title.rstrip("…").split()[-1] in title.split()
    assert draft.tags == ("allotment",)


def test_a_mark_of_a_transcript_is_no_word_of_a_heading() -> None:
    said = (
        (0, ADA, "{vocalsound} We could {disfmarker} paint the remote control yellow {gap}."),
        (1, BEN, "{disfmarker} {gap}"),
        (2, ADA, "{gap} and {gap} {vocalsound}"),
    )
    [heading] = headings(write(make_window(*said)).text)
    assert heading == "“We could paint the remote control yellow”"
    assert headings(write(make_window(*said[1:])).text) == ["In short"]


@pytest.mark.parametrize(
    ("language", "beginning", "others", "heading"),
    [
        (
            "en",
            "Dress rehearsal. The tower fell on the whale, and the gulls and the lighthouse went on as if nothing was",
            ("Nobody is hurt", "Strap the four long feet of the tower together with a ratchet"),
            "“Dress rehearsal. The tower fell on the whale”",
        ),
        (
            "en",
            "Bad news, the French railways have announced a strike for the 9th of May, three days",
            ("Unions of the railways often call it off in the last week", "Then we wait until Sunday"),
            "“The French railways have announced a strike for the 9th of May”",
        ),
        (
            "de",
            "Am Kiosk fehlt am Samstag noch jemand",
            ("Nimm zwei große alte Pinsel und die blaue Farbe mit", "Meine Matte liegt schon auf dem Dach"),
            "“Am Kiosk fehlt am Samstag noch jemand”",
        ),
        (
            "es",
            "¿Quién riega el huerto este verano?",
            ("Los tiestos enterrados aguantan cuatro días", "Mi cuñado tiene una bomba"),
            "“¿Quién riega el huerto este verano?”",
        ),
    ],
)
def test_the_message_that_begins_a_topic_after_a_pause_heads_it(
    language: str, beginning: str, others: tuple[str, str], heading: str
) -> None:
    window = make_window((0, ADA, beginning), (2, BEN, others[0]), (4, ADA, others[1]), language=language)
    assert headings(write(window).text) == [heading]


def test_a_message_that_answers_what_was_said_before_a_pause_heads_nothing() -> None:
    later = "Because the reducer of the drip line was set too low for the far bed"
    window = make_window((0, ADA, later), (1, BEN, "Three tins of copper paint for the hull of the boat"))
    assert headings(write(window).text) == ["“Three tins of copper paint for the hull of the boat”"]


@pytest.mark.parametrize(
    ("language", "question", "answers"),
    [
        ("en", "Which varnish is best for the boat?", ("Yacht varnish from Hull, three coats thin", "Sand it first")),
        ("de", "Welcher Lack taugt für das Boot?", ("Bootslack aus Kiel, dreimal dünn gestrichen", "Vorher schleifen")),
        ("pt", "Qual verniz serve para o barco?", ("Verniz naval de Santos, três demãos finas", "Lixa primeiro")),
    ],
)  # fmt: skip
def test_the_question_that_was_asked_heads_its_answers(
    language: str, question: str, answers: tuple[str, str]
) -> None:
    said = ("👍", question, *answers, "Two coats", "Done")
    messages = [(place, (ADA, BEN)[place % 2], text) for place, text in enumerate(said)]
    assert f"“{question}”" in headings(write(make_window(*messages, language=language)).text)


def test_a_document_that_shares_a_chance_word_is_cited_without_a_quotation() -> None:
    other = replace(cite(2, "Night trains", "We set an alarm for each line.", 0, 1, 2))
    text = write(TWO_TOPICS, DRIP, other).text
    assert "alarm" not in text
    assert "> Earlier: Night trains, 1 May 2024 [2]" in text


def test_small_talk_and_the_marks_of_a_transcript_are_not_quoted() -> None:
    window = make_window(
        (0, ADA, "We could paint the remote control {disfmarker} yellow like the fruit of the company"),
        (1, BEN, "Mm-hmm."),
        (2, ADA, "The rubber buttons {vocalsound} should be bright green"),
    )
    text = write(window).text
    assert "Mm-hmm" not in text
    assert "{" not in text
    assert "paint the remote control yellow" in text


@pytest.mark.parametrize(("messages", "heads"), [(40, True), (41, False)])
def test_one_question_does_not_head_a_long_talk(messages: int, heads: bool) -> None:
    said = [
        "👍",
        "Which varnish is best for the boat?",
        "The best varnish for the boat: three thin yacht coats",
    ]
    said += ["👍"] * (messages - len(said))
    window = make_window(*((place, (ADA, BEN)[place % 2], text) for place, text in enumerate(said)))
    found = headings(write(window, cite(1, "Elsewhere", "Nothing.", *range(messages))).text)
    assert found == [
        "“Which varnish is best for the boat?”"
        if heads
        else "“The best varnish for the boat: three thin yacht coats”"
    ]
