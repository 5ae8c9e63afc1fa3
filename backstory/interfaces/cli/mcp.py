"""The command ``mcp``: the server of the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated

import typer

from backstory.interfaces.cli.loading import loading
from backstory.interfaces.cli.options import WorkspaceOption
from backstory.interfaces.cli.terminal import open_console

_PORT = 8765


def mcp(
    over_http: Annotated[
        bool,
        typer.Option("--http", help="Serve HTTP on this machine, to clients that send BACKSTORY_MCP_TOKEN."),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port of --http; 0 for any that is free.")
    ] = _PORT,
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
    from backstory.base.extras import require_extra

    require_extra("mcp", "`backstory mcp`", "use `backstory search --json` instead")
    with loading():
        from backstory.interfaces.library.library import Library
        from backstory.interfaces.mcp.server import make_server

    with Library.open(workspace) as library:
        server = make_server(library, allow_write=allow_write, tools=tools)
        if not over_http:
            server.run("stdio")
            return
        from backstory.base.environment import read_mcp_token
        from backstory.interfaces.mcp.http import HOST, PATH, open_socket, serve

        token = read_mcp_token()
        listening = open_socket(port)
        url = f"http://{HOST}:{listening.getsockname()[1]}{PATH}"
        open_console(stderr=True).print(f"serving {url}", soft_wrap=True)
        serve(server, token, listening)
