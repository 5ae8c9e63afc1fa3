"""Reads the environment variables for workspace, API key and cache. No other module of the library reads them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pydantic import SecretStr

from backstory.base.addresses import is_openai, is_protected
from backstory.base.credentials import (
    BUCKET_VARIABLE,
    DRIVE_CLIENT_VARIABLE,
    DRIVE_VARIABLE,
    Keys,
    read_key,
    read_stored,
)
from backstory.base.errors import AuthenticationError, WorkspaceError

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
SERVICE_KEY_VARIABLES = (
    WRITER_KEY_VARIABLE,
    RERANK_KEY_VARIABLE,
    SUMMARY_KEY_VARIABLE,
    ANSWER_KEY_VARIABLE,
    EMBEDDING_KEY_VARIABLE,
    OPENAI_KEY_VARIABLE,
)
WEBHOOK_VARIABLE = "BACKSTORY_ALERT_WEBHOOK"
PSEUDONYM_KEY_VARIABLE = "BACKSTORY_PSEUDONYM_KEY"
FORGOTTEN_KEY_VARIABLE = "BACKSTORY_FORGOTTEN_KEY"
STORED_VARIABLES = (
    *KEY_VARIABLES,
    *SERVICE_KEY_VARIABLES,
    WEBHOOK_VARIABLE,
    DRIVE_VARIABLE,
    DRIVE_CLIENT_VARIABLE,
    BUCKET_VARIABLE,
    PSEUDONYM_KEY_VARIABLE,
    FORGOTTEN_KEY_VARIABLE,
)
"""What :data:`Keys` may hold."""
MCP_VARIABLE = "BACKSTORY_MCP_TOKEN"
STORE_ADDRESS_VARIABLE = "AWS_ENDPOINT_URL"
MILVUS_VARIABLE = "MILVUS_TOKEN"
LOG_FORMAT_VARIABLE = "BACKSTORY_LOG_FORMAT"
COLLECTOR_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"

_STORAGE_SECRETS = ("AWS_", "PGPASS")
"""How the variables begin that hold, or lead to, what opens the database and the files of several machines."""
_READER_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "TESSDATA_PREFIX",
)
_READER_THREADS = 4
_SHORTEST_TOKEN = 16


def find_workspace(path: Path | None = None) -> Path:
    """Find the folder of the workspace.

    Args:
        path: A folder named by the caller, or None to use ``BACKSTORY_WORKSPACE`` or the current folder.

    Returns:
        The absolute path of a folder that holds ``backstory.yaml``.

    Raises:
        WorkspaceError: The folder is not a workspace.
    """
    named = os.environ.get(WORKSPACE_VARIABLE)
    folder = (path or (Path(named) if named else Path.cwd())).expanduser().resolve()
    if not (folder / SETTINGS_FILE).is_file():
        raise WorkspaceError(
            f"{folder} holds no {SETTINGS_FILE}; name a workspace with --workspace or {WORKSPACE_VARIABLE}, "
            f"or make one with `backstory init {folder}`",
            code="no_workspace",
            path=folder,
        )
    return folder


def find_settings_of(path: Path) -> Path | None:
    """Find the workspace whose settings apply to a path, which may be outside any workspace.

    Returns:
        The nearest folder at or above the path that holds ``backstory.yaml``, else the workspace that
        ``BACKSTORY_WORKSPACE`` names, else the nearest such folder at or above the current one; None if there is
        none.

    Raises:
        WorkspaceError: What ``BACKSTORY_WORKSPACE`` names is not a workspace.
    """
    above = _find_above(path.expanduser().resolve())
    if above is None and os.environ.get(WORKSPACE_VARIABLE):
        return find_workspace()
    return above or _find_above(Path.cwd())


def _find_above(path: Path) -> Path | None:
    return next((folder for folder in (path, *path.parents) if (folder / SETTINGS_FILE).is_file()), None)


def read_api_key(keys: Keys | None = None) -> SecretStr:
    """Read the Gemini key, wrapped so that it is never printed.

    Args:
        keys: The keys of the workspace; None for those of the environment.

    Raises:
        AuthenticationError: No variable with the key is set, or what it holds is no key.
    """
    for variable in KEY_VARIABLES:
        if key := _read_key(variable, keys):
            return key
    raise AuthenticationError(
        f"no Gemini key: {_say_how_to_set(KEY_VARIABLES, keys)}, or choose another provider than gemini "
        f"in {SETTINGS_FILE}, such as `embedding: {{provider: local}}`",
        code="missing_key",
        variables=KEY_VARIABLES,
    )


def read_service_key(variable: str, address: str, keys: Keys | None = None) -> SecretStr | None:
    """Read the key of an OpenAI-compatible service, wrapped so that it is never printed.

    Args:
        variable: The environment variable of the stage that calls the service.
        address: Where the key would be sent.
        keys: The keys of the workspace; None for those of the environment.

    Returns:
        The value of the variable; without it ``OPENAI_API_KEY`` for OpenAI itself, and None for any other service.

    Raises:
        AuthenticationError: The service is OpenAI, and no variable with a key is set; or what one holds is no key.
    """
    if key := _read_key(variable, keys):
        return key
    if not is_openai(address):
        return None
    if key := _read_key(OPENAI_KEY_VARIABLE, keys):
        return key
    raise AuthenticationError(
        f"no key for OpenAI: {_say_how_to_set((variable, OPENAI_KEY_VARIABLE), keys)}, or set base_url of the service "
        "(services in backstory.yaml), such as http://127.0.0.1:11434/v1 for Ollama",
        code="missing_key",
        variables=(variable, OPENAI_KEY_VARIABLE),
    )


def _say_how_to_set(variables: tuple[str, ...], keys: Keys | None) -> str:
    names = " or ".join(variables)
    return f"set {names}" if keys is None else f"store {names} for this tenant by `backstory serve key set`"


def read_drive_credentials(keys: Keys | None) -> SecretStr | None:
    """Read the credentials of Google Drive as JSON, wrapped so that they are never printed; None if there are none.

    Args:
        keys: The keys of the workspace; None for those of the environment.

    Raises:
        AuthenticationError: The variable holds no credentials.
    """
    if keys is None:
        return read_stored(os.environ.get(DRIVE_VARIABLE, ""), DRIVE_VARIABLE)
    return keys.get(DRIVE_VARIABLE)


def _read_key(variable: str, keys: Keys | None = None) -> SecretStr | None:
    if keys is None:
        return read_key(os.environ.get(variable, ""), variable)
    stored = keys.get(variable)
    return None if stored is None else read_key(stored.get_secret_value(), variable)


def cache_folder() -> Path:
    """Return the folder of cached models: ``BACKSTORY_CACHE_DIR``, else the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "backstory"


def config_folder() -> Path:
    """Return the folder of what the user configures outside of any workspace."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "backstory"


def read_webhook(keys: Keys | None) -> SecretStr | None:
    """Return the address of the webhook, wrapped so that it is never printed; None if there is none.

    Args:
        keys: The keys of the workspace; None for those of the environment.
    """
    if keys is not None:
        return keys.get(WEBHOOK_VARIABLE)
    named = os.environ.get(WEBHOOK_VARIABLE, "").strip()
    return SecretStr(named) if named else None


def read_mcp_token() -> SecretStr:
    """Return the token that clients of the MCP server must send, wrapped so that it is never printed.

    Raises:
        AuthenticationError: None is set, it is short enough to be guessed, or no header can hold it.
    """
    token = _read_key(MCP_VARIABLE)
    if token is None or len(token.get_secret_value()) < _SHORTEST_TOKEN:
        raise AuthenticationError(
            f"{MCP_VARIABLE} must hold a token of at least {_SHORTEST_TOKEN} characters, which every client sends; "
            "`openssl rand -hex 32` makes one",
            code="missing_key",
            variables=(MCP_VARIABLE,),
        )
    return token


def read_worker_key(variable: str, keys: Keys | None) -> SecretStr | None:
    """Read a key of the workspace that a worker is given; None without one.

    Args:
        variable: ``BACKSTORY_PSEUDONYM_KEY`` or ``BACKSTORY_FORGOTTEN_KEY``.
        keys: The keys of the workspace; None for those of the environment.

    Raises:
        AuthenticationError: What it holds is no key.
    """
    return _read_key(variable, keys)


def may_reach_store_by_http() -> bool:
    """Return whether the store of files may be called by http://: on this machine, or as ``AWS_ALLOW_HTTP`` says."""
    address = os.environ.get(STORE_ADDRESS_VARIABLE, "")
    return is_protected(address) or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"


def read_milvus_token() -> SecretStr | None:
    """Return the token of the Milvus server, wrapped so that it is never printed; None if there is none."""
    return _read_key(MILVUS_VARIABLE)


def read_store_access() -> dict[str, str]:
    """Read what DuckDB needs to read from S3: ``key_id``, ``secret``, ``session_token``, ``region`` and ``endpoint``.

    Only what the environment holds is in it; the client that writes finds the role of a machine, too.
    """
    variables = {
        "key_id": "AWS_ACCESS_KEY_ID",
        "secret": "AWS_SECRET_ACCESS_KEY",
        "session_token": "AWS_SESSION_TOKEN",
        "region": "AWS_REGION",
        "endpoint": STORE_ADDRESS_VARIABLE,
    }
    found = {name: os.environ.get(variable, "") for name, variable in variables.items()}
    found["region"] = found["region"] or os.environ.get("AWS_DEFAULT_REGION", "")
    return {name: value for name, value in found.items() if value}


def hook_environment() -> dict[str, str]:
    """Return the environment of commands that settings name: that of this process without keys.

    A command that calls S3 or Postgres itself gets its keys by files, such as those of a profile.
    """
    keys = (*STORED_VARIABLES, MCP_VARIABLE, MILVUS_VARIABLE)
    return {
        name: value
        for name, value in os.environ.items()
        if name not in keys and not name.startswith(_STORAGE_SECRETS)
    }


def read_log_format() -> str | None:
    """Return the value of ``BACKSTORY_LOG_FORMAT``, or None if it is not set."""
    return os.environ.get(LOG_FORMAT_VARIABLE, "").strip() or None


def names_collector() -> bool:
    """Return whether the environment names a collector of OpenTelemetry; the exporter itself reads the address."""
    return bool(os.environ.get(COLLECTOR_VARIABLE, "").strip())


def reader_environment() -> dict[str, str]:
    """Return the environment of the process that reads untrusted files: no keys, and few threads.

    Every thread reserves address space, which counts towards the memory limit.
    """
    variables = {name: os.environ[name] for name in _READER_VARIABLES if name in os.environ}
    threads = str(min(_READER_THREADS, os.cpu_count() or 1))
    return variables | {
        "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
        "PYTHONUTF8": "1",
        "POLARS_MAX_THREADS": threads,
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "MALLOC_ARENA_MAX": threads,
    }
