"""Writes what follows from the code, such as pages: ``python docs/generate.py``. A test fails where it differs."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from backstory.settings.groups import SERVICE_FIELDS, Service, SettingsGroup
from backstory.settings.models import SERVED_GROUPS, Settings
from backstory.storage.tables.contracts import Table
from backstory.storage.tables.schemas import SERVED_TABLES

FOLDER = Path(__file__).resolve().parent
MCP = FOLDER / "reference" / "mcp.md"
TOOLS = FOLDER.parent / "tests" / "interfaces" / "mcp" / "tools.json"
SNAPSHOT = FOLDER.parent / "tests" / "pipelines" / "asset_graph.json"

_LIMITS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


_ABOUT_TABLES = """\
Every step of the pipeline is a table: Parquet under `data/<table>/`, one file per partition (`all` for tables without
partitions). A file never changes, and its name holds a hash of its content, such as
`windows/2025-03-04.761d51c363ada384.parquet`. A run adds files, and then makes all of them the tables at once. Those
that are not part of the tables any more stay for an hour at least. So do not read the folders by a pattern:

- `data/backstory.duckdb` has one view per table and the two views below, so a reader needs only DuckDB. The next run
  writes it again; a process that has it open keeps the tables that it began with. Opened in a copy of the workspace, it
  reads the copy; attached to another database, it reads the folder in which a run wrote it last.
- `backstory.connect(folder)` returns an Ibis backend, for the folder of a workspace or of its tables.
- `data/current.json` lists the files of one version of all tables, by table and partition, for every other program.

Times in the two views are plain times in UTC; for those of the tables, `fetchall` of DuckDB's Python client needs
`pytz`. The tables are listed in the order in which data flows ([asset graph](reference/asset-graph.md)).
[Columns](reference/columns.md) lists every column with its type."""

_ABOUT_INPUTS = """\
A view: one row is one window, with everything that a [writer job](writers-guide.md) reads."""

_ABOUT_CATALOG = """\
A view: one row is one document. A document whose file can no longer be read has two
rows: one with the error, and one of the revision that is still served."""

VIEW_COLUMNS = {
    "writer_inputs": {
        "window_id": "Window.",
        "conversation_id": "Conversation.",
        "partition": "Partition.",
        "started_at": "Time of the first message, UTC.",
        "ended_at": "Time of the last message, UTC.",
        "timezone": "Time zone of the conversation, whose clock `messages` shows.",
        "local_started_at": "Time of the first message by that clock.",
        "local_ended_at": "Time of the last message by that clock.",
        "language": "Main language, ISO 639-1; null if it cannot be detected.",
        "messages": "Markdown: one list item per message with a text: its number in the window, time by the "
        "clock of the conversation, author and text on one line. People have the names for readers, as in `context`.",
        "message_count": "Number of messages with a text.",
        "message_tokens": "Tokens of the window's messages, by the embedder's tokenizer.",
        "context": "Markdown: each document with its citation number, file, date, tags, why it is here, and its "
        "passage as a quotation; empty without documents.",
        "context_tokens": "Estimated tokens of the context.",
        "max_tokens": "Budget of the context.",
        "citations": "List by rank: number, document_id, revision, title, uri, page_start, page_end, published_at, "
        "tags, passage, passage_start, passage_end and serves of each passage.",
        "use": "write; or why there is nothing to write from: no_messages, not_made, no_hits, disabled or degraded.",
        "reason": "What that means; null for write.",
        "status": "Status of the window's context.",
        "error": "Why the status is degraded; null otherwise.",
        "verdict": "Whether the context covers the window: sufficient, partial, insufficient, nothing_asked or "
        "not_known.",
        "uncovered_topics": "Topics that no document serves, as the language model of rerank judged; null without one.",
        "embedder_id": "Embedding space that was searched.",
        "index_version": "Snapshot that was searched.",
        "settings_hash": "Hash of the settings that the context depends on.",
    },
    "document_catalog": {
        "document_id": "Document.",
        "uri": "Path relative to the folder of documents.",
        "title": "Title.",
        "kind": "Kind, such as post.",
        "format": "Reader of its format, such as markdown.",
        "pages": "Number of pages, slides or sheets; null without.",
        "chunks": "Number of stored chunks of this revision; 0 if it is not searched.",
        "size": "Bytes of the file; null if it could not be opened.",
        "revision": "Id of this content of the document.",
        "published_at": "Date that the document states, UTC; null if it states none.",
        "date_origin": "Where that date is from: stated, name or changed; null without a date.",
        "status": "ok, error or deleted.",
        "error": "Why the file could not be read, for status error; null otherwise.",
        "unread": "What of the file was not read, and what to do; null if all was read.",
    },
}
"""What each column of each view holds."""

_ABOUT_COLUMNS = """\
Every column of every [table](../tables.md). Generated from `backstory/storage/tables/schemas.py`."""

_ABOUT_CONFIGURATION = """\
All settings are in one file, `backstory.yaml`, at the root of the workspace. Every other setting has its default. An
unknown or invalid setting is an error that names the line. Backstory never changes the file. A changed setting rebuilds
only the tables that depend on it.

```yaml
conversations: {timezone: Europe/Berlin, date_order: dmy}
embedding: {model: multilingual}      # after pip install 'backstory[multilingual]'
rag: {top_k: 8}
context: {max_tokens: 4000}
writers: {provider: gemini}           # the key is GEMINI_API_KEY in the environment
costs: {day: {money: 2.50}}
```

People usually set these twelve. [Settings](reference/settings.md) lists all settings."""

_ABOUT_MODELS = """\
- `{provider: local}`, the default, runs granite-embedding-30m-english (Apache-2.0, English) from its wheel on the CPU.
  `precision: int8` makes it about twice as fast ([figures](performance.md#embedding)).
- `{model: multilingual}` runs multilingual-e5-small, also offline, with the extra `multilingual` (91 MB;
  [gain and cost](reference/languages.md#the-multilingual-model)).
- `{provider: gemini}` uses the Gemini API.
- `{provider: openai, model: text-embedding-3-small}` uses OpenAI, and a name of
  [`services`](reference/settings.md#services) any server with its API, such as Ollama.
- `{model_dir: models/mine}` loads a [model of your own](reference/install.md#a-model-of-your-own-without-a-network).

A second model can [judge](reference/costs.md#reranking) the candidates; this is off by default."""

_ABOUT_SETTINGS = """\
All settings of `backstory.yaml`. [Configuration](../configuration.md) has those that people usually set. Generated from
`backstory/settings/models.py`."""

_ABOUT_ADVANCED = """\
Most workspaces never need another value here: the limits for very large files and for a model of your own, the
approximate index, and names of the original design. Where a default was measured, the
[studies](../studies/README.md) have the figures."""

_ADVANCED = {
    "conversations": ("read_seconds", "read_megabytes"),
    "documents": ("read_seconds", "read_megabytes"),
    "chunks": ("max_characters", "overlap_characters"),
    "index": ("hnsw_m", "hnsw_ef_construction", "ef_search"),
    "rag": (
        "nprobe",
        "overfetch",
        "mmr_lambda",
    ),
    "rerank": ("max_tokens", "temperature"),
}

# The settings that workspaces usually set, in the order in which a person meets them.
_USUAL = {
    "conversations": ("timezone", "date_order"),
    "privacy": ("exclude",),
    "windows": ("unit", "size"),
    "embedding": ("provider", "model"),
    "rag": ("top_k",),
    "context": ("max_tokens",),
    "writers": ("provider", "model"),
    "costs": ("day",),
}

_ABOUT_GRAPH = """\
The asset graph, as the Dagster UI shows it. Rounded boxes are inputs. Plain boxes are tables without partitions, and
the search index. Double boxes are tables with a partition per day (or hour, week, month). Arrows that follow from
others are left out: `decisions`, for example, also reads `windows`. Generated from `tests/pipelines/asset_graph.json`,
which a test compares with the code."""

_TOOLS_BEGIN = "<!-- tools, by docs/generate.py -->"
_TOOLS_END = "<!-- end of the tools -->"


# By whether Backstory builds the asset, and whether it has partitions: how its box begins and ends.
_SHAPES = {(False, False): ("([", "])"), (True, False): ("[", "]"), (True, True): ("[[", "]]")}

_ENVIRONMENT = """\
| variable | what |
|---|---|
| `BACKSTORY_WORKSPACE` | The workspace of commands without `--workspace`. |
| `GEMINI_API_KEY`, `GOOGLE_API_KEY` | The key for services of the kind `gemini`, in any group of settings. |
| `MILVUS_TOKEN` | The token of the Milvus server of `index.uri`. |
| `BACKSTORY_WRITER_KEY` | The key for `writers` by a service of the kind `openai`, sent to its `base_url` only. |
| `BACKSTORY_RERANK_KEY` | The key for `rerank` by a service of the kind `openai`, sent to its `base_url` only. |
| `BACKSTORY_SUMMARY_KEY` | The key for `summaries` by a service of the kind `openai`, sent to its `base_url` only. |
| `BACKSTORY_ANSWER_KEY` | The key for `answers` by a service of the kind `openai`, sent to its `base_url` only. |
| `BACKSTORY_EMBEDDING_KEY` | The key for `embedding` by a service of the kind `openai`, sent to its `base_url` only. |
| `OPENAI_API_KEY` | The same as the five above, but sent to api.openai.com only. |
| `BACKSTORY_DRIVE_CREDENTIALS` | The credentials of [Google Drive](reference/sources.md#google-drive) as JSON. |
| `BACKSTORY_CACHE_DIR` | Folder of built models and of evaluation vectors; else the user's cache. |
| `BACKSTORY_ALERT_WEBHOOK` | The address of the webhook, in place of `alerts.webhook`. |
| `BACKSTORY_MCP_TOKEN` | The token that clients of `backstory mcp --http` send. |
| `BACKSTORY_PSEUDONYM_KEY` | The key of the pseudonyms, on one of [several machines](operating.md#several-machines). |
| `AWS_ACCESS_KEY_ID`, other `AWS_` variables | Key, region and address of the files of several machines. |
| `BACKSTORY_LOG_FORMAT` | `text` (default) or `json`: the [log](reference/alerts.md#logs) on standard error. |
| `OTEL_EXPORTER_OTLP_ENDPOINT` | A collector of OpenTelemetry, for [traces](reference/alerts.md#traces). |"""


def write_tables_page() -> str:
    """Write the page on the tables: the meaning of a row of each, and the columns of the views."""
    rows = [
        f"| [`{name}`](reference/columns.md#{name}) | {_first_sentence(model)} | {_key_of(model)} |"
        for name, model in SERVED_TABLES.items()
    ]
    parts = [
        "# Tables",
        _ABOUT_TABLES,
        "\n".join(["| table | what | unique |", "|---|---|---|", *rows]),
        "## writer_inputs",
        _ABOUT_INPUTS,
        _list_columns(VIEW_COLUMNS["writer_inputs"]),
        "## document_catalog",
        _ABOUT_CATALOG,
        _list_columns(VIEW_COLUMNS["document_catalog"]),
    ]
    return "\n\n".join(parts) + "\n"


def write_columns_page() -> str:
    """Write the page on the columns of all tables."""
    parts = ["# Columns", _ABOUT_COLUMNS]
    for name, model in SERVED_TABLES.items():
        key = _key_of(model)
        rows = [
            f"| `{column.name}` | {column.dtype}{', or null' if column.nullable else ''} | {column.description} |"
            for column in model.columns
        ]
        parts += [
            f"## {name}",
            _summary_of(model) + (f" Unique: {key}." if key else ""),
            "\n".join(["| column | type | what |", "|---|---|---|", *rows]),
        ]
    return "\n\n".join(parts) + "\n"


def _summary_of(model: type[Table]) -> str:
    return " ".join((model.__doc__ or "").replace("``", "`").split())


def _first_sentence(model: type[Table]) -> str:
    return _summary_of(model).partition(". ")[0].removesuffix(".") + "."


def _key_of(model: type[Table]) -> str:
    return f"`{', '.join(model.unique)}`" if model.unique else ""


def _list_columns(columns: Mapping[str, str]) -> str:
    rows = [f"| `{name}` | {what} |" for name, what in columns.items()]
    return "\n".join(["| column | what |", "|---|---|", *rows])


def write_configuration_page() -> str:
    """Give the page on the settings that people set, and on the environment."""
    rows = [
        _setting_row(f"{group}.{key}", *_read_group(group)[key])
        for group, keys in _USUAL.items()
        for key in keys
    ]
    header = ["| setting | default | allowed | what |", "|---|---|---|---|"]
    parts = [
        "# Configuration",
        _ABOUT_CONFIGURATION,
        "\n".join([*header, *rows]),
        "## Which model embeds",
        _ABOUT_MODELS,
        "## Environment",
        _ENVIRONMENT,
    ]
    return "\n\n".join(parts) + "\n"


def write_settings_page() -> str:
    """Give the page on all settings."""
    parts = ["# Settings", _ABOUT_SETTINGS]
    for name in Settings.model_fields:
        elsewhere = SERVICE_FIELDS if name in SERVED_GROUPS else ()
        later = (*elsewhere, *_ADVANCED.get(name, ()))
        rows = [_setting_row(key, *facts) for key, facts in _read_group(name).items() if key not in later]
        summary = " ".join(_schema_of(name)["description"].replace("``", "`").split())
        header = ["| setting | default | allowed | what |", "|---|---|---|---|"]
        parts += [f"## {name}", summary, "\n".join([*header, *rows])]
    rows = [
        _setting_row(f"{group}.{key}", *_read_group(group)[key])
        for group, keys in _ADVANCED.items()
        for key in keys
    ]
    parts += ["## Advanced", _ABOUT_ADVANCED, "\n".join([*header, *rows])]
    return "\n\n".join(parts) + "\n"


def _schema_of(group: str) -> dict[str, Any]:
    schema = Settings.model_json_schema()
    facts = schema["properties"][group]
    if group == "services":  # a group for each name
        facts = facts["additionalProperties"]
    found: dict[str, Any] = schema["$defs"][facts["$ref"].rpartition("/")[2]]
    return found


def _read_group(name: str) -> dict[str, tuple[dict[str, Any], object, str]]:
    """Give of each setting of a group its schema, its default and its docstring."""
    group = Service() if name == "services" else getattr(Settings(), name)
    defaults, described = group.model_dump(mode="json"), _read_docstrings(type(group))
    return {
        key: (facts, defaults[key], described[key]) for key, facts in _schema_of(name)["properties"].items()
    }


def _read_docstrings(group: type[SettingsGroup]) -> dict[str, str]:
    """Read the text below each field in the source of a group, and of the groups that it extends."""
    described: dict[str, str] = {}
    bases = [base for base in group.__mro__ if issubclass(base, SettingsGroup)]
    for base in reversed(bases):
        [found] = ast.parse(inspect.getsource(base)).body
        for field, below in pairwise(getattr(found, "body", ())):
            match field, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    described[name] = inspect.cleandoc(text)
    return described


def _setting_row(name: str, facts: dict[str, Any], default: object, description: str) -> str:
    variants = [facts, *facts.get("anyOf", [])]
    choices = [f"`{choice}`" for variant in variants for choice in variant.get("enum", [])]
    limits = [
        f"{words} {variant[key]:g}"
        for variant in variants
        for key, words in _LIMITS.items()
        if key in variant
    ]
    allowed = " ".join(choices) or ", ".join(limits)
    shown = "(empty)" if default == "" else json.dumps(default)
    return f"| `{name}` | {shown.strip(chr(34))} | {allowed} | {description} |"


def write_graph_page() -> str:
    """Give the page that draws the asset graph."""
    assets = json.loads(SNAPSHOT.read_text(encoding="utf-8"))["assets"]
    lines = ["flowchart LR"]
    for group in dict.fromkeys(facts["group"] for facts in assets.values()):
        lines.append(f"  subgraph {group}")
        for name, facts in assets.items():
            if facts["group"] == group:
                left, right = _SHAPES[facts["materializable"], facts["partitioned"]]
                lines.append(f"    {name}{left}{name}{right}")
        lines.append("  end")
    lines += [f"  {parent} --> {name}" for name in assets for parent in _nearest_upstream(assets, name)]
    return "\n\n".join(["# Asset graph", _ABOUT_GRAPH, "\n".join(["```mermaid", *lines, "```"])]) + "\n"


def write_tools() -> str:
    """Give the table of the tools of the MCP server, from their snapshot."""
    tools = json.loads(TOOLS.read_text(encoding="utf-8"))
    rows = []
    for tool in tools:
        required = tool["inputSchema"].get("required", [])
        arguments = [
            f"`{name}`" if name in required else f"`{name}`?" for name in tool["inputSchema"]["properties"]
        ]
        mark = "" if tool["annotations"]["readOnlyHint"] else " (`--allow-write`)"
        summary = tool["description"].split("\n\n")[0].replace("\n", " ")
        selections = ", ".join(f"`{name}`" for name in tool["selections"])
        rows.append(f"| `{tool['name']}`{mark} | {selections} | {', '.join(arguments)} | {summary} |")
    return "\n".join(["| tool | served by | arguments | what |", "|---|---|---|---|", *rows])


def put_tools_into(page: str) -> str:
    """Give the page on the server with the table of its tools between its two marks."""
    before, begin, rest = page.partition(_TOOLS_BEGIN)
    _, end, after = rest.partition(_TOOLS_END)
    if not end:
        raise ValueError(f"{MCP} must hold {_TOOLS_BEGIN} and {_TOOLS_END}")
    return f"{before}{begin}\n{write_tools()}\n{end}{after}"


def _nearest_upstream(assets: dict[str, Any], name: str) -> list[str]:
    """Return the assets that an asset reads, without those that it reaches through another one, too."""
    upstream = assets[name]["upstream"]
    further = set().union(*(_all_upstream(assets, parent) for parent in upstream))
    return [parent for parent in upstream if parent not in further]


def _all_upstream(assets: dict[str, Any], name: str) -> set[str]:
    upstream = assets[name]["upstream"]
    return set(upstream).union(*(_all_upstream(assets, parent) for parent in upstream))


PAGES = {
    "tables.md": write_tables_page,
    "reference/columns.md": write_columns_page,
    "configuration.md": write_configuration_page,
    "reference/settings.md": write_settings_page,
    "reference/asset-graph.md": write_graph_page,
}


def main() -> None:
    """Write all pages, and the tools of the page on the MCP server."""
    for name, write in PAGES.items():
        (FOLDER / name).write_text(write(), encoding="utf-8")
    MCP.write_text(put_tools_into(MCP.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
