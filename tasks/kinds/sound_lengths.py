"""How many bytes sound files say they have: decoders take any end for the end, and say nothing."""

import re

UNKNOWN_LENGTH = 0x7FFF0000
"""Writers to a pipe put a length as large or larger into a WAV file's header."""
MP3_LENGTH = re.compile(
    rb"\xff.{11,41}(?:Xing|Info)\0\0\0[\x03\x07\x0b\x0f].{4}(?P<bytes>.{4})", re.DOTALL
)
"""What most encoders put into an MP3 file's first frame: its frames and bytes."""
OGG_PAGE, OGG_HEADER = b"OggS\0", 27
"""How a page begins, and what its header has before the lengths of its parts."""
MATROSKA = (b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67")
"""How the two parts of a Matroska or WebM file begin: its header, and all else."""


def promised_bytes(data: bytes) -> int:
    """Bytes of a file by what stands in it; 0 where that does not say."""
    return max(wav_length(data), mp3_length(data), ogg_length(data), matroska_length(data))


def wav_length(data: bytes) -> int:
    """Bytes of a WAV file by its header, which FFmpeg corrects in silence; else 0."""
    length = int.from_bytes(data[4:8], "little") if data.startswith(b"RIFF") else 0
    return 0 if length >= UNKNOWN_LENGTH else length


def mp3_length(data: bytes) -> int:
    """Bytes of an MP3 file by its first frame, at which FFmpeg only wonders; else 0."""
    start = 0
    if data.startswith(b"ID3"):  # a title before it, whose length has seven bits a byte
        start = 10 + sum(byte << 7 * at for at, byte in enumerate(data[9:5:-1]))
    found = MP3_LENGTH.match(data, start)
    length = int.from_bytes(found["bytes"]) if found else 0
    return start + length if 0 < length < UNKNOWN_LENGTH else 0


def ogg_length(data: bytes) -> int:
    """Bytes of an Ogg file up to the end of its last page, which FFmpeg leaves out; else 0."""
    if not data.startswith(OGG_PAGE):
        return 0
    last = data.rindex(OGG_PAGE)
    lengths = last + OGG_HEADER
    start = lengths + int.from_bytes(data[lengths - 1 : lengths])
    return start + sum(data[lengths:start])


def matroska_length(data: bytes) -> int:
    """Bytes of a Matroska or WebM file by the lengths of its parts; else 0.

    Who records as it comes, as browsers do, leaves that of the second one open.
    """
    at = 0
    for mark in MATROSKA:
        if data[at : at + len(mark)] != mark:
            return 0
        at += len(mark)
        width = 9 - int.from_bytes(data[at : at + 1]).bit_length()
        unknown = (1 << 7 * width) - 1
        length = int.from_bytes(data[at : at + width]) & unknown
        if width > 8 or length == unknown:
            return 0
        at += width + length
    return at
