"""The Ray that a local job joins: by its address, or the one that RAY_ADDRESS names.

Ray's own search would join whatever was last started here, by whomever; only what somebody has
named is joined, and of what the variable names only this user's on this machine.
"""

import os
import re
import socket
from importlib.util import find_spec
from pathlib import Path

import psutil

from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.clusters import HOST_AND_PORT, AnyCluster, LocalCluster

VARIABLE = "RAY_ADDRESS"
ANSWER_SECONDS = 5.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray on Linux as it is on macOS: its processes take each other to be at 127.0.0.1, and listen on
that alone; else on all of the machine's addresses. Whoever joins such a Ray needs this too."""


def joined(cluster: AnyCluster) -> AnyCluster:
    """The cluster a job goes to: `local` takes the Ray that RAY_ADDRESS names on this machine.

    Raises:
        InvalidSpec: that Ray cannot be joined.
    """
    if not isinstance(cluster, LocalCluster) or cluster.address is not None:
        return cluster
    return cluster.model_copy(update={"address": ray_at_hand()})


def reached(cluster: AnyCluster) -> AnyCluster:
    """The cluster a job goes to; where that is a Ray at an address, it answers.

    Raises:
        InvalidSpec: that Ray cannot be joined.
        Unreachable: nobody listens there.
    """
    cluster = joined(cluster)
    if isinstance(cluster, LocalCluster) and cluster.address is not None:
        check_answers(cluster.address)
    return cluster


def check_answers(address: str) -> None:
    """See that somebody listens at an address; Ray itself would try for ten minutes and more.

    Raises:
        Unreachable: nobody does.
    """
    found = HOST_AND_PORT.fullmatch(address)
    if not found:  # a word of Ray's own, such as `auto`
        return
    try:
        socket.create_connection((found[1], int(found[2])), ANSWER_SECONDS).close()
    except OSError as error:
        raise Unreachable(
            f"cluster.address: {address!r} does not answer ({error}): start Ray there, with `ray "
            f"start --head --port={found[2]}`, or correct the address"
        ) from error


def is_on_loopback(cluster: AnyCluster) -> bool:
    """Whether a job's Ray is reached, or will be, without leaving this machine."""
    if not isinstance(cluster, LocalCluster) or cluster.address is None:
        return isinstance(cluster, LocalCluster)
    found = HOST_AND_PORT.fullmatch(cluster.address)
    return found is not None and found[1] in LOOPBACK


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
        problem = "is not a Ray that runs here: start it, or unset the variable"
        raise InvalidSpec.at(VARIABLE, given, problem)
    if raylet.uids().real != os.getuid():
        problem = (
            f"belongs to {raylet.username()}: unset the variable, or set it in cluster.address"
        )
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
