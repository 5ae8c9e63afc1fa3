"""``backstory ask``: one question, and a conversation."""

import json
from pathlib import Path

from typer.testing import CliRunner

from backstory.interfaces.cli.app import app


def test_a_question_is_answered_with_its_place(made: Path) -> None:
    told = CliRunner().invoke(app, ["ask", "list all documents", "-w", str(made)])
    assert told.exit_code == 0, told.output
    assert "which are all" in told.output or "which is all" in told.output


def test_a_conversation_reads_questions_to_the_end(made: Path) -> None:
    lines = "hi\n\nlist all documents\n"
    told = CliRunner().invoke(app, ["ask", "--json", "-w", str(made)], input=lines)
    assert told.exit_code == 0, told.output
    decoder, rest, kinds = json.JSONDecoder(), told.stdout.strip(), []
    while rest:
        answer, end = decoder.raw_decode(rest)
        kinds.append(answer["kind"])
        rest = rest[end:].strip()
    assert kinds == ["casual", "list"]
