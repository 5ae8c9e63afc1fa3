"""The description of the service as a page that loads nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;"
    "margin:2rem auto;padding:0 1rem}"
    "code{font-family:ui-monospace,monospace}section{border-top:1px solid;padding:.5rem 0}td{padding:0 1rem .2rem 0;"
    "vertical-align:top}"
)
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = f"default-src 'none'; style-src 'sha256-{_HASH}'; frame-ancestors 'none'; base-uri 'none'"


def make_page_router() -> APIRouter:
    """Make the route of the page."""
    router = APIRouter()

    @router.get("/docs", include_in_schema=False)
    async def show_description(request: Request) -> HTMLResponse:
        page = write_page(request.app.openapi())
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})

    return router


def write_page(described: Mapping[str, Any]) -> str:
    """Write the page."""
    info = described["info"]
    sections = [
        _write_operation(method, path, operation)
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    ]
    about = "".join(f"<p>{escape(part)}</p>" for part in info["description"].strip().split("\n"))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><main>'
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>{about}"
        f'<p>For programs: <a href="/openapi.json">openapi.json</a>. Agents: <code>/mcp/TENANT</code>.</p>'
        f"{''.join(sections)}</main></body></html>"
    )


def _write_operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    rows = [
        (each["name"], each["in"], each.get("description", "")) for each in operation.get("parameters", ())
    ]
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        rows.append((_name_shape(content.get("schema", {})), "body", media))
    for status, answer in operation["responses"].items():
        shapes = (_name_shape(content.get("schema", {})) for content in answer.get("content", {}).values())
        rows.append((status, ", ".join(filter(None, shapes)), answer.get("description", "")))
    table = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td><td>{escape(text)}</td></tr>"
        for name, kind, text in rows
    )
    return (
        f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
        f"<p>{escape(operation.get('description', ''))}</p><table>{table}</table></section>"
    )


def _name_shape(schema: Mapping[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]
