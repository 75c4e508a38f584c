"""CSV, JSON Lines and text: ragged, nested, badly encoded, compressed to almost nothing."""

import bz2
import gzip
import json
import random
from collections.abc import Iterator

from tests.hostile.files import Hostile, cuts, flips, wrong
from tests.kinds.sources.reading import COMPRESS

CSV_ROW, JSON_ROW, TEXT_ROW = b"1,x\n", b'{"a": 1, "b": "x"}\n', b"a line\n"
CSV = b"a,b\n" + b"".join(b"%d,word %d\n" % (each, each) for each in range(20))
JSONL = b"".join(b'{"a": %d, "b": "word %d"}\n' % (each, each) for each in range(20))
TEXT = b"".join(b"word %d\n" % each for each in range(20))
BOM8, BOM16 = b"\xef\xbb\xbf", b"\xff\xfe"


def csv(seed: random.Random) -> Iterator[Hostile]:
    """Records that are none, and files that are no records."""
    for name, record in {
        "too few": b"1",
        "too many": b"1,x,y,z",
        "a word for a number": b"word,x",
        "a fraction for a number": b"1.5,x",
        "larger than any number": b"9" * 40 + b",x",
        "thousands of digits": b"9" * 5_000 + b",x",
        "a NUL": b"1,\x00",
        "not UTF-8": b"1,gr\xfcn",
        "half a character": b"1,\xe2\x82",
        "a surrogate": b"1,\xed\xa0\x80",
        "a quote that stays open": b'1,"x',
        "a quote in the middle": b'1,"x"y,"',
        "a carriage return": b"1,x\ry,z",
        "a formula and more": b"=cmd|' /C calc'!A0,x,y",
        "ten thousand values": b",".join([b"1"] * 10_000),
    }.items():
        content = b"a,b\n" + CSV_ROW + record + b"\n" + CSV_ROW
        yield Hostile("csv", f"{name}.csv", content, 2, True)
    for name, content, good in [
        ("BOM.csv", BOM8 + b"a,b\n" + CSV_ROW, 1),
        ("UTF-16.csv", BOM16 + "a,b\n1,x\n".encode("utf-16-le"), 0),
        ("no header.csv", CSV_ROW * 3, 0),
        ("another header.csv", b"a,c\n" + CSV_ROW, 0),
        ("a header twice.csv", b"a,a\n" + CSV_ROW, 0),
        ("a header of nothing.csv", b",,,\n" + CSV_ROW, 0),
        ("a header that stays open.csv", b'a,"b\n' + CSV_ROW, 0),
        ("blank lines.csv", b"a,b\n\n\r\n" + CSV_ROW + b"\n", 1),
        ("only a header.csv", b"a,b", 0),
        ("swapped.csv", b"b,a\nx,1\n", 1),
        ("old line ends.csv", b"a,b\r1,x\r", 1),
        ("a wide header.csv", b",".join(b"%d" % n for n in range(200_000)) + b"\n" + CSV_ROW, 0),
        ("a header of commas.csv", b"," * 200_000 + b"\n" + CSV_ROW, 0),
        ("a long line.csv", b"a,b\n1," + b"x" * (17 << 20) + b"\n" + CSV_ROW, 1),
        ("quotes.csv", b"a,b\n1," + b'"' * 99_999 + b"\n" + CSV_ROW, 1),
    ]:
        yield Hostile("csv", name, content, good)
    yield from of_any_kind("csv", CSV, "csv", seed)


def jsonl(seed: random.Random) -> Iterator[Hostile]:
    """Lines that are no objects, and objects that no column holds."""
    for name, line in {
        "an array": b"[1, 2]",
        "a number": b"1",
        "null": b"null",
        "two objects": JSON_ROW.strip() * 2,
        "half an object": b'{"a": 1, "b"',
        "another type": b'{"a": "one", "b": "x"}',
        "a nested value": b'{"a": {"b": 1}}',
        "infinity": b'{"a": 1e999}',
        "thousands of digits": b'{"a": -' + b"9" * 5_000 + b"}",
        "beyond all doubles": b'{"a": 10e308}',
        "not UTF-8": b'{"b": "gr\xfcn"}',
        "a NUL": b'{"b": "\x00"}',
        "single quotes": b"{'a': 1}",
        "a comment": b'{"a": 1} // one',
        "a comma too many": b'{"a": 1,}',
        "deep": b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "deep objects": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        "never closed": b'{"a": ' + b"[" * 100_000,
    }.items():
        yield Hostile("jsonl", f"{name}.jsonl", JSON_ROW + line + b"\n" + JSON_ROW, 2, True)
    for name, content, good in [
        ("BOM.jsonl", BOM8 + JSON_ROW, 1),
        ("UTF-16.jsonl", BOM16 + '{"a": 1}\n'.encode("utf-16-le"), 0),
        ("one large array.jsonl", json.dumps([{"a": 1}] * 9, indent=1).encode(), 0),
        ("a new key.jsonl", b'{"a": 1, "c": 2}\n' + JSON_ROW, None),
        ("a long number.jsonl", b'{"a": ' + b"9" * 400 + b"}\n" + JSON_ROW, None),
        ("a longer number.jsonl", b'{"a": ' + b"9" * 5_000 + b"}\n" + JSON_ROW, None),
        ("NaN.jsonl", b'{"a": NaN}\n' + JSON_ROW, None),
        ("a surrogate.jsonl", b'{"b": "\\ud800"}\n' + JSON_ROW, None),
        ("an escaped NUL.jsonl", b'{"b": "\\u0000"}\n' + JSON_ROW, 2),
        ("a key twice.jsonl", b'{"a": 1, "a": 2}\n' + JSON_ROW, None),
        ("blank lines.jsonl", b"\n \n\t\r\n" + JSON_ROW, 1),
        ("no key.jsonl", b"{}\n" + JSON_ROW, 2),
        ("a long line.jsonl", b'{"b": "' + b"x" * (17 << 20) + b'"}\n' + JSON_ROW, 1),
    ]:
        yield Hostile("jsonl", name, content, good)
    for depth in (70, 400, 900):
        nested = b'{"a":' * depth + b"1" + b"}" * depth
        yield Hostile("jsonl", f"deep {depth}.jsonl", nested + b"\n", alone=True)
    wide = json.dumps({f"k{each}": each for each in range(70_000)}).encode()
    yield Hostile("jsonl", "wide.jsonl", wide + b"\n", alone=True)
    yield from of_any_kind("jsonl", JSONL, "jsonl", seed)


def text(seed: random.Random) -> Iterator[Hostile]:
    """Lines that are not UTF-8, or never end."""
    for name, content, good in [
        ("BOM.txt", BOM8 + TEXT_ROW, 1),
        ("UTF-16.txt", BOM16 + "a line\n".encode("utf-16-le"), None),
        ("not UTF-8.txt", TEXT_ROW + b"gr\xfcn\n" + TEXT_ROW, 2),
        ("half a character.txt", TEXT_ROW + b"\xf0\x9f\x98\n" + TEXT_ROW, 2),
        ("a NUL.txt", b"\x00\n" + TEXT_ROW, 2),
        ("line ends.txt", b"a\rb\r\nc\n\x0bd\x85\n".replace(b"\x85", b""), 4),
        ("a long line.txt", b"x" * (17 << 20) + b"\n" + TEXT_ROW, 1),
        ("no line end.txt", b"a line", 1),
    ]:
        yield Hostile("text", name, content, good)
    yield from of_any_kind("text", TEXT, "txt", seed)


def of_any_kind(kind: str, content: bytes, ending: str, seed: random.Random) -> Iterator[Hostile]:
    """What befalls any of them, compressed or not."""
    for name, damaged in [*flips(content, 8, seed), *wrong(content).items()]:
        yield Hostile(kind, f"{name}.{ending}", damaged)
    for suffix in [each for each in COMPRESS if each]:
        packed = COMPRESS[suffix](content * 100)
        eighths = [len(packed) * each // 8 for each in (1, 4, 7)]
        for name, damaged in [*cuts(packed, eighths), *flips(packed, 4, seed)]:
            must = name.startswith("cut") or None
            yield Hostile(kind, f"{name}.{ending}{suffix}", damaged, None, must)
        yield Hostile(kind, f"not packed.{ending}{suffix}", content, 0, True)
        yield Hostile(kind, f"empty.{ending}{suffix}", b"")
    bomb = bytes(64 << 20)  # one line without an end
    yield Hostile(kind, f"bomb.{ending}.gz", gzip.compress(bomb, 1), 0, None)
    yield Hostile(kind, f"bomb.{ending}.bz2", bz2.compress(bomb[: 32 << 20]), 0, None)
