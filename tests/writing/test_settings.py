"""The settings of writers and summaries: what cannot work is refused, and which key goes where."""

from typing import Any

import pytest
from pydantic import SecretStr

from backstory.base.environment import WRITER_KEY_VARIABLE, read_service_key
from backstory.base.errors import ModelSetupError
from backstory.settings.writers import SummarySettings, WriterSettings
from tests.errors import raises, refuses


def test_the_key_of_openai_goes_to_openai_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_key(address: str) -> SecretStr | None:
        return read_service_key(WRITER_KEY_VARIABLE, address)

    monkeypatch.delenv("BACKSTORY_WRITER_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with raises(ModelSetupError, "missing_key", *("BACKSTORY_WRITER_KEY", "OPENAI_API_KEY")):
        read_key("https://api.openai.com/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    assert read_key("https://api.openai.com/v1") == SecretStr("sk-of-openai")
    assert read_key("http://127.0.0.1:11434/v1") is None
    assert read_key("https://api.openai.com.evil.example/v1") is None
    monkeypatch.setenv("BACKSTORY_WRITER_KEY", "sk-mine")
    assert read_key("http://127.0.0.1:11434/v1") == SecretStr("sk-mine")


@pytest.mark.parametrize(
    ("settings", "code", "named"),
    [
        ({"provider": "openai"}, "absent_setting", ["model"]),
        ({"provider": "custom"}, "absent_setting", ["plugin"]),
        ({"base_url": "http://10.0.0.7/v1"}, "unencrypted", []),
        ({"base_url": "http://127.0.0.1.evil.example/v1"}, "unencrypted", []),
        ({"base_url": "ftp://localhost"}, "invalid_address", []),
        ({"base_url": "https://user:secret@host/v1"}, "secret_in_address", []),
        ({"plugin": "mine.py"}, "invalid_name", []),
    ],
)
def test_settings_that_cannot_work_are_refused(
    settings: dict[str, Any], code: str, named: list[object]
) -> None:
    with refuses(code, *named):
        WriterSettings.model_validate(settings)


def test_summaries_by_an_openai_service_need_a_model() -> None:
    with refuses("absent_setting", "model"):
        SummarySettings(provider="openai")


def test_http_is_allowed_on_this_machine_and_by_choice() -> None:
    for address in ("http://localhost:1/v1", "http://127.0.0.1:1/v1/", "http://[::1]:1/v1"):
        assert WriterSettings(base_url=address).base_url == address.rstrip("/")
    assert WriterSettings(base_url="http://gpu.lan/v1", allow_http=True).base_url
