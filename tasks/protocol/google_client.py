"""What gcsfs leaves to whoever uses it.

To say what is forbidden as everybody does, to ask at one interface only, and to say which object
it has read.
"""

import os
from typing import Any

from fsspec.asyn import sync

from tasks.protocol.object_stat import Whole

SECOND_INTERFACE = "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"
"""Where it would ask each time what kind of bucket one is: for a minute and more where nobody
answers there, as behind an endpoint of one's own."""


def prepare_gcsfs() -> None:
    """Let gcsfs do both in this process; whoever sets the variable has meant it.

    Raises:
        ImportError: it is not installed.
    """
    os.environ.setdefault(SECOND_INTERFACE, "false")
    from gcsfs import core, retry

    def validate_response(*args: Any, **named: Any) -> None:
        try:
            retry.validate_response(*args, **named)
        except OSError as error:
            if type(error) is OSError and str(error).startswith("Forbidden"):
                # Without a class or a number of its own it would pass for damaged data.
                raise PermissionError(str(error)) from error
            raise

    core.validate_response = validate_response


def whole_object(filesystem: Any, path: str) -> Whole:
    """An object and its generation, by one request."""
    headers, data = sync(filesystem.loop, filesystem._call, "GET", filesystem.url(path))
    return Whole(data, headers["x-goog-generation"])
