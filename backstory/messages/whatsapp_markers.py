"""What WhatsApp writes into a chat on its own account: system lines, media, deletions and edits.

Texts are those of the app in English, German, Portuguese, Spanish, French, Italian and, where short, some
more.
"""

from __future__ import annotations

from typing import Final

import polars as pl

_LEFT_TO_RIGHT_MARK = "\u200e"

_MEDIA_OMITTED = (
    "media omitted|medien ausgeschlossen|mídia oculta|mídia omitida|arquivo de mídia oculto|"
    "multimedia omitido|"
    "archivo omitido|médias omis|média omis|fichier média omis|media omessi|media esclusi|media weggelaten|"
    "pominięto multimedia|без медиафайлов|медиафайл пропущен|medya dahil edilmedi|media tidak disertakan|"
    "تم استبعاد الوسائط|省略多媒体文件|媒體已略去|メディアは含まれていません|미디어 파일을 제외한 메시지"
)
_ATTACHED_BEFORE = "attached|anhang|anexado|adjunto|pièce jointe|allegato|bijlage"
_ATTACHED_AFTER = (
    "file attached|datei angehängt|arquivo anexado|archivo adjunto|fichier joint|file allegato|"
    "bestand bijgevoegd"
)
_OMITTED_KIND = (
    "image|photo|video|audio|gif|sticker|document|contact card|voice message|video note|"
    "bild|foto|dokument|kontaktkarte|sprachnachricht|videonachricht|"
    "imagem|vídeo|áudio|figurinha|documento|cartão do contato|imagen|tarjeta de contacto|"
    "fiche contact|immagine|scheda contatto|afbeelding"
)
_OMITTED = (
    "omitted|weggelassen|ocultada|ocultado|omitida|omitido|absente|absent|omise|omis|omessa|omesso|weggelaten"
)
_MEDIA: Final = (
    f"(?i)^(?:<(?:{_MEDIA_OMITTED})>"
    f"|<(?:{_ATTACHED_BEFORE})\\s?: [^>\\n]+>"
    f"|[^\\n]+ \\((?:{_ATTACHED_AFTER})\\)"
    f"|(?:[^\\n]*\u200e)?(?:{_OMITTED_KIND}) (?:{_OMITTED}))\\s*(?:\\n|$)"
)

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


def classify_messages(rows: pl.DataFrame) -> pl.DataFrame:
    """Tell what people wrote from what the app wrote.

    Args:
        rows: ``author`` (null for a line without one) and ``text``, in any table.

    Returns:
        The rows with ``kind``: ``system`` for lines of the app and for what stands in place of a deleted
        message (which keeps its author), ``media`` for what stands in place of a picture, a voice message or
        a file, else ``message``. The mark of an edited message and the direction mark that the app puts
        before its own texts are taken off.
    """
    plain = pl.col("text").str.strip_prefix(_LEFT_TO_RIGHT_MARK)
    found = rows.select(
        pl.col("author").is_null().alias("unsigned"),
        plain.str.contains(_MEDIA).fill_null(value=False).alias("media"),
        plain.str.contains(_DELETED).fill_null(value=False).alias("deleted"),
        (pl.col("text").str.contains(_ENCRYPTION) | pl.col("text").str.contains(_APP_EVENT))
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
    return rows.with_columns(
        kind,
        pl.when(~found["by_app"]).then("author").alias("author"),
        plain.str.replace(_EDITED, "").alias("text"),
    )
