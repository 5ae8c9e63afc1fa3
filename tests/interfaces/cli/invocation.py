"""How the tests of the command line call it: in this process."""

import pytest
from typer.testing import CliRunner, Result

from backstory.interfaces.cli import app as cli


def run(*arguments: str) -> Result:
    """Run a command; an error of the library is raised."""
    return CliRunner().invoke(cli.app, list(arguments), catch_exceptions=True)


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run a command as the console script does; give its exit code."""
    monkeypatch.setattr("sys.argv", ["backstory", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)
