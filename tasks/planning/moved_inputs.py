"""Tells of inputs that are likely published ones, moved, and of such as may have changed unseen."""

import logging
from os.path import basename

import pyarrow as pa
import pyarrow.compute as pc

from tasks.counted import counted
from tasks.protocol.stat_columns import Stats
from tasks.protocol.texts import large

logger = logging.getLogger(__name__)
NO_TIME = r"^-\d+$"
"""The identity of an input of which a store says its size at most; else a time stands before it."""


def tell_of_moved(inputs: Stats, left: Stats, published: pa.Table) -> None:
    """Say where most of what is to be done was published from another place.

    A file that is moved keeps its name, size and time, or what its store says in their stead. As
    the next day's of the same name has others, only what is likely the same file is told of.

    Args:
        inputs: all that lies at the source.
        left: those that are not published.
        published: path and identity of inputs.
    """
    if not len(left):
        return
    known = published.filter(pc.is_in(large(published["identity"]), large(left.table["identity"])))
    known = known.filter(pc.invert(pc.is_in(large(known["path"]), large(inputs.table["path"]))))
    if not len(known):
        return
    pairs = zip(known["path"].to_pylist(), known["identity"].to_pylist(), strict=True)
    came_from = {(basename(path), identity): path for path, identity in pairs}
    places = ((each.path, came_from.get((basename(each.path), each.identity))) for each in left)
    moved = [(now, old) for now, old in places if old]
    if 2 * len(moved) > len(left):
        logger.warning(
            "%s, the first %s, look new but were probably published from another place, such as "
            "%s: after a move, the output gets their rows twice. Move them back, or publish "
            "everything again from the new place with --replace-output",
            *(counted(len(moved), "input"), *moved[0]),
        )


def tell_of_unknown_times(inputs: Stats, left: Stats) -> None:
    """Say which published inputs may be others by now, and nobody would learn of it.

    Some web servers name neither a version nor a time, and no size either where they make the
    file while they send it: each night it is taken for the one that is published.

    Args:
        inputs: all that lies at the source.
        left: those that are not published.
    """
    unknown = inputs.table.filter(pc.match_substring_regex(inputs.table["identity"], NO_TIME))
    published = pc.invert(pc.is_in(large(unknown["path"]), large(left.table["path"])))
    paths = unknown["path"].filter(published)
    if len(paths):
        logger.warning(
            "%s taken as already published, the first of them %s: their server gives no version "
            "or time, so new content is noticed only if its size differs. --replace-output "
            "predicts what is there now, and sink.mode: replace does so each time",
            *(counted(len(paths), "input"), paths[0]),
        )


def tell_of_changed_first_rows(left: Stats, published: pa.Table) -> None:
    """Say which inputs of a trial are others than its published rows were made of.

    Its first rows are there, and so it is done; nobody would learn that they are the old ones.

    Args:
        left: what is new, has changed or is gone.
        published: path of inputs.
    """
    paths = large(left.table["path"])
    changed = paths.filter(pc.is_in(paths, large(published["path"])))
    if len(changed):
        logger.warning(
            "%s changed or gone since the first rows were published, the first of them %s: "
            "--replace-output predicts the first rows of what is there now",
            *(counted(len(changed), "input"), changed[0]),
        )
