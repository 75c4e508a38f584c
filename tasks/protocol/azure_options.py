"""An account of Azure's object store and its keys, as adlfs knows them, in deltalake's words."""

from typing import Any


def azure_options(filesystem: Any) -> dict[str, str]:
    """What deltalake needs in order to reach the account that adlfs reaches.

    Who has neither key nor secret is known by the machine: deltalake asks it as adlfs does.

    Args:
        filesystem: adlfs's, which has looked for keys in the environment as well.
    """
    said = connection(filesystem.connection_string or "")
    account = filesystem.account_name or said.get("AccountName")
    signature = filesystem.sas_token or said.get("SharedAccessSignature")
    host = f"{account}.blob.{said['EndpointSuffix']}" if "EndpointSuffix" in said else None
    host = getattr(filesystem, "account_host", None) or host
    scheme = said.get("DefaultEndpointsProtocol", "https")
    endpoint = said.get("BlobEndpoint") or (host and f"{scheme}://{host}")
    given = {
        "azure_storage_account_name": account,
        "azure_storage_account_key": filesystem.account_key or said.get("AccountKey"),
        "azure_storage_sas_key": (signature or "").lstrip("?"),
        "azure_storage_client_id": filesystem.client_id,
        "azure_storage_client_secret": filesystem.client_secret,
        "azure_storage_tenant_id": filesystem.tenant_id,
        "azure_storage_endpoint": endpoint,
        "azure_allow_http": "true" if str(endpoint).startswith("http://") else None,
        "azure_skip_signature": "true" if filesystem.anon else None,
    }
    return {name: str(value) for name, value in given.items() if value}


def connection(line: str) -> dict[str, str]:
    """The parts of a connection string, as in `AccountName=...;AccountKey=...`."""
    pairs = (part.partition("=") for part in line.split(";") if part.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}
