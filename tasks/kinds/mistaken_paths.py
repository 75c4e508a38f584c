"""Paths that can only be mistakes: they would make a folder of a name that nobody meant."""

import os
import re

TIME = "{scheduled:%Y-%m-%d}"
BRACES = re.compile(r"(?<!\{)\{(?!scheduled\b)\w+(:%[^{}]*)?\}(?!\})")
"""What others write for the time of a run, or fill in themselves."""
TEMPLATE = re.compile(r"\{\{\s*[\w.]+\s*([(|\[][^{}]*)?\}\}")
"""What Airflow and Prefect fill in elsewhere, as `{{ ds }}`."""
VARIABLE = re.compile(r"\$\{\w+\}|\$[A-Za-z_]\w*")
ONE_SLASH = re.compile(r"^(\w+):/(?!/)(?=.)")
ARN = re.compile(r"^arn:aws[\w-]*:s3:(::)?")
"""How AWS names a bucket, as its console copies it, or an access point."""
HOME = re.compile(r"^~[^/]*")


def is_as_written(path: str) -> bool:
    """Whether a path is a URL or a mistake that is to be told as it was written.

    Args:
        path: with `~` expanded, where there is such a user.
    """
    known = (ONE_SLASH, HOME, ARN)
    return "://" in path or path[:1].isspace() or any(each.match(path) for each in known)


def mistake_in(path: str) -> str | None:
    """What is wrong with a path, and what may be meant; None where nothing is."""
    if found := VARIABLE.search(path):
        return f"has {found[0]}, which is not filled in: write its value, or {TIME} for a time"
    # Written twice beside a time, braces are a name's: the job is given the name.
    named = path.replace("{{", "{").replace("}}", "}") if "{scheduled" in path else path
    if found := BRACES.search(named) or TEMPLATE.search(named):
        return f"has {found[0]}, which is not filled in: did you mean {TIME}?"
    if found := ONE_SLASH.match(path):
        return f"is neither a path nor a URL: did you mean {found[1]}://{path[found.end() :]}?"
    if found := ARN.match(path):
        place = path[found.end() :] if found[1] else path
        return f"is an ARN, not a path or a URL: did you mean s3://{place}?"
    if found := HOME.match(os.path.expanduser(path)):
        return f"begins with {found[0]}, but there is no such user here: write the absolute path"
    if path != path.strip():
        return f"begins or ends with a space: did you mean {path.strip()!r}?"
    return None
