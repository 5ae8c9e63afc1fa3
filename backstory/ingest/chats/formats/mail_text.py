"""Text of a mail's own author, without quoted mails, signatures and the footers of mailing lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_LONGEST_LINE: Final = 2_000
_WROTE: Final = re.compile(
    r"\b(?:wrote|writes|said|schrieb|geschrieben|a écrit|écrit|escribió|escribio|escreveu|ha scritto|scrisse|schreef|"
    r"geschreven|skrev|skrifaði|kirjoitti|napisał\w*|napsal\w*|napísal\w*|írta|a scris|написал\w*|писал\w*|пише|"
    r"написав\w*|yazdı|έγραψε|viết|menulis|a escrit|rašė|rakstīja|kirjutas|je napisal\w*|je napisao)\b"
    r"|写道|寫道|作成|書きました|のメッセージ|작성|כתב|كتب",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"[^\s@<>]{1,64}@[^\s@<>]{1,190}")
_SEPARATOR: Final = re.compile(r"[-_]{2,} ?[^\W\d_][^\n]{2,60}[^\W\d_] ?[-_]{2,}")
"""``-----Original Message-----`` in any language, ``---------- Forwarded message ---------``."""

_UNDERLINE: Final = re.compile(r"_{20,}|-{40,}|={40,}")
_FIELD: Final = re.compile(r"\*?[^\W\d_][\w .'’-]{0,30}\*?\s?[:\uff1a]\*?\s?(?P<value>\S.*)")
_LEAST_FIELDS: Final = 3
_MOST_ATTRIBUTION: Final = 3
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")
_CLOCK: Final = re.compile(r"\b\d{1,2}[:.h]\d\d\b")
_MOMENT: Final = re.compile(f"{_YEAR.pattern}|{_CLOCK.pattern}")
_SIGNATURES: Final = frozenset(["-- ", "--", "—"])
_GAPS: Final = re.compile(r"\n{3,}")


def cut_quotes(text: str) -> str:
    """Cut a mail's text down to what its writer wrote.

    Left out are lines that begin with ``>`` with the line above that says who wrote them (``On … wrote:``, in many
    languages); everything from a mail on that is quoted or forwarded as a whole, with its headers; everything from
    ``-- `` on; and the footer that a mailing list adds below a line.

    Args:
        text: Plain text.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    retained: list[str] = []
    was_quote = False
    for number, line in enumerate(lines):
        if _ends_here(lines, number):
            break
        if line.startswith(">"):
            if not was_quote:
                _drop_attribution(retained)
            was_quote = True
            continue
        was_quote = was_quote and not line.strip()
        retained.append(line.rstrip())
    _drop_attribution(retained)  # that of a quote which was cut with the HTML
    return _GAPS.sub("\n\n", "\n".join(retained)).strip()


def _ends_here(lines: Sequence[str], number: int) -> bool:
    """Return whether from a line on nothing is the writer's own."""
    line = lines[number]
    if line in _SIGNATURES and any(above.strip() for above in lines[:number]):
        return True
    shown = line.strip()
    if len(shown) > _LONGEST_LINE or not shown:
        return False
    if _SEPARATOR.fullmatch(shown):
        return True
    if _UNDERLINE.fullmatch(shown):
        after = [below.strip() for below in lines[number + 1 : number + 5]]
        return _is_footer(after) or _begins_headers(lines, number + 1)
    return _begins_headers(lines, number)


def _is_footer(after: Sequence[str]) -> bool:
    return any("mailing list" in below.lower() or "://" in below or _ADDRESS.search(below) for below in after)


def _begins_headers(lines: Sequence[str], number: int) -> bool:
    """Return whether headers of a quoted mail follow: three fields on end, with an address or a date at the first."""
    block: list[str] = []
    for line in lines[number : number + 6]:
        shown = line.strip()[:_LONGEST_LINE]
        found = _FIELD.fullmatch(shown)
        if found is None and (shown or block):
            break
        if found is not None:
            block.append(found["value"])
    if len(block) < _LEAST_FIELDS:
        return False
    has_address = any(_ADDRESS.search(value) for value in block)
    has_year = any(_YEAR.search(value) for value in block)
    has_clock = any(_CLOCK.search(value) for value in block)
    return has_clock and (has_address or has_year)


def _drop_attribution(retained: list[str]) -> None:
    """Take off the lines that say who wrote what follows; they may be wrapped."""
    while retained and not retained[-1].strip():
        retained.pop()
    for count in range(1, _MOST_ATTRIBUTION + 1):
        lines = retained[-count:]
        if len(lines) < count or not all(line.strip() for line in lines):
            return
        if _is_attribution(" ".join(lines)):
            is_wrapped = not _MOMENT.search(" ".join(lines)) and _MOMENT.search(
                " ".join(retained[-count - 1 : -count])
            )
            del retained[-count - bool(is_wrapped) :]
            return


def _is_attribution(line: str) -> bool:
    shown = line.strip()[:_LONGEST_LINE]
    if not shown.endswith((":", "\uff1a", ":*")):
        return False
    has_source = re.search(r"\d", shown) is not None or _ADDRESS.search(shown) is not None
    return has_source and (_WROTE.search(shown) is not None or _ADDRESS.search(shown) is not None)
