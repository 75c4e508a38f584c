"""Tells errors of the memory, a device or the network: no row's fault, and no file's."""

import errno
import re
import socket
from functools import lru_cache

SAID = re.compile(
    r"out of memory|can't allocate memory|failed to allocate memory|bad_alloc|bad allocation"
    r"|OOM when allocating|RESOURCE_EXHAUSTED|CU[A-Z]+_STATUS_ALLOC_FAILED|ErrorMemoryAllocation"
    # cuDNN, where its workspace does not fit either.
    r"|unable to find an engine to execute this computation"
    # torch's allocator, where it cannot ask the driver how much memory is left, as on a MIG slice.
    r"|NVML_SUCCESS == \w+ INTERNAL ASSERT",
    re.IGNORECASE,
)
"""What libraries say in errors of a general class."""
GENERAL = (
    *("RuntimeError", "RuntimeException", "Fail", "AcceleratorError"),
    *("XGBoostError", "XlaRuntimeError", "JaxRuntimeError"),
)
OF_MEMORY = ("OutOfMemoryError", "ResourceExhaustedError")
DEVICE_ERRORS = ("AcceleratorError", "OutOfMemoryError", "CudaError")
DEVICE_MESSAGE = re.compile(
    r"CUDA error|CUDA failure|CUDA out of memory|CUDA_ERROR_|cudaError|CUBLAS_|CUDNN_|CUDNN failure"
    r"|cuDNN error|cuFFT error|CUSOLVER_|NCCL error|HIP error|Triton Error|CUDA driver error"
)
"""What libraries say in errors of a general class."""
LOST_DEVICE = re.compile(
    r"device-side assert triggered|illegal memory access|misaligned address"
    r"|unspecified launch failure|invalid program counter|invalid address space"
)
"""What CUDA says of errors after which it takes no call of the process any more, and to which a
row may have led: an index that is none, say. Others, as of broken memory, are the machine's."""
NETWORK_ERRORS = (
    "urllib.error.URLError",
    "http.client.HTTPException",
    "ssl.SSLError",
    "urllib3.exceptions.HTTPError",
    "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
    "requests.exceptions.ChunkedEncodingError",
    "botocore.exceptions",
    "aiohttp.client_exceptions.ClientError",
    "httpx.TransportError",
    "httpx2.TransportError",
)
"""Classes, and modules of classes, by name: we import none of these libraries."""
ADDRESS_ERRORS = (
    "http.client.InvalidURL",
    "urllib3.exceptions.LocationValueError",
    "aiohttp.client_exceptions.InvalidURL",
    "aiohttp.client_exceptions.NonHttpUrlClientError",
    "aiohttp.client_exceptions.TooManyRedirects",
    "httpx.UnsupportedProtocol",
    "httpx2.UnsupportedProtocol",
    "botocore.exceptions.ParamValidationError",
)
"""Of those the ones that say that a URL or a key leads nowhere, as an empty cell does."""
NO_ADDRESS = re.compile("unknown url type|no host given")
"""What urllib says of it, in an error of a general class."""
NO_OBJECT = ("NoSuchKey", "404")
"""How S3 says that an object is not there; other refusals, such as of an expired token, may be the
machine's, whatever their status."""

NO_NETWORK = (errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH)
"""Of the system's errors those that are a lost connection, and no class of Python's says so."""
CALLS = ("grpc.RpcError", "tritonclient.utils.InferenceServerException")
"""Errors of calls that a server has answered, or has not: gRPC's, and those of Triton's client."""
OF_THE_CALL = (
    *("INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED"),
    *("FAILED_PRECONDITION", "OUT_OF_RANGE", "400", "404", "413", "422"),
)
"""Of their statuses those that another call might not have had."""
TOO_LARGE = "message larger than max"
"""What gRPC says of a call itself, though its status is that of a server without room."""
OWN_STATUS = {
    "urllib.error.HTTPError": "code",
    "aiohttp.client_exceptions": "status",
    "google.api_core.exceptions": "code",
    "gcsfs.retry.HttpError": "code",
}
"""Where errors themselves have what a server has answered."""
NOBODYS_STATUSES = (401, 407, 408, 425, 429)
"""Of a server that would have answered another request no better, as those of 500 and above; what
else it refuses may be wrong with the row."""


def words_of(error: BaseException) -> str:
    """What an error says; classes of the user's own may fail to."""
    try:
        return str(error)
    except Exception as failed:
        return f"cannot be shown: its __str__ raises {type(failed).__name__}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory has run out: torch's, NumPy's, ONNX Runtime's, ...

    Rows may hold the same words: only errors of a library's general classes are read.
    """
    names = {each.__name__ for each in type(error).__mro__}
    if isinstance(error, MemoryError) or names & {*OF_MEMORY}:
        return True
    return type(error).__name__ in GENERAL and bool(SAID.search(words_of(error)))


def is_of_the_machine(error: BaseException) -> bool:
    """Whether the network, a device or the memory raised an error, or what led to it."""
    return any(map(is_of_network_or_device, chain(error)))


def loses_device(error: BaseException) -> bool:
    """Whether an error says that a device takes no call of this process any more."""
    is_general = isinstance(error, RuntimeError) or type(error).__name__ in GENERAL
    return is_general and bool(LOST_DEVICE.search(words_of(error)))


def http_status(error: BaseException) -> int | None:
    """What a server has answered, by the errors of urllib, requests, httpx, aiohttp and others."""
    answer = getattr(error, "response", None)
    found = [getattr(answer, name, None) for name in ("status_code", "status")]
    own = (name for known, name in OWN_STATUS.items() if is_named(error, (known,)))
    found += [getattr(error, name, None) for name in (*own, "status_code")]
    return next((each for each in found if isinstance(each, int) and each), None)


def is_named(error: BaseException, known: tuple[str, ...]) -> bool:
    """Whether an error is of one of these classes, or of a class of these modules."""
    return are_named(type(error).__mro__, known)


@lru_cache(maxsize=1_000)  # thousands of rows may fail, all in the same way
def are_named(kinds: tuple[type, ...], known: tuple[str, ...]) -> bool:
    """Whether some class is one of these, or of one of these modules."""
    names = [f"{each.__module__}.{each.__qualname__}" for each in kinds]
    return any(f"{name}.".startswith(f"{each}.") for name in names for each in known)


def chain(error: BaseException) -> list[BaseException]:
    """An error and what led to it, as a traceback would show them.

    What was being handled counts even where no `from` names it. So a row that fails on its way
    around a dead network is tried again, and not set aside: the lesser evil of the two mistakes.
    Who knows better says `from None`; torch's compiler does, and has it as `inner_exception`.
    """
    found = [error]
    while True:
        last = found[-1]
        inner = getattr(last, "inner_exception", None)
        before = last.__cause__ or (inner if isinstance(inner, BaseException) else None)
        before = before or (None if last.__suppress_context__ else last.__context__)
        if before is None or before in found:  # `raise error from error` leads to itself
            return found
        found.append(before)


def is_of_network_or_device(error: BaseException) -> bool:
    """Whether the network, the device or the memory raised this very error."""
    status = http_status(error)
    if status is not None:
        return status in NOBODYS_STATUSES or status >= 500
    if leads_nowhere(error):
        return False
    if isinstance(error, (ConnectionError, TimeoutError)) or is_out_of_memory(error):
        return True
    if is_without_network(error) or is_of_a_database(error) or is_of_a_call(error):
        return True
    is_general = isinstance(error, RuntimeError) or type(error).__name__ in GENERAL
    if is_general and DEVICE_MESSAGE.search(words_of(error)):
        return True
    return type(error).__name__ in DEVICE_ERRORS or is_named(error, NETWORK_ERRORS)


def is_without_network(error: BaseException) -> bool:
    """Whether the system finds no way to a host, or to who knows its address."""
    is_lost = isinstance(error, OSError) and error.errno in NO_NETWORK
    return is_lost or isinstance(error, socket.gaierror)


def is_of_a_database(error: BaseException) -> bool:
    """Whether a database's driver says that it is away, by the name that Python's PEP 249 has.

    SQLite's, which has no server, says so of wrong SQL too; others hand it on as their own.
    """
    is_named_so = "OperationalError" in {each.__name__ for each in type(error).__mro__}
    return is_named_so and not any(is_named(each, ("sqlite3",)) for each in chain(error))


def is_of_a_call(error: BaseException) -> bool:
    """Whether a call of gRPC's or Triton's failed as any other would have."""
    if not is_named(error, CALLS):
        return False
    ask = getattr(error, "code", None) or getattr(error, "status", None)
    status = str(ask() if callable(ask) else None).removeprefix("StatusCode.")
    return status not in OF_THE_CALL and TOO_LARGE not in words_of(error)


def leads_nowhere(error: BaseException) -> bool:
    """Whether an error says of an address itself that it is none, or that nothing is there."""
    if is_named(error, ADDRESS_ERRORS):
        return True
    if is_named(error, ("botocore.exceptions.ClientError",)):
        return getattr(error, "response", {}).get("Error", {}).get("Code") in NO_OBJECT
    reason = getattr(error, "reason", None)
    is_urllibs = is_named(error, ("urllib.error.URLError",))
    return is_urllibs and isinstance(reason, str) and bool(NO_ADDRESS.match(reason))
