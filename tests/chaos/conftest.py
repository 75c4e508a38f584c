"""One Prefect server for the chaos tests."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.session import Session, session


@pytest.fixture(scope="session")
def chaos_session(prefect_database: Path) -> Iterator[Session]:
    # pytest's own folders are too deep for Ray's sockets.
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    with session(folder, prefect_database) as shared:
        yield shared
    shutil.rmtree(folder)
