"""What the pages tell readers to run exists: their Python runs, their commands take their options."""

import contextlib
import io
import json
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from backstory.base.extras import MODULES
from backstory.interfaces.cli import app as backstory_cli
from benchmarks.machine import PINNED_KERNELS
from pipelines import __main__ as pipelines_cli
from tests.workspaces import copy_made

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    # The changelog names former commands.
    *(page for page in sorted(ROOT.glob("*.md")) if page.name != "CHANGELOG.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
STARTS = ("backstory ", "python -m ", "make ", "pip ", "python docs/")
NOT_OURS = ("pip", "pytest", "hatchling")
APPS = {"backstory": backstory_cli.app, "pipelines": pipelines_cli.app}


# What a page's Python may find beside the workspace: an export of Messenger, as that app writes it.
MESSENGER = {
    "threadName": "Bakers_1",
    "messages": [
        {"senderName": "Ada", "timestamp": 1700000060000, "text": "see this", "media": []},
        {"senderName": "Ada", "timestamp": 1700000000000, "text": "", "media": [{"uri": "a.jpg"}]},
    ],
}


def python_blocks() -> Iterator[tuple[str, str]]:
    """Yield the Python of all pages but the README; tests/test_docs.py runs that with the README's commands."""
    for page in PAGES:
        if page == ROOT / "README.md":
            continue
        for language, code in FENCED.findall(page.read_text(encoding="utf-8")):
            if language == "python":
                yield page.name, code


def commands() -> Iterator[tuple[str, str]]:
    """Yield every command of the pages, from blocks of the console and from the running text."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for language, block in FENCED.findall(text):
            if language in ("console", "sh", "bash"):
                for line in block.splitlines():
                    command = line.removeprefix("$ ").split("  #")[0].strip()
                    if command.startswith(STARTS):
                        yield page.name, command
        for span in INLINE.findall(FENCED.sub("", text)):
            if span.startswith(STARTS):
                yield page.name, span


def words_of(command: str) -> list[str]:
    """Split a command as a shell does, without the marks of what is optional or repeated."""
    return (
        shlex.split(re.sub(r"[\[\]|]|\.\.\.|…", " ", command)) if "'" not in command else shlex.split(command)
    )


def options_in(words: list[str]) -> set[str]:
    return {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}


@cache
def load_commands(program: str) -> TyperGroup:
    """Build the commands of an application, once for all tests."""
    group = typer.main.get_command(APPS[program])
    assert isinstance(group, TyperGroup)
    return group


def options_of_application(program: str, words: list[str]) -> set[str]:
    """Return the options that a command of an application takes; the command must exist."""
    group = load_commands(program)
    subcommands = [word for word in words if not word.startswith("-")]
    if not subcommands:
        parameters = group.params
    else:
        assert subcommands[0] in group.commands, f"there is no command {subcommands[0]!r}"
        command = group.commands[subcommands[0]]
        for word in subcommands[1:]:
            if isinstance(command, TyperGroup) and word in command.commands:
                command = command.commands[word]
        parameters = command.params
    return {option for parameter in parameters for option in parameter.opts} | {"--help"}


@cache
def options_of_module(module: str) -> set[str]:
    """Return the options that the help of a module names, run once as ``python -m`` runs it."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
        for variable in PINNED_KERNELS:  # a benchmark that finds them starts itself again without them
            patch.delenv(variable, raising=False)
        patch.setattr(sys, "argv", [module, "--help"])
        # Another test of this process may have loaded it; running it twice would be a warning.
        for name in (module, f"{module}.__main__"):
            patch.delitem(sys.modules, name, raising=False)
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(module, run_name="__main__")
    assert ended.value.code == 0
    return set(re.findall(r"--?[a-z][a-z-]*", printed.getvalue()))


def test_every_command_exists_and_takes_its_options() -> None:
    for page, command in sorted(set(commands())):
        check_command(page, command)


def check_command(page: str, command: str) -> None:
    words = words_of(command)
    for extras in re.findall(r"(?:backstory|\.whl)\[([a-z,]+)\]", command):
        assert set(extras.split(",")) <= set(MODULES), page
    if words[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for word in words[1:]:
            name, assigned, _ = word.partition("=")
            line = rf"^{name} [?:]?=" if assigned else rf"^{name}:"
            assert re.search(line, makefile, re.MULTILINE), f"{page}: make knows no {name}"
        return
    program, arguments = (words[2], words[3:]) if words[:2] == ["python", "-m"] else (words[0], words[1:])
    if program in NOT_OURS:
        return
    if program == "backstory" and arguments[:1] == ["dagster"]:
        program, arguments = "pipelines", arguments[1:]
    if program in APPS:
        known = options_of_application(program, arguments)
    elif program == "python":
        script = ROOT / arguments[0]
        assert script.is_file(), f"{page}: there is no {script}"
        known = set()
    else:
        known = options_of_module(program)
    assert options_in(arguments) <= known, f"{page}: {command}"


@pytest.mark.parametrize(("page", "code"), [pytest.param(*block, id=block[0]) for block in python_blocks()])
def test_the_python_of_a_page_runs(
    page: str,
    code: str,
    made_once: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = copy_made(made_once, tmp_path / "mychat").root.parent
    (folder / "chats").mkdir()
    (folder / "Bakers_1.json").write_text(json.dumps(MESSENGER), encoding="utf-8")
    monkeypatch.chdir(folder)
    exec(compile(code, page, "exec"), {"__name__": "page"})


def test_the_pages_have_something_to_try() -> None:
    assert len(list(commands())) > 20
    assert len(list(python_blocks())) >= 1
