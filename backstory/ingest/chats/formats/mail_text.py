"""Text of a mail's own author, without quoted mails, signatures and the footers of mailing lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile, islice
from typing import Final

from backstory.base.errors import InputError

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
_FIELD: Final = re.compile(r"\*?(?P<name>[^\W\d_][\w .'’-]{0,30})\*?\s?[:\uff1a]\*?\s?(?P<value>\S.*)")
_ROLES: Final = {
    "from": (
        "from von de da od van fra från lähettäjä от від kimden feladó frá expéditeur remitente "
        "差出人 发件人 寄件者 보낸사람"
    ),
    "date": (
        "date sent gesendet datum envoyé enviado fecha data inviato verzonden sendt dato skickat lähetetty päivämäärä "
        "wysłano отправлено дата надіслано tarih gönderildi dátum küldve odesláno 送信日時 日付 发送时间 日期 寄件日期 "
        "보낸날짜"
    ),
    "to": (
        "to an à para a aan til till vastaanottaja do кому kime címzett komu cc kopie copie kopia 宛先 收件人 받는사람"
    ),
    "subject": (
        "subject betreff objet asunto assunto oggetto onderwerp emne ämne aihe temat тема konu tárgy předmět "
        "件名 主题 主旨 제목"
    ),
}
_ROLE_OF: Final = {name: role for role, names in _ROLES.items() for name in names.split()}
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

    Left out are lines that begin with ``>`` with the line above that says who wrote them (``On … wrote:``, in many
    languages); everything from a mail on that is quoted or forwarded as a whole, with its headers; a signature; and the
    footer that a mailing list adds below a line.
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
    between = _BETWEEN_LINES.fullmatch(shown)
    if between is not None and _OTHER_MAIL.search(between["words"]):
        return True
    is_rule = between is not None or _UNDERLINE.fullmatch(shown) is not None
    below = islice(filter(str.strip, islice(lines, number + 1, None)), _MOST_FOOTER + 1) if is_rule else ()
    footer = [line[:_LONGEST_LINE] for line in below]
    is_footer = len(footer) <= _MOST_FOOTER and any(map(_FOOTER.search, footer))
    return is_footer or _begins_headers(lines, number + is_rule)


def _begins_headers(lines: Sequence[str], number: int) -> bool:
    """Return whether headers of a quoted mail follow: who wrote it, and its subject, or the address and when."""
    block: dict[str, str] = {}
    for line in dropwhile(lambda line: not line.strip(), lines[number : number + _MOST_HEADERS]):
        found = _FIELD.fullmatch(line.strip()[:_LONGEST_LINE])
        role = None if found is None else _ROLE_OF.get(found["name"].lower().replace(" ", ""))
        if found is None or role is None:
            break
        block.setdefault(role, found["value"])
    is_dated = "date" in block and _ADDRESS.search(block.get("from", "")) is not None
    return "from" in block and ("subject" in block or is_dated)


def _drop_attribution(retained: list[str]) -> bool:
    """Take off the lines that say who wrote what follows, which may be wrapped; return whether there are any."""
    while retained and not retained[-1].strip():
        retained.pop()
    for count in range(1, _MOST_ATTRIBUTION + 1):
        lines, above = retained[-count:], " ".join(retained[-count - 1 : -count])
        if not all(map(str.strip, lines)):
            break
        shown = " ".join(lines).strip()[:_LONGEST_LINE]
        has_source = _ADDRESS.search(shown) or (_WROTE.search(shown) and re.search(r"\d", shown))
        if has_source and shown.endswith((":", "\uff1a", ":*")):
            is_wrapped = not _MOMENT.search(shown) and _MOMENT.search(above)
            del retained[-count - bool(is_wrapped) :]
            return True
    return False


_CONTAINERS: Final = (
    "blockquote[cite]", "blockquote[type=cite]", ".gmail_quote", ".gmail_attr", ".yahoo_quoted", ".moz-cite-prefix",
    ".protonmail_quote",
)  # fmt: skip
"""Elements in which programs put the mail that is answered, and who wrote it."""

_OUTLOOK_REPLY: Final = re.compile(
    r"<[^<>]*\bid\s*=\s*[\"']?(?:divRplyFwdMsg|appendonsend|mail-editor-reference-message-container)\b",
    re.IGNORECASE,
)
"""From this element of Outlook on, nothing is the writer's own."""

_QUOTE_BEGINS: Final = re.compile(r"<blockquote\b[^<>]*>", re.IGNORECASE)
_QUOTE_ENDS: Final = re.compile(r"(?=</blockquote\b)", re.IGNORECASE)
_OPEN, _CLOSE = "\ue000", "\ue001"
_INDENTED: Final = re.compile(rf"{_OPEN}([^{_OPEN}{_CLOSE}]*)(?:{_CLOSE}|\Z)")


def read_html(written: str) -> str:
    """Return the text of a mail in HTML.

    A ``blockquote`` is left out if a program marked it as a quotation, or a line above it says who wrote it. Any other
    is the writer's own text. It raises ``InputError`` for HTML that is nested too deeply.
    """
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    options = ConversionOptions(
        output_format="plain",
        skip_images=True,
        preprocessing=PreprocessingOptions(enabled=False),
        exclude_selectors=list(_CONTAINERS),
    )
    own = _OUTLOOK_REPLY.split(written, maxsplit=1)[0]
    marked = _QUOTE_ENDS.sub(_CLOSE, _QUOTE_BEGINS.sub(rf"\n\g<0>{_OPEN}", own))
    result = convert(marked, options)
    if any(str(warning.kind) == "depth_limit_exceeded" for warning in result.warnings):
        raise InputError("its HTML is nested deeper than 1,024 tags")
    text = result.content or ""
    while _OPEN in text:
        text = _INDENTED.sub(_keep_own, text)
    lines = (" ".join(line.split()) for line in text.replace(_CLOSE, "").split("\n"))
    return _GAPS.sub("\n\n", "\n".join(lines)).strip()


def _keep_own(indented: re.Match[str]) -> str:
    start = indented.start()
    above = indented.string[max(0, start - _LONGEST_LINE) : start].split("\n")
    return "" if _drop_attribution(above) else indented[1]
