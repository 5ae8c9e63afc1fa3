"""The commands that start servers: ``serve`` for many users, with its administration, ``mcp`` and ``dagster``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import backstory
from backstory.base.extras import require_extra
from backstory.base.wording import count
from backstory.interfaces.cli.failure import FAILED, allow_open_files
from backstory.interfaces.cli.options import JsonOption, WorkspaceOption, open_library
from backstory.interfaces.cli.terminal import open_console, print_lines, print_result, print_table

if TYPE_CHECKING:
    from backstory.interfaces.service.opening import ServiceFolder
    from backstory.interfaces.service.removal import RemovalProof

_OPEN_FILES: Final = 10_240
"""Files that the service may have open: an open tenant has ten, and a request a few. More is too much for macOS."""
_MOST_MEGABYTES: Final = 1 << 40
"""Its bytes are a number that the file of accounts can hold."""

HOST: Final = "127.0.0.1"
PORT: Final = 8766
MCP_PORT: Final = 8765

_ROOT: Final = typer.Option("--root", metavar="DIR", help="Folder of the service, with all its tenants.")
RootOption = Annotated[Path, _ROOT]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Key of the stored keys. Default: backstory/service.key in XDG_CONFIG_HOME or ~/.config.",
    ),
]
TenantArgument = Annotated[str, typer.Argument(metavar="TENANT", help="Small letters, digits and hyphens.")]
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="Name of a user.")]
RoleArgument = Annotated[
    str, typer.Argument(metavar="ROLE", help="reader asks; editor also changes documents; owner may do all.")
]
KeyArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Environment variable that it replaces, as BACKSTORY_ANSWER_KEY."),
]

serve = typer.Typer(invoke_without_command=True)
tenants = typer.Typer(no_args_is_help=True, help="Add, list and remove tenants.")
users = typer.Typer(no_args_is_help=True, help="Add, list and remove users.")
tokens = typer.Typer(no_args_is_help=True, help="Add, list and revoke the tokens of users.")
keys = typer.Typer(no_args_is_help=True, help="Store, list and remove the keys of tenants for services.")
for _name, _group in {"tenant": tenants, "user": users, "token": tokens, "key": keys}.items():
    serve.add_typer(_group, name=_name)


@serve.callback()
def run_service(
    context: typer.Context,
    root: Annotated[Path | None, _ROOT] = None,
    host: Annotated[
        str,
        typer.Option(help="Address to listen on. Any but 127.0.0.1 needs a proxy that encrypts the tokens."),
    ] = HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any that is free.")] = PORT,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A further name, or name:port, by which clients call it. May be repeated."
        ),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(min=0, metavar="MB", help="Most for the indexes of all tenants. Default: 512."),
    ] = None,
    key_file: KeyFileOption = None,
) -> None:
    """Serve documents to many users over HTTP, a workspace for each tenant, or administer tenants and users.

    SIGTERM and Ctrl-C end it within 30 seconds: answers under way get 20, and index jobs go on after the next start.

    Exit codes, also of the commands that administer: 0 done; 1 a key or the file of accounts cannot be used; 2 bad
    usage, such as a name that is not there; 143 work was cut short; else that of the signal.
    """
    if context.invoked_subcommand is None:
        if root is None:
            raise typer.BadParameter("name the folder of the service", param_hint="--root")
        serve_folder(_open(root, key_file, megabytes=memory), host, port, allow_host or ())
        return
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = [f"--{name}" for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    if given:
        raise typer.BadParameter("write options behind the command that administers", param_hint=given)


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
    _print(f"serving http://{place}:{number}", stderr=True)
    jobs = IndexJobs(opened.tenants, clock=time.time, processes=JobProcesses(opened.accounts.state))
    service = Service(opened.accounts, opened.tenants, jobs)
    serve_requests(service, listening, hosts=name_hosts(number, names))


@tenants.command("add")
def add_tenant(
    tenant: TenantArgument,
    root: RootOption,
    disk: Annotated[
        int | None,
        typer.Option(min=0, max=_MOST_MEGABYTES, metavar="MB", help="Most disk space; 0 for no limit."),
    ] = None,
) -> None:
    """Make the workspace of a tenant, which holds no documents yet and which nobody may enter yet.

    For a tenant that exists, --disk is set.
    """
    found = _open(root, makes=True).tenants
    if disk is None or tenant not in found.names():
        _print(f"Made {found.create(tenant)}")
        _print(f"Let a user in: backstory serve grant USER {tenant} reader --root {root}")
    if disk is not None:
        found.quotas.set(tenant, disk << 20)
        _print(f"The files of {tenant} may take {f'{disk:,} MB' if disk else 'any room'}.")


@tenants.command("list")
def list_tenants(root: RootOption, as_json: JsonOption = False) -> None:
    """List the tenants, with the number of their users and the names of their keys."""
    opened = _open(root)
    roles = [user.roles for user in opened.accounts.list_users()]
    rows = [
        {"tenant": name, "users": sum(name in held for held in roles), "keys": list(opened.keys.names(name))}
        for name in opened.tenants.names()
    ]
    _print_rows(rows, as_json=as_json)
    for name in opened.tenants.list_interrupted():
        again = f"repeat `backstory serve tenant remove {name}`"
        _print(f"the removal of {name} was interrupted; {again}", stderr=True)


@tenants.command("remove")
def remove_tenant(
    tenant: TenantArgument,
    root: RootOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a tenant with its documents, index, conversations, roles and keys, and search every file for what is left.

    So are its rows of a database and its objects of a store. The command waits for those who are in the tenant, on
    every machine. Nothing brings it back.

    Exit codes: 0 nothing is left; 1 something is left, or a file or row cannot be removed; 2 bad usage.
    """
    opened = _open(root)
    if not yes and not typer.confirm(f"Remove {tenant} with everything that it holds?"):
        raise typer.Exit(FAILED)
    proof = opened.tenants.remove(tenant)
    print_lines(open_console(), _describe_removal(proof))
    raise typer.Exit(0 if proof.is_complete else FAILED)


def _describe_removal(proof: RemovalProof) -> list[str]:
    """Describe what was removed, and what a search found of it."""
    removed = (
        f"{count(proof.removed_files, 'file')}, {count(proof.removed_objects, 'object')} of a store, "
        f"{count(proof.removed_state, 'row')} of a database, "
        f"and {count(proof.removed_rows, 'role or key', 'roles and keys')}"
    )
    searched = f"Searched {count(proof.searched_files, 'file')} of the service"
    left = [f"  {path}" for path in proof.left]
    if proof.left_rows:
        left.append(f"  {count(proof.left_rows, 'role or key', 'roles and keys')} in the file of accounts")
    return [
        f"Removed {proof.tenant}: {removed}.",
        f"{searched}: {'left:' if left else 'nothing is left.'}",
        *left,
        "Not searched: backups, and copies outside of the folder.",
    ]


@users.command("add")
def add_user(user: UserArgument, root: RootOption) -> None:
    """Add a user, who may enter no tenant yet and has no token yet."""
    _open(root, makes=True).accounts.add_user(user)
    _print(f"Added {user}. Make a token: backstory serve token add {user} --root {root}")


@users.command("list")
def list_users(root: RootOption, as_json: JsonOption = False) -> None:
    """List the users with their roles."""
    found = _open(root).accounts.list_users()
    rows = [
        {"user": one.name, "added": one.created_at.date().isoformat(), "roles": dict(one.roles)}
        for one in found
    ]
    _print_rows(rows, as_json=as_json)


@users.command("remove")
def remove_user(user: UserArgument, root: RootOption) -> None:
    """Remove a user with all tokens and roles first, then all conversations."""
    conversations = _open(root).remove_user(user)
    _print(f"Removed {user}, with all tokens and roles, and {count(conversations, 'conversation')}.")


@tokens.command("add")
def add_token(
    user: UserArgument,
    root: RootOption,
    days: Annotated[
        int | None, typer.Option(min=1, help="Days until it expires. Default: it never expires.")
    ] = None,
) -> None:
    """Make a token of a user, and print it. It is shown this once: only its hash is stored."""
    typer.echo(_open(root).accounts.make_token(user, days=days))


@tokens.command("list")
def list_tokens(root: RootOption, as_json: JsonOption = False) -> None:
    """List the tokens by user, with the ids by which they are revoked."""
    rows = [
        {
            "id": one.token_id,
            "user": one.user,
            "made": one.created_at.date().isoformat(),
            "ends": one.expires_at.date().isoformat() if one.expires_at else None,
        }
        for one in _open(root).accounts.list_tokens()
    ]
    _print_rows(rows, as_json=as_json)


@tokens.command("revoke")
def revoke_token(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Its id, as the list shows it.")],
    root: RootOption,
) -> None:
    """End a token: the next request that bears it is refused."""
    _open(root).accounts.revoke_token(token_id)
    _print(f"Revoked {token_id}.")


@serve.command()
def grant(user: UserArgument, tenant: TenantArgument, role: RoleArgument, root: RootOption) -> None:
    """Let a user enter a tenant in a role, which replaces the former one."""
    opened = _open(root)
    with opened.tenants.holding(tenant):  # so that a removal leaves no role to a later tenant of this name
        opened.accounts.grant(user, tenant, role)
    _print(f"{user} may enter {tenant} as {role}.")


@serve.command()
def revoke(user: UserArgument, tenant: TenantArgument, root: RootOption) -> None:
    """Take away a user's role in a tenant, from the next request on."""
    _open(root).accounts.revoke(user, tenant)
    _print(f"{user} may enter {tenant} no more.")


@keys.command("set")
def set_key(
    tenant: TenantArgument, name: KeyArgument, root: RootOption, key_file: KeyFileOption = None
) -> None:
    """Store a key of a tenant, encrypted. It is read from standard input, or asked for on a terminal."""
    from pydantic import SecretStr

    opened = _open(root, key_file)
    opened.tenants.folder(tenant)
    value = typer.prompt(name, hide_input=True) if sys.stdin.isatty() else sys.stdin.read()
    with opened.tenants.holding(tenant):  # as for a role
        opened.keys.seal(tenant, name, SecretStr(value))
    _print(f"Stored {name} of {tenant}.")


@keys.command("list")
def list_keys(root: RootOption, as_json: JsonOption = False) -> None:
    """List the names of the keys of all tenants, never the keys."""
    opened = _open(root)
    held = [(tenant, name) for tenant in opened.tenants.names() for name in opened.keys.names(tenant)]
    _print_rows([{"tenant": tenant, "key": name} for tenant, name in held], as_json=as_json)


@keys.command("remove")
def remove_key(tenant: TenantArgument, name: KeyArgument, root: RootOption) -> None:
    """Remove a key of a tenant."""
    _open(root).keys.remove(tenant, name)
    _print(f"Removed {name} of {tenant}.")


def _open(
    root: Path, key_file: Path | None = None, *, megabytes: int | None = None, makes: bool = False
) -> ServiceFolder:
    from backstory.interfaces.service.opening import open_service_folder

    return open_service_folder(root, key_file, megabytes=megabytes, makes=makes)


def _print_rows(rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    columns = list(rows[0]) if rows else ["none"]
    cells = [[*row.values()] for row in rows]
    print_result(rows, lambda console, _: print_table(console, columns, cells), as_json=as_json)


def _print(line: str, *, stderr: bool = False) -> None:
    print_lines(open_console(stderr=stderr), [line])


def mcp(
    over_http: Annotated[
        bool, typer.Option("--http", help="Serve HTTP here, to clients that send BACKSTORY_MCP_TOKEN.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of --http; 0 for any that is free.")
    ] = MCP_PORT,
    allow_write: Annotated[
        bool, typer.Option("--allow-write", help="Also serve the tools that index and write files.")
    ] = False,
    tools: Annotated[
        str,
        typer.Option(help="default, original (the names of the original design), or names joined by commas."),
    ] = "default",
    workspace: WorkspaceOption = None,
) -> None:
    """Serve the documents to agents over the Model Context Protocol, on standard input and output.

    Exit codes: 0 the client closed the connection; 1 the token is missing; 2 bad usage or settings.
    """
    require_extra("mcp", "`backstory mcp`", "use `backstory search --json` instead")
    from backstory.interfaces.mcp.server import make_server

    with open_library(workspace) as library:
        server = make_server(library, allow_write=allow_write, tools=tools)
        if not over_http:
            server.run("stdio")
            return
        from backstory.interfaces.mcp.http import HOST, PATH, open_socket, read_token, serve

        token = read_token()
        listening = open_socket(port)
        _print(f"serving http://{HOST}:{listening.getsockname()[1]}{PATH}", stderr=True)
        serve(server, token, listening)


def dagster(context: typer.Context) -> None:
    """Run the workspace in Dagster: its UI with schedules and backfills, and runs that the UI shows.

    `backstory dagster --help` lists the commands.
    """
    require_extra("dagster", "`backstory dagster`", "use `backstory run` instead")
    in_wheel = Path(backstory.__file__).resolve().parents[1] / "backstory_pipelines"
    package = in_wheel.name if in_wheel.is_dir() else "pipelines"
    commands = import_module(f"{package}.__main__")
    commands.app(context.args, prog_name=commands.NAME)
