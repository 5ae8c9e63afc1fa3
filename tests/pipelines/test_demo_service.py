"""What `make serve` makes: the example as a tenant, and one user with one token."""

from pathlib import Path

import pytest

from pipelines.demo_service import TENANT, prepare_service, renew_token


def test_the_example_is_served_to_the_last_token_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
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
    with again.tenants.entering(TENANT) as library:
        answer = library.answer("how much did the drip system cost?")
    assert answer.refused is None
    assert answer.claims
    assert not (tmp_path / "config").exists()
    again.tenants.close()
