"""Random conversations, and how WhatsApp would write them in several styles."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from hypothesis import strategies as st

from backstory.ingest.chats.formats.whatsapp_phrases import split_caption

Message = tuple[datetime, str, str]

_WORDS = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters='“”„«»"'), min_size=1, max_size=8
)
AUTHORS = (
    st.lists(_WORDS, min_size=1, max_size=3)
    .map(" ".join)
    .filter(lambda name: ": " not in f"{name} " and not name.startswith("~"))
)
TEXTS = (
    st.text(
        st.one_of(
            st.characters(exclude_categories=["Cs"], exclude_characters="\r\u200e"),
            st.sampled_from("\n :[]-0123456789/."),
        ),
        max_size=60,
    )
    .map(lambda text: text.rstrip("\n"))
    # Hypothesis tries texts that it finds in the code, the placeholders of media among them.
    .filter(lambda text: split_caption(text) is None)
)


@dataclass(frozen=True)
class Style:
    """One way of writing messages, to the minute or to the second.

    Styles of one ``form`` differ only in spaces, dashes and the spelling of half days.
    """

    name: str
    write_header: Callable[[datetime], str]
    form: str
    order: str
    has_seconds: bool = False

    def write(self, messages: list[Message], *, end: str = "\n") -> str:
        lines = [f"{self.write_header(moment)}{author}: {text}" for moment, author, text in messages]
        return end.join(line.replace("\n", end) for line in lines)


def _twelve(moment: datetime, am: str, pm: str) -> str:
    return f"{(moment.hour - 1) % 12 + 1}:{moment:%M}{am if moment.hour < 12 else pm}"


STYLES = (
    Style("german_android", lambda t: f"{t:%d.%m.%y, %H:%M} - ", "dots", "dmy"),
    Style("portuguese_android", lambda t: f"{t:%d/%m/%Y %H:%M} - ", "no comma", "dmy"),
    Style(
        "us_android",
        lambda t: f"{t.month}/{t.day}/{t:%y}, {_twelve(t, chr(0x202F) + 'AM', chr(0x202F) + 'PM')} – ",
        "half days",
        "mdy",
    ),
    Style(
        "spanish_android",
        lambda t: f"{t.day}/{t.month}/{t:%y}, {_twelve(t, ' a. m.', ' p. m.')} — ",
        "half days",
        "dmy",
    ),
    Style("iso_android", lambda t: f"{t:%Y-%m-%d, %H:%M} - ", "dashes", "ymd"),
    Style("german_ios", lambda t: f"[{t:%d.%m.%y, %H:%M:%S}] ", "brackets", "dmy", has_seconds=True),
    Style(
        "us_ios",
        lambda t: f"\u200e[{t.month}/{t.day}/{t:%y}, {t:%I:%M:%S}\u202f{t:%p}] ",
        "brackets, half days",
        "mdy",
        has_seconds=True,
    ),
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Draw messages in order of time, with whole seconds, after a day that tells the order of the dates."""
    first = datetime(2024, 1, 13)
    moments = draw(st.lists(st.datetimes(first, datetime(2026, 12, 31)), min_size=1, max_size=12))
    ordered = [first, *sorted(moment.replace(microsecond=0) for moment in moments)]
    return [(moment, draw(AUTHORS), draw(TEXTS)) for moment in ordered]
