"""Makes bytes that are nearly right."""

import random

MOST_CHANGES = 4
BORDERS = [b"\x00", b"\xff", b"\x7f", b"\x80", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(8)]


def mutated(content: bytes, seed: random.Random) -> bytes:
    """A few changes to a file: bytes flipped, cut out, doubled, moved or made extreme."""
    data = bytearray(content)
    for _ in range(seed.randint(1, MOST_CHANGES)):
        at = seed.randrange(len(data) + 1)
        length = min(seed.choice((1, 2, 8, 64, 1024)), len(data) - at)
        match seed.randrange(6):
            case 0:
                data[at : at + length] = seed.randbytes(length)
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length]
            case 3:
                del data[at:]
            case 4:
                border = seed.choice(BORDERS)
                data[at : at + len(border)] = border
            case _:
                moved = data[at : at + length]
                del data[at : at + length]
                to = seed.randrange(len(data) + 1)
                data[to:to] = moved
    return bytes(data)
