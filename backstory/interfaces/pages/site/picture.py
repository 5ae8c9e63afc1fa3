"""The picture of a post that previews of its link show: its messages in order, coloured by the documents they lead to.

It is a PNG file without letters, since chat programs show no SVG, and letters would need a font.
"""

from __future__ import annotations

from typing import Final

from backstory.base.png import encode_png
from backstory.interfaces.pages.report.palette import HUES
from backstory.interfaces.pages.site.library import SitePost

WIDTH: Final = 1200
HEIGHT: Final = 630
_MARGIN: Final = 60
_GAP: Final = 10
_MOST_ROWS: Final = 7
_GROUND, _EMPTY = 0, 1
_COLOURS: Final = ("#f6f6f3", "#dcdcd6", *HUES)


def draw_picture(post: SitePost) -> bytes:
    """Draw a post: a row for all messages, then one for each of the first seven cited documents that serve any.

    Returns:
        A PNG file of 1,200 x 630 pixels.
    """
    count = max(len(post.window.messages), 1)
    rows = []
    for use in [use for use in post.cited if use.because][:_MOST_ROWS]:
        served = {quote.place for quote in use.because}
        rows.append(
            [(use.number - 1) % len(HUES) + 2 if place in served else _EMPTY for place in range(count)]
        )
    first = [next((row[place] for row in rows if row[place] != _EMPTY), _EMPTY) for place in range(count)]
    lines = [_draw_line(cells) for cells in (first, *rows)]
    height = (HEIGHT - 2 * _MARGIN + _GAP) / (len(lines) + 1)  # the first row is twice as high
    blank = bytes(WIDTH)
    picture = [blank] * HEIGHT
    top = float(_MARGIN)
    for place, line in enumerate(lines):
        bottom = top + height * (2 if place == 0 else 1)
        picture[round(top) : round(bottom) - _GAP] = [line] * (round(bottom) - _GAP - round(top))
        top = bottom
    palette = b"".join(bytes.fromhex(colour[1:]) for colour in _COLOURS)
    return encode_png(WIDTH, HEIGHT, picture, palette=palette, effort=9)


def _draw_line(cells: list[int]) -> bytes:
    """Draw one line of pixels, in which each message has the same width."""
    inner = WIDTH - 2 * _MARGIN
    pixels = bytes(cells[place * len(cells) // inner] for place in range(inner))
    return bytes(_MARGIN) + pixels + bytes(_MARGIN)
