"""Words on which configs give the same rows."""

from itertools import permutations
from pathlib import Path

import pytest

from tasks.planning.equal_configs import equals_of, leave_word
from tasks.protocol.layout import OutputFolder
from tasks.protocol.storage import open_storage


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_what_is_equal_to_an_equal_is_equal(tmp_path: Path, order: tuple[int, ...]) -> None:
    storage, path = open_storage(str(tmp_path / "out"))
    output = OutputFolder(path)
    assert equals_of(storage, output, ["a"]) == ("a",)
    words = [[["a", "b"], ["m", "n"]], [["b", "c"]], [["c", "d"], ["x"]]]
    for at in order:
        leave_word(storage, output, words[at], {"rows": 64})
        leave_word(storage, output, words[at], {"rows": 65})
    assert equals_of(storage, output, ["a", "earlier"]) == ("a", "earlier", "b", "c", "d")
    assert equals_of(storage, output, ["d"]) == ("d", "a", "b", "c")
    assert equals_of(storage, output, ["n"]) == ("n", "m")
    assert equals_of(storage, output, ["z"]) == ("z",)
    assert len(storage.list(output.equal_configs)) == 3
