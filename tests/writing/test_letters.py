"""Letters: the material that is merged from windows, and what a digest and a prompt make of it."""

from datetime import UTC, datetime, timedelta

import pytest

from backstory.settings.models import ContextSettings
from backstory.writing.digest_writer import DigestWriter
from backstory.writing.letters import Part, find_period, make_letter, span_days
from backstory.writing.material import Citation, ContextMaterial, Period, WindowMaterial, WindowMessage
from backstory.writing.prompt import load_prompt

MONDAY = datetime(2025, 3, 3, 9, tzinfo=UTC)
DRIP = ("The drip irrigation line burst at the elbow", "Frost cracked the barb of the drip line")
STARTER = ("My sourdough starter smells of varnish", "Feed the starter more flour, twice a day")
DISK = ("The backup disk clicks again", "Replace the disk before the mirror breaks")


def make_part(day: int, said: tuple[str, ...], *citations: Citation) -> Part:
    start = MONDAY + timedelta(days=day)
    messages = tuple(
        WindowMessage(f"{day}-{place}", start + timedelta(minutes=place), f"person {place}", text)
        for place, text in enumerate(said)
    )
    window = WindowMaterial(
        f"w{day}", "garden", f"{start:%Y-%m-%d}", start, messages[-1].sent_at, "en", messages
    )
    return window, ContextMaterial("ok" if citations else "no_hits", citations)


def cite(key: str, passage: str, *served: int, number: int = 1) -> Citation:
    return Citation(number, key, f"About {key}", key, f"posts/{key}.md", None, (), passage, served)


def make(parts: list[Part], before: list[Part], **settings: int) -> Part:
    return make_letter(Period("week", "2025-03-03"), parts, before, ContextSettings(**settings))


@pytest.mark.parametrize(
    ("grain", "period", "span"),
    [
        ("day", "2025-03-06", ("2025-03-05", "2025-03-07")),
        ("week", "2025-03-03", ("2025-02-24", "2025-03-10")),
        ("month", "2025-03-01", ("2025-02-01", "2025-04-01")),
    ],
)
def test_a_window_belongs_to_the_period_in_which_it_ended_by_its_clock(
    grain: str, period: str, span: tuple[str, str]
) -> None:
    late = datetime(2025, 3, 5, 23, 30, tzinfo=UTC)
    assert find_period(late, "Europe/Berlin", grain) == period  # type: ignore[arg-type]
    assert span_days("2025-03-06", "2025-03-06", grain) == span  # type: ignore[arg-type]


def test_the_contexts_of_windows_are_merged_within_one_budget() -> None:
    parts = [
        make_part(0, DRIP, cite("drip", "Drain the line.", 0, 1), cite("frost", "Frost bursts pipes.", 0, number=2)),
        make_part(1, STARTER, cite("drip", "Buy pipe."), cite("flour", "Starters eat flour.", 0, 1, number=2)),
    ]  # fmt: skip
    window, context = make(parts, [])
    assert window.window_ids == ("w0", "w1")
    assert (window.window_id, window.last_started_at) == ("w1", MONDAY + timedelta(days=1))
    assert [one.text for one in window.messages] == [*DRIP, *STARTER]
    assert [(one.number, one.document_id, one.messages) for one in context.citations] == [
        (1, "drip", (0, 1)),
        (2, "flour", (2, 3)),
        (3, "frost", (0,)),
    ]
    assert context.citations[0].passage == "Drain the line.\n…\nBuy pipe."
    small = make(parts, [], max_tokens=20)[1].citations
    assert 0 < len(small) < 3
    assert make([make_part(0, DRIP)], [])[1].status == "no_hits"


def test_a_letter_begins_with_what_is_new_since_the_letter_before() -> None:
    before = [make_part(-7, DRIP, cite("drip", "Drain the line.", 0, 1)), make_part(-6, DISK)]
    parts = [make_part(0, DRIP, cite("drip", "Drain the line.", 0, 1)), make_part(1, STARTER)]
    window, context = make(parts, before)
    draft = DigestWriter().write(window, context)
    text = draft.text
    assert draft.title == "Week of 3 March 2025: About drip"
    assert "\n- Still talked about: About drip.\n" in text
    assert text.index("New since the letter before") < text.index("Still talked about")
    assert "disk" in text[text.index("No longer talked about") : text.index("## ")].casefold()
    assert text.index("sourdough") < text.rindex("drip")
    assert "** 3 March 2025 09:00: " in text
    assert "Still" not in DigestWriter().write(*make(parts, [])).text
    prompt = load_prompt(None).fill_in(window, context, max_characters=900)
    assert "a letter about a week of a chat" in prompt.system
    assert prompt.user.count("<earlier>") == 1
    assert "letter" not in load_prompt(None).fill_in(*parts[0], max_characters=900).system
