"""Which files below a path are inputs, and which others lie there."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tasks.counted import counted
from tasks.kinds.sources.input_names import (
    excludes_folder,
    glob_in,
    has_suffix,
    is_excluded,
    is_shown,
    is_shown_by,
)

MOST_ENDINGS = 5


@dataclass(frozen=True)
class WantedFiles:
    """What a source says of its files' names."""

    suffixes: tuple[str, ...]
    """Endings that are wanted in folders; empty: all."""
    hides_underscores: bool = True
    """Whether _ hides files; it hides folders anyway."""
    exclude: Collection[str] = ()
    """Patterns. Files that they leave out are found all the same, to be told of; of folders that
    they leave out nobody need be able to list any."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """Files that are not wanted for their endings, by these."""

    def shows(self, name: str, glob: str = "") -> bool:
        """Whether no part of a path is hidden; a glob that spells the hidden part out shows it."""
        return is_shown(name, glob, hides_underscores=self.hides_underscores)

    def ends_well(self, name: str, suffixes: tuple[str, ...]) -> bool:
        """Whether a file that is shown has a wanted ending; notes those that have not."""
        if has_suffix(name, suffixes):
            return True
        file = name.rpartition("/")[2]
        if not (file.startswith(("_", ".")) or name.endswith("/")):
            is_counted = not is_excluded(name, [*self.exclude])
            self.passed_over.update([PurePosixPath(file).suffix.lower()] if is_counted else [])
        return False

    def leaves_out(self, path: str, folder: str) -> bool:
        """Whether nothing in a folder, to which a path leads, would be an input."""
        if glob_in(path):
            is_hidden = not is_shown_by(path, f"{folder}/", self.shows)
        else:
            is_hidden = not self.shows(f"{folder[len(path) :]}/")
        return is_hidden or excludes_folder(folder, self.exclude)


def told(passed_over: Counter[str]) -> str:
    """How many files there are of other endings, in a few words; empty where none is."""
    if not passed_over:
        return ""
    most_first = sorted(passed_over.items(), key=lambda each: (-each[1], each[0]))
    first = [f"{number:,} {ending or 'without'}" for ending, number in most_first[:MOST_ENDINGS]]
    more = ["..."] if len(passed_over) > MOST_ENDINGS else []
    files = counted(passed_over.total(), "file")
    return f"{files} left out for other endings ({', '.join(first + more)})"
