"""What every kind of source, step, model and sink has in common."""

from collections.abc import Set
from typing import Any, ClassVar

from pydantic import ConfigDict

from tasks.kinds.form import FormModel
from tasks.kinds.user_modules import digest


class Kind(FormModel):
    """A frozen set of described fields with one job; `kind` says which.

    A kind is one file and one line in its folder's `__init__.py`.
    """

    model_config = ConfigDict(protected_namespaces=())

    not_in_identity: ClassVar[frozenset[str]] = frozenset()
    """Fields that never change what comes out, only how: another value asks for no backfill."""
    results_version: ClassVar[int] = 1
    """Raised with a release in which the same fields make other rows, as by another default:
    outputs of an earlier one then ask for a backfill."""

    @property
    def own_code(self) -> dict[str, list[str]]:
        """Code of the user's that it runs, as `module:name`, by the field that names it."""
        return {}

    def code_digest(self) -> str:
        """Digest of the modules or packages of that code; empty where there is none."""
        named = [(field, each) for field, names in self.own_code.items() for each in names]
        return "-".join(digest(field, each) for field, each in named)

    def identity(self, without: Set[str] = frozenset()) -> dict[str, Any]:
        """The kind and what is not left at its default, as JSON values.

        A field that an upgrade brings is not in it until somebody sets it, so that upgrades ask
        for no backfill.

        Args:
            without: fields to leave out.
        """
        tag = self.model_dump(include={"kind"})
        changed = self.model_dump(
            mode="json", by_alias=True, exclude={*without}, exclude_defaults=True
        )
        version = {"results_version": self.results_version} if self.results_version > 1 else {}
        return {**tag, **changed, **version}
