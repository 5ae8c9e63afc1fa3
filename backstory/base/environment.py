"""The environment variables that Backstory reads, the keys in them, and what processes get that it starts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import SecretStr

from backstory.base.addresses import is_openai, is_protected
from backstory.base.errors import ModelSetupError, WorkspaceError

SETTINGS_FILE = "backstory.yaml"
WORKSPACE_VARIABLE = "BACKSTORY_WORKSPACE"
CACHE_VARIABLE = "BACKSTORY_CACHE_DIR"
KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
WRITER_KEY_VARIABLE = "BACKSTORY_WRITER_KEY"
RERANK_KEY_VARIABLE = "BACKSTORY_RERANK_KEY"
SUMMARY_KEY_VARIABLE = "BACKSTORY_SUMMARY_KEY"
ANSWER_KEY_VARIABLE = "BACKSTORY_ANSWER_KEY"
EMBEDDING_KEY_VARIABLE = "BACKSTORY_EMBEDDING_KEY"
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"
WEBHOOK_VARIABLE = "BACKSTORY_ALERT_WEBHOOK"
DRIVE_VARIABLE = "BACKSTORY_DRIVE_CREDENTIALS"
DRIVE_CLIENT_VARIABLE = "BACKSTORY_DRIVE_CLIENT"
BUCKET_VARIABLE = "BACKSTORY_BUCKET_CREDENTIALS"
PSEUDONYM_KEY_VARIABLE = "BACKSTORY_PSEUDONYM_KEY"
STORED_VARIABLES = (
    *KEY_VARIABLES, WRITER_KEY_VARIABLE, RERANK_KEY_VARIABLE, SUMMARY_KEY_VARIABLE, ANSWER_KEY_VARIABLE,
    EMBEDDING_KEY_VARIABLE, OPENAI_KEY_VARIABLE, WEBHOOK_VARIABLE, DRIVE_VARIABLE, DRIVE_CLIENT_VARIABLE,
    BUCKET_VARIABLE, PSEUDONYM_KEY_VARIABLE,
)  # fmt: skip
"""What :data:`Keys` may hold."""
STORE_ADDRESS_VARIABLE = "AWS_ENDPOINT_URL"
MILVUS_VARIABLE = "MILVUS_TOKEN"
LOG_FORMAT_VARIABLE = "BACKSTORY_LOG_FORMAT"
COLLECTOR_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"

Keys: TypeAlias = Mapping[str, SecretStr]
"""The keys of one workspace by their variables. Where they are given, the environment is asked for no key."""

_READER_VARIABLES: Final = frozenset(
    ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TESSDATA_PREFIX"]
)
"""What the process that reads untrusted files gets."""
_PROGRAM_VARIABLES: Final = _READER_VARIABLES | frozenset(
    [
        "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
        "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", WORKSPACE_VARIABLE, CACHE_VARIABLE,
    ]
)  # fmt: skip
"""What commands that settings name get."""
_HOOK_PREFIXES: Final = ("LC_", "XDG_", "BACKSTORY_HOOK_")
_READER_THREADS = 4

_DRIVE_FIELDS: Final = {
    "service_account": ("client_email", "private_key", "token_uri"),
    "authorized_user": ("client_id", "client_secret", "refresh_token"),
}
_CLIENT_FIELDS: Final = ("client_id", "client_secret", "auth_uri", "token_uri")
_BUCKET_FIELDS: Final = {
    "s3": (("key", "secret"), ("anon",)),
    "gs": (("token",),),
    "abfs": (("account_name", "account_key"), ("account_name", "sas_token"), ("connection_string",)),
}
"""What credentials of each kind of bucket need at least, in one of the ways."""


def read_variable(name: str) -> str:
    """Return the value of a variable without blanks around it; an empty text if it is not set."""
    return os.environ.get(name, "").strip()


def find_workspace(path: Path | None = None) -> Path:
    """Find the folder of the workspace: the given one, that of ``BACKSTORY_WORKSPACE``, or the current folder.

    A ``WorkspaceError`` means that it holds no ``backstory.yaml``.
    """
    named = os.environ.get(WORKSPACE_VARIABLE)
    folder = (path or (Path(named) if named else Path.cwd())).expanduser().resolve()
    if not (folder / SETTINGS_FILE).is_file():
        raise WorkspaceError(
            f"{folder} holds no {SETTINGS_FILE}; name a workspace with --workspace or {WORKSPACE_VARIABLE}, "
            f"or make one with `backstory init {folder}`",
            code="no_workspace",
        )
    return folder


def find_key(variable: str, keys: Keys | None = None) -> SecretStr | None:
    """Find a key among those of the workspace, or in the environment if it has none of its own; None if it is not set.

    A ``ModelSetupError`` means that the variable holds no key.
    """
    return read_stored(os.environ.get(variable, ""), variable) if keys is None else keys.get(variable)


def read_api_key(keys: Keys | None = None) -> SecretStr:
    """Read the Gemini key as :func:`find_key` does, or raise ``ModelSetupError`` if there is none."""
    for variable in KEY_VARIABLES:
        if key := find_key(variable, keys):
            return key
    raise ModelSetupError(
        f"no Gemini key: {_say_how_to_set(KEY_VARIABLES, keys)}, or choose another provider than gemini "
        f"in {SETTINGS_FILE}, such as `embedding: {{provider: local}}`",
        code="missing_key",
    )


def read_service_key(variable: str, address: str, keys: Keys | None = None) -> SecretStr | None:
    """Read the key of an OpenAI-compatible service: that of its stage, or ``OPENAI_API_KEY`` for OpenAI itself.

    A ``ModelSetupError`` means that the service is OpenAI and there is no key.
    """
    if key := find_key(variable, keys):
        return key
    if not is_openai(address):
        return None
    if key := find_key(OPENAI_KEY_VARIABLE, keys):
        return key
    raise ModelSetupError(
        f"no key for OpenAI: {_say_how_to_set((variable, OPENAI_KEY_VARIABLE), keys)}, or set base_url of the service "
        "(services in backstory.yaml), such as http://127.0.0.1:11434/v1 for Ollama",
        code="missing_key",
    )


def _say_how_to_set(variables: tuple[str, ...], keys: Keys | None) -> str:
    names = " or ".join(variables)
    return f"set {names}" if keys is None else f"store {names} for this tenant by `backstory serve key set`"


def read_stored(text: str, variable: str) -> SecretStr | None:
    """Read what a person stores in the place of a variable: a key, or credentials as JSON; None if it is blank.

    A ``ModelSetupError`` means that the text is neither.
    """
    value = text.strip()
    if not value:
        return None
    if variable not in _CREDENTIALS:
        # No header can hold such a value, and an HTTP client's error would quote it escaped, where redaction misses it.
        if not value.isascii() or not value.isprintable() or " " in value:
            raise ModelSetupError(
                f"{variable} holds a line break, a space or a character that no key has; set it to the key alone",
                code="unusable_key",
            )
        return SecretStr(value)
    keep, problem = _CREDENTIALS[variable]
    try:
        kept = keep(json.loads(value))
    except (ValueError, KeyError, TypeError, AttributeError):
        kept = None
    if not kept:
        raise ModelSetupError(f"{variable} {problem}", code="unusable_key") from None
    return SecretStr(json.dumps(kept, separators=(",", ":")))


def _keep_drive(told: dict[str, Any]) -> dict[str, Any] | None:
    fields = _DRIVE_FIELDS[told["type"]]
    is_safe = is_protected(str(told.get("token_uri", "https://")))
    return told if is_safe and all(isinstance(told[name], str) and told[name] for name in fields) else None


def _keep_client(told: dict[str, Any]) -> dict[str, Any] | None:
    """Keep what is used of an OAuth client as Google gives it out."""
    client = told.get("web", told)
    kept = {name: client[name] for name in _CLIENT_FIELDS if name in client}
    is_whole = all(isinstance(kept[name], str) and kept[name] for name in _CLIENT_FIELDS[:2])
    is_safe = all(is_protected(str(kept[name])) for name in _CLIENT_FIELDS[2:] if name in kept)
    return kept if is_whole and is_safe else None


def _keep_buckets(told: dict[str, Any]) -> dict[str, Any] | None:
    """Keep the credentials of buckets if those of each kind are whole, so that no tool looks for the rest elsewhere."""
    is_whole = all(
        any(all(options.get(name) for name in fields) for fields in _BUCKET_FIELDS[kind])
        # A text in the place of such a token names a file of the machine, or a way to find other credentials.
        and isinstance(options.get("token", {}), dict if kind == "gs" else str | dict)
        for kind, options in told.items()
    )
    return told if is_whole else None


_CREDENTIALS: Final = {
    DRIVE_VARIABLE: (
        _keep_drive,
        "holds no credentials for Drive; set it to the JSON of a service account's key, or of an authorized user",
    ),
    DRIVE_CLIENT_VARIABLE: (
        _keep_client,
        "holds no OAuth client of a web application; set it to the JSON that Google's console gives out",
    ),
    BUCKET_VARIABLE: (
        _keep_buckets,
        'holds no whole credentials of buckets; set it to JSON such as {"s3": {"key": ..., "secret": ...}}',
    ),
}
"""What is kept of credentials in JSON, and what is said of others."""


def cache_folder() -> Path:
    """Return the folder of cached models: ``BACKSTORY_CACHE_DIR``, else the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).expanduser().resolve() if named else _user_folder("XDG_CACHE_HOME", ".cache")


def config_folder() -> Path:
    """Return the folder of what the user configures outside of any workspace."""
    return _user_folder("XDG_CONFIG_HOME", ".config")


def _user_folder(variable: str, name: str) -> Path:
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / name) / "backstory"


def may_reach_store_by_http() -> bool:
    """Return whether the store of files may be called by http://: on this machine, or as ``AWS_ALLOW_HTTP`` says."""
    address = os.environ.get(STORE_ADDRESS_VARIABLE, "")
    return is_protected(address) or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"


def hook_environment() -> dict[str, str]:
    """Return the environment of commands that settings name: what any program needs, and ``BACKSTORY_HOOK_*``.

    No key of this process is in it; a command gets its own by files, or by a variable whose name begins so.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PROGRAM_VARIABLES or name.startswith(_HOOK_PREFIXES)
    }


def reader_environment() -> dict[str, str]:
    """Return the environment of the process that reads untrusted files: no keys, and few threads.

    Every thread reserves address space, which counts towards the memory limit.
    """
    variables = {name: value for name, value in os.environ.items() if name in _READER_VARIABLES}
    threads = str(min(_READER_THREADS, os.cpu_count() or 1))
    return variables | {
        "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
        "PYTHONUTF8": "1",
        "POLARS_MAX_THREADS": threads,
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "OMP_THREAD_LIMIT": "1",  # threads would multiply the time of Tesseract, and not its speed
        "MALLOC_ARENA_MAX": threads,
    }
