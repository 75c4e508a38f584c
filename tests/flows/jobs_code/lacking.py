"""A model whose module needs what is installed nowhere."""

from typing import Any

import no_such_package  # type: ignore[import-not-found]


class Lacking:
    """Never made."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Never called."""
        return {"doubled": no_such_package.double(batch["x"])}
