"""Where state and files are kept: addresses that are taken, and nonsense that is refused without showing a password."""

from pathlib import Path

import pytest

from backstory.base.errors import SettingsError
from backstory.settings.yaml_file import read_settings
from tests.errors import raises


def read(folder: Path, name: str, value: str) -> str | None:
    (folder / "backstory.yaml").write_text(f'storage:\n  {name}: "{value}"\n', encoding="utf-8")
    return getattr(read_settings(folder / "backstory.yaml").storage, name)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:///backstory",
        "postgres://me@localhost/backstory",
        "postgresql://127.0.0.1:5433/backstory",
        "postgresql://[::1]:5433/backstory",
        "postgresql://%2Frun%2Fpostgresql/backstory",
        "postgresql:///backstory?host=/run/postgresql",
        "postgresql://me@db.example.org/backstory?sslmode=verify-full",
        "postgresql://a,b:5433/backstory?sslmode=disable",
    ],
)
def test_an_address_of_a_database_is_taken_as_it_is(tmp_path: Path, address: str) -> None:
    assert read(tmp_path, "database", address) == address


@pytest.mark.parametrize("address", ["s3://bucket", "s3://my.bucket-1/team/backstory"])
def test_a_bucket_with_a_prefix_is_taken_without_a_slash_at_its_end(tmp_path: Path, address: str) -> None:
    assert read(tmp_path, "files", f"{address}/") == address


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("database", "mysql://me@localhost/backstory"),
        ("database", "postgresql://localhost"),
        ("database", "postgresql://[/backstory"),
        ("database", "postgresql:///a/b"),
        ("database", "postgresql:///backstory?sslmode"),
        ("database", "host=localhost dbname=backstory"),
        ("database", ""),
        ("files", "s3://"),
        ("files", "s3://Bucket"),
        ("files", "s3://bucket/../other"),
        ("files", "s3://bucket//other"),
        ("files", "s3://bucket?region=x"),
        ("files", "/mnt/share"),
        ("files", "https://bucket.s3.amazonaws.com"),
    ],
)
def test_what_is_no_address_is_refused(tmp_path: Path, name: str, address: str) -> None:
    with raises(SettingsError, "invalid_setting", 2, f"storage.{name}"):
        read(tmp_path, name, address)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://db.example.org/backstory",
        "postgresql://localhost,db.example.org/backstory",
        "postgresql:///backstory?host=db.example.org",
        "postgresql://localhost/backstory?hostaddr=10.0.0.7",
    ],
)
def test_another_machine_needs_a_word_on_encryption(tmp_path: Path, address: str) -> None:
    with raises(SettingsError, "invalid_setting", 2, "storage.database"):
        read(tmp_path, "database", address)
    assert read(tmp_path, "database", f"{address}{'&' if '?' in address else '?'}sslmode=require")


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("database", "postgresql://me:hunter2@localhost/backstory"),
        ("database", "postgresql:/me:hunter2@localhost/backstory"),
        ("database", "postgresql:///backstory?password=hunter2"),
        ("database", "postgresql:///backstory?sslpassword=hunter2"),
        ("database", "postgresql:///backstory?%70assword=hunter2"),
        ("database", "host=localhost password=hunter2"),
        ("files", "s3://key:hunter2@bucket/prefix"),
        ("files", "s3://bucket/prefix?aws_secret_access_key=hunter2"),
    ],
)
def test_a_password_in_an_address_is_refused_and_not_shown(tmp_path: Path, name: str, address: str) -> None:
    with raises(SettingsError, "invalid_setting", f"storage.{name}") as caught:
        read(tmp_path, name, address)
    assert "hunter2" not in str(caught.value)
