"""Commands that bring something to a Prefect server which somebody has named."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tasks.errors import BatchInferenceError, InvalidSpec


@contextmanager
def named_server(*failures: type[Exception]) -> Iterator[None]:
    """Have the block speak to the server that PREFECT_API_URL names, or end with one message.

    Without one Prefect would start a server of its own, and what it was told would end with it.

    Args:
        failures: beside our errors, what is told in its own words.

    Raises:
        SystemExit: none is named, or it cannot be used, or what it was told is wrong.
    """
    from prefect.settings import PREFECT_API_URL

    from flows.named_server import trouble_told

    try:
        if not PREFECT_API_URL.value():
            raise InvalidSpec(
                "PREFECT_API_URL: is not set: export it first, such as "
                "PREFECT_API_URL=https://prefect.example.com/api"
            )
        with trouble_told():
            yield
    except Exception as error:
        if not isinstance(error, (BatchInferenceError, *failures)):
            raise
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, BatchInferenceError) else 1)
