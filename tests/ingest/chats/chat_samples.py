"""A small export of each chat platform, with every kind of value or line that its reader looks at."""

import json
from pathlib import Path
from typing import Any, Final

CHATS: Final = Path(__file__).resolve().parents[2] / "data" / "chats"
"""Folders of exports with the rows that they give; see ``test_golden_exports``."""


def _read(path: str) -> str:
    return (CHATS / path).read_bytes().decode()


def _read_json(name: str) -> Any:
    return json.loads(_read(f"{name}/sample/input/export.json"))


def write_sample(sample: Any) -> bytes:
    """Write a sample as its platform does: a list of records as JSON lines if it is a tuple, else as one JSON."""
    if isinstance(sample, tuple):
        return b"".join(json.dumps(record).encode() + b"\n" for record in sample)
    return json.dumps(sample).encode()


DISCORD: Final = _read_json("discord")
META: Final = _read_json("meta")
CHATGPT: Final = _read_json("chatgpt")
CLAUDE: Final = _read_json("claude")
MATRIX: Final = _read_json("matrix")
SIGNAL: Final = tuple(map(json.loads, _read("signal_cli/sample/input/export.jsonl").splitlines()))

SAMPLES: Final[dict[str, Any]] = {
    "telegram": _read_json("telegram"),
    "discord": DISCORD,
    "meta": META,
    "chatgpt": CHATGPT,
    "claude": CLAUDE,
    "matrix": MATRIX,
    "signal_cli": SIGNAL,
}
"""Samples by the names of their formats."""

IRSSI: Final = _read("irc/irssi/input/libera/#bread.log")
WEECHAT: Final = _read("irc/weechat/input/irc.libera.#bread.weechatlog")
ZNC: Final = _read("irc/znc/input/libera/#bread/2024-05-01.log")
ZOOM_TRANSCRIPT: Final = _read("transcript/zoom/input/GMT20240501-100000_Recording.transcript.vtt")
TEAMS_TRANSCRIPT: Final = _read("transcript/teams/input/teams.vtt")
MEET_CHAT: Final = _read("transcript/meet_chat/input/abc (2024-05-01 at 03_00 GMT-7) - Chat.sbv")
ZOOM_CHAT: Final = _read("zoom_chat/past_midnight/input/2024-05-01 23.50.00 Bakers/meeting_saved_chat.txt")
FORMER_ZOOM_CHAT: Final = _read("zoom_chat/former_forms/input/2024-05-01 chat.txt")
RECORDED_ZOOM_CHAT: Final = _read("zoom_chat/former_forms/input/GMT20240501-100000_RecordingnewChat.txt")
MAILBOX: Final = _read("mail/mailbox/input/inbox.mbox")
MAIL: Final = _read("mail/single/input/bread.eml")

TEXT_SAMPLES: Final = {
    "irssi.log": ("irc", IRSSI),
    "irc.libera.#bread.weechatlog": ("irc", WEECHAT),
    "2024-05-01.log": ("irc", ZNC),
    "GMT20240501-100000_Recording.transcript.vtt": ("transcript", ZOOM_TRANSCRIPT),
    "teams.vtt": ("transcript", TEAMS_TRANSCRIPT),
    "abc (2024-05-01 at 07_00 GMT-7) - Chat.sbv": ("transcript", MEET_CHAT),
    "2024-05-01 chat.txt": ("zoom_chat", ZOOM_CHAT),
    "2024-05-02 chat.txt": ("zoom_chat", FORMER_ZOOM_CHAT),
    "GMT20240501-100000_RecordingnewChat.txt": ("zoom_chat", RECORDED_ZOOM_CHAT),
    "inbox.mbox": ("mail", MAILBOX),
    "bread.eml": ("mail", MAIL),
}
"""Format and content of the samples by the names of their files."""
