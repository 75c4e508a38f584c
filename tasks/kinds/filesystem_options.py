"""Options of filesystems: names and values that fsspec takes."""

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, TypeAdapter, ValidationError

SWITCHES = {
    *("anon", "use_ssl", "verify", "requester_pays", "version_aware", "local_expiry_check"),
    *("use_listings_cache", "skip_instance_cache", "default_fill_cache", "cache_regions"),
}
"""Options that are on or off; to Python every text is on, `false` too."""
WORD = TypeAdapter(bool)
"""What a text may be meant as. Other texts are left alone, as some switches take: `verify` a file,
Google's `requester_pays` a project."""


def meant_by(value: Any) -> bool | None:
    """The truth value that a text is meant as; None where it is none, or no text."""
    try:
        return WORD.validate_python(value.strip()) if isinstance(value, str) else None
    except ValidationError:
        return None


def refuse_words(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse a text where an option is on or off.

    Raises:
        ValueError: names the option and says what to write.
    """
    client = options.get("client_kwargs")
    for name, value in [*options.items(), *(client.items() if isinstance(client, dict) else ())]:
        if name in SWITCHES and (meant := meant_by(value)) is not None:
            right = str(meant).lower()
            raise ValueError(
                f"{name} is the text {value!r}, and any text counts as true: write {name}: "
                f"{right}, without quotes"
            )
    return options


StorageOptions: TypeAlias = Annotated[dict[str, Any], AfterValidator(refuse_words)]
