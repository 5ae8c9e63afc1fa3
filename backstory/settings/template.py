"""Creates a new workspace: its folders and a commented settings file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import InputError
from backstory.settings.inputs import check_timezone

FOLDERS = ("chats", "posts")
OWNER_ONLY = 0o700
"""Permissions of the folder of a workspace."""
TEMPLATE = """\
# Settings of this workspace. Every line that is commented out shows the default.
# The usual settings: docs/configuration.md. All of them: docs/reference/settings.md.
# An unknown or invalid one is an error with its line.

conversations:
  folder: chats            # WhatsApp, Telegram, Slack, Parquet, CSV, JSONL; one subfolder per conversation if you like
  timezone: UTC            # zone of your clocks: of exports, shown times and days
  # date_order: auto       # auto, dmy, mdy or ymd; needed only where a file alone is ambiguous
  # overrides: {}          # date_order and timezone of single chats, such as {family: {date_order: dmy}}
  # timestamp_column: timestamp
  # author_column: author
  # message_column: message

privacy:
  pseudonyms: true         # false only for public chats
  # exclude: []            # people whose messages no table holds; they can also write `#backstory off` in a chat
  # scrub: []              # [email, phone, card, iban] hides these in messages
  # phone_region: null     # such as DE, for phone numbers without country code

partitions:
  grain: day               # hour, day, week or month
  # start: null            # first day that the Dagster UI offers (YYYY-MM-DD); null takes the first message's

windows:
  unit: messages           # messages, tokens, bytes, minutes, hours, or day (one window per day)
  size: 500
  # overlap: 0

documents:
  folder: posts            # Markdown, text, web pages, PDF, office files, tables, code and more: see the documentation
  # kind: post
  # drafts: false          # true serves drafts, too

# embedding:
#   provider: local        # local (no key, no network), gemini (GEMINI_API_KEY), openai, or a name of services
#   model: null            # null is english; multilingual for others: pip install 'backstory[multilingual]'

# rag:
#   enabled: true
#   top_k: 5               # documents in a context
#   chunks_per_query: 5    # hits taken per query chunk
#   strategy: coverage     # coverage, similarity or mmr
#   dedup_strategy: document
#   dedup_max_per_doc: 1
#   as_of: true            # hide documents published after the window began
#   undated: serve         # serve or hide: documents without a date

# writers:
#   provider: none         # none, digest (no model), gemini, openai, a name of services, custom (your class)
#   model: null            # such as gemini-2.5-flash; needed for openai
#   prompt: null           # your own prompt, such as prompts/post.md.j2; `backstory prompt` prints the shipped one

# summaries:
#   provider: extractive   # extractive (no model), gemini, openai, or a name of services: `backstory summarize`
#   model: null            # such as gemini-2.5-flash; needed for openai

# answers:
#   provider: extractive   # extractive (no model), gemini, openai, or a name of services: `backstory ask`
#   model: null            # such as gemini-2.5-flash; needed for openai

# rerank:
#   provider: none         # none, gemini, openai or a name of services (one call per window), cross_encoder
#   model: null            # such as gemini-2.5-flash; needed for openai

# storage:                 # state and files of several machines: see docs/operating.md
#   database: null         # such as postgresql://user@host/name
#   files: null            # such as s3://bucket/prefix

# services: {}             # servers of your own: {ollama: {kind: openai, base_url: "http://127.0.0.1:11434/v1"}}
"""


def init_workspace(
    folder: Path,
    documents: Path | None = None,
    *,
    chats: Sequence[Path] = (),
    timezone: str | None = None,
    writer: Literal["none", "digest"] | None = None,
) -> Path:
    """Create the folders and the settings file of a workspace.

    A created folder is accessible to its owner only. An existing folder keeps its permissions.

    Args:
        folder: The workspace to create. It may exist, but must hold no settings file.
        documents: A folder that exists, whose documents are read where they lie; without ``chats``, the workspace then
            gets no folder of chats. None for a folder of documents in the workspace.
        chats: Chat exports, files or folders, of which the workspace gets copies.
        timezone: Time zone of the clock in exports that state none; None for UTC.
        writer: What writes posts; None for nothing.

    Returns:
        The absolute path.

    Raises:
        InputError: The folder is a workspace already, a file is in the place of a folder, it cannot be written to,
            there is no such time zone, or no such export or folder of documents.
    """
    written = _write_settings(documents, timezone, writer)
    folders = FOLDERS if documents is None or chats else FOLDERS[1:]
    root = folder.expanduser().resolve()
    copies = {path.expanduser().resolve(): root / FOLDERS[0] / path.name for path in chats}
    for path, copy in copies.items():
        _require_copy(path, copy)
    settings = root / SETTINGS_FILE
    try:
        if settings.exists():
            raise InputError(
                f"{settings} is already there; nothing was changed", code="already_there", path=settings
            )
        # A closed folder protects everything inside it: tables, index, history and reports.
        root.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        for name in folders:
            (root / name).mkdir(exist_ok=True)
        for path, copy in copies.items():
            _copy(path, copy)
        # Written last, because the settings file makes a folder a workspace.
        with settings.open("x", encoding="utf-8") as file:
            file.write(written)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(
            f"{error.filename} cannot be made: a file is in the way; remove it, or name another folder",
            code="file_in_the_way",
            path=Path(error.filename),
        ) from error
    except OSError as error:
        raise InputError(
            f"{root} cannot be made a workspace: {error.filename or root} cannot be written ({error.strerror}); name "
            "another folder, or make it writable",
            code="unwritable_folder",
            path=root,
        ) from error
    return root


def _require_copy(path: Path, copy: Path) -> None:
    """Require that an export exists, and that nothing is in the place of its copy."""
    if not path.exists():
        raise InputError(f"{path} does not exist; name a chat export", code="absent_file", path=path)
    if copy.exists():
        raise InputError(
            f"{copy} is already there; nothing was changed. Remove it, or name another folder",
            code="already_there",
            path=copy,
        )


def _copy(path: Path, copy: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, copy)
    else:
        shutil.copyfile(path, copy)


def _write_settings(documents: Path | None, timezone: str | None, writer: str | None) -> str:
    """Write the settings of a new workspace."""
    written = TEMPLATE if documents is None else _name_documents(documents)
    if timezone is not None:
        try:
            zone = check_timezone(timezone)
        except ValueError as error:
            raise InputError(str(error), code="unknown_timezone", timezone=timezone) from error
        written = written.replace("  timezone: UTC            #", f"  timezone: {zone:<14} #")
    if writer is not None:
        mark = "# writers:\n#   provider: none         #"
        written = written.replace(mark, f"writers:\n  provider: {writer:<12} #")
    return written


def _name_documents(folder: Path) -> str:
    """Write the settings of a workspace whose documents lie elsewhere."""
    place = folder.expanduser().resolve()
    if not place.is_dir():
        raise InputError(
            f"{place} is no folder; name the folder that holds the documents", code="no_folder", path=place
        )
    mark = "  # kind: post\n"
    return TEMPLATE.replace(
        mark, f"  sources:\n    - path: {json.dumps(str(place), ensure_ascii=False)}\n{mark}"
    )
