"""The commands that start servers: ``serve`` for many users, ``mcp`` for agents, and ``dagster``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

import backstory
from backstory.base.extras import require_extra
from backstory.interfaces.cli.failure import allow_open_files
from backstory.interfaces.cli.options import WorkspaceOption
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

HOST: Final = "127.0.0.1"
PORT: Final = 8766
MCP_PORT: Final = 8765
_PACKAGES: Final = ("backstory_pipelines", "pipelines")
"""The code location in the wheel, and in a checkout."""

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

    Exit codes, also of the commands that administer: 0 done; 1 a key or the file of accounts cannot be used; 2 bad
    usage, such as a name that is not there; 143 work was cut short; else that of the signal.
    """
    if context.invoked_subcommand is not None:
        given = [name for name in context.params if _is_given(context, name)]
        if given:
            raise typer.BadParameter(
                f"stands before {context.invoked_subcommand}; write the options behind the command",
                param_hint=" and ".join(f"--{name.replace('_', '-')}" for name in given),
            )
        return
    if root is None:
        raise typer.BadParameter("name the folder of the service", param_hint="--root")
    serve_folder(open_folder(root, key_file, megabytes=memory), host, port, allow_host or ())


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def serve_folder(opened: ServiceFolder, host: str, port: int, names: Sequence[str] = ()) -> None:
    """Serve an open folder until the process is told to end, and print the address."""
    from backstory.interfaces.mcp.http import open_socket
    from backstory.interfaces.service.index_jobs import IndexJobs
    from backstory.interfaces.service.job_process import JobProcesses
    from backstory.interfaces.service.service import Service
    from backstory.interfaces.service.serving import name_hosts
    from backstory.interfaces.service.serving import serve as serve_requests

    opened.require_keys()
    allow_open_files(_OPEN_FILES)
    listening = open_socket(port, host)
    number = listening.getsockname()[1]
    place = f"[{host}]" if ":" in host else host
    open_console(stderr=True).print(plain(f"serving http://{place}:{number}"), soft_wrap=True)
    jobs = IndexJobs(opened.tenants, clock=time.time, processes=JobProcesses(opened.accounts.state))
    service = Service(opened.accounts, opened.tenants, jobs)
    serve_requests(service, listening, hosts=name_hosts(number, names))


def mcp(
    over_http: Annotated[
        bool,
        typer.Option("--http", help="Serve HTTP on this machine, to clients that send BACKSTORY_MCP_TOKEN."),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port of --http; 0 for any that is free.")
    ] = MCP_PORT,
    allow_write: Annotated[
        bool,
        typer.Option("--allow-write", help="Also serve the tools that index files and write text files."),
    ] = False,
    tools: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Tools to serve: default, original (the ten names of the original design), or names of tools joined "
            "by commas.",
        ),
    ] = "default",
    workspace: WorkspaceOption = None,
) -> None:
    """Serve the documents to agents over the Model Context Protocol, on standard input and output.

    Exit codes: 0 the client closed the connection; 1 the token is missing; 2 bad usage or settings.
    """
    require_extra("mcp", "`backstory mcp`", "use `backstory search --json` instead")
    from backstory.interfaces.library.library import Library
    from backstory.interfaces.mcp.server import make_server

    with Library.open(workspace) as library:
        server = make_server(library, allow_write=allow_write, tools=tools)
        if not over_http:
            server.run("stdio")
            return
        from backstory.interfaces.mcp.http import HOST, PATH, open_socket, read_token, serve

        token = read_token()
        listening = open_socket(port)
        url = f"http://{HOST}:{listening.getsockname()[1]}{PATH}"
        open_console(stderr=True).print(f"serving {url}", soft_wrap=True)
        serve(server, token, listening)


def dagster(context: typer.Context) -> None:
    """Run the workspace in Dagster: its UI with schedules and backfills, and runs that the UI shows.

    `backstory dagster --help` lists the commands.
    """
    require_extra("dagster", "`backstory dagster`", "use `backstory run` instead")
    commands = import_module(f"{_find_package()}.__main__")
    commands.app(context.args, prog_name=commands.NAME)


def _find_package() -> str:
    """Return the name of the package beside this one; another package of that name is none of ours."""
    beside = Path(backstory.__file__).resolve().parent.parent
    for name in _PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin and Path(spec.origin).resolve().parent.parent == beside:
            return name
    raise ModuleNotFoundError(f"neither {' nor '.join(_PACKAGES)} lies in {beside}; install Backstory again")
