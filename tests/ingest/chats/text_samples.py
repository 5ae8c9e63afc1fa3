"""A small export of each platform whose exports are texts, with every kind of line that its reader knows."""

from typing import Final

IRSSI: Final = """\
--- Log opened Wed May 01 10:00:00 2024
10:00 -!- ann [~a@host.example] has joined #bread
10:01 <@ann> ben: shall we bake rye?
10:02  * ben nods
10:03 -!- ann is now known as ann_away
10:04 < ann_away> back soon
10:05 -!- cleo was kicked from #bread by ann_away [spam]
10:06 -!- mode/#bread [+o ben] by ann_away
10:07 -!- Netsplit a.example <-> b.example quits: dora
10:08 -ann_away:#bread- the oven is free
10:09 -!- ben changed the topic of #bread to: rye
--- Day changed Thu May 02 2024
00:01 <+ben> good night
00:02 -!- ben [~b@host.example] has quit [Ping timeout]
--- Log closed Thu May 02 00:03:00 2024
"""

WEECHAT: Final = (
    "2024-05-01 10:00:00\t-->\tann (~a@host.example) has joined #bread\n"
    "2024-05-01 10:01:00\t@ann\tben: shall we bake rye?\n"
    "2024-05-01 10:02:00\t *\tben nods\n"
    "2024-05-01 10:03:00\t--\tann is now known as ann_away\n"
    "2024-05-01 10:04:00\tann_away\tback soon\n"
    "2024-05-01 10:05:00\t<--\tann_away has kicked cleo (spam)\n"
    "2024-05-01 10:06:00\t--\tMode #bread [+o ben] by ann_away\n"
    "2024-05-01 10:07:00\t--\tChannel #bread: 5 nicks\n"
    "2024-05-01 10:08:00\t--\tNotice(ann_away) -> #bread: the oven is free\n"
    '2024-05-01 10:09:00\t--\tben has changed topic for #bread from "wheat" to "rye"\n'
    "2024-05-02 00:01:00\t+ben\tgood night\n"
    "2024-05-02 00:02:00\t<--\tben (~b@host.example) has quit (Ping timeout)\n"
)

ZNC: Final = """\
[10:00:00] *** Joins: ann (~a@host.example)
[10:01:00] <ann> ben: shall we bake rye?
[10:02:00] * ben nods
[10:03:00] *** ann is now known as ann_away
[10:04:00] <ann_away> back soon
[10:05:00] *** cleo was kicked by ann_away (spam)
[10:06:00] *** ann_away sets mode: +o ben
[10:07:00] *** Connected to IRC
[10:08:00] -ann_away- the oven is free
[10:09:00] *** ben changes topic to 'rye'
[10:10:00] *** Quits: ben (~b@host.example) (Ping timeout)
"""

ZOOM_TRANSCRIPT: Final = """\
WEBVTT

1
00:00:02.000 --> 00:00:05.500
Ann Oak: Shall we bake

2
00:00:06.000 --> 00:00:07.000
Ann Oak: rye?

3
00:00:08.000 --> 00:00:09.000
Ben Ash: At 10:30.

4
01:00:20.000 --> 01:00:21.000
Ben Ash: Done.
"""

TEAMS_TRANSCRIPT: Final = """\
\ufeffWEBVTT

NOTE 2024-05-01T10:00:00Z

c1e5/1-0
00:00:02.000 --> 00:00:05.500
<v Ann Oak>Shall we bake
rye?</v>

c1e5/2-0
00:00:08.000 --> 00:00:09.000 align:start
<v Ben Ash>Rye &amp; wheat.</v> <v.loud Ann Oak>No!</v>
"""

MEET_CHAT: Final = """\
00:00:05.000,00:00:10.000
Ann Oak: Shall we bake?

00:00:06.500,00:00:11.500
Ann Oak: Rye: two loaves
"""

ZOOM_CHAT: Final = """\
23:58:02 From Ann Oak to Everyone:
\tShall we bake?
\t
\tRye: two loaves
23:59:00 From Ben Ash to Ann Oak(Direct Message):
\tI have none
23:59:30 From Ben Ash to Everyone:
\tReacted to "Shall we bake?" with x
00:01:00 From Ben Ash to Everyone:
\tReplying to "Shall we bake?"
\t
\tyes
"""

FORMER_ZOOM_CHAT: Final = (
    "10:01:02\t From Ann Oak : Shall we bake: rye?\n"
    "10:02:00\t From  Ben Ash  to  Everyone : yes\n"
    "10:03:00\t From  Ben Ash  to  Ann Oak (Privately) : no\n"
)

RECORDED_ZOOM_CHAT: Final = "00:01:02\tAnn Oak:\tShall we bake?\n00:02:00\t Ben Ash : yes\n"

MAILBOX: Final = """\
From ann@example.org Wed May 01 10:00:00 2024
From: =?utf-8?q?Ann_=C3=96ak?= <Ann@Example.org>
To: Ben Ash <ben@example.org>, "Elm, Cleo" <cleo@example.org>
Date: Wed, 01 May 2024 10:00:00 +0200
Subject: =?utf-8?b?QnJvdA==?=
Message-ID: <1@example.org>
Content-Type: text/plain; charset=utf-8

Shall we bake?

>From now on only rye.
--\x20
Ann

From ben@example.org Wed May 01 11:00:00 2024
From: Ben Ash <ben@example.org>
To: ann@example.org
Date: Wed, 01 May 2024 11:00:00 +0200
Subject: Re: Brot
Message-ID: <2@example.org>
In-Reply-To: <1@example.org>
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/html; charset=utf-8

<p>Yes &amp; soon</p><div class="gmail_quote">Ann wrote:<blockquote>Shall we bake?</blockquote></div>
--b
Content-Type: application/pdf; name=oven.pdf
Content-Disposition: attachment; filename=oven.pdf

xx
--b--

From cleo@example.org Wed May 01 12:00:00 2024
From: "Elm, Cleo" <cleo@example.org>
Date: Wed, 01 May 2024 12:00:00 +0200
Subject: [bakers] Wheat
Message-ID: <3@example.org>
References: <0@example.org> <1@example.org>
List-Id: Bakers of Ulm <bakers.lists.example.org>

Not me.

"""

MAIL: Final = MAILBOX.partition("\n")[2].partition("\nFrom ben@")[0].replace(">From", "From")

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
