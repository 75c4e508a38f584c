"""Images that rows name by URL, fetched side by side: vLLM fetches one after the other.

By vLLM's own connector, which knows its settings: what domains are allowed, how often to try.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from tasks.errors import StageFailed
from tasks.kinds.images import BadImage
from tasks.kinds.models.llm.shown_images import Illustrated
from tasks.kinds.models.machine_errors import is_of_the_machine

AT_ONCE = 16
MANY = 8
"""If so many are asked for and none comes, no row is to blame."""
Fetch: TypeAlias = Callable[[str], bytes]
"""A file, by its URL; a BadImage is raised where it cannot be had."""


class NoAnswer(BadImage):
    """A server did not answer, or had trouble of its own, when it was asked for an image."""


def with_files(prompts: Sequence[Any], llm: Any) -> Iterable[Any]:
    """Prompts with their images' files in place of URLs, in order, each as soon as it is there.

    Args:
        prompts: with images or not, or ValueErrors of rows that need not be asked for.
        llm: a `vllm.LLM`, as whose settings say images are fetched.

    Returns:
        The same, and a ValueError in place of a prompt whose image cannot be had. At their end a
        StageFailed is raised if the network seems to be gone.
    """
    return fetched(prompts, fetch_of(llm)) if any(map(names_image, prompts)) else prompts


def names_image(prompt: Any) -> bool:
    """Whether a prompt has the URL of its image."""
    return isinstance(prompt, Illustrated) and isinstance(prompt.image, str)


def fetched(prompts: Sequence[Any], fetch: Fetch) -> Iterator[Any]:
    """Prompts that have files, in order.

    Of many rows some name a server that is gone for good: these are set aside. If no server at all
    answers, the next attempt may meet the network again.

    Raises:
        StageFailed: of many images none came, since nobody answered.
    """
    asked, unanswered = sum(map(names_image, prompts)), list[NoAnswer]()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(partial(with_file, fetch), prompts):
            unanswered += [found] if isinstance(found, NoAnswer) else []
            yield found
    if MANY <= asked == len(unanswered):
        raise StageFailed(f"none of {asked} images could be fetched; of the last: {unanswered[-1]}")


def with_file(fetch: Fetch, prompt: Any) -> Any:
    """A prompt that has a file, or why it has not."""
    if not names_image(prompt):
        return prompt
    try:
        return replace(prompt, image=fetch(prompt.url))
    except ValueError as error:
        return error


def fetch_of(llm: Any) -> Fetch:
    """How an engine's vLLM fetches images."""
    from vllm import envs
    from vllm.exceptions import VLLMClientError
    from vllm.multimodal.media import MEDIA_CONNECTOR_REGISTRY
    from vllm.multimodal.media.image import ImageMediaIO

    class AsItIs(ImageMediaIO):
        """Left to others to decode."""

        def load_bytes(self, data: bytes) -> bytes:
            return data

    connector = MEDIA_CONNECTOR_REGISTRY.load(
        envs.VLLM_MEDIA_CONNECTOR, allowed_media_domains=llm.model_config.allowed_media_domains
    )

    def fetch(url: str) -> bytes:
        seconds = envs.VLLM_IMAGE_FETCH_TIMEOUT
        try:
            data: bytes = connector.load_from_url(url, AsItIs(), fetch_timeout=seconds)
        except (VLLMClientError, OSError, ValueError) as error:
            kind = NoAnswer if is_of_the_machine(error) else BadImage
            problem = f"{type(error).__name__}: {error}"
            # Not `from error`: by that it would count as the machine's.
            raise kind(f"the image {url[:200]} cannot be fetched: {problem}") from None
        return data

    return fetch
