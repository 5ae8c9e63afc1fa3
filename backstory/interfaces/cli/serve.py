"""The command ``serve``: the service for many users, and the commands that administer it."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from backstory.interfaces.cli.loading import loading
from backstory.interfaces.cli.service import (
    KeyFileOption,
    grant,
    keys,
    open_folder,
    revoke,
    tenants,
    tokens,
    users,
)
from backstory.interfaces.cli.terminal import open_console, plain

if TYPE_CHECKING:
    from backstory.interfaces.service.opening import ServiceFolder

_OPEN_FILES: Final = 10_240
"""Files that the service may have open: an open tenant has ten, and a request a few. More is too much for macOS."""

_FOR_ALL: Final = ("root", "key_file")
"""Options that may stand before a command of administration as well as after it."""

HOST: Final = "127.0.0.1"
PORT: Final = 8766

serve = typer.Typer(invoke_without_command=True)
serve.add_typer(tenants, name="tenant")
serve.add_typer(users, name="user")
serve.add_typer(tokens, name="token")
serve.add_typer(keys, name="key")
serve.command()(grant)
serve.command()(revoke)


@serve.callback()
def run_service(
    context: typer.Context,
    root: Annotated[
        Path | None,
        typer.Option(
            "--root", metavar="DIR", help="Folder of the service, with all its tenants.", show_default=False
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on. Any other than 127.0.0.1 needs a proxy that encrypts, since tokens are sent.",
        ),
    ] = HOST,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0 for any that is free.")
    ] = PORT,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A further name by which clients call it, with the port if they name one. Repeat it for several.",
        ),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="MB",
            help="Most memory that the open indexes of all tenants may take together. Default: 512.",
        ),
    ] = None,
    key_file: KeyFileOption = None,
) -> None:
    """Serve documents to many users over HTTP, a workspace for each tenant, or administer tenants and users.

    SIGTERM and Ctrl-C end it within 30 seconds: answers under way get 20, and index jobs go on after the next start.

    Exit codes: 1 a key or the file of accounts cannot be used; 2 bad usage; 143 work was cut short; else that of the
    signal.
    """
    if context.invoked_subcommand is not None:
        context.default_map = _pass_on(context, root, key_file)
        return
    if root is None:
        raise typer.BadParameter("name the folder of the service", param_hint="--root")
    serve_folder(open_folder(root, key_file, megabytes=memory), host, port, allow_host or ())


def _pass_on(context: typer.Context, root: Path | None, key_file: Path | None) -> dict[str, Any]:
    """Make what was said before a command of administration its default, as if it had been said after it.

    Raises:
        typer.BadParameter: Something was said that only serving takes, and that would have no effect.
    """
    given = {name: value for name, value in (("root", root), ("key_file", key_file)) if value is not None}
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name not in _FOR_ALL and source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"{context.invoked_subcommand} takes no such option", param_hint=option)
    commands = getattr(context.command, "commands", {})
    return {
        name: dict.fromkeys(command.commands, given) if hasattr(command, "commands") else given
        for name, command in commands.items()
    }


def serve_folder(opened: ServiceFolder, host: str, port: int, names: Sequence[str] = ()) -> None:
    """Serve an open folder until the process is told to end, and print the address.

    Args:
        opened: Its parts.
        host: Address to listen on.
        port: Port; 0 for any that is free.
        names: Further names by which clients call it.

    Raises:
        InputError: The port cannot be opened.
        StateError: A key of a tenant cannot be opened.
    """
    with loading():
        from backstory.interfaces.mcp.http import open_socket
        from backstory.interfaces.service.index_jobs import IndexJobs
        from backstory.interfaces.service.job_process import JobProcesses
        from backstory.interfaces.service.service import Service
        from backstory.interfaces.service.serving import name_hosts
        from backstory.interfaces.service.serving import serve as serve_requests

    opened.require_keys()
    _allow_open_files()
    listening = open_socket(port, host)
    number = listening.getsockname()[1]
    place = f"[{host}]" if ":" in host else host
    open_console(stderr=True).print(plain(f"serving http://{place}:{number}"), soft_wrap=True)
    jobs = IndexJobs(opened.tenants, clock=time.time, processes=JobProcesses(opened.accounts.state))
    service = Service(opened.accounts, opened.tenants, jobs)
    serve_requests(service, listening, hosts=name_hosts(number, names))


def _allow_open_files() -> None:
    """Allow this process as many open files as it may need, up to what the system permits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
