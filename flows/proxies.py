"""What on this machine no proxy is to be asked for."""

import os
from urllib.request import getproxies_environment

HOST = "127.0.0.1"
"""Where servers of ours listen."""


def pass_proxies_by() -> None:
    """See that no proxy is asked for what is on this machine, where the environment names any.

    Clients would ask it for a server of ours, and no proxy reaches this machine's own addresses.
    """
    known = getproxies_environment()  # with what is to be passed by, which all clients go by
    others = known.pop("no", "")
    if known and others != "*":
        # In both spellings: of two that differ the small letters count.
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(filter(None, [others, HOST]))
