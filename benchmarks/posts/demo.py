"""Sections of the demo's posts against the topics of its messages, which were labelled by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from ruamel.yaml import YAML

from backstory.pipeline.stages.writer_material import read_material
from backstory.pipeline.workspace import Workspace
from backstory.writing.digest_writer import outline
from benchmarks.posts.scoring import score_sections

LABELS = Path(__file__).resolve().parents[2] / "examples" / "message_topics.yaml"


def score_demo(workspace: Workspace) -> dict[str, float]:
    """Give the V-measure of the sections of each day of the demo.

    Args:
        workspace: The demo after its run. Messages of which nobody stated the topic do not count.
    """
    days = YAML(typ="safe").load(LABELS)
    labels = {day.isoformat(): topics for day, topics in days.items()}
    return {
        window.partition: score_sections(
            [section.places for section in outline(window, context)],
            [_find_topic(labels[window.partition], message.sent_at) for message in window.messages],
        )
        for partition in sorted(workspace.catalog.read("windows"))
        for window, context in read_material(workspace, partition)
    }


def _find_topic(topics: Mapping[str, str], moment: datetime) -> str:
    """Find the topic with a span of times such as ``08:11-08:24`` that holds a moment; empty if there is none."""
    time = f"{moment:%H:%M}"
    for topic, spans in topics.items():
        for span in spans.split():
            first, _, last = span.partition("-")
            if first <= time <= (last or first):
                return topic
    return ""
