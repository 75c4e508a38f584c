"""What a stack remembers in its folder: ports, secrets, and which processes are its own."""

import os
import tempfile
from pathlib import Path
from secrets import token_hex

from pydantic import BaseModel, Field

from tasks.lease import Holder

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_FOLDER = ROOT / ".stack"
"""Where the shipped specs find their data, and `make up` puts it."""
HOST = "127.0.0.1"
POOL = "batch-inference"
"""The work pool of deployments/prefect.yaml."""


class State(BaseModel):
    """One stack, from `up` to `down`."""

    prefect_port: int
    ray_port: int
    mark: str = Field(default_factory=lambda: token_hex(16))
    """In the environment of all of its processes, however far from the first."""
    ray_token: str = Field(default_factory=lambda: token_hex(24), repr=False)
    database: str = ""
    """Where the server keeps its own, without a password; empty for a file in the folder."""
    processes: dict[str, Holder] = {}
    """The services' processes by name; a start time tells each from a later one with its pid."""

    @property
    def ui_url(self) -> str:
        """Prefect's UI."""
        return f"http://{HOST}:{self.prefect_port}"

    @property
    def api_url(self) -> str:
        """Prefect's API."""
        return f"{self.ui_url}/api"

    @property
    def ray_url(self) -> str:
        """Ray's dashboard and Jobs API."""
        return f"http://{HOST}:{self.ray_port}"

    @property
    def worker_name(self) -> str:
        """Told from workers that people start for the same pool."""
        return f"stack-{self.mark[:8]}"

    @property
    def ray_folder(self) -> Path:
        """Ray's files; outside the stack's folder, since paths of sockets must be short."""
        return Path(tempfile.gettempdir()) / f"ray-stack-{self.mark[:8]}"

    def is_alive(self, service: str) -> bool:
        """Whether a service's process runs."""
        return service in self.processes and self.processes[service].is_alive()


def state_file(folder: Path) -> Path:
    """Where a stack's state is."""
    return folder / "stack.json"


def load_state(folder: Path) -> State | None:
    """The state; None where no stack is up."""
    try:
        return State.model_validate_json(state_file(folder).read_text())
    except FileNotFoundError:
        return None


def save_state(folder: Path, state: State) -> None:
    """Store the state where nobody else can read it: it holds a token."""
    new = state_file(folder).with_suffix(".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(state.model_dump_json(indent=2))
    new.replace(state_file(folder))
