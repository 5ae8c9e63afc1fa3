from __future__ import annotations

import pytest

from backstory.text.people import name_conversation, name_conversations


@pytest.mark.parametrize(
    ("conversation_id", "name"),
    [
        ("WhatsApp Chat with Optech.txt", "Optech"),
        ("whatsapp-chat-with-optech", "optech"),
        ("WhatsApp-Chat mit Familie (1)", "Familie"),
        ("WhatsApp Chat - Trip", "Trip"),
        ("Chat de WhatsApp con Los del río", "Los del río"),
        ("Chat WhatsApp con Mario", "Mario"),
        ("Conversa do WhatsApp com Família", "Família"),
        ("Discussion WhatsApp avec Équipe", "Équipe"),
        ("WhatsApp-chat met Buren", "Buren"),
        ("WhatsApp-chatt med Grannar", "Grannar"),
        ("Czat WhatsApp z Rodzina", "Rodzina"),
        ("Чат WhatsApp с Дача", "Дача"),
        ("Aile ile WhatsApp Sohbeti", "Aile"),
        ("Garden-1234567890", "Garden"),
        ("general-C01ABCDEFGH", "general"),
        ("Discord export - general [123456789012345678].json", "general"),
        *(
            (name, name)
            for name in ("quarry-lane-plot-14", "Team 2024", "WhatsApp", "WhatsApp testers", "1234567")
        ),
        *((name, name) for name in ("Chat with Ann", "Export", "-123456")),
    ],
)
def test_what_an_exporting_program_adds_is_no_part_of_a_name(conversation_id: str, name: str) -> None:
    assert name_conversation(conversation_id) == name


def test_conversations_that_would_have_one_name_keep_their_ids() -> None:
    ids = ["WhatsApp Chat with Us", "WhatsApp-Chat mit Us", "WhatsApp Chat with Them"]
    assert name_conversations(ids) == dict(zip(ids, [*ids[:2], "Them"], strict=True))
