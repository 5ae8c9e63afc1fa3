"""What all commands share: help, version, completion, and how errors end."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from backstory import run_pipeline
from backstory.base import VERSION
from backstory.interfaces.cli import app as cli
from backstory.pipeline.workspace import open_workspace
from tests.interfaces.cli.invocation import exit_code, run

COMMANDS = sorted(typer.main.get_group(cli.app).commands)


@pytest.mark.parametrize(("number", "command"), list(enumerate(["", *COMMANDS])))
def test_every_command_explains_itself_and_its_options(number: int, command: str) -> None:
    result = run(*command.split(), ("-h", "--help")[number % 2])
    assert result.exit_code == 0
    assert "Usage: backstory" in result.stdout
    parameters = typer.main.get_group(cli.app).commands[command].params if command else []
    assert all(getattr(parameter, "help", None) for parameter in parameters)


def test_the_help_lists_every_command_in_one_of_five_groups() -> None:
    panels = {
        name: getattr(command, "rich_help_panel", "")
        for name, command in typer.main.get_group(cli.app).commands.items()
    }
    assert list(dict.fromkeys(panels.values())) == ["Make", "Look", "Search", "Keep", "Measure"]
    shown = run("--help").stdout
    places = [shown.index(f"─ {panel} ") for panel in dict.fromkeys(panels.values())]
    assert places == sorted(places)


def test_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"backstory {VERSION}\n"


def test_the_shell_completes_commands() -> None:
    shell = {"_BACKSTORY_COMPLETE": "complete_bash", "COMP_WORDS": "backstory wi", "COMP_CWORD": "1"}
    completed = CliRunner(env=shell).invoke(cli.app, prog_name="backstory")
    assert completed.stdout.split() == ["windows"]


def test_names_that_look_like_markup_are_shown_as_they_are(root: Path) -> None:
    (root / "chats" / "garden.txt").rename(root / "chats" / "the [b] group.txt")
    post = root / "posts" / "disk.md"
    post.write_text(
        f"---\ntitle: '[/b]disk'\nslug: '[/b]disk'\n---\n{post.read_text(encoding='utf-8')}", encoding="utf-8"
    )
    run_pipeline(open_workspace(root))
    assert "the [b] group" in run("windows", "-w", str(root)).stdout
    for arguments in (("search", "a clicking disk"), ("context", "latest")):
        assert "[/b]disk" in run(*arguments, "-w", str(root)).stdout


# Clear the screen, rename the window, colour what follows by a C1 control, reverse the order of what follows, and
# break the line.
HOSTILE = "\x1b[2J\x1b]0;renamed\x07\x9b31m\u202e\u200f\u2028"


def test_documents_and_chats_cannot_command_the_terminal(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (root / "posts" / "disk.md").write_text(
        '---\ntitle: "A disk \\e[2J\\x9b31m"\nslug: "disk\\e]0;renamed\\a"\ntags: ["backup\\e[2J"]\n---\n'
        f"A clicking backup disk {HOSTILE} and more.\n",
        encoding="utf-8",
    )
    chat = root / "chats" / "garden.txt"
    chat.write_text(f"{chat.read_text(encoding='utf-8').strip()} {HOSTILE}\n", encoding="utf-8")
    chat.rename(root / "chats" / "garden\x1b[2J.txt")
    run_pipeline(open_workspace(root))
    for arguments in (
        ("windows",),
        ("windows", "--json"),
        ("context", "latest"),
        ("context", "latest", "--json"),
        ("search", "a clicking disk"),
        ("search", "a clicking disk", "--json"),
        ("search", "disk", "--tag", "\x1b[2J"),
        ("context", "\x1b[2J"),
        ("status",),
        ("doctor",),
    ):
        exit_code(monkeypatch, *arguments, "-w", str(root))
        printed = capfd.readouterr()
        written = printed.out + printed.err
        assert written
        controls = {character for character in written if not character.isprintable()} - {"\n"}
        if "--json" in arguments:
            json.loads(printed.out)
        assert controls == set(), arguments


@pytest.mark.parametrize(
    "words",
    [
        "status -w /nowhere", "context nothing", "report nothing", "windows --from soon", "windows --to 2025-02-30",
        "windows --limit 0", "windows --from 2025-03-14", "eval /nowhere", "eval . --html /nowhere/methods.html",
        "search disk -k 0", "search disk --as-of yesterday", "search x --pages 0", "search x --pages 3-2",
        "search x --pages 1-", "search tank --tag no-such-tag", "grep (?=a)(?R) --regex", "ask tank --kind none",
        "explain latest absent", "show dis", "summarize disk --style long", "doctor --files --alerts",
        "doctor --test-alert --prune-caches", "forget", "backup place --keep 2", "learn --undo --set labels", "serve",
        "check nowhere.txt", "check --nothing", "run --workspace /nowhere", "run --from soon",
        "run --from 2025-03-15 --to 2025-03-13", "unknown",
    ],
)  # fmt: skip
def test_bad_usage_exits_with_2_and_says_what_is_wrong(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    monkeypatch.setenv("BACKSTORY_WORKSPACE", str(made))
    assert exit_code(monkeypatch, *words.split()) == 2
    told = capsys.readouterr()
    assert (bool(told.err.strip()), told.out) == (True, "")


def test_a_job_that_fails_exits_with_1(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(monkeypatch, "search", "anything", "-w", str(root)) == 1
    assert "nothing is indexed" in capsys.readouterr().err
