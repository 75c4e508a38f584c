"""WebDataset shards made on the spot."""

import io
import tarfile
from pathlib import Path

Files = dict[str, bytes]


def tar(files: Files, mode: str = "w") -> bytes:
    """An archive of these files, in their order."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return stream.getvalue()


def save(folder: Path, name: str, files: Files) -> Path:
    """A shard; compressed where its name says so."""
    ending = name.rpartition(".")[2]
    modes = {"gz": "w:gz", "tgz": "w:gz", "bz2": "w:bz2", "tbz2": "w:bz2"}
    modes |= {"xz": "w:xz", "txz": "w:xz"}
    (folder / name).write_bytes(tar(files, modes.get(ending, "w")))
    return folder / name
