"""Good specs, mutated as text and as YAML, and loaded: a spec, or one InvalidSpec."""

import copy
import random
from functools import cache
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec
from tasks.spec_file import complete_spec, load_spec
from tasks.spec_reading.yaml import parse_yaml
from tests.fuzz.mutating import mutated

SPECS = Path(__file__).parents[2] / "deployments" / "specs"
LONGEST_MESSAGE = 20_000
ODD: list[Any] = [
    *(None, True, 0, -1, 1e308, float("nan"), float("inf"), 10**400, "", " ", "\x00", "~", "/"),
    *("../../..", "s3://", "://", "a:b:c", "{scheduled}", "{scheduled:%}", "{}", "{0.__class__}"),
    *("*", "[", "\ud800", "é" * 300, "x" * 70_000, [], {}, [[]], [None], {"": None}, {"kind": []}),
    *({1: 2}, {None: 1}, {"kind": "csv"}, [{"kind": "python"}], "file:///etc/passwd", "a\nb"),
]
SNIPPETS = [
    *(b"&a [*a]", b"*a", b"!!python/object:os.system x", b"!!timestamp 2026-13-45", b"2026-13-45"),
    *(
        b"<<: 1",
        b"<<: *a",
        b"? [a]",
        b"!!binary x",
        b"!!set {a}",
        b"!!int ''",
        b"{{{{",
        b"[" * 400,
    ),
    *(
        b"{a: " * 500,
        b"%TAG",
        b"---\n",
        b"\t",
        b"\xff",
        b"\x00",
        b"0x",
        b"1:2:3",
        b".inf",
        b"!!float x",
    ),
    *(
        b"!!omap [a]",
        b"!!pairs x",
        b"0b",
        b"- -",
        b"|",
        b">-",
        b"'",
        b'"',
        b"!",
        b"!!null 1",
        b"!!bool x",
        b"0x" + b"f" * 9_000,
    ),
]
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@cache
def originals() -> list[bytes]:
    """The specs that are delivered, and one that grows."""
    return [*(file.read_bytes() for file in sorted(SPECS.glob("*.yaml"))), BOMB.encode()]


def load_one(seed: random.Random, folder: Path) -> str | None:
    """Mutate a spec and load it; what is wrong with how that went.

    Raises:
        Exception: whatever was raised, but for InvalidSpec.
    """
    text = seed.choice(originals())
    try:
        if seed.random() < 0.5:
            load_spec(spec_file(as_text(text, seed), folder), overrides(seed))
        else:
            raw = parse_yaml(text.decode())
            complete_spec(as_values(raw, seed), overrides(seed), folder)
    except InvalidSpec as error:
        return complaint(str(error))
    except ValueError:
        if text != BOMB.encode():  # which no parser lets in
            raise
    return None


def complaint(message: str) -> str | None:
    """What is wrong with a message."""
    if len(message) > LONGEST_MESSAGE:
        return f"a message of {len(message):,} characters: {message[:200]!r}"
    return None if message.strip() else "an empty message"


def spec_file(content: bytes, folder: Path) -> Path:
    """A spec's file."""
    file = folder / "spec.yaml"
    file.write_bytes(content)
    return file


def as_text(content: bytes, seed: random.Random) -> bytes:
    """YAML with a few changes, among them YAML's own odd signs."""
    lines = content.splitlines(keepends=True)
    at = seed.randrange(len(lines))
    match seed.randrange(4):
        case 0:
            return mutated(content, seed)
        case 1:
            lines.insert(at, lines.pop(seed.randrange(len(lines))))
        case 2:
            key, _, _ = lines[at].partition(b":")
            lines[at] = key + b": " + seed.choice(SNIPPETS) + b"\n"
        case _:
            lines[at] = b"  " * seed.randrange(3) + lines[at].lstrip()
    return b"".join(lines)


def as_values(raw: Any, seed: random.Random) -> Any:
    """A spec of which a few values are others."""
    raw = copy.deepcopy(raw)
    for _ in range(seed.randint(1, 3)):
        at = raw
        while isinstance(at, (dict, list)) and at:
            key = seed.choice([*at]) if isinstance(at, dict) else seed.randrange(len(at))
            if not isinstance(at[key], (dict, list)) or seed.random() < 0.3:
                at[key] = copy.deepcopy(seed.choice(ODD))
                break
            at = at[key]
    return raw


def overrides(seed: random.Random) -> list[str]:
    """Now and then, what `--set` may be given."""
    names = [
        "source.path",
        "steps.0",
        "model",
        "a..b",
        "",
        "sink.path.x",
        "resources.num_cpus",
        "0",
    ]
    value = seed.choice(SNIPPETS).decode("latin-1")
    return [f"{seed.choice(names)}={value}"] if seed.random() < 0.2 else []
