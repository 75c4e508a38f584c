"""An account of Azure's object store and its keys, as adlfs knows them, in deltalake's words."""

import os
from typing import Any
from urllib.parse import urlsplit

from tasks.errors import InvalidSpec

KINDS = ("CONNECTION_STRING", "ACCOUNT_KEY", "SAS_TOKEN", "CLIENT_ID")
"""Of keys, as variables of the environment name them behind AZURE_STORAGE."""


def azure_options(filesystem: Any) -> dict[str, str]:
    """What deltalake needs in order to reach the account that adlfs reaches, as the same user.

    Who has neither key nor secret is known by the machine: deltalake asks it as adlfs does.

    Args:
        filesystem: adlfs's, which has looked for keys in the environment as well.

    Raises:
        InvalidSpec: the environment has keys of two kinds, of which the two would take another.
    """
    refuse_two_keys()
    if filesystem.connection_string:
        given = of_string(filesystem.connection_string)
    else:
        given = {"azure_storage_account_name": filesystem.account_name, **keys_of(filesystem)}
        if host := getattr(filesystem, "account_host", None):
            given["azure_storage_endpoint"] = f"https://{host}"
    if str(given.get("azure_storage_endpoint")).startswith("http://"):
        given["azure_allow_http"] = "true"
    return {name: str(value) for name, value in given.items() if value}


def refuse_two_keys() -> None:
    """See that nobody has to choose between keys, since deltalake looks for some by itself.

    Raises:
        InvalidSpec: names two kinds that are there.
    """
    names = [name for kind in KINDS if os.environ.get(name := f"AZURE_STORAGE_{kind}")]
    if len(names) > 1:
        raise InvalidSpec(
            f"{names[0]} and {names[1]} are both in the environment, and rows would be written "
            "with one and their ledger with the other: unset one"
        )


def of_string(line: str) -> dict[str, str | None]:
    """What a connection string says, `AccountName=...;AccountKey=...`; adlfs takes it alone."""
    pairs = (part.partition("=") for part in line.split(";") if part.strip())
    said = {name.strip().lower(): value.strip() for name, _, value in pairs}
    endpoint = said.get("blobendpoint")
    account = said.get("accountname")
    if account is None and endpoint:
        account = (urlsplit(endpoint).hostname or "").partition(".")[0]
    if endpoint is None and "endpointsuffix" in said:
        scheme = said.get("defaultendpointsprotocol", "https")
        endpoint = f"{scheme}://{account}.blob.{said['endpointsuffix']}"
    return {
        "azure_storage_account_name": account,
        "azure_storage_account_key": said.get("accountkey"),
        "azure_storage_sas_key": said.get("sharedaccesssignature", "").lstrip("?"),
        "azure_storage_endpoint": endpoint,
    }


def keys_of(filesystem: Any) -> dict[str, str | None]:
    """By what adlfs signs its requests: the first that it has of these."""
    if filesystem.account_key:
        return {"azure_storage_account_key": filesystem.account_key}
    if filesystem.sas_token:
        return {"azure_storage_sas_key": filesystem.sas_token.lstrip("?")}
    if filesystem.client_id:
        return {
            "azure_storage_client_id": filesystem.client_id,
            "azure_storage_client_secret": filesystem.client_secret,
            "azure_storage_tenant_id": filesystem.tenant_id,
        }
    return {"azure_skip_signature": "true" if filesystem.anon else None}
