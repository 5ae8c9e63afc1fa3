"""Damaged samples, as Hypothesis draws them."""

import os

from hypothesis import settings
from hypothesis import strategies as st

from tests.long_tests import some

EXAMPLES = int(os.environ.get("BACKSTORY_FUZZ_EXAMPLES", some(60)))
fuzz = settings(max_examples=EXAMPLES)
TOKENS = [
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xe2\x80\x8e", b"\r\n", b"\n", b'"', b"'", b"[", b"]", b"{",
    b"}", b": ", b"- ", b"? ", b"&a ", b"*a ", b"!!", b"!!timestamp ", b"<<: ", b"|", b">", b"%YAML 1.1\n", b"---\n",
    b"...\n", b"+++\n", b"\\ud800", b"\\UFFFFFFFF", b"\\x00", b"-99999999999", b"1e19", b"nan", b"9" * 5000,
    b"0001-01-01", b"9999-12-31T23:59:59-14:00", b"24:61", b"PAR1", b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06",
    b"\x1b[31m", b"added ", b"13.02.24, 10:00 - ", b"[2/29/23, 1:00:00 AM] ", b"\xd9\xa1", b"~ ", b"\x85",
    b"\xe2\x80\xa8", b"\x0c", b"#", b"=", b"From ", b"<v ", b"<![", b"=?x?b?=?=", b"--b\n", b"--- Day changed ",
    b"00:00:00.000 --> ", b"\t", b"*** ", b" is now known as ",
]  # fmt: skip


@st.composite
def damage(draw: st.DrawFn, samples: list[bytes]) -> bytes:
    """Give a sample with bytes changed, put in, taken out or repeated; or hardly anything of it."""
    content = bytearray(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(content)))
        what = draw(st.sampled_from(["change", "insert", "token", "cut", "repeat", "end"]))
        size = draw(st.integers(1, 12))
        if what == "change" and at < len(content):
            content[at] ^= draw(st.integers(1, 255))
        elif what == "insert":
            content[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif what == "token":
            content[at:at] = draw(st.sampled_from(TOKENS)) * draw(st.sampled_from([1, 1, 2, 60]))
        elif what == "cut":
            del content[at : at + size]
        elif what == "repeat":
            content[at:at] = content[max(0, at - size) : at] * 3
        else:
            del content[max(at, 4) :]
    return bytes(content)
