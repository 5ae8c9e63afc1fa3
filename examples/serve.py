"""The service over the example: a root with the tenant ``example``, a user who owns it, and a token for a day."""

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from backstory.interfaces.cli.failure import run_command
from backstory.interfaces.cli.serve import HOST, PORT, serve_folder
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.index_jobs import LIBRARY, IndexJobs
from backstory.interfaces.service.opening import ServiceFolder, open_service_folder
from examples.demo import prepare_demo

TENANT: Final = "example"
USER: Final = "you"
DEFAULT_FOLDER: Final = Path(".serve")


def prepare_service(root: Path) -> ServiceFolder:
    """Make a service with the example as its only tenant, and a job that indexes its documents.

    The service works on the job, in a process of its own, so that it does not keep the memory of it.

    Args:
        root: Folder of the service. What it holds already is not touched.
    """
    opened = open_service_folder(root, makes=True)
    if TENANT not in opened.tenants.names():
        opened.tenants.create(TENANT)
    prepare_demo(opened.tenants.folder(TENANT))
    IndexJobs(opened.tenants).submit(TENANT, LIBRARY)
    return opened


def renew_token(accounts: Accounts) -> str:
    """Give the user of the example a token for a day, and end those of earlier calls."""
    if USER not in {user.name for user in accounts.list_users()}:
        accounts.add_user(USER)
    accounts.grant(USER, TENANT, "owner")
    for token in accounts.list_tokens():
        if token.user == USER:
            accounts.revoke_token(token.token_id)
    return accounts.make_token(USER, days=1)


def main(
    folder: Annotated[Path, typer.Argument(help="Folder of the service.")] = DEFAULT_FOLDER,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any that is free.")] = PORT,
) -> None:
    """Serve the documents of the example to one user, whose token is printed."""
    console = Console(highlight=False)
    opened = prepare_service(folder)
    told = f"A copy of the example in {folder} is indexed first; the page says how far it is."
    console.print(told, soft_wrap=True)
    console.print(f"Your token, for a day: {renew_token(opened.accounts)}", soft_wrap=True)
    serve_folder(opened, HOST, port)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    run_command(app)
