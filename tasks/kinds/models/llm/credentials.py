"""Secrets of a server's headers: taken from the environment where they are used, shown nowhere."""

import os
import re
from dataclasses import dataclass

from tasks.errors import InvalidSpec

HIDDEN = "***"
MIN_SECRET_CHARACTERS = 6
"""Shorter values are no secrets, and are found in any text."""
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
USUAL_NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
"""What no key looks like, so that a message may show it."""
HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
"""What a header may be called."""


@dataclass(frozen=True)
class Credentials:
    """Headers that hold secrets."""

    headers: dict[str, str]

    @classmethod
    def from_environment(cls, api_key: str | None, headers: dict[str, str]) -> "Credentials":
        """Take them from variables of the environment.

        Args:
            api_key: variable of the key that is sent as a bearer token.
            headers: variables by the headers' names.

        Raises:
            InvalidSpec: a variable is not set, or holds what no header can; never shows it. Or a
                header has no name.
        """
        found = {}
        if api_key is not None:
            found["Authorization"] = f"Bearer {secret('model.api_key_env', api_key)}"
        for name, variable in headers.items():
            if not HEADER.fullmatch(name):
                problem = "is not a name that an HTTP header can have, as api-key is"
                raise InvalidSpec.at("model.headers_env", name, problem)
            found[name] = secret(f"model.headers_env.{name}", variable)
        return cls(found)

    def hide(self, text: str) -> str:
        """A text without the secrets: servers like to quote them."""
        secrets = [value.removeprefix("Bearer ") for value in self.headers.values()]
        for value in sorted(secrets, key=len, reverse=True):
            if len(value) >= MIN_SECRET_CHARACTERS:
                text = text.replace(value, HIDDEN)
        return text

    def __repr__(self) -> str:
        return f"Credentials({', '.join(self.headers)})"


def secret(field: str, variable: str) -> str:
    """A variable's value.

    Raises:
        InvalidSpec: it is not set, or holds what no header can; or the name can be none, as where
            the key itself was written there, which no message shows.
    """
    if not NAME.fullmatch(variable):
        raise InvalidSpec(
            f"{field}: is not a name of an environment variable, such as OPENAI_API_KEY: put the "
            "key in the environment and only the variable's name in the spec"
        )
    value = os.environ.get(variable, "").strip()
    if not value:
        problem = (
            "is not set in the environment: set the variable here, where the run is checked, and "
            "on every node"
        )
        if not USUAL_NAME.fullmatch(variable):
            raise InvalidSpec(f"{field}: the variable {problem}")
        raise InvalidSpec.at(field, variable, problem)
    if not (value.isascii() and value.isprintable()):
        problem = "has line breaks or characters that an HTTP header cannot have; correct its value"
        raise InvalidSpec.at(field, variable, problem)
    return value
