"""What `make serve` makes: the example as a tenant, and one user with one token."""

from pathlib import Path

import pytest

from backstory.interfaces.library.job_store import JobStore
from backstory.pipeline.workspace import Workspace
from examples.demo import prepare_demo
from examples.serve import TENANT, prepare_service, renew_token
from tests.caches import open_own_state
from tests.long_tests import LONG_TESTS


def prepare_part(folder: Path) -> Workspace:
    """Prepare the example without most of its posts, whose vectors take seconds."""
    workspace = prepare_demo(folder)
    for post in workspace.documents_dir.glob("*.md"):
        if "drip" not in post.name:
            post.unlink()
    return workspace


def test_the_example_is_served_to_the_last_token_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    if not LONG_TESTS:
        monkeypatch.setattr("examples.serve.prepare_demo", prepare_part)
    root = tmp_path / "served"
    first = prepare_service(root)
    former = renew_token(first.accounts)
    first.tenants.close()
    again = prepare_service(root)
    token = renew_token(again.accounts)
    assert again.accounts.authenticate(former) is None
    caller = again.accounts.authenticate(token)
    assert caller is not None
    assert caller.may(TENANT, "owner")
    assert again.tenants.names() == (TENANT,)
    posts = again.tenants.folder(TENANT) / "posts"
    assert (posts / "building-the-drip-irrigation.md").is_file()
    # Nothing is indexed in this process: one job waits for the service, which works on what it finds.
    [job] = JobStore(open_own_state(again.tenants.folder(TENANT))).list_jobs(10)[0]
    assert (job.state, again.tenants.open_names) == ("PENDING", ())
    assert not (tmp_path / "config").exists()
    again.tenants.close()
