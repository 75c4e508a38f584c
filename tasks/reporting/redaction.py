"""Keeps out of reports what an operator's browser must not show or run."""

import html
import re
from typing import Any

from tasks.kinds.secret_names import BARE_KEY, HIDDEN, SECRET
from tasks.spec import BatchInferenceSpec

OPTIONS = "storage_options"
OWN_ARGUMENTS = ("init", "engine_kwargs", "extra_body")
"""What is passed on as it is, to the user's own code or to others': secrets do not belong there."""
SHOWN_OPTIONS = ("endpoint_url",)
MIN_SECRET_CHARACTERS = 6
"""Shorter values of options are words like `true`, found in any text."""
CREDENTIALS = re.compile(r"://[^/\s]+@")
PARAMETER = re.compile(r"([?&]([\w.~%-]{1,100})=)[^&#\s\"'<>]+")
SIGNATURE = re.compile(r"sig|signature|policy|auth|x-(amz|goog)-.*", re.IGNORECASE)
"""Parameters of a URL that open it to whoever has it, beside those that are named like secrets."""
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")


def shown_spec(spec: BatchInferenceSpec) -> dict[str, Any]:
    """The spec as it may be written down: values that could be secrets are hidden."""
    fields = spec.as_json()
    fields["environment"]["env_vars"] = dict.fromkeys(fields["environment"]["env_vars"], HIDDEN)
    shown: dict[str, Any] = hide_credentials(hide_options(fields))
    return shown


def hide_options(value: Any) -> Any:
    """Hide what could be secret in options and arguments, of whichever part of a spec they are."""
    if isinstance(value, list):
        return [hide_options(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: hide_field(name, each) for name, each in value.items()}


def hide_field(name: str, value: Any) -> Any:
    """The same of one field."""
    if name == OPTIONS and isinstance(value, dict):
        return hide_values(value)
    return hide_named(value) if name in OWN_ARGUMENTS else hide_options(value)


def hide_values(options: dict[str, Any]) -> dict[str, Any]:
    """Options with all values hidden but the endpoint's."""
    return {
        name: hide_values(value)
        if isinstance(value, dict)
        else value
        if name in SHOWN_OPTIONS
        else HIDDEN
        for name, value in options.items()
    }


def hide_named(value: Any) -> Any:
    """Hide texts whose names are those of secrets, however deep."""
    if isinstance(value, list):
        return [hide_named(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: HIDDEN if isinstance(each, str) and SECRET.search(name) else hide_named(each)
        for name, each in value.items()
    }


def hide_credentials(value: Any) -> Any:
    """Hide users, passwords and signatures in URLs, wherever they stand."""
    if isinstance(value, dict):
        return {name: hide_credentials(each) for name, each in value.items()}
    if isinstance(value, list):
        return [hide_credentials(each) for each in value]
    if not isinstance(value, str):
        return value
    return PARAMETER.sub(hide_parameter, CREDENTIALS.sub(f"://{HIDDEN}@", value))


def hide_parameter(found: re.Match[str]) -> str:
    """A parameter of a URL as it may be shown."""
    start, name = found.groups()
    is_whole = any(each.fullmatch(name) for each in (SIGNATURE, BARE_KEY))
    return f"{start}{HIDDEN}" if is_whole or SECRET.search(name) else found[0]


def scrub(text: str, spec: BatchInferenceSpec) -> str:
    """A message without what the spec has of secrets, which errors like to quote."""
    options = [getattr(part, OPTIONS, {}) for part in (spec.source, spec.model, spec.sink)]
    arguments = [own_arguments(part) for part in (*spec.steps, spec.model)]
    named = named_secrets([*arguments, spec.environment.env_vars])
    for secret in sorted({*secrets_in(options), *named}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return str(hide_credentials(text))


def secrets_in(value: Any, name: str = "") -> list[str]:
    """Values that could be secrets."""
    if isinstance(value, dict):
        return [each for key, inner in value.items() for each in secrets_in(inner, key)]
    if isinstance(value, list):
        return [each for inner in value for each in secrets_in(inner, name)]
    is_secret = isinstance(value, str) and len(value) >= MIN_SECRET_CHARACTERS
    return [value] if is_secret and name not in SHOWN_OPTIONS else []


def own_arguments(part: Any) -> list[Any]:
    """What a step or a model passes on as it is."""
    holders = (part, getattr(part, "options", None))
    return [getattr(each, name, None) for each in holders for name in OWN_ARGUMENTS]


def named_secrets(value: Any) -> list[str]:
    """Texts whose names are those of secrets, however deep.

    What is called a key and has no digit is more likely a column's name, of which errors speak.
    """
    if isinstance(value, list):
        return [each for inner in value for each in named_secrets(inner)]
    if not isinstance(value, dict):
        return []
    found = named_secrets(list(value.values()))
    for name, each in value.items():
        if isinstance(each, str) and len(each) >= MIN_SECRET_CHARACTERS and SECRET.search(name):
            is_column = name.lower().endswith("key") and not re.search(r"\d", each)
            found += [] if is_column else [each]
    return found


def printable(text: str) -> str:
    """A text with characters that are nothing to see written out.

    No drawing may hold them, and Postgres, where Prefect keeps pages, no NUL.
    """
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def cell(value: object) -> str:
    """Text for a table's cell, on one line: an empty line would end the table in Markdown."""
    return "<br>".join(html.escape(printable(line)) for line in str(value).splitlines())


def block(text: str) -> str:
    """Text as it stands, inside HTML; no line of it is empty, for the same reason."""
    shown = map(printable, text.splitlines())
    lines = [html.escape(line) if line.strip() else "&nbsp;" for line in shown]
    return "<pre>" + "\n".join(lines) + "</pre>"


def lines_block(lines: list[str]) -> str:
    """Lines as they stand; nothing where there are none."""
    return block("\n".join(lines)) if lines else ""


def table(header: list[str], rows: list[list[str]]) -> str:
    """An HTML table of cells that are HTML already; without a head where none is given."""
    head = "".join(f"<th>{cell(name)}</th>" for name in header)
    top = f"<thead><tr>{head}</tr></thead>" if header else ""
    body = "".join("<tr>" + "".join(f"<td>{each}</td>" for each in row) + "</tr>" for row in rows)
    # The former of Prefect's UIs leaves no room between cells by itself, and takes no style.
    return f'<table cellpadding="6">{top}<tbody>{body}</tbody></table>'
