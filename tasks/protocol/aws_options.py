"""Where an S3 store's tables lie, and by which keys, in the words of deltalake and its like."""

import os
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec

ENDPOINT = "endpoint_url"


def aws_options(storage_options: dict[str, Any]) -> dict[str, str]:
    """Fsspec's options as deltalake takes them; credentials come from the environment.

    Raises:
        InvalidSpec: one that it has no word for says whose credentials are to be taken, or who
            vouches for the store.
    """
    if "profile" in storage_options:
        problem = "is not used for reading and writing tables: set it in the environment, as "
        problem += "AWS_PROFILE, here and on the cluster's nodes"
        raise InvalidSpec.at("storage_options.profile", storage_options["profile"], problem)
    client = storage_options.get("client_kwargs") or {}
    checked = client.get("verify")
    if isinstance(checked, str) and "SSL_CERT_FILE" not in os.environ:
        problem = "is not used for reading and writing tables: set it in the environment, as "
        problem += "SSL_CERT_FILE, here and on the cluster's nodes"
        raise InvalidSpec.at("storage_options.client_kwargs.verify", checked, problem)
    # What a bucket may ask of whatever is put into it.
    put = storage_options.get("s3_additional_kwargs") or {}
    # Where the endpoint comes from the environment, plain HTTP must still be allowed here.
    environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = storage_options.get(ENDPOINT) or client.get(ENDPOINT) or environment
    endpoint = endpoint or endpoint_in_files()
    own = keys_in_files() if endpoint and not storage_options.get("anon") else {}
    given = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true" if str(endpoint).startswith("http://") else None,
        "AWS_REGION": client.get("region_name"),
        "AWS_ACCESS_KEY_ID": storage_options.get("key") or own.get("aws_access_key_id"),
        "AWS_SECRET_ACCESS_KEY": storage_options.get("secret") or own.get("aws_secret_access_key"),
        "AWS_SESSION_TOKEN": storage_options.get("token") or own.get("aws_session_token"),
        "AWS_SKIP_SIGNATURE": "true" if storage_options.get("anon") else None,
        "AWS_REQUEST_PAYER": "true" if storage_options.get("requester_pays") else None,
        "AWS_ALLOW_INVALID_CERTIFICATES": "true" if checked is False else None,
        "AWS_SERVER_SIDE_ENCRYPTION": put.get("ServerSideEncryption"),
        "AWS_SSE_KMS_KEY_ID": put.get("SSEKMSKeyId"),
        "AWS_SSE_BUCKET_KEY_ENABLED": "true" if put.get("BucketKeyEnabled") else None,
    }
    return {name: str(value) for name, value in given.items() if value}


def keys_in_files() -> dict[str, str]:
    """The keys that this user has in AWS's files; none where the environment has some.

    Where an endpoint is given, deltalake does not look there, and asks the machine that it takes
    itself to run on.
    """
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return {}
    profile: dict[str, str] = aws_files()[1]
    return profile


def endpoint_in_files() -> str | None:
    """The store that AWS's files name in place of AWS's own, as s3fs takes it and nobody else.

    A ledger at AWS's own would be apart from its rows.
    """
    config = os.path.expanduser(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config")
    if not os.path.isfile(config) or ENDPOINT not in Path(config).read_text(errors="replace"):
        return None  # without botocore, which takes its time to be imported
    files, profile = aws_files()
    services: dict[str, Any] = files.get("services", {}).get(profile.get("services"), {})
    return services.get("s3", {}).get(ENDPOINT) or profile.get(ENDPOINT)


def aws_files() -> tuple[dict[str, Any], dict[str, Any]]:
    """What AWS's files say, and the part of it that counts for this user."""
    import botocore.session

    session = botocore.session.Session()
    files: dict[str, Any] = session.full_config
    return files, files.get("profiles", {}).get(session.profile or "default", {})
