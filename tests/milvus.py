"""A Milvus server on loopback: that of Milvus Lite, in a thread, which speaks the protocol of the full server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from milvus_lite.adapter.grpc.server import start_server_in_thread


@contextmanager
def serve_milvus(folder: Path) -> Iterator[str]:
    """Keep data in a folder, which is made if absent, serve them on a free port, and yield the address."""
    server, database, chosen = start_server_in_thread(data_dir=str(folder), host="127.0.0.1", port=0)
    try:
        yield f"http://127.0.0.1:{chosen}"
    finally:
        server.stop(grace=0).wait()
        database.close()
