"""A cluster's API where it answers oddly, or not at all: one kind of error, and never the token."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks.clusters import ray_api
from tasks.clusters.ray_api import RayApi
from tasks.clusters.ray_api_errors import AlreadyThereError, NotFoundError, translated
from tasks.clusters.ray_jobs import RayJob
from tasks.errors import InvalidSpec, Unreachable

TOKEN = "a-token-that-nobody-may-read-0123456789abcdef"
ODD = {
    401: b"Unauthorized: Missing authentication token",
    403: b"Forbidden: Invalid authentication token",
    404: b"no such page",
    500: b"Traceback (most recent call last):\n  File somewhere\nValueError: broken\n",
    502: b"<html><body>Bad Gateway</body></html>",
    200: b"<html><body>Log in with your company's account</body></html>",
}
SILENT, CUT_OFF = 0, 1


class Odd(ThreadingHTTPServer):
    """Answers every request in one odd way."""

    daemon_threads = True

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = status
        self.over = threading.Event()
        self.shown: list[str] = []
        """What was shown to be let in."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Odd

    def answer(self) -> None:
        status = self.server.status
        self.server.shown.append(self.headers["Authorization"])
        if status == SILENT:
            self.server.over.wait(30)
        if status in (SILENT, CUT_OFF):
            self.close_connection = True
            return
        self.send_response(status)
        self.end_headers()
        self.wfile.write(ODD[status])

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, format: str, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def odd(request: pytest.FixtureRequest) -> Iterator[Odd]:
    """A server that answers as the test's parameter says."""
    server = Odd(request.param)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def api_of(url: str) -> RayApi:
    return RayApi(url, {"Authorization": f"Bearer {TOKEN}"})


def refusal(api: RayApi, ask: str) -> str:
    """What one of the API's questions ends with."""
    asks: dict[str, Callable[[], object]] = {
        "version": api.version,
        "nodes": api.nodes,
        "status": lambda: api.status("run-1"),
        "log": lambda: api.log("run-1"),
        "stop": lambda: api.stop("run-1"),
        "submit": lambda: api.submit("run-1", "true", {}),
    }
    with pytest.raises(Unreachable) as caught:
        asks[ask]()
    error = caught.value
    assert TOKEN not in f"{error!r} {error.__cause__!r}"
    assert error.__suppress_context__, "what is not said is not shown either"
    assert "\n" not in str(error)
    return str(error)


ASKS = ["version", "nodes", "status", "log", "stop", "submit"]


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("odd", [*ODD, CUT_OFF], indirect=True)
def test_odd_answers_are_one_message(odd: Odd, ask: str) -> None:
    message = refusal(api_of(odd.url), ask)
    assert message.startswith(f"cluster.address: {odd.url} ")
    assert ("RayCluster block" in message) == (odd.status in (401, 403))
    assert ("a proxy" in message) == (odd.status == 200)


@pytest.mark.parametrize(
    "said", ["500: FileExistsError: '/tmp/ray/logs' already exists", "413: Entity Too Large"]
)
def test_a_log_that_cannot_be_had_ends_no_run_whatever_is_said_of_it(said: str) -> None:
    """Words that mean something where a job is submitted."""

    def fail(_: str) -> None:
        raise RuntimeError(f"Request failed with status code {said}.")

    api = RayApi("http://ray:8265")
    vars(api)["client"] = SimpleNamespace(get_job_logs=fail, get_job_status=fail)
    job = RayJob(api, SimpleNamespace(id="run-1"))  # type: ignore[arg-type]
    assert job.log() == ""
    assert job.is_alive() is None


@pytest.mark.parametrize("name", ["RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"])
@pytest.mark.parametrize("odd", [500], indirect=True)
def test_the_specs_address_counts_and_not_the_environments(
    odd: Odd, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which would have jobs, and the token, sent to another cluster than the one that is named."""
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    for ask in ASKS:
        assert "does not answer (HTTPError)" in refusal(api_of(odd.url), ask), "it was asked"


@pytest.mark.parametrize("odd", [500], indirect=True)
def test_the_token_is_shown_and_not_what_is_kept_for_others(
    odd: Odd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`requests` would have what it finds in a .netrc take the header's place."""
    (tmp_path / "netrc").write_text("default login me password p\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    refusal(api_of(odd.url), "status")
    assert set(odd.shown) == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("odd", [SILENT], indirect=True)
@pytest.mark.parametrize("ask", ASKS)
def test_a_server_that_never_answers_is_not_waited_for(
    odd: Odd, ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_api, "SECONDS", (0.2, 0.2))
    begun = time.monotonic()
    assert "does not answer" in refusal(api_of(odd.url), ask)
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("ask", ASKS)
def test_nobody_listens(ask: str) -> None:
    assert "does not answer (Connection" in refusal(api_of("http://127.0.0.1:9"), ask)


def test_a_host_without_an_address() -> None:
    assert "does not answer" in refusal(api_of("http://no-such-host.invalid:8265"), "version")


def test_a_file_of_authorities_that_is_not_there() -> None:
    api = RayApi("https://127.0.0.1:9", {"Authorization": f"Bearer {TOKEN}"}, "/no/such/file")
    with pytest.raises(InvalidSpec, match=r"^cluster\.block\.ca_file: '/no/such/file' cannot"):
        api.version()


@pytest.mark.parametrize("end", ["\n", "\u2013"])
def test_a_token_that_no_header_may_hold(end: str) -> None:
    """As one read from a file, with its line's end."""
    api = RayApi("http://127.0.0.1:9", {"Authorization": f"Bearer {TOKEN}{end}"})
    with pytest.raises(InvalidSpec, match=r"^cluster\.block: 'Authorization' is") as caught:
        api.status("run-1")
    assert TOKEN not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("said", [b'"3.8.8"', b"{}", b"[]", b'{"ray_version": "?"}', b"null"])
@pytest.mark.parametrize("odd", [200], indirect=True)
def test_another_service_that_speaks_json_is_no_dashboard(
    odd: Odd, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Prefect's server does, whose version is text."""
    monkeypatch.setitem(ODD, 200, said)
    assert "does not answer like a Ray dashboard" in refusal(api_of(odd.url), "version")


@pytest.mark.parametrize("ask", ["nodes", "status", "log", "stop", "submit"])
@pytest.mark.parametrize("odd", [200], indirect=True)
def test_json_that_is_not_rays_in_mid_run_is_no_answer(
    odd: Odd, ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    version = {"version": "4", "ray_version": ray.__version__, "ray_commit": "", "session_name": ""}
    monkeypatch.setitem(ODD, 200, json.dumps(version).encode())
    api = api_of(odd.url)
    assert api.version() == version
    monkeypatch.setitem(ODD, 200, b'{"error": "log in"}')
    assert "does not answer like a Ray dashboard" in refusal(api, ask)


def test_the_token_is_not_part_of_what_is_printed() -> None:
    assert TOKEN not in repr(api_of("http://127.0.0.1:9"))


@pytest.mark.parametrize("odd", [500], indirect=True)
def test_of_a_job_whose_cluster_is_away_nobody_can_say(odd: Odd) -> None:
    class AnyJob:
        id = "run-1"

    job = RayJob(api_of(odd.url), AnyJob())  # type: ignore[arg-type]
    assert (job.is_alive(), job.log()) == (None, "")


@pytest.mark.parametrize(
    ("said", "status", "told"),
    [("lines", "FAILED", "lines"), ("", "FAILED", "pip has failed"), ("", "PENDING", "")],
)
def test_of_a_job_that_failed_before_it_could_speak_the_cluster_does(
    said: str, status: str, told: str
) -> None:
    info = SimpleNamespace(status=SimpleNamespace(value=status), message="pip has failed")
    api = api_of("http://127.0.0.1:9")
    answers = {"get_job_logs": lambda _: said, "get_job_info": lambda _: info}
    vars(api)["client"] = SimpleNamespace(**answers)
    assert api.log("run-1") == told


@pytest.mark.parametrize(
    "message", ["Job with submission_id run-1 already exists", "x already exists"]
)
def test_a_job_that_is_there_already_is_no_error(message: str) -> None:
    assert isinstance(translated("http://a", message), AlreadyThereError)


def test_a_job_that_is_not_there_is_told_from_a_page_that_is_not() -> None:
    gone = "Request failed with status code 404: Job run-1 does not exist."
    assert isinstance(translated("http://a", gone), NotFoundError)
    page = "Request failed with status code 404: no such page."
    assert isinstance(translated("http://a", page), Unreachable)


def refusing(error: Exception) -> RayApi:
    """A cluster to which no code can be sent."""

    def send(*_: object, **__: object) -> None:
        raise error

    api = api_of("http://127.0.0.1:9")
    vars(api)["client"] = SimpleNamespace(submit_job=send, _upload_package_if_needed=send)
    return api


TOO_LARGE = RuntimeError(
    "Request failed with status code 413: Maximum request body size 104857600 exceeded.."
)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TOO_LARGE, r"is larger than http://127\.0\.0\.1:9 accepts: .* \.rayignore"),
        (PermissionError(13, "Permission denied", "/code/secret"), "cannot be sent .*/code/secret"),
    ],
)
def test_a_folder_that_cannot_be_sent_is_named_and_not_sent_again(
    error: Exception, words: str
) -> None:
    with pytest.raises(InvalidSpec, match=rf"^environment\.working_dir: '/code' {words}"):
        refusing(error).submit("run-1", "true", {"working_dir": "/code"})


def test_a_folder_that_cannot_be_packed_now_is_tried_again() -> None:
    api = refusing(OSError(28, "No space left on device"))
    with pytest.raises(Unreachable, match=r"^environment\.working_dir: /code .* No space left"):
        api.submit("run-1", "true", {"working_dir": "/code"})
    with pytest.raises(Unreachable, match=r"^/ours could not be packed .* No space left"):
        api.upload("/ours", [])


def test_a_proxy_that_takes_no_code_at_all_is_no_matter_of_the_users() -> None:
    with pytest.raises(InvalidSpec, match=r"^cluster\.address: 'http://127\.0\.0\.1:9' does not"):
        refusing(TOO_LARGE).upload("/ours", [])
