"""Options of filesystems: names and values that fsspec takes."""

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator

SWITCHES = {
    *("anon", "use_ssl", "verify", "requester_pays", "version_aware", "local_expiry_check"),
    *("use_listings_cache", "skip_instance_cache", "default_fill_cache", "cache_regions"),
}
"""Options that are on or off; to Python every text is on, `false` too."""
WORDS = {"true": True, "yes": True, "on": True, "1": True, "y": True, "t": True}
WORDS |= {"false": False, "no": False, "off": False, "0": False, "n": False, "f": False}
"""What a text may be meant as. Of a switch that takes other texts these are left alone: of
`verify` a file, of Google's `requester_pays` a project."""


def refuse_words(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse a text where an option is on or off.

    Raises:
        ValueError: names the option and says what to write.
    """
    client = options.get("client_kwargs")
    for name, value in [*options.items(), *(client.items() if isinstance(client, dict) else ())]:
        meant = WORDS.get(value.strip().lower()) if isinstance(value, str) else None
        if name in SWITCHES and meant is not None:
            right = str(meant).lower()
            raise ValueError(
                f"{name} is {value!r}, a text, and every text counts as true: write {name}: "
                f"{right}, without quotes"
            )
    return options


StorageOptions: TypeAlias = Annotated[dict[str, Any], AfterValidator(refuse_words)]
