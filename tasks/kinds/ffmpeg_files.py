"""Sounds and videos as FFmpeg opens them: what is in a file, and nothing that it only names."""

from typing import IO, Any

BY_ITSELF = {"protocol_whitelist": "none"}
"""Which ways FFmpeg may take beside the file that it is handed.

It knows lists of other files (ffconcat), and descriptions of what comes in at a port (SDP): of a
stranger's, it would read the worker's own files, or wait for somebody on the network.
"""


def opened(file: IO[bytes]) -> Any:
    """A file as PyAV's container.

    Raises:
        av.error.FFmpegError: FFmpeg cannot read it, or has to look elsewhere.
    """
    import av

    return av.open(file, metadata_errors="replace", options={**BY_ITSELF})
