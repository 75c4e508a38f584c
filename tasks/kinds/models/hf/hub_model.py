"""What models in Hugging Face's format have in common: where they lie, what identifies them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from tasks.kinds.models.hf import folder, hub
from tasks.kinds.models.model import Model

Revision = Annotated[
    str,
    Field(
        min_length=1,
        description="Branch, tag or commit on the Hub; the plan pins the commit. Not used for a "
        "folder.",
    ),
]


class HubModel(Model):
    """A model in a folder or on the Hub. Its kinds have the fields, in their order.

    A base's own fields would stand before all others in the run form.
    """

    if TYPE_CHECKING:
        name_or_path: str
        revision: Revision

    weights_field: ClassVar[str] = "name_or_path"

    @property
    def own_folder(self) -> Path | None:
        """The folder that it lies in; None where it is on the Hub."""
        return folder.local_folder(self.name_or_path)

    def check_on_hub(self) -> None:
        """See that what the Hub has at `revision` is whole, and made for the task.

        Raises:
            InvalidSpec: it is not.
            Unreachable: the Hub does not answer.
        """
        raise NotImplementedError

    def fingerprint(self) -> str:
        """Hash of the folder's files, or the commit on the Hub.

        Raises:
            InvalidSpec: the Hub does not know the name or revision, or what it has does not do.
            Unreachable: the Hub does not answer.
        """
        if self.own_folder is not None:
            return folder.digest(self.own_folder)
        commit = hub.commit(self.name_or_path, self.revision)
        self.pinned(commit).check_on_hub()
        return commit

    def has_changed(self, fingerprint: str) -> bool:
        """Whether the folder holds other files now; of the Hub a commit is taken, which stays."""
        return self.own_folder is not None and folder.digest(self.own_folder) != fingerprint

    def pinned(self, fingerprint: str) -> Self:
        """The same model at the commit that `fingerprint` gave, whatever the branch says later."""
        on_hub = self.own_folder is None
        return self.model_copy(update={"revision": fingerprint}) if on_hub else self
