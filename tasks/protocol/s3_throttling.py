"""Has s3fs ask again where a store says that it is asked too often."""

TOO_MANY_REQUESTS = 429


def retry_throttled() -> None:
    """Let s3fs treat the status 429 as it does the word SlowDown, in this process.

    Stores that are not AWS's answer it with words of their own, which botocore's retry mode
    `standard` does not know; by the status alone it tries only 500 and more again.
    """
    import s3fs.core

    s3fs.core.set_custom_error_handler(is_throttled)


def is_throttled(error: Exception) -> bool:
    """Whether a store has refused a request because there are too many, whatever its word."""
    answer = getattr(error, "response", None) or {}
    status: object = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status == TOO_MANY_REQUESTS
