"""E-mail: mailboxes and single mails."""

import io
import mailbox
import os
import tracemalloc
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import pytest

from backstory.ingest.chats.export_files import find_exports, open_folder
from backstory.ingest.chats.exports import read_exports, read_opened
from backstory.ingest.chats.formats.mail import cut_quotes, read_html, split_mailbox
from backstory.ingest.chats.merging import assign_message_ids
from backstory.operations.inspection.preview import preview_run
from backstory.pipeline.workspace import Workspace
from backstory.settings.inputs import ConversationSettings

SETTINGS = ConversationSettings()
BEGINNING = "From x@example.org Wed May 01 10:00:00 2024\n"


def read(folder: Path, **mailboxes: str | bytes) -> pl.DataFrame:
    for name, content in mailboxes.items():
        (folder / f"{name}.mbox").write_bytes(content.encode() if isinstance(content, str) else content)
    return read_exports(folder, SETTINGS).messages


def mail(number: int, text: str = "hello", **headers: str) -> str:
    """Give a mail of a mailbox."""
    fields = {
        "From": "Ann Oak <ann@example.org>",
        "Date": f"Wed, 01 May 2024 10:{number:02}:00 +0000",
        "Subject": "Bread",
        "Message-ID": f"<{number}@example.org>",
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
    return f"{BEGINNING}{lines}\n{text}\n\n"


def keep(folder: Path, count: int = 2) -> mailbox.Maildir:
    """Keep mails in a Maildir as programs do: seen ones in ``cur``, others in ``new``."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    kept = mailbox.Maildir(folder)
    for number in range(count):
        message = mailbox.MaildirMessage(mail(number).partition("\n")[2].encode())
        message.set_subdir("cur" if number % 2 else "new")
        kept.add(message)
    return kept


def test_a_maildir_is_read_as_the_mailbox_that_it_is(tmp_path: Path) -> None:
    keep(tmp_path / "chats" / "inbox")
    (tmp_path / "chats" / "inbox" / "dovecot.index").write_bytes(b"x")
    keep(tmp_path / "chats" / "inbox" / ".Spam")
    keep(tmp_path / "chats" / "inbox" / "Sent", 1)
    (tmp_path / "chats" / "inbox" / "cur" / ".hidden").write_text("x", encoding="utf-8")
    (tmp_path / "chats" / "inbox" / "tmp" / "1").write_text("Fro", encoding="utf-8")
    found = read_exports(tmp_path / "chats", SETTINGS)
    assert dict(found.sources.select("source", "status").iter_rows()) == {
        "chats/inbox/": "read",
        "chats/inbox/Sent/": "read",
        "chats/inbox/.Spam/": "ignored",
    }
    assert sorted(found.messages["conversation_id"]) == ["inbox", "inbox", "inbox/Sent"]

    boxed = tmp_path / "boxed"
    boxed.mkdir()
    kept = assign_message_ids(found.messages.filter(conversation_id="inbox"))
    as_mbox = assign_message_ids(read(boxed, inbox=mail(0) + mail(1)))
    assert set(kept["message_id"]) == set(as_mbox["message_id"])


def test_a_mail_that_is_seen_or_new_or_gone_is_noticed(tmp_path: Path) -> None:
    kept = keep(tmp_path / "inbox")
    before = find_exports(tmp_path)
    assert find_exports(tmp_path) == before
    [key, other] = kept.keys()
    kept.discard(key)
    (tmp_path / "inbox" / "new" / "broken").write_bytes(b"From: a@example.org\n\ntext")
    assert find_exports(tmp_path) != before
    found = read_exports(tmp_path, SETTINGS)
    assert (len(found.messages), found.sources["status"].to_list()) == (1, ["read"])
    [reason] = found.quarantine["reason"]
    assert reason.startswith("new/broken: the mail has no date")
    kept.discard(other)
    (tmp_path / "inbox" / "new" / "broken").unlink()
    assert read_exports(tmp_path, SETTINGS).sources["status"].to_list() == ["empty"]


@pytest.mark.parametrize("is_link", [False, True])
def test_a_mail_that_goes_or_leads_out_of_its_folder_costs_only_itself(is_link: bool, tmp_path: Path) -> None:
    keep(tmp_path / "inbox")
    (tmp_path / "secret").write_text(mail(7), encoding="utf-8")
    parts = open_folder(tmp_path / "inbox", "inbox/", SETTINGS, (tmp_path / "inbox").resolve())
    path = tmp_path / "inbox" / parts.names[0]
    path.unlink()
    if is_link:
        path.symlink_to(tmp_path / "secret")
    read = read_opened(nullcontext(parts), "inbox/")
    assert (len(read.rows), read.status) == (1, "read")
    [reason] = read.unread.values()
    assert reason.startswith(f"{parts.names[0]}: ")
    assert ("link that leaves the folder" if is_link else "moved or removed") in reason


def test_links_to_folders_among_mails_are_not_followed(tmp_path: Path) -> None:
    keep(tmp_path / "inbox")
    before = find_exports(tmp_path)
    for name in ("round", "again"):
        (tmp_path / "inbox" / "cur" / name).symlink_to("..")
    assert find_exports(tmp_path) != before
    found = read_exports(tmp_path, SETTINGS)
    assert (len(found.messages), len(found.quarantine)) == (2, 2)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_mail_without_permission_costs_only_itself_and_hides_no_change(tmp_path: Path) -> None:
    keep(tmp_path / "inbox", 3)
    locked, other, _ = (path for name in ("new", "cur") for path in (tmp_path / "inbox" / name).iterdir())
    locked.chmod(0)
    found = read_exports(tmp_path, SETTINGS)
    assert (len(found.messages), found.sources["status"].to_list()) == (2, ["read"])
    before = find_exports(tmp_path)
    other.unlink()
    assert find_exports(tmp_path) != before


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_mails_that_cannot_be_listed_fail_and_other_files_are_read(tmp_path: Path) -> None:
    keep(tmp_path / "inbox")
    (tmp_path / "more.mbox").write_text(mail(7), encoding="utf-8")
    (tmp_path / "closed.zip").mkdir(mode=0)
    (tmp_path / "inbox" / "cur").chmod(0)
    try:
        found = read_exports(tmp_path, SETTINGS)
    finally:
        (tmp_path / "inbox" / "cur").chmod(0o700)
    assert dict(found.sources.select("source", "status").iter_rows()) == {
        "chats/closed.zip/": "failed",
        "chats/inbox/": "failed",
        "chats/more.mbox": "read",
    }


def test_chats_beside_the_mails_of_a_maildir_are_read_and_what_lies_among_them_is_said(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "chats"
    keep(folder)
    (folder / "box.mbox").write_text(mail(7), encoding="utf-8")
    (folder / "maildirfolder").touch()
    (folder / "cur" / "linked").symlink_to(tmp_path)
    (folder / "new" / "inner").mkdir()
    found = read_exports(folder, SETTINGS)
    assert dict(found.sources.select("source", "status").iter_rows()) == {
        "chats/": "read",
        "chats/box.mbox": "read",
    }
    assert [reason.partition(":")[0] for reason in found.quarantine["reason"]] == ["cur/linked", "new/inner"]
    assert len(found.messages) == 3


def test_a_mail_in_a_maildir_of_a_workspace_stands_for_it_to_the_check(workspace: Workspace) -> None:
    keep(workspace.chats_dir / "inbox")
    keep(workspace.chats_dir / "inbox" / "Sent", 1)
    for part in ("", "/cur", f"/cur/{next((workspace.chats_dir / 'inbox' / 'cur').iterdir()).name}"):
        preview = preview_run([Path(f"{workspace.chats_dir}/inbox{part}")])
        expected = {"chats/inbox/": 2} | ({} if part else {"chats/inbox/Sent/": 1})
        assert {row["source"]: row["rows"] for row in preview.files} == expected
        assert not preview.problems


def test_a_mail_is_one_message_wherever_it_lies(tmp_path: Path) -> None:
    listed = mail(1, List_Id="Bakers <bakers.example.org>")
    before = assign_message_ids(read(tmp_path, ann=listed + mail(2)))
    after = assign_message_ids(read(tmp_path, ann=mail(0) + mail(2), ben=mail(3) + listed + listed))
    assert set(before["message_id"]) < set(after["message_id"])
    assert sorted(after["conversation_id"]) == ["ann", "ann", "bakers.example.org", "ben"]


@pytest.mark.parametrize("stated", ["", "text/plain; charset=us-ascii", "text/plain; charset=iso-2022-jp"])
def test_a_letter_that_iso_2022_jp_does_not_know_costs_only_itself(stated: str, tmp_path: Path) -> None:
    content = mail(1, "パン ## を焼く", Subject="朝 ##", Content_Type=stated).encode("iso2022_jp")
    content = content.replace(b"##", b"\x1b$B-!\x1b(B")  # a circled digit, as programs on Windows write it
    assert read(tmp_path, inbox=content)["text"].to_list() == ["朝 \ufffd\n\nパン \ufffd を焼く"]


@pytest.mark.parametrize(
    "quoted",
    [
        "> old\n> older",
        "On Wed, 1 May 2024 at 10:00, Ann Oak <ann@example.org> wrote:\n> old",
        "On Wed, 1 May 2024 at 10:00, Ann Oak\n<ann@example.org> wrote:\n\n> old",
        "Am 01.05.24 um 10:00 schrieb Ann Oak:\n> old",
        "Le mer. 1 mai 2024 à 10:00, Ann Oak <ann@example.org> a écrit :\n> old",
        "El mié, 1 may 2024 a las 10:00, Ann Oak (<ann@example.org>) escribió:\n> old",
        "2024年5月1日(水) 10:00 Ann Oak <ann@example.org>:\n> old",
        "-----Original Message-----\nFrom: Ann Oak\nold",
        "-----Ursprüngliche Nachricht-----\nold",
        f"{'_' * 32}\nFrom: Ann Oak <ann@example.org>\nSent: Wednesday, May 1, 2024 10:00\nTo: Ben\nSubject: a\n\nold",
        "Von: Ann Oak <ann@example.org>\nGesendet: Mittwoch, 1. Mai 2024 10:00\nAn: Ben\nBetreff: a\n\nold",
        "-- \nAnn Oak\n+44 7700 900123",
        "_______________________________________________\nBakers mailing list\nbakers@example.org\nhttps://example.org/",
        "---------- Forwarded message ---------\nFrom: Ann\nold",
    ],
)
def test_what_others_wrote_is_cut(quoted: str) -> None:
    assert cut_quotes(f"Yes.\n\nMy list: rye, 10:30\n\n{quoted}\n") == "Yes.\n\nMy list: rye, 10:30"


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("On 1 May 2024 Ann wrote:\n> first?\nyes\n> second?\nno\n", "yes\nno"),
        ("Three things I wrote:\n\n- one\n- two", None),
        ("Name: rye\nPrice: 3\nWeight: 500 g", None),
        ("From: 18:00\nTo: 20:00\nSubject: rye\n\nBe early.", None),
        ("a -- b", None),
        ("see below:\n\n----\n\nmore", None),
    ],
)
def test_what_the_writer_wrote_stays(text: str, own: str | None) -> None:
    assert cut_quotes(text) == (own or text)


def test_html_becomes_text_without_its_quotes() -> None:
    page = (
        "<html><head><title>t</title><style>p {}</style></head><body><p>One<br>two &lt;3"
        "<blockquote cite='x'>old</blockquote>yes</p><ul><li>a</li></ul>"
        "<blockquote type='cite'>old<blockquote>older</blockquote>old</blockquote><div>end</div>"
        '<div id="divRplyFwdMsg">From: x</div><p>old</p></body></html>'
    )
    assert read_html(page) == "One\ntwo <3\nyes\n\n- a\n\nend"


def test_mails_that_cannot_be_read_cost_nothing_else(tmp_path: Path) -> None:
    bad = (
        mail(1, Date="soon")
        + mail(2, From="")
        + mail(3, "", Subject="")
        + mail(4, Date="Wed, 01 May 99999 10:00 +0000")
        + mail(5, ("rye " * 255 + "rye\n") * (1 << 12) + "and wheat")
        + mail(6, "<div>rye" * 2_000, Content_Type="text/html")
    )
    read(tmp_path, inbox=bad + mail(7))
    found = read_exports(tmp_path, SETTINGS)
    assert found.messages["text"].to_list() == ["Bread\n\nhello"]
    assert found.quarantine["line"].to_list() == [1, 2, 3, 4, 5, 6]
    assert found.quarantine["reason"][4] == "its text has more than 4 MiB"


def test_a_mail_that_quotes_a_chat_is_no_chat(tmp_path: Path) -> None:
    rows = read(tmp_path, inbox=mail(1, "13.02.24, 10:00 - Ann: hello\n13.02.24, 10:01 - Ben: hi"))
    assert len(rows) == 1


def test_memory_does_not_grow_with_the_mailbox() -> None:
    peaks = []
    for mails in (50, 1_000):
        content = io.BytesIO(b"".join(mail(number % 60, "x" * 20_000).encode() for number in range(mails)))
        tracemalloc.start()
        count = sum(1 for _ in split_mailbox(content))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert count == mails
    assert peaks[1] < 2 * peaks[0] < 2_000_000
