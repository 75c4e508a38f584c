"""What models that lie in a file or folder have in common: where it is, what identifies it."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, ClassVar, TypeVar

from pydantic import Field

from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.filesystem_options import StorageOptions
from tasks.kinds.first_line import first_line
from tasks.kinds.models.fetched_files import fetched
from tasks.kinds.models.model import Model
from tasks.kinds.models.safetensors_file import refuse_pointer
from tasks.protocol.object_stat import Stat
from tasks.protocol.storage import FsspecStorage, open_storage

Found = TypeVar("Found")


class FileModel(Model):
    """A model in a file or folder, local or at any URL that fsspec knows."""

    path: str = Field(
        min_length=1,
        description="File or folder of the model: a path that every node can read, or a URL as in "
        "s3://bucket/model. Relative to the spec's file.",
    )
    storage_options: StorageOptions = Field(
        default={},
        description="For fsspec, e.g. {endpoint_url: ...}; credentials come from the environment.",
    )

    suffixes: ClassVar[tuple[str, ...]] = ()
    """How the file's name may end; empty: in any way, or it is a folder."""
    place_field: ClassVar[str] = "model.path"
    """The spec's field that says where it lies, for messages."""

    def check(self) -> None:
        """See that the model is there.

        Raises:
            InvalidSpec: it is not, or is of another kind.
            Unreachable: the storage does not answer.
        """
        files = self.files()
        if not files:
            raise InvalidSpec.at(self.place_field, self.path, "has no file; check the path")
        if self.suffixes and not self.path.endswith(self.suffixes):
            problem = f"must end in {' or '.join(self.suffixes)}"
            raise InvalidSpec.at(self.place_field, self.path, problem)

    def fingerprint(self) -> str:
        """Hash of the local files' bytes; of remote ones' names, sizes and versions."""
        storage, _ = self.opened()
        content = hashlib.sha256()
        for name, stat in self.files().items():
            version = sha256_of(stat.path) if storage.is_local else f"{stat.size} {stat.identity}"
            content.update(f"{name}\0{version}\n".encode())
        return content.hexdigest()

    def has_changed(self, fingerprint: str) -> bool:
        """Whether another model lies there now, as one that was trained meanwhile."""
        return self.fingerprint() != fingerprint

    @property
    def is_known_by_content(self) -> bool:
        """Only what is local is read; elsewhere two files may have one size and time of writing."""
        return self.opened()[0].is_local

    @property
    def weights_bytes(self) -> int | None:
        """Of the file, or all that are in the folder."""
        return sum(stat.size for stat in self.files().values())

    def files(self) -> dict[str, Stat]:
        """The model's files by their names in its folder; of a single file, its name.

        Raises:
            InvalidSpec: no filesystem is known for the path.
            Unreachable: the storage does not answer.
        """
        storage, path = self.opened()
        try:
            whole = storage.stat(path)
            stats = [whole] if whole else storage.list(path)
        except OSError as error:
            raise self.unreachable(error) from error
        base = os.path.dirname(path) if whole else path
        return {os.path.relpath(stat.path, base): stat for stat in stats}

    def found_in_file(
        self,
        look: Callable[[IO[bytes]], Found],
        instead: str = "give the one file in it that contains the model",
    ) -> Found:
        """What a look into the one file finds.

        Args:
            look: raises ValueError with what is wrong.
            instead: what to do in place of naming a folder.

        Raises:
            InvalidSpec: it is a folder, or something is wrong.
        """
        storage, path = self.opened()
        if storage.stat(path) is None:
            raise InvalidSpec.at(self.place_field, self.path, f"is a folder; {instead}")
        return self.found_at(path, look)

    def found_at(self, path: str, look: Callable[[IO[bytes]], Found]) -> Found:
        """What a look into a file on the storage finds.

        Raises:
            InvalidSpec: something is wrong.
        """
        with self.opened()[0].filesystem.open(path, "rb") as file:
            try:
                refuse_pointer(file)
                return look(file)
            except ValueError as error:
                name = os.path.basename(path)
                problem = (
                    f"{error}" if self.path.endswith(name) else f"contains {name}, which {error}"
                )
                raise InvalidSpec.at(self.place_field, self.path, problem) from error

    def opened(self) -> tuple[FsspecStorage, str]:
        """The storage, and the path on it.

        Raises:
            InvalidSpec: no filesystem is known for the path.
            Unreachable: its client asks the storage at once, which does not answer.
        """
        try:
            return open_storage(os.path.expanduser(self.path), self.storage_options)
        except (ValueError, ImportError) as error:
            problem = f"cannot be opened: {error}"
            raise InvalidSpec.at(self.place_field, self.path, problem) from error
        except Exception as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: Exception) -> Unreachable:
        """What to say of a storage that does not answer."""
        problem = (
            f"cannot be reached: {first_line(error)}; check the credentials in the environment"
        )
        return Unreachable(f"{self.place_field}: {self.path!r} {problem}, and the network")

    def local(self) -> Path:
        """The file or folder on this node; fetched once for all replicas where it is elsewhere."""
        storage, path = self.opened()
        if storage.is_local:
            return Path(path)
        files = self.files()
        folder = fetched(storage, path, files)
        return folder / os.path.basename(path) if [*files] == [os.path.basename(path)] else folder


def sha256_of(path: str) -> str:
    """Digest of a local file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
