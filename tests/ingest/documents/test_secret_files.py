"""Files that hold keys or passwords are not read, and what they hold is not told."""

from pathlib import Path

import polars as pl
import pytest

from backstory.settings.inputs import DocumentSettings
from tests.ingest.documents.document_files import make_writer, read_documents, states

KEYS = {
    "a private key": "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n",
    "a key of AWS": "aws_access_key_id = AKIA" + "QWERTYUIOPASDFGH",
    "a token of GitHub": "token: ghp" + "_" + "a1B2" * 9,
    "a token of GitLab": "glpat" + "-" + "a1B2c3" * 4,
    "a token of Slack": "xoxb" + "-1234567890-1234567890-abcdefABCDEF",
    "a key of Google": "AIza" + "Sy" + "a1B2c3D4e5F" * 3,
    "a key of OpenAI": "sk-" + "a1B2c3D4" * 6,
    "a key of OpenAI or Anthropic": "sk-ant-" + "api03-" + "a1B2c3D4" * 6,
    "a key of Stripe": "sk_" + "live_" + "a1B2c3" * 4,
    "a token of npm": "npm" + "_" + "a1B2" * 9,
    "a token of PyPI": "pypi-" + "AgEIcHlwaS5vcmc" + "a1B2" * 16,
    "a key of Azure storage": "AccountKey=" + "a1" * 43 + "==",
    "a password of Telegram bots": "12345678:AA" + "a1B" * 11,
}
DEFAULTS = DocumentSettings()


@pytest.mark.parametrize(
    "name",
    [".env", ".env.local", "deploy/prod.env", "tls/server.PEM", "id_rsa", ".netrc", "Credentials.json", ".ssh/config",
     "client_secret_12.apps.json", "keys.kdbx", "service-account-eu.json", "infra/main.tfstate"],
)  # fmt: skip
def test_a_file_with_the_name_of_a_secret_is_not_read(tmp_path: Path, name: str) -> None:
    folder = make_writer(tmp_path)({name: "hush", "a.md": "# Open\n"})
    read = read_documents(folder, DEFAULTS)
    assert read.documents["uri"].to_list() == ["a.md"]
    [(state, reason)] = [value for source, value in states(read).items() if source != "posts/a.md"]
    assert state == "ignored"
    assert str(reason).startswith("looks like a secret: its name is one of `")


@pytest.mark.parametrize(("what", "key"), KEYS.items())
def test_a_document_that_holds_a_key_is_not_read_and_not_quoted(tmp_path: Path, what: str, key: str) -> None:
    folder = make_writer(tmp_path)({"how-to.md": f"# Deploy\n\nSet this:\n\n{key}\n"})
    read = read_documents(folder, DEFAULTS)
    assert read.documents.is_empty()
    [(state, reason)] = states(read).values()
    assert state == "ignored"
    assert str(reason).startswith(f"looks like a secret: it holds {what} in line 5; if it may be read")
    assert not any(part in str(reason) for part in (key, key[:12], key[-12:]))


def test_a_key_is_found_in_the_text_of_a_file_in_another_encoding(tmp_path: Path) -> None:
    text = f"\ufeff# Deploy\n\n{KEYS['a key of AWS']}\n"
    read = read_documents(make_writer(tmp_path)({"how-to.md": text.encode("utf-16-le")}), DEFAULTS)
    assert [state for state, _ in states(read).values()] == ["ignored"]


def test_texts_about_secrets_are_documents(tmp_path: Path) -> None:
    text = (
        "# Keys\n\nAWS shows AKIAIOSFODNN7EXAMPLE. A block begins with BEGIN PRIVATE KEY. Tokens begin with ghp_, "
        "xoxb- or glpat-. See sk-learn and task-force-for-the-improvement-of-the-garden-and-of-the-shed.\n"
    )
    folder = make_writer(tmp_path)(
        {"keys.md": text, "credentials.md": "# Badges\n", "environment.md": "# Moor\n"}
    )
    assert set(read_documents(folder, DEFAULTS).documents["status"]) == {"ok"}


def test_the_settings_name_further_secrets_and_let_files_be_read(tmp_path: Path) -> None:
    files = {
        "Diary.md": "# Diary\n",
        "tutorial.md": f"# Keys\n\n{KEYS['a private key']}",
        "other.md": f"# Keys\n\n{KEYS['a private key']}",
    }
    folder = make_writer(tmp_path)(files)
    settings = DocumentSettings(secrets=("diary*", "!/Tutorial.md"))
    first = read_documents(folder, settings)
    assert first.documents["uri"].to_list() == ["tutorial.md"]
    again = read_documents(folder, DEFAULTS, first.documents, previous_reading=first.reading)
    served = again.documents.filter(pl.col("status") == "ok")["uri"].to_list()
    assert served == read_documents(folder, DEFAULTS).documents["uri"].to_list() == ["Diary.md"]


def test_of_a_document_into_which_a_key_was_written_no_text_stays(tmp_path: Path) -> None:
    write = make_writer(tmp_path)
    first = read_documents(write({"a.md": "# Deploy\n\nBy hand.\n"}), DEFAULTS)
    folder = write({"a.md": f"# Deploy\n\n{KEYS['a token of GitHub']}\n"})
    again = read_documents(folder, DEFAULTS, first.documents, previous_reading=first.reading)
    assert again.documents.select("status", "text").rows() == [("deleted", "")]
