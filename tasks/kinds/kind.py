"""What every kind of source, step, model and sink has in common."""

from pydantic import ConfigDict

from tasks.kinds.form import FormModel


class Kind(FormModel):
    """A frozen set of described fields with one job; `kind` says which.

    A kind is one file and one line in its folder's `__init__.py`.
    """

    model_config = ConfigDict(protected_namespaces=())
