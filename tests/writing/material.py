"""Small windows and contexts for the tests of writers."""

from __future__ import annotations

from datetime import UTC, datetime

from backstory.writing.material import Citation, ContextMaterial, WindowMaterial, WindowMessage

DAY = datetime(2025, 3, 12, 9, 0, tzinfo=UTC)


def make_window(*texts: str, window_id: str = "w1", language: str | None = "en") -> WindowMaterial:
    shown = texts or ("Who waters the greenhouse?", "Me. See https://garden.example/plan for the plan.")
    messages = tuple(
        WindowMessage(f"m{number}", DAY.replace(minute=number), f"member-{number:010x}", text)
        for number, text in enumerate(shown)
    )
    return WindowMaterial(window_id, "garden", "2025-03-12", DAY, DAY.replace(minute=59), language, messages)


def make_context(*passages: str) -> ContextMaterial:
    shown = passages or ("How we watered in 2024.", "The door, see http://door.example/a_(b).")
    citations = tuple(
        Citation(
            number,
            f"d{number}",
            f"Document {number}",
            f"doc-{number}",
            f"posts/doc-{number}.md",
            DAY,
            ("garden",),
            passage,
            (0,),
        )
        for number, passage in enumerate(shown, start=1)
    )
    return ContextMaterial("ok", citations)
