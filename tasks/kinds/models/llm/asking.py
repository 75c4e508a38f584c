"""Asks a server for many rows at once; each row gets its own answer, or its own error."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tasks.kinds.models.llm.endpoint import Endpoint, Request
from tasks.kinds.models.llm.reply_outcomes import FailedOn
from tasks.kinds.models.llm.row_answers import Outcome

if TYPE_CHECKING:
    import httpx

Prompt = Any


@dataclass(frozen=True)
class Form:
    """What a request of a task looks like, and how its reply is read."""

    path: str
    body: Callable[[Sequence[Prompt]], dict[str, Any]]
    read: Callable[..., list[Any]]
    """Answers of a reply to so many `rows`."""
    trial: dict[str, Any]
    """Body of the smallest request."""
    rows_per_request: int = 1


def ask_all(endpoint: Endpoint, form: Form, prompts: Sequence[Prompt]) -> list[Outcome]:
    """An outcome for each row: an answer, or the ValueError that sets it aside.

    Args:
        endpoint: to ask.
        form: of the requests.
        prompts: or ValueErrors, of rows that need not be asked for.

    Raises:
        InvalidSpec: the server refuses all requests.
        Unreachable: the server does not answer. What is in flight is given up.
    """
    from anyio.from_thread import start_blocking_portal

    # A thread of its own: whoever calls may have an event loop running, as notebooks do.
    with start_blocking_portal() as portal:
        outcomes: list[Outcome] = portal.call(Asking(endpoint, form).outcomes, prompts)
    return outcomes


@dataclass
class Asking:
    """One batch's requests."""

    endpoint: Endpoint
    form: Form

    async def outcomes(self, prompts: Sequence[Prompt]) -> list[Outcome]:
        """An outcome for each row, in order."""
        found: list[Outcome] = list(prompts)
        good = [at for at, each in enumerate(prompts) if not isinstance(each, ValueError)]
        size = self.form.rows_per_request
        free = asyncio.Semaphore(self.endpoint.concurrency)

        async def ask(client: "httpx.AsyncClient", chosen: list[int]) -> None:
            async with free:
                settled = await self.settle(client, [prompts[at] for at in chosen])
            for at, outcome in zip(chosen, settled, strict=True):
                found[at] = outcome

        try:
            async with self.endpoint.client() as client, asyncio.TaskGroup() as group:
                for start in range(0, len(good), size):
                    group.create_task(ask(client, good[start : start + size]))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return found

    async def settle(
        self, client: "httpx.AsyncClient", prompts: Sequence[Prompt], *, is_suspect: bool = False
    ) -> list[Outcome]:
        """Outcomes of one request; where it is refused, of its halves."""
        form, rows = self.form, len(prompts)
        read = partial(form.read, rows=rows)
        try:
            # Images become text in it, while others' answers are waited for.
            body = await asyncio.to_thread(form.body, prompts)
            trial = form.trial, partial(form.read, rows=1)
            request = Request(form.path, body, read, *trial, rows == 1, is_suspect)
            return await self.endpoint.post(client, request)
        except (ValueError, TypeError) as error:  # TypeError: what JSON has no word for
            if rows == 1:
                return [error]
            is_suspect = isinstance(error, FailedOn)
        first = await self.settle(client, prompts[: rows // 2], is_suspect=is_suspect)
        return [*first, *await self.settle(client, prompts[rows // 2 :], is_suspect=is_suspect)]
