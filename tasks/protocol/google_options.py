"""Google's object store and whose account asks, as gcsfs knows them, in deltalake's words."""

import json
import os
from typing import Any

from tasks.errors import InvalidSpec

BY_THEMSELVES = ("google_default", "cloud")
"""Accounts that gcsfs finds where deltalake looks as well: in the environment, the user's files, or
with the machine."""
OF_ITS_OWN = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_SERVICE_ACCOUNT_KEY")
"""Variables of the environment by which deltalake finds an account before any other."""


def google_options(filesystem: Any) -> dict[str, str]:
    """What deltalake needs in order to reach the store that gcsfs reaches.

    Args:
        filesystem: gcsfs's.

    Raises:
        InvalidSpec: its token is one that deltalake cannot use, or the environment names an
            account that deltalake alone would take.
    """
    known = [name for name in OF_ITS_OWN if os.environ.get(name)]
    if known:
        problem = "is only used for ledgers and tables: give that file in "
        problem += "GOOGLE_APPLICATION_CREDENTIALS"
        raise InvalidSpec.at(known[0], "***", problem)
    token = filesystem.credentials.token
    given: dict[str, str] = {}
    if token == "anon":
        given["google_skip_signature"] = "true"
    elif isinstance(token, dict):
        given["google_service_account_key"] = json.dumps(token)
    elif isinstance(token, str) and os.path.exists(token):
        given["google_application_credentials"] = token
    elif token is not None and token not in BY_THEMSELVES:
        problem = (
            "cannot be used for a ledger: give a credentials file, or leave it out and set that "
        )
        problem += "file in the environment, as GOOGLE_APPLICATION_CREDENTIALS"
        raise InvalidSpec(f"storage_options.token: it {problem}")
    endpoint = filesystem._location
    if not endpoint.endswith(".googleapis.com"):
        given["google_base_url"] = endpoint
        given["google_allow_http"] = "true" if endpoint.startswith("http://") else "false"
    return given
