"""What each size takes: constants from small runs, and a simulation of sizes that no machine here holds.

``python -m benchmarks.scale`` measures the constants on this machine, and then further sizes, and writes both beside
this module, to ``scale_constants.json`` and ``scale_measured.json``. ``python -m benchmarks.scale --simulate`` prints
the tables of ``docs/reference/scale.md`` from these files, and measures nothing.

Small builds hold all at once that larger ones read in blocks. So after a measurement put in place of
``chunk_memory_bytes`` and ``build_memory_bytes`` the slope and the rest of ``build_memory_mb`` of ``python -m
benchmarks.growth --rows 1000 300000 1000000``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from backstory.models.choice import make_embedder
from backstory.pipeline.workspace import open_workspace
from backstory.settings.embedding import EmbeddingSettings
from benchmarks.backfill import run_stages
from benchmarks.growth import Figures, make_texts
from benchmarks.growth import measure as measure_index
from benchmarks.machine import drop_pinned_kernels
from benchmarks.search import seconds_of
from benchmarks.synthetic_workspace import Size, write_workspace

CONSTANTS_FILE: Final = Path(__file__).with_name("scale_constants.json")
MEASURED_FILE: Final = Path(__file__).with_name("scale_measured.json")

MESSAGES_PER_DAY: Final = 400
YEARS: Final = 10
DOCUMENT_CHUNKS: Final = 10_000
"""Chunks of the documents in which groups are searched."""
GROUPS: Final = (1, 100, 10_000)
CHUNKS: Final = (10**6, 10**8, 10**10)

CORE_HOUR: Final = 0.04
"""Dollars for one core with 4 GB of memory for an hour."""
GIGABYTE_MONTH: Final = 0.023
"""Dollars for one GB in a store of objects for a month."""

HOURS_TO_FINISH: Final = 24
LARGEST_MEMORY_GB: Final = 256
"""Memory of the largest machine that is rented as others are."""
QUERY_SECONDS: Final = 1
LARGEST_DISK_GB: Final = 10_000

WORDS_PER_TEXT: Final = 40
TEXTS: Final = 32
DIMENSION: Final = 384
EMBEDDED_BYTES: Final = 512 << 20
"""Most bytes of vectors that a run embeds at once."""
QUERIES: Final = 64
DOCUMENTS: Final = 200
CALIBRATION_ROWS: Final = (5_000, 20_000)
CALIBRATION_SIZES: Final = (Size(24, 50, DOCUMENTS), Size(240, 50, DOCUMENTS))
COMPARED_ROWS: Final = 100_000
COMPARED_SIZES: Final = (Size(100, 50, DOCUMENTS), Size(12, 50, DOCUMENTS, conversations=50))


@dataclass(frozen=True)
class Constants:
    """What one unit takes; CPU seconds are those of one core.

    Attributes:
        run_cpu_s: CPU seconds of a run without messages, over the documents of the calibration.
        message_cpu_s: CPU seconds of all stages per message, without a model.
        message_bytes: Bytes of the tables per message.
        texts_per_message: Query chunks per message, each of which is embedded and searched for.
        text_tokens: Tokens of the texts that are embedded to measure.
        text_cpu_s: CPU seconds to embed such a text with the shipped model.
        vector_bytes: Bytes of a vector in the cache, without its key.
        chunk_cpu_s: CPU seconds per chunk to build a snapshot.
        chunk_bytes: Bytes of a snapshot per chunk.
        chunk_memory_bytes: Peak memory of the build per chunk, above that of its input.
        build_memory_bytes: Peak memory of a build that does not depend on the number of chunks.
        query_cpu_s: CPU seconds of a hybrid query in a batch, over few chunks.
        query_chunk_cpu_s: CPU seconds of such a query per chunk that is compared.
    """

    run_cpu_s: float
    message_cpu_s: float
    message_bytes: float
    texts_per_message: float
    text_tokens: float
    text_cpu_s: float
    vector_bytes: float
    chunk_cpu_s: float
    chunk_bytes: float
    chunk_memory_bytes: float
    build_memory_bytes: float
    query_cpu_s: float
    query_chunk_cpu_s: float


@dataclass(frozen=True)
class Demand:
    """What a size takes.

    Attributes:
        size: The size in words.
        hours: CPU hours by part.
        gigabytes: Size of what is stored.
        memory_gb: Memory of the largest process.
        query_seconds: CPU seconds of one hybrid query, exact.
    """

    size: str
    hours: Mapping[str, float]
    gigabytes: float
    memory_gb: float
    query_seconds: float

    @property
    def workers(self) -> int:
        """Cores that finish in a day, if the work divides evenly."""
        return math.ceil(sum(self.hours.values()) / HOURS_TO_FINISH)

    @property
    def dollars_once(self) -> float:
        """Dollars for the CPU hours."""
        return sum(self.hours.values()) * CORE_HOUR

    @property
    def dollars_a_month(self) -> float:
        """Dollars a month for what is stored."""
        return self.gigabytes * GIGABYTE_MONTH

    @property
    def binding(self) -> str:
        """The limit of one machine that is exceeded by most; if none is, the part that takes most hours."""
        limits = {
            "memory of a build": self.memory_gb / LARGEST_MEMORY_GB,
            "one exact query": self.query_seconds / QUERY_SECONDS,
            "disk": self.gigabytes / LARGEST_DISK_GB,
        }
        worst = max(limits, key=lambda name: limits[name])
        return worst if limits[worst] > 1 else max(self.hours, key=lambda name: self.hours[name])


REMEDIES: Final = {
    "embedding": "more workers; `embedding.precision: int8`, or a GPU",
    "tables": "more workers, each with its conversations",
    "searching": "more workers; `index.engine: milvus`",
    "building": "workspaces by tenant",
    "memory of a build": "workspaces by tenant; then `index.engine: milvus` for what one tenant has",
    "one exact query": "`index.engine: milvus`, or workspaces by tenant",
    "disk": "workspaces by tenant, and a store of objects",
}
"""What helps against each limit."""


def simulate_groups(groups: int, constants: Constants) -> Demand:
    """Compute what groups of 400 messages a day take over ten years, in one backfill.

    Args:
        groups: Number of conversations.
        constants: What one unit takes.
    """
    messages = groups * MESSAGES_PER_DAY * 365 * YEARS
    texts = messages * constants.texts_per_message + DOCUMENT_CHUNKS
    query = constants.query_cpu_s + DOCUMENT_CHUNKS * constants.query_chunk_cpu_s
    return Demand(
        "1 group" if groups == 1 else f"{groups:,} groups",
        {
            "embedding": texts * constants.text_cpu_s / 3600,
            "tables": (constants.run_cpu_s + messages * constants.message_cpu_s) / 3600,
            "searching": texts * query / 3600,
        },
        (messages * constants.message_bytes + texts * constants.vector_bytes) / 1e9,
        _build_memory(DOCUMENT_CHUNKS, constants) / 1e9,
        query,
    )


def simulate_chunks(chunks: int, constants: Constants) -> Demand:
    """Compute what an index of documents takes, with nobody asking.

    Args:
        chunks: Number of chunks.
        constants: What one unit takes.
    """
    return Demand(
        f"10^{round(math.log10(chunks))} chunks",
        {
            "embedding": chunks * constants.text_cpu_s / 3600,
            "building": chunks * constants.chunk_cpu_s / 3600,
        },
        chunks * (constants.chunk_bytes + constants.vector_bytes) / 1e9,
        (_build_memory(chunks, constants) + min(chunks * constants.vector_bytes, EMBEDDED_BYTES)) / 1e9,
        constants.query_cpu_s + chunks * constants.query_chunk_cpu_s,
    )


def _build_memory(chunks: float, constants: Constants) -> float:
    return constants.build_memory_bytes + chunks * constants.chunk_memory_bytes


def measure_constants() -> Constants:
    """Measure the constants on this machine, in about a minute of CPU time."""
    # The first build also imports what every later one shares.
    _, small, large = (_index(rows) for rows in (1_000, *CALIBRATION_ROWS))
    rows = large.rows - small.rows
    few, many = (measure_run(size) for size in CALIBRATION_SIZES)
    messages = many["messages"] - few["messages"]
    message_cpu = (many["cpu_s"] - few["cpu_s"]) / messages
    embedder = make_embedder(EmbeddingSettings())
    texts = make_texts(2 * TEXTS, WORDS_PER_TEXT, seed=5).to_list()
    embedder.embed(texts[:TEXTS], task="document")
    _, text_cpu = seconds_of(lambda: embedder.embed(texts[TEXTS:], task="document"))
    return Constants(
        run_cpu_s=few["cpu_s"] - few["messages"] * message_cpu,
        message_cpu_s=message_cpu,
        message_bytes=(many["bytes"] - few["bytes"]) / messages,
        texts_per_message=many["texts"] / many["messages"],
        text_tokens=float(embedder.count_tokens(texts[TEXTS:]).mean()),
        text_cpu_s=text_cpu / TEXTS,
        vector_bytes=4.0 * embedder.dimension,
        chunk_cpu_s=(large.build_cpu_seconds - small.build_cpu_seconds) / rows,
        chunk_bytes=(large.disk_mb - small.disk_mb) * 1e6 / rows,
        chunk_memory_bytes=(large.build_memory_mb - small.build_memory_mb) * 1e6 / rows,
        build_memory_bytes=small.build_memory_mb * 1e6,
        query_cpu_s=max(0.0, small.cpu_ms - small.rows * (large.cpu_ms - small.cpu_ms) / rows) / 1e3,
        query_chunk_cpu_s=(large.cpu_ms - small.cpu_ms) / rows / 1e3,
    )


def measure_run(size: Size) -> dict[str, float]:
    """Run all stages over a workspace without a model.

    Args:
        size: Its size.

    Returns:
        ``messages``, ``texts`` (query chunks), ``cpu_s`` and ``bytes`` of the tables.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "workspace"
        write_workspace(folder, size, embedder="hashing", export="parquet")
        workspace = open_workspace(folder)
        steps = {step.name: step for step in run_stages(workspace)}
        return {
            "messages": steps["messages"].rows,
            "texts": steps["window_chunks"].rows,
            "cpu_s": sum(step.cpu_seconds for step in steps.values()),
            "bytes": sum(path.stat().st_size for path in workspace.tables_dir.rglob("*.parquet")),
        }


@dataclass(frozen=True)
class Measured:
    """What was measured of a size that the constants do not come from.

    Attributes:
        size: The size in words.
        units: Number of its chunks or messages.
        what: The figure, of :data:`FIGURES`.
        value: Its measured value.
    """

    size: str
    units: int
    what: str
    value: float


FIGURES: Final[Mapping[str, Callable[[Constants, float], float]]] = {
    "build, CPU s": lambda constants, chunks: constants.chunk_cpu_s * chunks,
    "snapshot, MB": lambda constants, chunks: constants.chunk_bytes * chunks / 1e6,
    "memory of the build, MB": lambda constants, chunks: _build_memory(chunks, constants) / 1e6,
    "hybrid query, CPU ms": lambda constants, chunks: (
        (constants.query_cpu_s + constants.query_chunk_cpu_s * chunks) * 1e3
    ),
    "run, CPU s": lambda constants, messages: constants.run_cpu_s + constants.message_cpu_s * messages,
    "texts": lambda constants, messages: constants.texts_per_message * messages,
}
"""What is simulated for a number of chunks or messages, and measured."""


def measure_others() -> list[Measured]:
    """Measure sizes that the constants do not come from."""
    found = _index(COMPARED_ROWS)
    values = (found.build_cpu_seconds, found.disk_mb, found.build_memory_mb, found.cpu_ms)
    measured = [
        Measured(f"{found.rows:,} chunks", found.rows, what, value)
        for what, value in zip(FIGURES, values, strict=False)
    ]
    for size in COMPARED_SIZES:
        run = measure_run(size)
        messages = round(run["messages"])
        groups = "1 conversation" if size.conversations == 1 else f"{size.conversations} conversations"
        named = f"{groups}, {messages:,} messages"
        measured += [
            Measured(named, messages, "run, CPU s", run["cpu_s"]),
            Measured(named, messages, "texts", run["texts"]),
        ]
    return measured


def tabulate_measured(constants: Constants, measured: Sequence[Measured]) -> str:
    """Write the table of what was simulated and measured in Markdown."""
    lines = ["| size | what | simulated | measured | ratio |", "|---|---|---|---|---|"]
    for each in measured:
        simulated = FIGURES[each.what](constants, each.units)
        lines.append(
            f"| {each.size} | {each.what} | {_round(simulated, 3)} | {_round(each.value, 3)} | "
            f"{each.value / simulated:.2f} |"
        )
    return "\n".join(lines)


def tabulate(constants: Constants) -> str:
    """Write the table of all simulated sizes in Markdown."""
    demands = [
        *(simulate_groups(groups, constants) for groups in GROUPS),
        *(simulate_chunks(chunks, constants) for chunks in CHUNKS),
    ]
    lines = [
        (
            "| size | CPU hours | workers | GB stored | GB memory | query, CPU s | $ once | $ a month "
            "| binds first | remedy |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for demand in demands:
        hours = ", ".join(f"{name} {_round(value)}" for name, value in demand.hours.items())
        lines.append(
            f"| {demand.size} | {hours} | {demand.workers:,} | {_round(demand.gigabytes)} | "
            f"{_round(demand.memory_gb)} | {_round(demand.query_seconds)} | {_round(demand.dollars_once)} | "
            f"{_round(demand.dollars_a_month)} | {demand.binding} | {REMEDIES[demand.binding]} |"
        )
    return "\n".join(lines)


def read_constants() -> Constants:
    """Read the constants that were measured last."""
    return Constants(**json.loads(CONSTANTS_FILE.read_text(encoding="utf-8")))


def read_measured() -> list[Measured]:
    """Read what was measured last of other sizes."""
    return [Measured(**each) for each in json.loads(MEASURED_FILE.read_text(encoding="utf-8"))]


def _index(rows: int) -> Figures:
    """Build and ask an index; the figures of the hybrid ranking."""
    return measure_index(rows, QUERIES, DIMENSION, repeats=3, approximate=False)[-1]


def _round(value: float, count: int = 2) -> str:
    """Write a number with some digits that count."""
    if value <= 0:
        return "0"
    digits = count - 1 - math.floor(math.log10(value))
    return f"{round(value, digits):,.{max(0, digits)}f}"


def main() -> int:
    """Measure, or simulate.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument(
        "--simulate", action="store_true", help="print the tables from what was measured last"
    )
    if not parser.parse_args().simulate:
        drop_pinned_kernels("benchmarks.scale")
        constants = measure_constants()
        _write(CONSTANTS_FILE, asdict(constants))
        _write(MEASURED_FILE, [asdict(each) for each in measure_others()])
    constants, measured = read_constants(), read_measured()
    print(tabulate(constants), tabulate_measured(constants, measured), sep="\n\n")
    return 0


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
