"""The Ray that RAY_ADDRESS names, where it is this user's and runs on this machine.

Ray's own search would join whatever was last started here, by whomever; only what somebody has
named is joined.
"""

import os
import re
import socket
from importlib.util import find_spec
from pathlib import Path

import psutil

from tasks.errors import InvalidSpec

VARIABLE = "RAY_ADDRESS"


def ray_at_hand() -> str | None:
    """Its address, as host:port; None where none is named, or one that is elsewhere.

    Raises:
        InvalidSpec: the one that is named is another user's, of another installation, or gone.
    """
    given = os.environ.get(VARIABLE, "")
    found = re.fullmatch(r"([\w.-]+):(\d+)", given)  # else a URL, for other clients of Ray's
    if not found or found[1] not in own_addresses():
        return None
    raylet = raylet_of(found[2])
    if raylet is None:
        problem = "is no Ray that runs here: start it, or unset the variable"
        raise InvalidSpec.at(VARIABLE, given, problem)
    if raylet.uids().real != os.getuid():
        problem = f"is {raylet.username()}'s: unset the variable, or name it in cluster.address"
        raise InvalidSpec.at(VARIABLE, given, problem)
    if own_installation() not in Path(raylet.exe()).parents:
        problem = f"runs {raylet.exe()}, another installation: unset the variable"
        raise InvalidSpec.at(VARIABLE, given, problem)
    return given


def own_addresses() -> set[str]:
    """Names and addresses of this machine."""
    addresses = (each.address for found in psutil.net_if_addrs().values() for each in found)
    return {"localhost", socket.gethostname(), *addresses}


def raylet_of(port: str) -> psutil.Process | None:
    """A node on this machine of the Ray whose head listens on a port."""
    for process in psutil.process_iter(["name", "cmdline"]):
        arguments = process.info["cmdline"] or ()
        named = (each for each in arguments if each.startswith("--gcs-address="))
        if process.info["name"] == "raylet" and any(each.endswith(f":{port}") for each in named):
            return process
    return None


def own_installation() -> Path:
    """Folder of the Ray package that this process would import."""
    spec = find_spec("ray")
    assert spec
    assert spec.origin
    return Path(spec.origin).resolve().parent
