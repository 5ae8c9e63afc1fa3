"""A small export of each chat platform, with every kind of value that its reader looks at."""

import json
from typing import Any, Final

_ANN: Final = {"id": "1", "name": "ann", "nickname": "Ann Oak", "isBot": False}

TELEGRAM: Final = {
    "name": "Bakers",
    "type": "private_supergroup",
    "id": 1,
    "messages": [
        {"id": 1, "type": "service", "date_unixtime": "1707818400", "actor": "Ann", "actor_id": "user1",
         "action": "invite_members", "members": ["Zoe"]},
        {"id": 2, "type": "message", "date_unixtime": "1707818400", "edited_unixtime": "1707818500", "from": "Ann",
         "from_id": "user1", "reply_to_message_id": 1, "text": ["a ", {"type": "text_link", "text": "b", "href": "c"}],
         "poll": {"question": "Rye?", "answers": [{"text": "yes"}]}, "reactions": [{"emoji": "👍", "count": 1}]},
    ],
}  # fmt: skip

DISCORD: Final = {
    "guild": {"id": "5", "name": "Bakers"},
    "channel": {"id": "7", "type": "GuildTextChat", "name": "bread"},
    "messages": [
        {"id": "11", "type": "Reply", "timestamp": "2024-02-13T10:00:00+00:00", "author": _ANN, "content": "hi <@1>",
         "timestampEdited": "2024-02-13T10:01:00+00:00", "mentions": [_ANN], "attachments": [{"id": "1"}],
         "reactions": [{"emoji": {"id": "", "name": "👍"}, "count": 1}], "reference": {"messageId": "10"}},
        {"id": "12", "type": "Default", "timestamp": "2024-02-13T10:00:00+00:00", "author": _ANN, "content": "",
         "embeds": [{"title": "a", "description": "b"}], "stickers": [{"id": "1"}],
         "forwardedMessage": {"content": "", "attachments": [{"id": "1"}], "embeds": [{"title": "c"}]}},
    ],
}  # fmt: skip

META: Final = {
    "participants": [{"name": "Ann"}, {"name": "Ben"}],
    "messages": [
        {"sender_name": "Ann", "timestamp_ms": 1707818400000, "content": "hi", "photos": [{"uri": "a"}],
         "share": {"link": "https://a.example"}, "reactions": [{"reaction": "x", "actor": "Ben"}], "type": "Share"},
        {"sender_name": "Ann", "timestamp_ms": 1707818400000, "is_unsent": True, "users": [{"name": "Eve"}]},
    ],
    "title": "Bakers",
    "thread_path": "inbox/bakers_1",
}  # fmt: skip

CHATGPT: Final = [
    {
        "title": "Rye",
        "create_time": 1707818400.5,
        "mapping": {
            "n0": {"id": "n0", "message": None, "parent": None},
            "n1": {"id": "n1", "parent": "n0", "message": {
                "id": "m1", "author": {"role": "user"}, "create_time": 1707818401.5, "recipient": "all",
                "content": {"content_type": "multimodal_text", "parts": ["a", {"asset_pointer": "b"}]},
                "metadata": {"attachments": [{"name": "a.jpg"}]}}},
            "n2": {"id": "n2", "parent": "n1", "message": {
                "id": "m2", "author": {"role": "tool", "name": "web"}, "create_time": None,
                "content": {"content_type": "text", "parts": ["a"]}}},
        },
        "current_node": "n2",
        "conversation_id": "c1",
    }
]  # fmt: skip

CLAUDE: Final = [
    {
        "uuid": "c1",
        "name": "Rye",
        "account": {"uuid": "a1"},
        "current_leaf_message_uuid": "m2",
        "chat_messages": [
            {"uuid": "m1", "sender": "human", "text": "a", "content": [{"type": "text", "text": "a"}],
             "created_at": "2024-02-13T10:00:00Z", "attachments": [{"file_name": "a.pdf"}], "files": []},
            {"uuid": "m2", "sender": "assistant", "text": "b", "created_at": "2024-02-13T10:00:00Z",
             "parent_message_uuid": "m1"},
        ],
    }
]  # fmt: skip

_EVENT: Final = {"room_id": "!b:a.example", "sender": "@ann:a.example", "origin_server_ts": 1707818400000}

MATRIX: Final = {
    "room_name": "Bread",
    "room_creator": "Ann",
    "exported_by": "Ann",
    "messages": [
        {**_EVENT, "type": "m.room.member", "event_id": "$1", "state_key": "@ann:a.example",
         "content": {"membership": "join", "displayname": "Ann"}},
        {**_EVENT, "type": "m.room.message", "event_id": "$2", "unsigned": {"m.relations": {"m.replace": {}}},
         "content": {"msgtype": "m.text", "body": "> a\n\nb", "m.relates_to": {"m.in_reply_to": {"event_id": "$1"}}}},
        {**_EVENT, "type": "m.reaction", "event_id": "$3",
         "content": {"m.relates_to": {"rel_type": "m.annotation", "event_id": "$2", "key": "x"}}},
        {**_EVENT, "type": "m.room.message", "event_id": "$4",
         "content": {"m.new_content": {"msgtype": "m.text", "body": "c"},
                     "m.relates_to": {"rel_type": "m.replace", "event_id": "$2"}}},
        {**_EVENT, "type": "m.room.redaction", "event_id": "$5", "redacts": "$3", "content": {"redacts": "$3"}},
    ],
}  # fmt: skip

_FROM_ANN: Final = {"sourceUuid": "u1", "sourceNumber": "+4915112345678", "sourceName": "Ann", "sourceDevice": 1,
                    "timestamp": 1707818400000}  # fmt: skip

SIGNAL: Final = (
    {"account": "+4915100000000", "envelope": _FROM_ANN | {"dataMessage": {
        "timestamp": 1707818400000, "message": "\ufffc hi", "mentions": [{"uuid": "u2", "start": 0, "length": 1}],
        "quote": {"id": 1707818300000, "authorUuid": "u2"}, "attachments": [{"id": "a"}],
        "groupInfo": {"groupId": "Zz/+==", "groupName": "Bakers", "type": "DELIVER"}}}},
    {"account": "+4915100000000", "envelope": _FROM_ANN | {"editMessage": {
        "targetSentTimestamp": 1707818400000, "dataMessage": {"timestamp": 1707818500000, "message": "hello"}}}},
    {"account": "+4915100000000", "envelope": _FROM_ANN | {"dataMessage": {
        "timestamp": 1707818600000, "message": None,
        "reaction": {"emoji": "x", "targetAuthorUuid": "u1", "targetSentTimestamp": 1707818400000}}}},
    {"account": "+4915100000000", "envelope": _FROM_ANN | {"syncMessage": {"sentMessage": {
        "destinationUuid": "u2", "timestamp": 1707818700000, "pollCreate": {"question": "a", "options": ["b"]}}}}},
    {"account": "+4915100000000", "envelope": _FROM_ANN | {"dataMessage": {
        "timestamp": 1707818800000, "remoteDelete": {"timestamp": 1707818700000}}}},
)  # fmt: skip


def write_sample(sample: Any) -> bytes:
    """Write a sample as its platform does: a list of records as JSON lines if it is a tuple, else as one JSON."""
    if isinstance(sample, tuple):
        return b"".join(json.dumps(record).encode() + b"\n" for record in sample)
    return json.dumps(sample).encode()


SAMPLES: Final[dict[str, Any]] = {
    "telegram": TELEGRAM,
    "discord": DISCORD,
    "meta": META,
    "chatgpt": CHATGPT,
    "claude": CLAUDE,
    "matrix": MATRIX,
    "signal_cli": SIGNAL,
}
"""Samples by the names of their formats."""
