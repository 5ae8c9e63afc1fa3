"""Calls of a caller who tries to cross into tenants of others: at random, over every route, by a seed."""

from __future__ import annotations

import http.client
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from backstory.interfaces.service.pages.visits import SESSION_COOKIE
from tests.interfaces.service.planted import MARKER, TENANTS, Planted, choose
from tests.interfaces.service.route_table import BODILESS
from tests.interfaces.service.running import QUESTION

TOOLS: Final[Mapping[str, Mapping[str, Any]]] = {
    "answer_question": {"query": QUESTION},
    "cover_conversation": {"text": QUESTION},
    "list_windows": {},
    "search": {"query": QUESTION},
    "fetch": {"id": "{document}"},
    "grep": {"pattern": "zq[0-9a-f]+q", "regex": True},
    "documents": {},
    "status": {},
    "summarize_document": {"file_path": "{document}"},
    "index_document": {"file_path": "{path}"},
    "index_directory": {"directory_path": "{path}"},
    "dump_document": {"file_name": "{document}", "output_path": "{path}"},
}
"""The tools of agents, with arguments."""
FILTERED: Final = ("answer_question", "cover_conversation", "search")
ODD: Final = (
    "*",
    "%",
    "_",
    "'",
    '"',
    "' OR '1'='1",
    "..",
    ".",
    "/",
    "//",
    "\x7f",
    "﹒﹒",
    "null",
    "0",
    "-1",
    "9" * 30,
)
TRICKS: Final[tuple[Callable[[str], str], ...]] = (
    lambda name: f"{name}/",
    lambda name: f"../{name}",
    lambda name: f"x/../{name}",
    lambda name: f"./{name}",
    lambda name: f"{name}%00",
    lambda name: f"%2e%2e%2f{name}",
    lambda name: name.replace("a", "%61"),
    lambda name: name.replace("o", "о"),  # Cyrillic
    lambda name: name.replace("r", "\u0280").replace("a", "\uff41"),
    lambda name: name.upper(),
    lambda name: f" {name} ",
    lambda name: f"{name}.",
    lambda name: f"'{name}'",
    lambda name: f'"{name}"',
    lambda name: f"{name[:-1]}*",
    lambda name: f"{name[:-1]}_",
    lambda name: f"{name},{name}",
    lambda name: f"{name};",
    lambda name: f"{name}\\",
)
"""Other ways to write a name, none of which is the name."""
MCP_HEADERS: Final = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-06-18",
}


@dataclass
class Call:
    """A request, and whom it is by right.

    Attributes:
        route: The route that it aims at.
        method: The method.
        path: The path with a query.
        headers: The headers.
        body: The body.
        user: Who has sent it, as the service has to see it; None for nobody.
        tenant: The tenant in which it may act; None if its user may enter none that it names, or it names none.
    """

    route: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    user: str | None
    tenant: str | None
    target: str = ""
    sent: set[bytes] = field(default_factory=set)


class Caller:
    """Makes and sends calls at random."""

    def __init__(self, planted: Planted, seed: int) -> None:
        self.planted = planted
        self.random = Random(seed)
        self.connection = http.client.HTTPConnection("127.0.0.1", planted.served.port, timeout=600)

    def make(self, route: str) -> Call:
        """Make a call of a route: now and then one that is allowed, else one that tries to cross."""
        random, planted = self.random, self.planted
        method, _, path = route.partition(" ")
        is_fair = random.random() < 0.25
        users = planted.owners.values() if is_fair and "/conversations/{id}" in path else planted.roles
        user = random.choice(list(users))
        mine = list(planted.roles[user])
        others = [tenant for tenant in TENANTS if tenant not in mine]
        target = random.choice(mine) if mine and (is_fair or not others) else random.choice(others)
        place = random.choice(mine) if mine and random.random() < 0.3 else target
        call = Call(route, method, "", {}, None, None, None, target)
        bearer = self._add_identity(call, user, is_fair=is_fair)
        query: dict[str, str] = {}
        if path == "/mcp":
            named = place if is_fair else self._twist(place)
            call.path = f"/mcp/{quote(named, safe='%')}"
            call.user, call.tenant = bearer, unquote(named).strip("/")
        elif path.startswith("/tenants/"):
            named = place if is_fair else self._twist(place)
            call.tenant = unquote(named)
            call.path = self._fill(path.replace("{tenant}", quote(named, safe="%")), target)
        else:
            call.path = self._fill(path, target)
            if path.startswith("/api"):
                call.user = bearer
                call.tenant = self._name_tenant(call, query, place, is_fair=is_fair)
        self._add_body(call, query)
        if query:
            call.path += f"?{urlencode(query)}"
        call.sent = {each.lower() for each in MARKER.findall(repr(call).encode())}
        if call.user is None or call.tenant not in planted.roles[call.user]:
            call.tenant = None
        return call

    def send(self, call: Call) -> tuple[int, bytes]:
        """Send a call, and return the status and all bytes of the answer: status line, headers and body."""
        self.connection.putrequest(call.method, call.path, skip_accept_encoding=True)
        for name, value in call.headers.items():
            self.connection.putheader(name, value.encode())
        self.connection.putheader("Content-Length", str(len(call.body or b"")))
        self.connection.endheaders(call.body)
        response = self.connection.getresponse()
        whole = f"{response.status} {response.reason}\n{response.headers}\n".encode() + response.read()
        return response.status, whole

    def knock(self, route: str, user: str, tenant: str) -> Call:
        """Make a well-formed call of a route by a user, with token and session, for a tenant."""
        planted = self.planted
        method, _, path = route.partition(" ")
        headers = {
            "Authorization": f"Bearer {planted.served.tokens[user]}",
            "Cookie": f"{SESSION_COOKIE}={planted.sessions[user]}",
            "X-Backstory-Tenant": tenant,
            "Origin": planted.served.url,
        }
        call = Call(route, method, path, headers, None, user, None, TENANTS[0])
        for place in ("turn", "number", "place", "page"):
            path = path.replace(f"{{{place}}}", "1")
        named = quote(tenant, safe="")
        path = path.replace("{tenant}", named).replace("{id}", "x")
        path = path.replace("{document_id}", "x").replace("{job_id}", "x")
        call.path = f"{path}/{named}" if path == "/mcp" else path
        self._add_body(call, {})
        return call

    def _add_identity(self, call: Call, user: str, *, is_fair: bool) -> str | None:
        """Add tokens and cookies, and return whose token is a valid one."""
        random, planted = self.random, self.planted
        token = planted.served.tokens[user]
        other = random.choice(list(planted.roles))
        odd = {
            random.choice(planted.dead): 3,
            f"{token}x": 1,
            token[:-1]: 1,
            token.upper(): 1,
            f"{token[:20]}*": 1,
            "bst_%": 1,
            "' OR 1=1 --": 1,
            planted.sessions[other]: 2,
            user: 1,
        }
        is_mine = is_fair or random.random() < 0.8
        call.headers["Authorization"] = f"Bearer {token if is_mine else choose(random, odd)}"
        cookie = {planted.sessions[user]: 4.0, "": 1, planted.sessions[other]: 2, token: 1, "*": 1}
        session = planted.sessions[user] if is_fair else choose(random, cookie)
        call.headers["Cookie"] = f"{SESSION_COOKIE}={session}"
        if not call.route.partition(" ")[2].startswith(("/api", "/mcp")):
            owner = {session: owner for owner, session in planted.sessions.items()}
            call.user = owner.get(session)
        if call.method == "POST" and (is_fair or random.random() < 0.9):
            call.headers["Origin"] = planted.served.url
        if random.random() < 0.3:
            call.headers["Accept"] = "text/event-stream"
        if random.random() < 0.3:
            call.headers["HX-Request"] = "true"
        return user if is_mine else None

    def _name_tenant(self, call: Call, query: dict[str, str], place: str, *, is_fair: bool) -> str | None:
        """Name a tenant, or two of them, and return the one that counts."""
        ways = ["header", "query"] if is_fair else ["header", "query", "both", "neither"]
        way = self.random.choice(ways)
        name = place if is_fair else self._twist(place)
        if way in ("header", "both"):
            call.headers["X-Backstory-Tenant"] = name
        if way in ("query", "both"):
            query["tenant"] = name if way == "query" else self.random.choice(TENANTS)
        if way == "both" and query["tenant"] != name.strip():
            return None
        if way == "neither":
            roles = self.planted.roles[call.user] if call.user else {}
            return next(iter(roles)) if len(roles) == 1 else None
        # Blanks around a header's value are no part of it.
        return name.strip() if way != "query" else name

    def _twist(self, name: str) -> str:
        return self.random.choice(TRICKS)(name) if self.random.random() < 0.4 else name

    def _pick(self, kind: str, tenant: str) -> str:
        """Pick an id of a tenant, or something odd."""
        if self.random.random() < 0.15:
            return self.random.choice(ODD)
        return self.random.choice(self.planted.ids[kind, tenant])

    def _fill(self, path: str, tenant: str) -> str:
        """Fill the places of a path with ids of a tenant."""
        is_conversation = "/conversations/" in path
        numbers = ("turn", "number", "place", "page")
        values = {name: self.random.choice(["1", "1", "1", "2", "0", "9" * 30, "x"]) for name in numbers}
        values["id"] = self._pick("conversation" if is_conversation else "document", tenant)
        values["document_id"] = self._pick(self.random.choice(["document"] * 4 + ["chunk", "name"]), tenant)
        values["job_id"] = self._pick("job", tenant)
        values |= {"mark": "x", "name": self._pick("name", tenant)}
        filled = path
        for name, value in values.items():
            filled = filled.replace(f"{{{name}}}", quote(value, safe=""))
        assert "{" not in filled, f"no case says what stands in {path}"
        return filled

    def _make_filters(self, tenant: str) -> dict[str, Any]:
        key = self.random.choice(["documents", "paths", "tags", "kinds"])
        names = [self._pick(self.random.choice(["document", "chunk", "name"]), tenant) for _ in range(2)]
        return {key: [*names, "**"] if key == "paths" else names}

    def _make_path(self, tenant: str) -> str:
        root = self.planted.served.service.root
        return self.random.choice(
            [
                f"{root}/tenants/{tenant}/posts",
                f"../{tenant}/posts",
                f"posts/../../{tenant}/backstory.yaml",
                f"../{tenant}/posts/planted.md",
                f"{root}/service.sqlite",
                "~",
                "~root",
                "/etc/passwd",
                "posts",
                "backstory.yaml",
                ".backstory/secret.key",
                "\0",
            ]
        )

    def _add_body(self, call: Call, query: dict[str, str]) -> None:
        random, path = self.random, call.route.partition(" ")[2]
        conversation = self._pick("conversation", call.target) if random.random() < 0.5 else None
        filters = self._make_filters(call.target) if random.random() < 0.5 else None
        content: Any = None
        match call.route:
            case "POST /api/chat/message" | "POST /api/chat/stream":
                content = {"question": QUESTION, "conversation_id": conversation, "filters": filters}
            case "POST /api/search":
                content = {"query": QUESTION, "filters": filters, "top_k": 100}
            case "POST /api/conversations/{id}/turns/{turn}/feedback":
                content = {"thumb": random.choice(["up", "down"]), "text": "So it is."}
            case "GET /api/documents" | "GET /tenants/{tenant}/documents":
                query |= {
                    "name": self._pick("name", call.target),
                    "offset": random.choice(["0", "9" * 30, "-1"]),
                }
            case "GET /api/jobs" | "GET /api/conversations":
                query |= {
                    "offset": random.choice(["0", "0", "9" * 30, "-1"]),
                    "limit": random.choice(["5", "0"]),
                }
            case "GET /api/documents/{document_id}/text":
                query |= {"first_page": random.choice(["1", "9" * 30, "-1"])}
            case "GET /tenants/{tenant}/history":
                query |= {"conversation": conversation or ""}
            case "GET /sign-in":
                query |= {"to": f"/tenants/{call.target}/documents"}
            case "POST /tenants/{tenant}/ask":
                self._add_form(call, {"question": QUESTION, "conversation": conversation or ""})
            case "POST /tenants/{tenant}/conversations/{id}/turns/{number}/feedback":
                self._add_form(call, {"thumb": "up", "text": "So it is."})
            case "POST /api/sources/drive/permission/finish":
                content = {"state": self._pick("conversation", call.target), "code": "4/0A"}
            case "POST /drive/permitted":
                self._add_form(call, {"state": self._pick("conversation", call.target), "code": "4/0A"})
            case "POST /sign-in":
                self._add_form(
                    call, {"token": random.choice([*self.planted.dead, "bst_", "%"]), "to": call.path}
                )
            case "POST /api/documents" | "POST /tenants/{tenant}/documents":
                self._add_files(call)
                query |= {"replace": random.choice(["true", "false"])}
            case "POST /mcp":
                self._add_message(call)
            case route if call.method not in ("GET", "DELETE") and route not in BODILESS:
                raise AssertionError(f"no case says what is sent to {route}")
        if content is not None:
            call.body = json.dumps(content).encode()
        if call.body is not None:
            call.headers.setdefault("Content-Type", "application/json")
        elif call.method == "POST" and not path.startswith("/api"):
            self._add_form(call, {})

    @staticmethod
    def _add_form(call: Call, fields: Mapping[str, str]) -> None:
        call.headers["Content-Type"] = "application/x-www-form-urlencoded"
        call.body = urlencode(fields).encode()

    def _add_files(self, call: Call) -> None:
        """Add files whose names, or whose members' names, lead into another tenant."""
        file = "night-train.md"  # every tenant has one
        below = f"tenants/{call.target}/posts"
        names = [
            f"../../../{call.target}/posts/{file}",
            f"..\\..\\{call.target}\\posts\\{file}",
            f"{self.planted.served.service.root}/{below}/{file}",
            f"..%2f..%2f{call.target}%2fposts%2f{file}",
            f"．．／{call.target}.md",
            "x.md\0.exe",
            "con.md",
            ".hidden.md",
            "backstory.yaml",
            file,
            "members.zip",
        ]
        name = self.random.choice(names)
        content = b"# A file\n\nIt is about moths.\n"
        if name == "members.zip":
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as archive:
                for member in (*names[:2], "/etc/evil.md", names[3]):
                    archive.writestr(member, content)
            content = packed.getvalue()
        call.headers["Content-Type"] = "multipart/form-data; boundary=xx"
        head = f'--xx\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'
        call.body = head.encode() + content + b"\r\n--xx--\r\n"

    def _add_message(self, call: Call) -> None:
        """Add a message of the Model Context Protocol."""
        random = self.random
        document = self._pick(random.choice(["document", "chunk", "name"]), call.target)
        places = {"{document}": document, "{path}": self._make_path(call.target)}
        name = random.choice(list(TOOLS))
        arguments: dict[str, Any] = {
            key: places.get(value, value) if isinstance(value, str) else value
            for key, value in TOOLS[name].items()
        }
        if name in FILTERED and random.random() < 0.5:
            arguments["filters"] = self._make_filters(call.target)
        messages: dict[str, dict[str, Any]] = {
            "tools/call": {"name": name, "arguments": arguments},
            "resources/read": {
                "uri": random.choice(
                    [
                        "backstory://documents",
                        f"backstory://document/{quote(document)}",
                        f"backstory://document/..%2f{call.target}",
                        f"file://{self.planted.served.service.root}/service.sqlite",
                        "backstory://window/latest",
                    ]
                )
            },
            "resources/list": {},
            "prompts/get": {"name": "answer_with_citations", "arguments": {"question": QUESTION}},
        }
        method = choose(random, {"tools/call": 8, "resources/read": 3, "resources/list": 1, "prompts/get": 1})
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": messages[method]}
        call.headers.update(MCP_HEADERS)
        call.body = json.dumps(message).encode()
