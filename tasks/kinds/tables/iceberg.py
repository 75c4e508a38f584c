"""Opens Iceberg's catalogs, and tables by what their catalog says or by a metadata file."""

import os
import re
from typing import Annotated, Any

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from tasks.errors import InvalidSpec
from tasks.protocol.aws_options import aws_options

METADATA = ".metadata.json"
"""How the names of metadata files end."""
NAME = re.compile(r"[^.]+(\.[^.]+)+")
"""A table's name in its catalog: one namespace at least."""
VARIABLE = re.compile(r"\$\{(\w+)\}")
SECRET_NAME = re.compile(
    r"(password|secret|token|credential|authorization|connection-string|[.-]key)$", re.IGNORECASE
)
PASSWORD = re.compile(
    r"://[^/@\s:]*:[^/@\s]+@"
    r"|^(?!https?:)[^:]+://[^/@:]*:[^@]+@"  # a database's may have slashes and blanks in it
    r"|[?&][^=&]*(?:pass|pwd|secret|token|credential)[^=&]*=[^&]+",
    re.IGNORECASE,
)
FILE_PROPERTIES = {
    "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_REGION": "s3.region",
    "AWS_ACCESS_KEY_ID": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_SESSION_TOKEN": "s3.session-token",
    "AWS_SKIP_SIGNATURE": "s3.anonymous",
}


def free_of_secrets(properties: dict[str, str]) -> dict[str, str]:
    """A catalog's properties, which are written down and shown with the spec.

    Raises:
        PydanticCustomError: one spells out a secret; an error of another type would show it.
    """
    for name, value in properties.items():
        told = [value] if SECRET_NAME.search(name) else PASSWORD.findall(value)
        if any(not VARIABLE.search(each) for each in told):
            problem = "{name} contains a secret: set it in the environment and write ${NAME} here"
            raise PydanticCustomError("secret", problem, {"name": name})
    return properties


CatalogProperties = Annotated[dict[str, str], AfterValidator(free_of_secrets)]


def open_catalog(field: str, properties: dict[str, str], storage_options: dict[str, Any]) -> Any:
    """A catalog of any type that pyiceberg knows: sql, rest, glue and others.

    Args:
        field: of the spec that has the properties, for messages.
        properties: pyiceberg's, such as type, uri and warehouse; ${NAME} stands for an
            environment variable. `name` is the catalog's own name in pyiceberg's configuration,
            which completes what is not said here.
        storage_options: of the tables' files, as fsspec takes them.

    Raises:
        InvalidSpec: the environment lacks a variable, or pyiceberg cannot make a catalog of it.
    """
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NotInstalledError

    given = {name: filled_in(field, value) for name, value in properties.items()}
    refuse_relative(field, given)
    name = given.pop("name", "default")
    try:
        return load_catalog(name, **file_properties(storage_options), **given)
    except (ValueError, ImportError, NotInstalledError) as error:
        problem = f"is not a catalog: {without_values(str(error), properties)}"
        # The former error would carry a secret into every traceback.
        raise InvalidSpec.at(field, properties, problem) from None


def refuse_relative(field: str, properties: dict[str, str]) -> None:
    """Refuse a catalog in a file that each process would look for in another folder.

    Raises:
        InvalidSpec: says how to name it.
    """
    uri = properties.get("uri", "")
    if uri.startswith("sqlite:///") and not uri.startswith("sqlite:////") and uri[10:11] != ":":
        problem = "has no absolute path: write sqlite:////folder/file.db, with four slashes"
        raise InvalidSpec.at(f"{field}.uri", uri, problem)


def open_metadata(path: str, storage_options: dict[str, Any]) -> Any:
    """A table to be read, by one of its metadata files; without a catalog.

    Raises:
        FileNotFoundError: it is not there.
    """
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(path, file_properties(storage_options))


def planned(scan: Any, field: str, place: str) -> list[Any]:
    """What is to be read of a table, file by file.

    Args:
        scan: pyiceberg's.
        field: of the spec that names the table, for the message.
        place: what stands there.

    Raises:
        InvalidSpec: rows were deleted in a way that pyiceberg does not know.
    """
    try:
        return list(scan.plan_files())
    except (ValueError, NotImplementedError) as error:
        if "equality deletes" not in str(error):
            raise
        problem = f"has deletes that cannot be read: {error}; rewrite its data files"
        raise InvalidSpec.at(field, place, problem) from error


def file_properties(storage_options: dict[str, Any]) -> dict[str, str]:
    """Fsspec's options as pyiceberg takes them; credentials come from the environment."""
    known = aws_options(storage_options)
    # Else Arrow would ask AWS which region a bucket is in, wherever it lies.
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    named = {"AWS_REGION": region, **known}
    return {mine: found for name, mine in FILE_PROPERTIES.items() if (found := named.get(name))}


def filled_in(field: str, value: str) -> str:
    """A property with the values of its variables.

    Raises:
        InvalidSpec: the environment has no such variable.
    """
    missing = [name for name in VARIABLE.findall(value) if name not in os.environ]
    if missing:
        problem = f"uses ${{{missing[0]}}}, which is not set in the environment"
        raise InvalidSpec.at(field, value, problem)
    return VARIABLE.sub(lambda found: os.environ[found[1]], value)


def without_values(message: str, properties: dict[str, str]) -> str:
    """A message that does not show what the environment's variables hold."""
    for name in VARIABLE.findall(" ".join(properties.values())):
        message = message.replace(os.environ[name], "***")
    return message
