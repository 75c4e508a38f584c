"""The Hugging Face Hub: what a name stands for there, and its small files; asked by the plan."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from threading import Timer

from tasks.errors import InvalidSpec, Unreachable

logger = logging.getLogger(__name__)
FIELD = "model.name_or_path"
"""Of the spec, that names a model as a rule; a tokenizer may be named elsewhere."""
NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
COMMIT = re.compile(r"[0-9a-f]{40}")
FOLDER_INSTEAD = "or give a folder that contains the model"
WITH_ALL = ".gitattributes"
"""A file that all repositories have and nobody asks for alone."""
NO_FOLDER = "and there is no folder of that name beside the spec"
"""A misspelt folder is taken for a name on the Hub."""
SILENT_SECONDS = 3.0
"""After which is said what is asked for; the Hub's client asks for half a minute."""


def check_name(name: str, field: str = FIELD) -> None:
    """See that a name can be one on the Hub.

    Raises:
        InvalidSpec: it cannot.
    """
    if not NAME.fullmatch(name) or ".." in name or "--" in name:
        problem = (
            "is neither a folder here nor a name on the Hugging Face Hub such as "
            "google/vit-base-patch16-224"
        )
        raise InvalidSpec.at(field, name, problem)


def commit(name: str, revision: str) -> str:
    """The commit that a revision stands for now; from the cache where the Hub is out of reach.

    Raises:
        InvalidSpec: there is no such model or revision, or it is not for us.
        Unreachable: the Hub does not answer, and the cache does not know.
    """
    with silence_explained(name):
        refuse_no_hub(name, revision)
        config = download(name, "config.json", revision)
    if config is None:
        problem = (
            f"at revision {revision!r} has no config.json: it is not a transformers model (merge "
            "an adapter into its model first)"
        )
        raise InvalidSpec.at(FIELD, name, problem)
    found = config.parent.name  # .../snapshots/<commit>/config.json
    if not COMMIT.fullmatch(found):
        raise InvalidSpec.at(FIELD, name, f"has no commit for revision {revision!r}")
    return found


def refuse_no_hub(name: str, revision: str) -> None:
    """See that the Hub is there, unless the cache has the model.

    Asked once: its client, which is to fetch a file, tries for half a minute, with lines on each
    try. Whoever has misspelt a folder waits for nothing, and a deployment's run plans again later.

    Raises:
        Unreachable: it is not.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError

    if is_offline() or in_cache(name, "config.json", revision):
        return
    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json", revision=revision))
    except HfHubHTTPError:
        return  # what it says of the model is looked at where that is fetched
    except Exception as error:  # of whichever library it asks with
        raise explained(name, revision, error, FIELD) from error


@contextmanager
def silence_explained(name: str) -> Iterator[None]:
    """A block that asks for a model by name: what for is said where that takes long."""
    why = "%s: %r is on the Hugging Face Hub, which does not answer yet, %s"
    # Prefect knows by the context whose log it is.
    told = Timer(SILENT_SECONDS, copy_context().run, (logger.warning, why, FIELD, name, NO_FOLDER))
    told.daemon = True
    told.start()
    try:
        yield
    finally:
        told.cancel()


def download(name: str, file: str, revision: str, field: str = FIELD) -> Path | None:
    """A file of a model, from the cache where it is there; None where the model has no such file.

    Raises:
        InvalidSpec: there is no such model or revision, or it is not for us.
        Unreachable: the Hub does not answer, and the cache does not know.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(name, file, revision=revision))
    except LocalEntryNotFoundError as error:
        if is_offline() and in_cache(name, "config.json", revision):
            refuse_unknown(name, file, revision, field)
            return None
        raise explained(name, revision, error.__cause__ or error, field) from error
    except EntryNotFoundError:
        return None
    except HfHubHTTPError as error:
        raise explained(name, revision, error, field) from error


def listed(name: str, revision: str) -> frozenset[str] | None:
    """Names of the files that a model has on the Hub; None where there is no telling now.

    So it is without the network, and with mirrors that serve files and no lists of them.
    """
    from huggingface_hub import HfApi

    try:
        return frozenset(each.path for each in HfApi().list_repo_tree(name, revision=revision))
    except Exception:  # of many kinds; what the Hub itself has to say, `commit` was told
        return None


def explained(
    name: str, revision: str, error: BaseException, field: str
) -> InvalidSpec | Unreachable:
    """What the Hub's answer, or its silence, means for the user."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, RevisionNotFoundError):
        problem = f"is not a branch, tag or commit of {name} on the Hugging Face Hub"
        return InvalidSpec.at(f"{field.rpartition('.')[0]}.revision", revision, problem)
    if isinstance(error, GatedRepoError):
        problem = (
            "needs its terms to be accepted on its page on the Hugging Face Hub, and HF_TOKEN set"
        )
        return InvalidSpec.at(field, name, f"{problem} here and on every node")
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
    if isinstance(error, RepositoryNotFoundError) or status in (401, 403):
        problem = (
            f"is not a model on the Hugging Face Hub that you may read, {NO_FOLDER}: check the "
        )
        return InvalidSpec.at(field, name, f"{problem}spelling; for a private one, set HF_TOKEN")
    said = " ".join(str(error).split())
    at = f"{name!r} at revision {revision!r} cannot be resolved"
    if is_offline():
        why = f"it is not in the cache, {NO_FOLDER}, and HF_HUB_OFFLINE is set; unset it, "
        return InvalidSpec(f"{field}: {at}: {why}{FOLDER_INSTEAD}")
    why = f"the Hugging Face Hub does not answer; try again later, {FOLDER_INSTEAD}: {NO_FOLDER}"
    return Unreachable(f"{field}: {at}: {why}. {said}")


def is_offline() -> bool:
    """Whether the environment forbids to ask the Hub."""
    from huggingface_hub.constants import is_offline_mode

    return bool(is_offline_mode())


def in_cache(name: str, file: str, revision: str) -> bool:
    """Whether the cache holds a file of a model."""
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(name, file, revision=revision), str)


def refuse_unknown(name: str, file: str, revision: str, field: str) -> None:
    """See that a file which the cache lacks is one that the model has not.

    Who fills a cache by loading a model fetches what transformers asks for, and no file of
    sentence-transformers: without them its vectors would be others.

    Raises:
        InvalidSpec: nobody can tell.
    """
    if not is_known_to_lack(name, file, revision):
        problem = (
            f"is in this machine's cache without {file}, which it may have on the Hugging Face "
            f"Hub, and HF_HUB_OFFLINE is set: fill the cache with all of its files (hf download "
            f"{name} --revision {revision}), {FOLDER_INSTEAD}"
        )
        raise InvalidSpec.at(field, name, problem)


def is_known_to_lack(name: str, file: str, revision: str) -> bool:
    """Whether the cache knows that a model has no such file: it was asked for, or all were listed.

    Lists are kept since huggingface_hub 2; whoever fetched all before that has `WITH_ALL` too.
    """
    from huggingface_hub import _CACHED_NO_EXIST, get_cached_repo_tree, try_to_load_from_cache
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    if try_to_load_from_cache(name, file, revision=revision) is _CACHED_NO_EXIST:
        return True
    try:
        return file not in {each.path for each in get_cached_repo_tree(name, revision=revision)}
    except CachedRepoTreeNotFoundError:
        return in_cache(name, WITH_ALL, revision)
