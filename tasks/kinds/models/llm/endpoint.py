"""One server, asked by one replica: several requests in flight, tried again, at a given pace."""

import asyncio
import itertools
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.models.llm.credentials import Credentials
from tasks.kinds.models.llm.rate_limit import Pace
from tasks.kinds.models.llm.replies import tokens_used
from tasks.kinds.models.llm.reply_outcomes import (
    FailedOn,
    Forbidden,
    Refused,
    Reply,
    TryAgain,
    reply_of,
)
from tasks.kinds.models.llm.shown_images import SENT_IMAGE, TOKENS_OF_IMAGE

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 10.0
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.5, 60.0
LONGEST_WAIT_SECONDS = 300.0
"""A server that asks for more is not waited for: the job would seem to have stalled."""
FORBIDDEN_TRIES = 2
"""Before it is taken for the key's fault: some other request may be answered meanwhile."""
LONGEST_REQUEST_SECONDS = 480.0
"""With all its tries: what it failed with is to be told before the job counts as stalled."""
SUSPECT_RETRIES = 2
"""Of the halves of a request that the server fails on: which of its rows it is, is to be found."""
CHARACTERS_PER_TOKEN = 4
"""About; what a request really cost is known from its answer."""


@dataclass(frozen=True)
class Request:
    """What is sent, and how its reply is read."""

    path: str
    body: dict[str, Any]
    read: Callable[[Reply], list[Any]]
    """Raises ValueError where the row is at fault, TryAgain where the server is."""
    trial: dict[str, Any]
    """Body of the smallest request that there is, to see whether the server answers any."""
    read_trial: Callable[[Reply], list[Any]]
    """Reads the reply to that; errors as of `read`."""
    is_single: bool = True
    """Whether it is about one row."""
    is_suspect: bool = False
    """Whether it is part of one that the server fails on."""

    def may_be_to_blame(self, error: TryAgain) -> bool:
        """Whether this very request may have led to an error; one of many rows may well be late."""
        return error.is_broken or (error.is_late and self.is_single)


class GivenUp(Exception):
    """A request that was not answered, however often it was sent."""

    def __init__(self, last: TryAgain, tries: int) -> None:
        super().__init__(str(last))
        self.last, self.tries = last, tries


@dataclass
class Endpoint:
    """Where to ask, and how."""

    url: str
    credentials: Credentials
    concurrency: int
    timeout_seconds: float
    max_retries: int
    requests: Pace = field(default_factory=lambda: Pace(None))
    tokens: Pace = field(default_factory=lambda: Pace(None))
    answered: int = 0
    """Requests, so far."""
    failing: int = 0
    """Requests that are to be tried again."""

    def client(self) -> "httpx.AsyncClient":
        """Connections to the server; as many as there are requests in flight."""
        import httpx

        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        return httpx.AsyncClient(
            base_url=self.url,
            headers=self.credentials.headers,
            timeout=timeout,
            limits=httpx.Limits(max_connections=self.concurrency),
        )

    async def post(self, client: "httpx.AsyncClient", request: Request) -> list[Any]:
        """The server's answers, asked for again where it fails.

        Raises:
            ValueError: the server refuses this request, or fails on it and on no other, or the
                answer is of no use.
            InvalidSpec: it refuses all of them.
            Unreachable: it does not answer, or not in time, however often it is asked.
        """
        answered = self.answered
        try:
            found = await self.post_until_answered(client, request)
        except GivenUp as error:
            if await self.answers_others(client, request, error.last, self.answered - answered):
                raise FailedOn(
                    f"the server {error.last}, {error.tries} times for this row, while it answered "
                    "others"
                ) from None
            raise self.unreachable(error) from None
        self.answered += 1
        return found

    async def post_until_answered(self, client: "httpx.AsyncClient", request: Request) -> list[Any]:
        """As `post`, but whose fault it is that no answer came is not found out yet.

        Raises:
            GivenUp: no answer came.
        """
        began, has_failed = time.monotonic(), False
        try:
            for tries in itertools.count(1):
                try:
                    return await self.try_to_post(client, request)
                except Forbidden as error:
                    # Those that moderate say so of a text; of a key it is true of all requests.
                    if self.answered and await self.lets_others_pass(client, request):
                        raise Refused(f"the server refused this row: {error}") from None
                    if tries > FORBIDDEN_TRIES:
                        raise
                    wait = self.backoff(tries, TryAgain(str(error)))
                except TryAgain as error:
                    self.failing += not has_failed
                    has_failed, wait = True, self.backoff(tries, error)
                    is_late = time.monotonic() - began + wait > LONGEST_REQUEST_SECONDS
                    is_bad = request.is_suspect and request.may_be_to_blame(error)
                    retries = min(self.max_retries, SUSPECT_RETRIES if is_bad else self.max_retries)
                    if tries > retries or wait > LONGEST_WAIT_SECONDS or is_late:
                        raise GivenUp(error, tries) from None
                await asyncio.sleep(wait)
            raise AssertionError
        finally:
            self.failing -= has_failed

    async def answers_others(
        self, client: "httpx.AsyncClient", request: Request, error: TryAgain, others: int
    ) -> bool:
        """Whether a request that was never answered is at fault itself.

        Since it was first asked, more of the others must have been answered than fail now, if the
        same is not known already of what it is part of; and the smallest of all must be, now.

        Args:
            client: to ask with.
            request: that was not answered.
            error: what its last try ended with.
            others: requests that were answered meanwhile.
        """
        stands_out = request.is_suspect or others > self.failing
        if not (request.may_be_to_blame(error) and stands_out):
            return False
        try:
            request.read_trial(await self.reply_to_trial(client, request))
        except Refused:
            return False
        except ValueError:  # of one token there may be no text
            return True
        except Exception:
            return False
        return True

    async def lets_others_pass(self, client: "httpx.AsyncClient", request: Request) -> bool:
        """Whether the smallest request of all is not forbidden now, as where a key was revoked."""
        try:
            await self.reply_to_trial(client, request)
        except InvalidSpec:
            return False
        except Exception:
            return True
        return True

    async def reply_to_trial(self, client: "httpx.AsyncClient", request: Request) -> Reply:
        """What the server replies to the smallest request of all; errors as of `reply_of`."""
        await self.requests.take()
        async with asyncio.timeout(self.timeout_seconds):
            return reply_of(await client.post(request.path, json=request.trial), self.url)

    async def try_to_post(self, client: "httpx.AsyncClient", request: Request) -> list[Any]:
        """The server's answers to one request, at one's turn; errors as `post`, and TryAgain."""
        import httpx

        expected = tokens_of(request.body) if self.tokens.is_limited else 0
        await self.tokens.take(expected)
        await self.requests.take()
        used = 0
        try:
            # The client's own limit is for each of an answer's pieces, and some send blank lines.
            async with asyncio.timeout(self.timeout_seconds):
                response = await client.post(request.path, json=request.body)
            reply = reply_of(response, self.url)
            used = tokens_used(reply, "total_tokens") or expected
            return request.read(reply)
        except TimeoutError:
            late = f"did not answer within model.timeout_seconds {self.timeout_seconds:g} s"
            raise TryAgain(late, is_late=True) from None
        except httpx.RequestError as error:
            said = self.credentials.hide(f"{type(error).__name__} {error}".strip())
            raise TryAgain(said) from None
        except (AttributeError, LookupError, TypeError) as error:
            said = f"gave an answer that is not in OpenAI's form: {error}"
            raise TryAgain(said, is_broken=True) from None
        except (ValueError, InvalidSpec, TryAgain) as error:
            error.args = (self.credentials.hide(str(error)),)
            raise
        finally:
            self.tokens.correct(used - expected)

    def backoff(self, tries: int, error: TryAgain) -> float:
        """How long to wait, in seconds; all requests wait where the server says how long.

        Longer each time; no time at all, as of a date that has passed, says nothing.
        """
        longest = min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** (tries - 1))
        own = random.uniform(longest / 2, longest)
        if error.seconds and error.seconds <= LONGEST_WAIT_SECONDS:
            self.requests.pause(error.seconds)
        # A server may name a second each time, for as long as a quota's minute lasts.
        return max(own, error.seconds or 0)

    def unreachable(self, error: GivenUp) -> Unreachable:
        """What to say where trying again has not helped."""
        last = error.last
        asked = f" and asks to wait for {last.seconds:.0f} s" if last.seconds else ""
        return Unreachable(
            f"model.url: {self.url!r} {last}{asked} (after {error.tries} tries of one request); "
            "check the server, model.timeout_seconds, model.max_retries and "
            "model.requests_per_minute"
        )


def tokens_of(body: dict[str, Any]) -> int:
    """About how many tokens a request costs, before it is known."""
    sent = json.dumps(body, allow_nan=False)
    images = SENT_IMAGE.findall(sent)
    read = (len(sent) - sum(map(len, images))) // CHARACTERS_PER_TOKEN
    read += TOKENS_OF_IMAGE * len(images)
    return read + int(body.get("max_tokens") or body.get("max_completion_tokens") or 0)
