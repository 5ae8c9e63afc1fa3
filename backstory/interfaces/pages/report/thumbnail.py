"""A small picture of some windows, for viewers that show Markdown but no HTML."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from backstory.base.local_times import write_span
from backstory.interfaces.pages.report.page import render_picture
from backstory.interfaces.pages.report.palette import HUES, INK_ON_HUE
from backstory.interfaces.pages.report.window_reading import read_window_report
from backstory.interfaces.pages.report.window_report import WindowReport
from backstory.pipeline.workspace import Workspace
from backstory.text.conversation_names import name_conversation
from backstory.text.prompts.entries import cut_line

PICTURE_BYTES = 14_000
"""Largest SVG of more than one window. In Markdown, its base64 is a third larger."""

_WINDOWS = 2
_WIDTH = 640
_LABEL_WIDTH = 14
_NAMED_DOCUMENTS = 8
_TITLE_CHARACTERS = 70
_CAPTION_CHARACTERS = 60
_PANEL_HEIGHT = 92
_LINE_HEIGHT = 20


@dataclass(frozen=True)
class _Run:
    """Consecutive messages of one document, in pixels from the left."""

    document: int | None
    left: float
    width: float


@dataclass(frozen=True)
class _Named:
    rank: int
    title: str
    hue: str
    ink: str


@dataclass(frozen=True)
class _Label:
    x: float
    rank: int
    ink: str


@dataclass(frozen=True)
class _Panel:
    top: int
    caption: str
    about: str
    bars: tuple[tuple[str, str], ...]
    labels: tuple[_Label, ...]
    documents: tuple[_Named, ...]
    more: int

    @property
    def bottom(self) -> int:
        return self.top + _PANEL_HEIGHT + _LINE_HEIGHT * (len(self.documents) + (self.more > 0))


def picture_windows(workspace: Workspace, partitions: Sequence[str]) -> str:
    """Draw the windows with the most messages of the latest partition that has any, as Markdown.

    Args:
        workspace: A workspace with tables.
        partitions: Keys of the partitions to choose from.

    Returns:
        A Markdown image with the SVG as its data URL, or a sentence if there are no windows.
    """
    present = set(workspace.tables.keys("window_contexts")).intersection(partitions)
    if not present:
        return "*no windows in these partitions*"
    windows = workspace.tables.read("windows", [max(present)])
    largest = windows.sort("message_count", "window_id", descending=[True, False]).head(_WINDOWS)
    svg = draw_thumbnail([read_window_report(workspace, window_id) for window_id in largest["window_id"]])
    encoded = base64.b64encode(svg.encode("utf-8", "replace")).decode()
    return f"![Which document serves which part of the window](data:image/svg+xml;base64,{encoded})"


def draw_thumbnail(reports: Sequence[WindowReport]) -> str:
    """Draw each window as one strip, coloured by the kept document that serves each message.

    Args:
        reports: At least one window. The last ones are left out if the picture would be larger than
            :data:`PICTURE_BYTES`.

    Returns:
        An SVG document on a white background, readable on a page of any colour.
    """
    for count in range(len(reports), 0, -1):
        panels: list[_Panel] = []
        for report in reports[:count]:
            panels.append(_draw_panel(report, panels[-1].bottom if panels else 0))
        svg = render_picture("thumbnail.svg", panels=panels, width=_WIDTH, height=panels[-1].bottom)
        if len(svg) <= PICTURE_BYTES:
            break
    return svg


def _draw_panel(report: WindowReport, top: int) -> _Panel:
    window, kept = report.window, report.kept_documents
    runs = _merge_messages(report)
    return _Panel(
        top=top,
        caption=f"{cut_line(name_conversation(window['conversation_id']), _CAPTION_CHARACTERS)}, "
        + write_span(window["started_at"], window["ended_at"]),
        about=f"{len(report.messages)} messages, {len(kept)} documents, "
        f"{report.summary['coverage']:.0%} of the parts served",
        bars=tuple((HUES[place % len(HUES)], _draw_bars(runs, place)) for place in range(len(kept))),
        labels=tuple(
            _Label(
                round(run.left + run.width / 2, 1),
                kept[run.document].ranks[0],
                INK_ON_HUE[run.document % len(HUES)],
            )
            for run in runs
            if run.document is not None and run.width >= _LABEL_WIDTH
        ),
        documents=tuple(
            _Named(
                document.ranks[0],
                cut_line(document.title, _TITLE_CHARACTERS),
                HUES[place % len(HUES)],
                INK_ON_HUE[place % len(HUES)],
            )
            for place, document in enumerate(kept[:_NAMED_DOCUMENTS])
        ),
        more=max(len(kept) - _NAMED_DOCUMENTS, 0),
    )


def _merge_messages(report: WindowReport) -> list[_Run]:
    step = _WIDTH / max(len(report.messages), 1)
    runs = []
    position = 0
    for document, messages in groupby(message.document for message in report.messages):
        length = len(list(messages))
        runs.append(_Run(document, position * step, length * step))
        position += length
    return runs


def _draw_bars(runs: Sequence[_Run], document: int) -> str:
    """Write the runs of one document as a single path, which takes a fifth of the bytes of as many rectangles."""
    return "".join(
        f"M{run.left:.1f} 0h{run.width:.1f}v30h-{run.width:.1f}z" for run in runs if run.document == document
    )
