"""E-mail: mailboxes (mbox, Maildir), as programs and services export or keep them, and single mails (eml)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from functools import partial
from itertools import chain, dropwhile, pairwise
from operator import not_
from typing import IO, Final, cast

from backstory.base.errors import InputError, ReadError
from backstory.ingest.chats.export import Chat, ChatMessage, Item, Person, Unread, name_chat
from backstory.ingest.chats.export_files import ChatFormat, Opened, conversation_of
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.text.encoding import decode_line

_ID: Final = re.compile(r"<([^<>\s]{1,998})>")
_ANSWER: Final = re.compile(r"(?:\w{1,4}(?:\[\d+\])?\s?[:\uff1a]\s*)+", re.IGNORECASE)
"""``Re:``, ``AW:``, ``Fwd:`` and the like before a subject."""
_OBSCURED: Final = re.compile(r"^(\S{1,64}) at (\S{1,190}\.\w{2,24})(?= \(|$)")
"""An address as the archives of Mailman write it: ``ann at example.org (Ann Oak)``."""
_PEOPLE: Final = ("from", "to", "cc", "reply-to", "sender")
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)
"""Errors that the standard library raises for mails that follow no standard."""
_PLAIN: Final = ("text/plain", "text/markdown", "text/enriched")
_WRAPPED: Final = re.compile(r"^(?!>|-- $)(.*) \n(?!>|-- $)", re.MULTILINE)
"""A line of the writer that a program wrapped, up to the next one; quotes and signatures stand alone."""
_MOST_MAIL: Final = 64 << 20
_MOST_TEXT: Final = 4 << 20
_MOST_HEADER: Final = 1 << 16
_MOST_LINE: Final = 1 << 20
_BEGINNING: Final = re.compile(rb"From .{1,300}\d\d:\d\d.{0,40}\d{4}")
"""Line above a mail in a mailbox."""
_OTHER_BEGINNING: Final = re.compile(rb"From(?P<words> [^\s-]\S{0,300}| .*\d\d:\d\d.*)?")
"""The same as some programs write it, without the time or the year."""
_ESCAPED: Final = re.compile(rb">+From ")
_HEADER: Final = re.compile(rb"[!-9;-~]+:")
_OF_A_MAIL: Final = re.compile(
    rb"(?:from|to|date|subject|message-id|received|return-path|delivered-to|mime-version|content-type|x-[\w-]{1,70}):",
    re.IGNORECASE,
)


def _find(opened: Opened) -> list[str]:
    """Return mailboxes, or mails."""
    if opened.is_maildir or (opened.is_single and _is_mail(opened.head())):
        return list(opened.names)
    names = (name for name in opened.names if opened.is_single or name.lower().endswith(".mbox"))
    return [name for name in names if _begins(*opened.head(name).partition(b"\n")[::2], is_apart=True)]


def _is_mail(head: bytes) -> bool:
    """Return whether a file begins with the headers of a mail, and with nothing else."""
    block, _, _ = head.replace(b"\r\n", b"\n").partition(b"\n\n")
    headers = re.split(rb"\n(?![ \t])", block.rstrip())
    names = {found[0].lower() for header in headers if (found := _OF_A_MAIL.match(header))}
    return all(map(_HEADER.match, headers)) and b"from:" in names and len(names) > 2


def _read(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read all mails; one that cannot be read costs only itself, and so does a file of a Maildir."""
    for name in found:
        place = f"{name}: " if opened.is_maildir else ""
        try:
            is_mail = _HEADER.match(opened.head(name))
            with opened.open(name) as file:
                for content in [file.read(_MOST_MAIL + 1)] if is_mail else split_mailbox(file):
                    try:
                        yield from _read_mail(content, conversation_of(opened.source))
                    except InputError as error:
                        yield Unread(f"{place}{error}")
                    except _UNREADABLE:
                        yield Unread(f"{place}it follows no standard; export it from another program")
        except ReadError as error:
            if not opened.is_maildir:
                raise
            yield Unread(f"{place}{error}")


def split_mailbox(file: IO[bytes]) -> Iterator[bytes]:
    """Yield each mail of a mailbox; of one that is too large, enough to see that it is.

    It begins at a line ``From address date`` below an empty line or above headers; in mails, such a line follows ``>``.
    """
    mail: list[bytes] = []
    size, is_apart = 0, True
    lines = iter(partial(file.readline, _MOST_LINE), b"")
    for line, below in pairwise(chain(lines, [b""])):
        if line.startswith(b"From") and _begins(line, below, is_apart=is_apart):
            if mail:
                yield b"".join(mail)
            mail, size = [], 0
        elif size <= _MOST_MAIL:
            mail.append(line[1:] if _ESCAPED.match(line) else line)
            size += len(line)
        is_apart = not line.strip()
    if mail:
        yield b"".join(mail)


def _begins(line: bytes, below: bytes, *, is_apart: bool) -> bool:
    """Return whether a mail begins at a line, by the line below it and by whether the one above it is empty."""
    line = line.rstrip(b" \t\r\n-")
    if _BEGINNING.fullmatch(line):
        return is_apart or _HEADER.match(below) is not None
    other = _OTHER_BEGINNING.fullmatch(line) if _OF_A_MAIL.match(below) else None
    return other is not None and (is_apart or other["words"] is None)


def _read_mail(content: bytes, mailbox: str) -> list[Item]:
    """Read the mailing list or mailbox, the people, and the message; that of a new thread begins with the subject."""
    if len(content) > _MOST_MAIL:
        raise InputError(f"it has more than {_MOST_MAIL >> 20} MiB")
    mail = message_from_bytes(content)
    headers = _read_headers(mail)
    listed = _ID.findall(headers["list-id"])
    name = listed[-1].lower() if listed else mailbox
    chat = Chat(f"mail/list/{name}" if listed else f"mail/{name}", name_chat(name, ""))
    senders, *others = (_list_people(headers[field]) for field in _PEOPLE)
    # An unquoted name with a comma ("Oak, Ann <ann@example.org>") looks like two people.
    author = min(senders, key=lambda person: "@" not in person.name, default=None)
    if author is None:
        raise InputError("the mail has no author")
    try:
        moment = parsedate_to_datetime(headers["date"])
        sent = read_timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except _UNREADABLE as error:
        raise InputError("the mail has no date, or none that can be read") from error
    body, has_files = _read_body(mail)
    text, subject = cut_quotes(body), _decode_words(headers["subject"])
    answered, thread = (_ID.findall(headers[name]) for name in ("in-reply-to", "references"))
    reply_to = next(iter(answered[:1] or thread[-1:]), None)
    if not text or not (reply_to or _ANSWER.match(subject)):
        text = f"{subject}\n\n{text}".strip()
    if not text and not has_files:
        raise InputError("the mail has neither a subject nor a text")
    key = next(iter(_ID.findall(headers["message-id"])), None)
    kind = "media" if has_files else "message"
    message = ChatMessage(sent, author.name, text or None, kind, chat.key, key, reply_to)
    return [chat, *senders, *chain.from_iterable(others), message]


def _read_headers(mail: Message) -> defaultdict[str, str]:
    """Return the headers by their names in lower case; of several of one name the first."""
    headers: defaultdict[str, str] = defaultdict(str)
    for name, value in mail.raw_items():
        written = " ".join(str(value)[:_MOST_HEADER].split())
        if "\x1b" in written or not written.isascii():
            written = decode_line(written.encode("utf-8", "surrogateescape"))
        headers.setdefault(name.lower(), written)
    return headers


def _list_people(written: str) -> list[Person]:
    """List the people in a header by their addresses; ``Oak, Ann`` is also ``Ann Oak``."""
    people = []
    for shown, stated in getaddresses([_OBSCURED.sub(r"\1@\2", written)]):
        name, address = _decode_words(shown).strip("'\" "), stated.strip().lower()
        last, comma, first = name.partition(", ")
        names = (name, f"{first} {last}") if comma and "," not in first else (name,)
        key = address if "@" in address else name or address
        people.append(Person(key, tuple(one for one in names if one.lower() not in ("", address))))
    return [person for person in people if person.name]


def _decode_words(written: str) -> str:
    """Decode the words of a header (``=?utf-8?q?Brot?=``)."""
    parts: list[tuple[str | bytes, str | None]] = [(written, None)]
    with suppress(HeaderParseError):
        parts = decode_header(written)
    texts = (part if isinstance(part, str) else _decode(part, charset) for part, charset in parts)
    return " ".join("".join(texts).split())


def _read_body(mail: Message) -> tuple[str, bool]:
    """Return the text of a mail, and whether it has files; the text of a mail attached to it is not its own."""
    plain, web, has_files = list[str](), list[Message](), False
    parts = [mail]
    while parts:
        part = parts.pop()
        kind = part.get_content_type()
        if part.get_content_maintype() == "multipart" and part.is_multipart():
            parts += reversed(cast("list[Message]", part.get_payload()))
        elif part.get_content_disposition() == "attachment" or part.get_filename() is not None:
            has_files = True
        elif kind in _PLAIN:
            plain.append(_read_text(part))
        elif kind == "text/html":
            web.append(part)
        else:
            has_files = has_files or kind != "text/x-amp-html"  # another form of the HTML
    return "\n".join(plain).strip() or "\n".join(read_html(_read_text(part)) for part in web), has_files


def _read_text(part: Message) -> str:
    """Read a text; lines of its writer that a program wrapped (``format=flowed``) are joined."""
    content = cast("bytes", part.get_payload(decode=True))
    if len(content) > _MOST_TEXT:
        raise InputError(f"its text has more than {_MOST_TEXT >> 20} MiB")
    text = _decode(content, part.get_content_charset()).replace("\r\n", "\n").replace("\0", "")
    flow, space = (str(part.get_param(name, "")).lower() for name in ("format", "delsp"))
    if flow == "flowed":
        text = _WRAPPED.sub(r"\1" if space == "yes" else r"\1 ", re.sub("(?m)^ ", "", text))
    return text


def _decode(content: bytes, charset: str | None) -> str:
    """Decode bytes as stated, else, or where ASCII is, as a line; a letter unknown to ISO-2022-JP costs only itself."""
    if charset and charset != "us-ascii":
        with suppress(LookupError, ValueError):
            return content.decode(charset.removesuffix("-i"))  # iso-8859-8-i
    return decode_line(content)


_LONGEST_LINE: Final = 2_000
_WROTE: Final = re.compile(
    r"\b(?:wrote|writes|said|schrieb|geschrieben|a écrit|écrit|escribió|escribio|escreveu|ha scritto|scrisse|schreef|"
    r"geschreven|skrev|skrifaði|kirjoitti|napisał\w*|napsal\w*|napísal\w*|írta|a scris|написал\w*|писал\w*|пише|"
    r"написав\w*|yazdı|έγραψε|viết|menulis|a escrit|rašė|rakstīja|kirjutas|je napisal\w*|je napisao)\b"
    r"|写道|寫道|作成|書きました|のメッセージ|작성|כתב|كتب",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"[^\s@<>]{1,64}@[^\s@<>]{1,190}")
_BETWEEN_LINES: Final = re.compile(r"[-_]{2,} ?(?P<words>[^\W\d_][^\n]{2,60}[^\W\d_]) ?[-_]{2,}")
_OTHER_MAIL: Final = re.compile(
    r"original message|forwarded (?:message|mail)|ursprüngliche (?:nachricht|mail)|original-?nachricht|"
    r"weitergeleitete (?:nachricht|mail)|message d['’]origine|message (?:original|d'origine|transféré)|"
    r"mensaje (?:original|reenviado)|mensagem (?:original|encaminhada|reencaminhada)|"
    r"messaggio (?:originale|inoltrato)|oorspronkelijk bericht|doorgestuurd bericht|opprinnelig melding|"
    r"oprindelig meddelelse|vide?resendt (?:melding|meddelelse|besked)|ursprungligt meddelande|"
    r"vidarebefordrat meddelande|alkuperäinen viesti|välitetty viesti|wiadomość oryginalna|"
    r"oryginalna wiadomość|przekazana wiadomość|wiadomość przekazana|"
    r"původní zpráva|přeposlaná zpráva|eredeti üzenet|továbbított üzenet|"
    r"mesaj original|mesaj redirecționat|(?:исходное|оригинальное|пересылаемое|пересланное|перенаправленное) сообщение|"
    r"(?:оригінальне|переслане) повідомлення|özgün ileti|orijinal mesaj|iletilen (?:ileti|mesaj)|"
    r"元のメッセージ|転送メッセージ|原始邮件|转发邮件|原始郵件|轉寄郵件|원본 메시지|전달된 메시지",
    re.IGNORECASE,
)
"""Words that programs write between dashes above a whole mail."""

_UNDERLINE: Final = re.compile(r"_{20,}|-{40,}|={40,}")
_FOOTER: Final = re.compile(
    r"mailing.?list|mailman|listinfo|unsubscribe|(?:google|yahoo) ?groups|groups\.io|abbestellen|abmelden|désabonner|"
    r"désinscri|suscripción|darse de baja|disiscri|uitschrijven|отписаться",
    re.IGNORECASE,
)
_MOST_FOOTER: Final = 10
_SEEN_FOOTER: Final = 100
"""Number of lines that are looked at below a rule; the written ones of a footer are fewer."""

_FIELD: Final = re.compile(r"\*?(?P<name>[^\W\d_][\w .'’-]{0,30})\*?\s?[:\uff1a]\*?\s?(?P<value>\S.*)")
_ROLES: Final = """
from from von de da od van fra från lähettäjä от від kimden feladó frá expéditeur remitente
from 差出人 发件人 寄件者 보낸사람
date 보낸날짜 odesláno
date date sent gesendet datum envoyé enviado fecha data inviato verzonden sendt dato skickat lähetetty päivämäärä
date wysłano отправлено дата надіслано tarih gönderildi dátum küldve 送信日時 日付 发送时间 日期 寄件日期
to to an à para a aan til till vastaanottaja do кому kime címzett komu cc kopie copie kopia 宛先 收件人 받는사람
subject subject betreff objet asunto assunto oggetto onderwerp emne ämne aihe temat тема konu tárgy předmět
subject 件名 主题 主旨 제목
"""
_ROLE_OF: Final = {
    name: role for role, *names in map(str.split, _ROLES.strip().split("\n")) for name in names
}
_MOST_HEADERS: Final = 6
_MOST_ATTRIBUTION: Final = 3
_MOMENT: Final = re.compile(r"\b(?:19|20)\d\d\b|\b\d{1,2}[:.h]\d\d\b")
_SIGNATURE: Final = re.compile(
    r"\n(?:-- (?:\n\s*+\S[^\n]*+){0,12}|(?:--|—)(?=\n[^\n]*\S)(?:\n\s*+\S[^\n]*+){1,4})\s*+\Z"
)
"""A signature: below a line of the standard, or without its blank, which may part two texts if an empty one follows."""

_GAPS: Final = re.compile(r"\n{3,}")


def cut_quotes(text: str) -> str:
    """Cut a mail's text down to what its writer wrote.

    Left out are lines that begin with ``>`` with the line above that says who wrote them (``On … wrote:``); everything
    from a mail on that is quoted or forwarded as a whole; a signature; and the footer of a mailing list.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    retained: list[str] = []
    above = ""
    for number, line in enumerate(lines):
        if _ends_here(lines, number):
            break
        if not line.startswith(">"):
            retained.append(line)
        elif not above.startswith(">"):
            _drop_attribution(retained)
        above = line if line.strip() else above
    _drop_attribution(retained)  # that of a quote which was cut with the HTML
    own = _SIGNATURE.sub("", "\n".join(retained).lstrip())
    return _GAPS.sub("\n\n", "\n".join(map(str.rstrip, own.split("\n")))).strip()


def _ends_here(lines: Sequence[str], number: int) -> bool:
    """Return whether from a line on nothing is the writer's own: a whole mail, or the footer of a mailing list."""
    shown = lines[number].strip()[:_LONGEST_LINE]
    if (between := _BETWEEN_LINES.fullmatch(shown)) and _OTHER_MAIL.search(between["words"]):
        return True
    is_rule = between is not None or _UNDERLINE.fullmatch(shown) is not None
    below = [*filter(str.strip, lines[number + 1 : number + _SEEN_FOOTER])] if is_rule else []
    is_footer = len(below) <= _MOST_FOOTER and any(_FOOTER.search(line[:_LONGEST_LINE]) for line in below)
    return is_footer or _begins_headers(lines, number + is_rule)


def _begins_headers(lines: Sequence[str], number: int) -> bool:
    """Return whether headers of a quoted mail follow: who wrote it, and its subject, or the address and when."""
    block: dict[str, str] = {}
    for line in dropwhile(not_, map(str.strip, lines[number : number + _MOST_HEADERS])):
        found = _FIELD.fullmatch(line[:_LONGEST_LINE])
        role = None if found is None else _ROLE_OF.get(found["name"].lower().replace(" ", ""))
        if found is None or role is None:
            break
        block.setdefault(role, found["value"])
    sender = block.get("from", "0")  # "From: 18:00" is nobody
    return not sender[0].isdigit() and ("subject" in block or ("date" in block and "@" in sender))


def _drop_attribution(retained: list[str]) -> bool:
    """Take off the lines that say who wrote what follows, which may be wrapped; return whether there are any."""
    while retained and not retained[-1].strip():
        retained.pop()
    for count in range(1, _MOST_ATTRIBUTION + 1):
        lines, above = retained[-count:], " ".join(retained[-count - 1 : -count])
        if not all(map(str.strip, lines)):
            break
        shown = " ".join(lines).strip()[:_LONGEST_LINE]
        if not shown.endswith((":", "\uff1a", ":*")):
            continue
        if _ADDRESS.search(shown) or (_WROTE.search(shown) and re.search(r"\d", shown)):
            is_wrapped = not _MOMENT.search(shown) and _MOMENT.search(above)
            del retained[-count - bool(is_wrapped) :]
            return True
    return False


_CONTAINERS: Final = (
    "blockquote[cite]", "blockquote[type]", ".gmail_quote", ".gmail_attr", ".yahoo_quoted", ".moz-cite-prefix",
    ".protonmail_quote",
)  # fmt: skip
"""Elements in which programs put the mail that is answered, and who wrote it."""

_OUTLOOK_REPLY: Final = re.compile(
    r"<[^<>]*\bid\s*=\s*[\"']?(?:divRplyFwdMsg|appendonsend|mail-editor-reference-message-container)\b",
    re.IGNORECASE,
)
"""From this element of Outlook on, nothing is the writer's own."""

_QUOTE: Final = re.compile(r"(?P<begin><blockquote\b[^<>]*>)|</blockquote\b", re.IGNORECASE)
_OPEN, _CLOSE = "\ue000", "\ue001"
_INDENTED: Final = re.compile(rf"{_OPEN}([^{_OPEN}{_CLOSE}]*)(?:{_CLOSE}|\Z)")


def read_html(written: str) -> str:
    """Return the text of a mail in HTML; raise ``InputError`` if it is nested too deeply.

    A ``blockquote`` that a program marked as a quotation is left out; one below a line that says who wrote it is ``>``.
    """
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    options = ConversionOptions(
        output_format="plain",
        skip_images=True,
        preprocessing=PreprocessingOptions(enabled=False),
        exclude_selectors=list(_CONTAINERS),
    )
    own = _OUTLOOK_REPLY.split(written, maxsplit=1)[0]
    marked = _QUOTE.sub(lambda tag: f"\n{tag[0]}{_OPEN}" if tag["begin"] else f"{_CLOSE}{tag[0]}", own)
    result = convert(marked, options)
    if any(str(warning.kind) == "depth_limit_exceeded" for warning in result.warnings):
        raise InputError("its HTML is nested deeper than 1,024 tags")
    text = result.content or ""
    while _OPEN in text:
        text = _INDENTED.sub(_keep_own, text)
    return "\n".join(" ".join(line.split()) for line in text.replace(_CLOSE, "").split("\n")).strip()


def _keep_own(indented: re.Match[str]) -> str:
    start = indented.start()
    above = indented.string[max(0, start - _LONGEST_LINE) : start].split("\n")
    return "\n>\n" if _drop_attribution(above) else indented[1]


MAIL: Final = ChatFormat("mail", _find, _read)
