"""The command group ``serve``: the service for many users, and the commands that administer it."""

from __future__ import annotations

import typer

from backstory.interfaces.cli.service import grant, keys, revoke, tenants, tokens, users

serve = typer.Typer(
    no_args_is_help=True,
    help="Administer the service for many users: tenants, users, tokens, roles and keys.",
)
serve.add_typer(tenants, name="tenant")
serve.add_typer(users, name="user")
serve.add_typer(tokens, name="token")
serve.add_typer(keys, name="key")
serve.command()(grant)
serve.command()(revoke)
