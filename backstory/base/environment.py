"""The environment variables that Backstory reads, and those that the processes get that it starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from backstory.base.addresses import is_openai, is_protected
from backstory.base.credentials import (
    BUCKET_VARIABLE,
    DRIVE_CLIENT_VARIABLE,
    DRIVE_VARIABLE,
    Keys,
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


def find_key(variable: str, keys: Keys | None = None) -> SecretStr | None:
    """Find a key, wrapped so that it is never printed; None if there is none.

    Args:
        variable: The environment variable that holds it.
        keys: The keys of the workspace; None for those of the environment.

    Raises:
        AuthenticationError: What the variable holds is no key.
    """
    return read_stored(os.environ.get(variable, ""), variable) if keys is None else keys.get(variable)


def read_api_key(keys: Keys | None = None) -> SecretStr:
    """Read the Gemini key, wrapped so that it is never printed.

    Args:
        keys: The keys of the workspace; None for those of the environment.

    Raises:
        AuthenticationError: No variable with the key is set, or what it holds is no key.
    """
    for variable in KEY_VARIABLES:
        if key := find_key(variable, keys):
            return key
    raise AuthenticationError(
        f"no Gemini key: {_say_how_to_set(KEY_VARIABLES, keys)}, or choose another provider than gemini "
        f"in {SETTINGS_FILE}, such as `embedding: {{provider: local}}`",
        code="missing_key",
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
    if key := find_key(variable, keys):
        return key
    if not is_openai(address):
        return None
    if key := find_key(OPENAI_KEY_VARIABLE, keys):
        return key
    raise AuthenticationError(
        f"no key for OpenAI: {_say_how_to_set((variable, OPENAI_KEY_VARIABLE), keys)}, or set base_url of the service "
        "(services in backstory.yaml), such as http://127.0.0.1:11434/v1 for Ollama",
        code="missing_key",
    )


def _say_how_to_set(variables: tuple[str, ...], keys: Keys | None) -> str:
    names = " or ".join(variables)
    return f"set {names}" if keys is None else f"store {names} for this tenant by `backstory serve key set`"


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


def read_mcp_token() -> SecretStr:
    """Return the token that clients of the MCP server must send, wrapped so that it is never printed.

    Raises:
        AuthenticationError: None is set, it is short enough to be guessed, or no header can hold it.
    """
    token = find_key(MCP_VARIABLE)
    if token is None or len(token.get_secret_value()) < _SHORTEST_TOKEN:
        raise AuthenticationError(
            f"{MCP_VARIABLE} must hold a token of at least {_SHORTEST_TOKEN} characters, which every client sends; "
            "`openssl rand -hex 32` makes one",
            code="missing_key",
        )
    return token


def may_reach_store_by_http() -> bool:
    """Return whether the store of files may be called by http://: on this machine, or as ``AWS_ALLOW_HTTP`` says."""
    address = os.environ.get(STORE_ADDRESS_VARIABLE, "")
    return is_protected(address) or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"


def read_log_format() -> str:
    """Return the value of ``BACKSTORY_LOG_FORMAT``, or ``text``."""
    return os.environ.get(LOG_FORMAT_VARIABLE, "").strip() or "text"


def names_collector() -> bool:
    """Return whether the environment names a collector of OpenTelemetry; the exporter itself reads the address."""
    return bool(os.environ.get(COLLECTOR_VARIABLE, "").strip())


def hook_environment() -> dict[str, str]:
    """Return the environment of commands that settings name: what any program needs, and ``BACKSTORY_HOOK_*``.

    No key of this process is in it. A command that calls a service gets its keys by files, or by a variable whose name
    begins so.
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
        "MALLOC_ARENA_MAX": threads,
    }
