"""Words of a text, whole and without blanks around them, for answers that models find in it."""

import unicodedata
from functools import cache

from tasks.kinds.models.hf.places import Place

WITHOUT_BLANKS = ((0x0E00, 0x0FFF), (0x1000, 0x109F), (0x1780, 0x17FF))
"""Letters of Thai, Lao and Tibetan, of Burmese and of Khmer, between whose words no blanks stand;
nor do any between those of Chinese and Japanese, whose letters are wide."""


def of_whole_words(text: str, offsets: list[Place], words: list[int | None]) -> list[Place]:
    """Where the word begins and ends that each token of a text is a part of.

    A word goes on from one token to the next where the tokenizer says so and there are letters or
    digits on both sides of the border, of a script that has blanks between words. What tokenizers
    call a word would not do: of some it is all of the text (Llama's), of others what stands
    between two blanks, which is a sentence in Chinese, and has the full stop in English. Of a
    script without blanks each token is a word, as nothing tells more. A token of blanks alone is
    of the word that follows.

    Args:
        text: all of it.
        offsets: of the tokens.
        words: which one each is of, in the tokenizer's words; None: of none.
    """
    found = list(offsets)
    first = 0
    for at in range(1, len(offsets) + 1):
        if at == len(offsets) or not (
            None not in (words[at - 1], words[at])
            and (
                is_blank(text, offsets[at - 1])
                or (words[at] == words[at - 1] and goes_on(text, offsets[at - 1], offsets[at]))
            )
        ):
            found[first:at] = [(offsets[first][0], offsets[at - 1][1])] * (at - first)
            first = at
    return found


def is_blank(text: str, token: Place) -> bool:
    """Whether a token has nothing but blanks."""
    return not text[token[0] : token[1]].strip()


def goes_on(text: str, token: Place, following: Place) -> bool:
    """Whether two tokens are of one word, by what stands on both sides of their border."""
    # Some share a character, of which each has some bytes; an accent may be of neither.
    first, last = sorted((token[1] - 1, following[0]))
    border = text[max(0, first) : last + 1]
    return bool(border) and all(map(is_of_word, border))


@cache
def is_of_word(character: str) -> bool:
    """Whether it is a letter, an accent or a digit, of a script that has blanks between words."""
    if any(first <= ord(character) <= last for first, last in WITHOUT_BLANKS):
        return False
    is_wide = unicodedata.east_asian_width(character) in "WF"
    return unicodedata.category(character)[0] in "LMN" and not is_wide


def without_blanks(text: str, start: int, end: int) -> Place:
    """A part of a text without the blanks that it begins and ends with."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, start + len(part.strip())
