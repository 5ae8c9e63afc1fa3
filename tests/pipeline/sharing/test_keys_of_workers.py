"""The keys of a shared workspace stay on its workers, and wrong ones are not taken."""

from dataclasses import replace

import pytest
from pydantic import SecretStr

from backstory import run_pipeline
from backstory.operations.forgetting.forget import forget
from backstory.operations.inspection.doctor import examine
from backstory.pipeline.sharing import sharing
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.store.exchange import fetch_manifest
from backstory.storage.store.objects import name_content
from tests.pipeline.sharing.workers import (
    SECRET,
    MakeWorker,
    code_of,
    follow_now,
    hash_tables,
    publish_without_pulling,
    store_of,
)


def test_keys_never_leave_a_worker(
    first: Workspace, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first.documents_dir / "id_rsa").write_text("a key", encoding="utf-8")
    publish_without_pulling(first)
    (first.documents_dir / "id_rsa").unlink()
    forget(first, "document", "unrelated.md")
    manifest, _ = fetch_manifest(store_of(first))
    assert ".backstory/forgotten.json" in manifest.files
    assert not [path for path in manifest.files if path.endswith((".key", "id_rsa"))]
    assert not [path for path in manifest.files if path.endswith((".sqlite", ".db"))]
    second = make_worker(key=False)
    assert code_of(lambda: run_pipeline(second)) == "no_pseudonym_key"
    monkeypatch.setenv("BACKSTORY_PSEUDONYM_KEY", (first.root / SECRET).read_text().strip())
    assert code_of(lambda: run_pipeline(second)) == "no_forgotten_key"
    monkeypatch.setenv(
        "BACKSTORY_FORGOTTEN_KEY", (first.root / ".backstory/forgotten.key").read_text().strip()
    )
    run_pipeline(second)
    assert hash_tables(second)["messages"].items() >= hash_tables(first)["messages"].items()
    assert (second.root / SECRET).stat().st_mode & 0o777 == 0o600


def test_a_tenant_of_a_service_gets_its_own_key_and_none_of_the_environment(
    first: Workspace, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = first.secret.read_text().strip()
    monkeypatch.setenv("BACKSTORY_PSEUDONYM_KEY", key)
    tenant = replace(make_worker(key=False), keys={})
    assert code_of(lambda: run_pipeline(tenant)) == "no_pseudonym_key"
    monkeypatch.setenv("BACKSTORY_PSEUDONYM_KEY", "5e" * 32)
    run_pipeline(replace(tenant, keys={"BACKSTORY_PSEUDONYM_KEY": SecretStr(key)}))
    assert tenant.secret.read_text().strip() == key


def test_a_wrong_key_is_told_before_it_is_taken(
    first: Workspace, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(first, "document", "unrelated.md")
    kept = first.root / ".backstory" / "forgotten.key"
    second = make_worker(key=False)
    files = (second.secret, second.root / ".backstory" / "forgotten.key")
    right = (first.secret.read_text().strip(), kept.read_text().strip())
    for number, variable in enumerate(("BACKSTORY_PSEUDONYM_KEY", "BACKSTORY_FORGOTTEN_KEY")):
        for wrong, code in (("abcde", "no_secret"), ("5e" * 32, "other_secret")):
            monkeypatch.setenv(variable, wrong)
            assert code_of(lambda: run_pipeline(second)) == code
            assert not files[number].exists()
        monkeypatch.setenv(variable, right[number])
    run_pipeline(second)
    for number, variable in enumerate(("BACKSTORY_PSEUDONYM_KEY", "BACKSTORY_FORGOTTEN_KEY")):
        monkeypatch.setenv(variable, "5e" * 32)
        assert code_of(lambda: run_pipeline(second)) == "differing_keys"
        monkeypatch.delenv(variable)
        files[number].write_text("5e" * 32, encoding="ascii")
        assert code_of(lambda: run_pipeline(second)) == "other_secret"
        files[number].write_text(right[number], encoding="ascii")
    second.secret.write_text("5e" * 32, encoding="ascii")
    told = [each.detail for each in examine(second.root) if not each.passed]
    assert any("from another worker" in detail for detail in told)
    assert not any("cache.sqlite" in detail for detail in told)


def test_the_settings_say_which_inputs_are_secrets(first: Workspace, make_worker: MakeWorker) -> None:
    documents = first.documents_dir.relative_to(first.root).as_posix()
    names = ("diary.private.md", "credentials.json", "server.pem")
    for name in names:
        (first.documents_dir / name).write_text(f"What is in {name}.", encoding="utf-8")
    with sharing(first):
        pass
    published = f"{documents}/diary.private.md"
    content = fetch_manifest(store_of(first))[0].files[published].sha256

    settings = first.root / "backstory.yaml"
    with settings.open("a", encoding="utf-8") as file:
        file.write("documents: {secrets: ['*.private.md', '!/credentials.json']}\n")
    first = open_workspace(first.root)
    with sharing(first, deletes_at_once=True):
        pass
    second = make_worker("third")
    follow_now(second)
    assert [name for name in names if (second.documents_dir / name).exists()] == ["credentials.json"]
    assert all((first.documents_dir / name).exists() for name in names)
    assert store_of(first).find(name_content(content)) is None
