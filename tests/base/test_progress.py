import io
import logging
import sys

import pytest

from backstory.base.progress import announce, announce_name, listening, show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_bar_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")

    with show_progress("embedding documents") as progress:
        progress(0, 8)
        progress(8, 8)

    assert "embedding documents" in terminal.getvalue()
    assert "8/8" in terminal.getvalue()


def test_on_a_terminal_nothing_is_shown_when_nothing_is_to_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    with show_progress("embedding documents") as progress:
        progress(8, 8)

    assert terminal.getvalue() == ""


def test_elsewhere_every_tenth_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    caplog.set_level(logging.INFO)

    with show_progress("embedding documents") as progress:
        for done in range(0, 1001, 7):
            progress(done, 1000)
        progress(1000, 1000)

    assert len(caplog.messages) == 10
    assert caplog.messages[0] == "progress step=embedding documents done=105 total=1000"
    assert caplog.messages[-1] == "progress step=embedding documents done=1000 total=1000"


@pytest.mark.parametrize(("done", "total"), [(8, 8), (0, 0)])
def test_elsewhere_nothing_is_logged_when_nothing_is_to_be_done(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, done: int, total: int
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    caplog.set_level(logging.INFO)

    with show_progress("embedding documents") as progress:
        progress(done, total)

    assert caplog.messages == []


def test_the_name_of_an_item_reaches_who_listens_to_names_in_this_thread() -> None:
    steps: list[object] = []
    announce_name("before")
    with listening(lambda *step: steps.append(step), names=steps.append):
        announce_name("a.md")
        announce("reading documents", 0, 2)
        with listening(lambda *step: steps.append(step)):
            announce_name("nobody listens")
        announce_name("b.md")
    announce_name("after")
    assert steps == ["a.md", ("reading documents", 0, 2), "b.md"]
