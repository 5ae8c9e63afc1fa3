"""Texts that WhatsApp itself writes into a chat: system lines, deletions and edits.

The texts are in English, German, Portuguese, Spanish, French and Italian; short texts are in more languages.
Placeholders of media are in :mod:`backstory.ingest.chats.formats.media_phrases`.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from backstory.ingest.chats.formats.media_placeholders import APP_MARK, find_captions

_DELETED: Final = (
    "(?i)^(?:this message was deleted(?: by admin [^\\n]+)?|you deleted this message(?: as admin)?|"
    "diese nachricht wurde gelöscht|du hast diese nachricht gelöscht|"
    "mensagem apagada|você apagou esta mensagem|es?ta mensagem foi apagada|essa mensagem foi apagada|"
    "se eliminó este mensaje|este mensaje fue eliminado|eliminaste este mensaje|"
    "ce message a été supprimé|vous avez supprimé ce message|"
    "questo messaggio è stato eliminato|hai eliminato questo messaggio|"
    "dit bericht is verwijderd)\\.?$"
)
_EDITED: Final = (
    "(?i)[\\s\u200e]*<(?:this message was edited|diese nachricht wurde bearbeitet|mensagem editada|"
    "esta mensagem foi editada|se editó este mensaje|mensaje editado|ce message a été modifié|"
    "questo messaggio è stato modificato|dit bericht is bewerkt)\\.?>$"
)

_ENCRYPTION: Final = (
    "(?i)^\u200e?(?:messages and calls are|messages to this (?:chat|group) and calls are|"
    "nachrichten und anrufe sind ende|as mensagens e as? (?:ligações|chamadas)|los mensajes y las llamadas|"
    "les messages et les appels|i messaggi e le chiamate)[^\\n]*"
    "(?:end-to-end|ende-zu-ende|ponta a ponta|extremo a extremo|bout en bout|crittografat)"
)
_APP_EVENT: Final = (
    "(?i)^\u200e[^\\n]*(?:"
    "\\b(?:created (?:this )?group|added|removed|left|joined using|was added|were added|"
    "changed (?:the|this|their)|turned (?:on|off)|pinned a message|is now an admin|now an admin|"
    "missed (?:group )?(?:voice|video) call|(?:voice|video) call|security code|blocked this contact|"
    "hat die gruppe|hat [^\\n]+ hinzugefügt|hat [^\\n]+ entfernt|ist der gruppe|wurde hinzugefügt|"
    "hat den (?:betreff|gruppennamen)|sicherheitsnummer|verpasster (?:sprach|video)anruf|"
    "criou (?:o|este) grupo|adicionou|removeu|saiu|mudou|alterou|entrou usando|"
    "chamada de (?:voz|vídeo) perdida|"
    "creó (?:el|este) grupo|añadió|eliminó a|salió|cambió|se unió|llamada perdida|"
    "a créé (?:le|ce) groupe|a ajouté|a retiré|est partie?|a quitté|a changé|a rejoint|"
    "appel (?:vocal|vidéo) manqué|"
    "ha creato (?:il|questo) gruppo|ha aggiunto|ha rimosso|ha abbandonato|ha cambiato|"
    "chiamata (?:vocale|video) persa)\\b"
    ")"
)

_FIRST_PERSON: Final = "(?i)^(?:i|i'm|i've|we|ich|wir|eu|nós|yo|nosotros|je|j'|nous|io|noi)\\b"
_OWN_EVENT: Final = (
    "(?i)^(?:you|your|du|dein|deine|sie|ihre?|você|tu|tú|tu código|vous|votre|hai|"
    "missed|(?:voice|video) call|verpasster|chamada|llamada|appel|chiamata)\\b"
)
"""Beginnings of system lines about a participant that do not start with the participant's name."""


def classify_messages(rows: pl.DataFrame) -> pl.DataFrame:
    """Separate the messages of people from the texts of the app.

    Args:
        rows: ``author`` (null for a line without one) and ``text``, in any table.

    Returns:
        The rows with ``kind``: ``system`` for lines of the app and for deleted messages (which keep their author),
        ``media`` for placeholders of a picture, a voice message or a file, else ``message``. The text of media is
        the caption, null if there is none. ``edited`` says whether the app marks the message as edited. This mark is
        removed, and so is the direction mark that the app puts before its own texts.

    People can write the direction mark, too. If an author also has messages without the mark, a marked text under
    that name counts as a line of the app only if it begins like the app's lines about that person.
    """
    captions = find_captions(rows["text"])
    plain = pl.col("text").str.strip_prefix(APP_MARK)
    found = rows.select(
        pl.col("author").is_null().alias("unsigned"),
        pl.col("text").is_in(list(captions)).fill_null(value=False).alias("media"),
        plain.str.contains(_DELETED).fill_null(value=False).alias("deleted"),
        (pl.col("text").str.contains(_ENCRYPTION) | _is_app_event(plain))
        .fill_null(value=False)
        .alias("by_app"),
    ).with_columns(pl.col("by_app") & ~pl.col("media"))
    kind = found.select(
        pl.when("unsigned")
        .then(pl.lit("system"))
        .when("media")
        .then(pl.lit("media"))
        .when(pl.col("by_app") | pl.col("deleted"))
        .then(pl.lit("system"))
        .otherwise(pl.lit("message"))
        .alias("kind")
    )["kind"]
    caption = pl.col("text").replace_strict(
        {text: caption or None for text, caption in captions.items()}, default=None, return_dtype=pl.String
    )
    is_edited = plain.str.contains(_EDITED).fill_null(value=False).alias("edited")
    return rows.with_columns(
        kind,
        is_edited,
        pl.when(~found["by_app"]).then("author").alias("author"),
        pl.when(kind == "media").then(caption).otherwise(plain).str.replace(_EDITED, "").alias("text"),
    )


def _is_app_event(plain: pl.Expr) -> pl.Expr:
    writes = (~pl.col("text").str.starts_with(APP_MARK)).fill_null(value=False).any().over("author")
    is_about_author = plain.str.starts_with(pl.format("{} ", "author")) | plain.str.contains(_OWN_EVENT)
    return (
        pl.col("text").str.contains(_APP_EVENT)
        & ~plain.str.contains(_FIRST_PERSON)
        & (~writes | is_about_author)
    )
