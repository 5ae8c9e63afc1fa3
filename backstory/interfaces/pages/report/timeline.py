"""The window as a strip: all messages have the same width, since long silences would squeeze the rest.

The times stand below it. Positions are percentages of the strip's width, so that it fits any page without stretching
its letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby, pairwise

from backstory.interfaces.pages.report.palette import name_paint
from backstory.interfaces.pages.report.window_report import Query, WindowReport
from backstory.interfaces.pages.report.wording import describe_moment, describe_query

_TICKS = 7
_SILENCE = timedelta(hours=1)
_LABEL_WIDTH = 1.8
_SPACED_SEGMENTS = 150


@dataclass(frozen=True)
class Segment:
    """One query on a strip.

    Attributes:
        left: Its left end, in per cent of the strip.
        width: In per cent of the strip.
        paint: CSS classes of its colour and pattern.
        served: Whether it is drawn as a full bar: the document of the strip serves it best.
        message: Position of its first message.
        title: The tooltip.
    """

    left: float
    width: float
    paint: str
    served: bool
    message: int
    title: str


@dataclass(frozen=True)
class Label:
    """A text on a strip, centred at ``x`` per cent, in the colours of ``paint``."""

    x: float
    text: str
    paint: str


@dataclass(frozen=True)
class Track:
    """The queries of one granularity."""

    name: str
    segments: tuple[Segment, ...]
    labels: tuple[Label, ...]
    dense: bool


@dataclass(frozen=True)
class Tick:
    """A moment on the axis, anchored at its ``start``, ``middle`` or ``end``."""

    x: float
    text: str
    anchor: str


@dataclass(frozen=True)
class Silence:
    """A long time without messages, drawn at ``x`` per cent."""

    x: float
    title: str


@dataclass(frozen=True)
class Timeline:
    """The strips of a window, the marks of its clock, and for each kept document a lane of the parts that it serves."""

    tracks: tuple[Track, ...]
    ticks: tuple[Tick, ...]
    silences: tuple[Silence, ...]
    lanes: tuple[tuple[Segment, ...], ...]


def draw_timeline(report: WindowReport) -> Timeline:
    """Lay a window out as strips.

    Returns:
        One track per granularity, and one lane per kept document. In a lane, the queries that the document serves best
        are ``served``; queries that it serves, but another document serves better, are not.
    """
    tracks = [
        _draw_track(name, list(queries), report)
        for name, queries in groupby(report.queries, key=lambda query: query.granularity)
    ]
    return Timeline(
        tracks=tuple(tracks),
        ticks=_draw_ticks(report),
        silences=_draw_silences(report),
        lanes=tuple(_draw_lane(place, report) for place in range(len(report.kept_documents))),
    )


def _draw_track(name: str, queries: Sequence[Query], report: WindowReport) -> Track:
    segments = [_draw_segment(query, report, query.document, query.document is not None) for query in queries]
    labels = []
    # One label for a run of queries that one document serves: a single query may be too narrow for it.
    for document, run in groupby(zip(queries, segments, strict=True), key=lambda pair: pair[0].document):
        parts = [segment for _, segment in run]
        left, right = parts[0].left, parts[-1].left + parts[-1].width
        if document is not None and right - left >= _LABEL_WIDTH:
            text = str(report.documents[document].ranks[0])
            labels.append(Label((left + right) / 2, text, name_paint(document)))
    return Track(name, tuple(segments), tuple(labels), dense=len(segments) > _SPACED_SEGMENTS)


def _draw_segment(query: Query, report: WindowReport, document: int | None, served: bool) -> Segment:
    count = max(len(report.messages), 1)
    return Segment(
        left=100 * query.first / count,
        width=100 * (query.last - query.first + 1) / count,
        paint=name_paint(document),
        served=served,
        message=query.first,
        title=describe_query(report, query),
    )


def _draw_lane(place: int, report: WindowReport) -> tuple[Segment, ...]:
    queries = [query for query in report.queries if place in query.documents]
    return tuple(_draw_segment(query, report, place, query.document == place) for query in queries)


def _draw_ticks(report: WindowReport) -> tuple[Tick, ...]:
    count = len(report.messages)
    places = sorted({round(step * (count - 1) / (_TICKS - 1)) for step in range(_TICKS)}) if count else []
    ticks = []
    day = None
    for place in places:
        moment = report.messages[place].timestamp
        anchor = "start" if place == 0 else "end" if place == count - 1 else "middle"
        x = 0.0 if place == 0 else 100.0 if place == count - 1 else 100 * (place + 0.5) / count
        text = describe_moment(moment) if moment.date() != day and day is not None else f"{moment:%H:%M}"
        day = moment.date()
        ticks.append(Tick(x, text, anchor))
    return tuple(ticks)


def _draw_silences(report: WindowReport) -> tuple[Silence, ...]:
    moments = [message.timestamp for message in report.messages]
    return tuple(
        Silence(100 * place / len(moments), f"{_describe_span(after - before)} without messages")
        for place, (before, after) in enumerate(pairwise(moments), start=1)
        if after - before >= _SILENCE
    )


def _describe_span(span: timedelta) -> str:
    hours, minutes = divmod(int(span.total_seconds()) // 60, 60)
    return f"{hours} h {minutes} min"
