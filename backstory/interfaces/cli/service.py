"""The commands below ``serve`` that administer a service: its tenants, users, tokens, roles and keys."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from backstory.base.wording import count
from backstory.interfaces.cli.failure import FAILED
from backstory.interfaces.cli.options import JsonOption
from backstory.interfaces.cli.terminal import open_console, print_lines, print_result, print_table

if TYPE_CHECKING:
    from backstory.interfaces.service.opening import ServiceFolder
    from backstory.interfaces.service.removal import RemovalProof

_MOST_MEGABYTES: Final = 1 << 40
"""Its bytes are a number that the file of accounts can hold."""

RootOption = Annotated[
    Path, typer.Option("--root", metavar="DIR", help="Folder of the service, with all its tenants.")
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="File of the key that opens stored keys. Default: backstory/service.key in XDG_CONFIG_HOME or ~/.config.",
    ),
]
TenantArgument = Annotated[
    str, typer.Argument(metavar="TENANT", help="Name of a tenant: small letters, digits and hyphens.")
]
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="Name of a user.")]
RoleArgument = Annotated[
    str,
    typer.Argument(
        metavar="ROLE", help="reader asks; editor also adds and removes documents; owner may do everything."
    ),
]
KeyArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Environment variable in whose place it is used, such as BACKSTORY_ANSWER_KEY or "
        "BACKSTORY_DRIVE_CREDENTIALS.",
    ),
]

tenants = typer.Typer(no_args_is_help=True, help="Add, list and remove tenants.")
users = typer.Typer(no_args_is_help=True, help="Add, list and remove users.")
tokens = typer.Typer(no_args_is_help=True, help="Add, list and revoke the tokens of users.")
keys = typer.Typer(
    no_args_is_help=True,
    help="Store, list and remove the keys of tenants for services of models and for Google Drive.",
)


def open_folder(
    root: Path, key_file: Path | None = None, *, megabytes: int | None = None, makes: bool = False
) -> ServiceFolder:
    """Open the folder of a service, as ``open_service_folder`` does, after loading what that takes."""
    from backstory.interfaces.service.opening import open_service_folder

    return open_service_folder(root, key_file, megabytes=megabytes, makes=makes)


@tenants.command("add")
def add_tenant(
    tenant: TenantArgument,
    root: RootOption,
    disk: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=_MOST_MEGABYTES,
            metavar="MB",
            help="Most disk space of its folder; 0 for no limit. For a tenant that exists, only this is set.",
        ),
    ] = None,
) -> None:
    """Make the workspace of a tenant, which holds no documents yet and which nobody may enter yet."""
    found = open_folder(root, makes=True).tenants
    if disk is not None and tenant in found.names():
        found.quotas.set(tenant, disk << 20)
        _print(f"The files of {tenant} may take {f'{disk:,} MB' if disk else 'any room'}.")
        return
    made = found.create(tenant)
    if disk:
        found.quotas.set(tenant, disk << 20)
    _print(f"Made {made}")
    _print(f"Let a user in: backstory serve grant USER {tenant} reader --root {root}")


@tenants.command("list")
def list_tenants(root: RootOption, as_json: JsonOption = False) -> None:
    """List the tenants, with the number of their users and the names of their keys."""
    opened = open_folder(root)
    roles = [user.roles for user in opened.accounts.list_users()]
    rows = [
        {"tenant": name, "users": sum(name in held for held in roles), "keys": list(opened.keys.names(name))}
        for name in opened.tenants.names()
    ]
    _show(rows, as_json=as_json)
    for name in opened.tenants.list_interrupted():
        _print(
            f"the removal of {name} was interrupted; repeat `backstory serve tenant remove {name}`",
            stderr=True,
        )


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
    opened = open_folder(root)
    if not yes and not typer.confirm(f"Remove {tenant} with everything that it holds?"):
        raise typer.Exit(FAILED)
    proof = opened.tenants.remove(tenant)
    for line in describe_removal(proof):
        _print(line)
    raise typer.Exit(0 if proof.is_complete else FAILED)


def describe_removal(proof: RemovalProof) -> list[str]:
    """Describe what was removed, and what a search found of it."""
    elsewhere = [
        count(number, word)
        for number, word in ((proof.removed_objects, "object"), (proof.removed_state, "row"))
        if number
    ]
    roles = count(proof.removed_rows, "role or key", "roles and keys")
    removed = ", ".join([count(proof.removed_files, "file"), *elsewhere, f"and {roles}"])
    searched = f"Searched {count(proof.searched_files, 'file')} of the service"
    lines = [
        f"Removed {proof.tenant}: {removed}.",
        f"{searched}: {'nothing is left.' if proof.is_complete else 'left:'}",
    ]
    lines += [f"  {path}" for path in proof.left]
    if proof.left_rows:
        lines.append(f"  {count(proof.left_rows, 'role or key', 'roles and keys')} in the file of accounts")
    lines.append("Not searched: backups, and copies outside of the folder.")
    return lines


@users.command("add")
def add_user(user: UserArgument, root: RootOption) -> None:
    """Add a user, who may enter no tenant yet and has no token yet."""
    open_folder(root, makes=True).accounts.add_user(user)
    _print(f"Added {user}. Make a token: backstory serve token add {user} --root {root}")


@users.command("list")
def list_users(root: RootOption, as_json: JsonOption = False) -> None:
    """List the users with their roles."""
    found = open_folder(root).accounts.list_users()
    rows = [
        {"user": one.name, "added": one.created_at.date().isoformat(), "roles": dict(one.roles)}
        for one in found
    ]
    _show(rows, as_json=as_json)


@users.command("remove")
def remove_user(user: UserArgument, root: RootOption) -> None:
    """Remove a user with all tokens and roles first, then all conversations."""
    conversations = open_folder(root).remove_user(user)
    _print(f"Removed {user}, with all tokens and roles, and {count(conversations, 'conversation')}.")


@tokens.command("add")
def add_token(
    user: UserArgument,
    root: RootOption,
    days: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Days until it expires. Default: it never expires.")
    ] = None,
) -> None:
    """Make a token of a user, and print it. It is shown this once: only its hash is stored."""
    token = open_folder(root).accounts.make_token(user, days=days)
    typer.echo(token)


@tokens.command("list")
def list_tokens(root: RootOption, as_json: JsonOption = False) -> None:
    """List the tokens by user, with the ids by which they are revoked."""
    found = open_folder(root).accounts.list_tokens()
    rows = [
        {
            "id": one.token_id,
            "user": one.user,
            "made": one.created_at.date().isoformat(),
            "ends": one.expires_at.date().isoformat() if one.expires_at else None,
        }
        for one in found
    ]
    _show(rows, as_json=as_json)


@tokens.command("revoke")
def revoke_token(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Its id, as the list shows it.")],
    root: RootOption,
) -> None:
    """End a token: the next request that bears it is refused."""
    open_folder(root).accounts.revoke_token(token_id)
    _print(f"Revoked {token_id}.")


def grant(user: UserArgument, tenant: TenantArgument, role: RoleArgument, root: RootOption) -> None:
    """Let a user enter a tenant in a role, which replaces the former one."""
    opened = open_folder(root)
    with opened.tenants.holding(tenant):  # so that a removal leaves no role to a later tenant of this name
        opened.accounts.grant(user, tenant, role)
    _print(f"{user} may enter {tenant} as {role}.")


def revoke(user: UserArgument, tenant: TenantArgument, root: RootOption) -> None:
    """Take away a user's role in a tenant, from the next request on."""
    open_folder(root).accounts.revoke(user, tenant)
    _print(f"{user} may enter {tenant} no more.")


@keys.command("set")
def set_key(
    tenant: TenantArgument, name: KeyArgument, root: RootOption, key_file: KeyFileOption = None
) -> None:
    """Store a key of a tenant, encrypted. It is read from standard input, or asked for on a terminal."""
    from pydantic import SecretStr

    opened = open_folder(root, key_file)
    opened.tenants.folder(tenant)
    value = typer.prompt(name, hide_input=True) if sys.stdin.isatty() else sys.stdin.read()
    with opened.tenants.holding(tenant):  # as for a role
        opened.keys.seal(tenant, name, SecretStr(value))
    _print(f"Stored {name} of {tenant}.")


@keys.command("list")
def list_keys(root: RootOption, as_json: JsonOption = False) -> None:
    """List the names of the keys of all tenants, never the keys."""
    opened = open_folder(root)
    rows = [
        {"tenant": tenant, "key": name}
        for tenant in opened.tenants.names()
        for name in opened.keys.names(tenant)
    ]
    _show(rows, as_json=as_json)


@keys.command("remove")
def remove_key(tenant: TenantArgument, name: KeyArgument, root: RootOption) -> None:
    """Remove a key of a tenant."""
    open_folder(root).keys.remove(tenant, name)
    _print(f"Removed {name} of {tenant}.")


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    cells = [[_write_cell(value) for value in row.values()] for row in rows]
    columns = list(rows[0]) if rows else ["none"]
    print_result(rows, lambda console, _: print_table(console, columns, cells), as_json=as_json)


def _write_cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {held}" for name, held in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value or "")


def _print(line: str, *, stderr: bool = False) -> None:
    print_lines(open_console(stderr=stderr), [line])
