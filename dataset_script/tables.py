"""Rows to Parquet shards whose volume and picture cells are references, or hold the files' bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Features, Image, Nifti

SHARD_BYTES = 500_000_000
ROWS_REFERENCED = 1000
ROWS_EMBEDDED = 4
"""Rows per row group: a group is what a reader holds in memory, and one with bytes can hold 100 MB a row."""


def write_split(rows: list[dict], features: Features, folder: Path, split: str, embed: bool, done: Callable[[int], object]) -> None:
    """Write one split as `<split>-00000.parquet`, `<split>-00001.parquet`, ...; a new file from 500 MB on.

    With `embed`, rows of one patient share a row group of up to four, in which each file is stored once (dictionary encoding).

    Args:
        done: called with the number of rows after each row group.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [column for column, feature in features.items() if isinstance(feature, Nifti | Image)]
    shard = 0
    with ExitStack() as stack:

        def open_shard() -> tuple[BinaryIO, pq.ParquetWriter]:
            stack.close()
            sink = stack.enter_context((folder / f"{split}-{shard:05d}.parquet").open("wb"))
            return sink, stack.enter_context(pq.ParquetWriter(sink, features.arrow_schema, dictionary_pagesize_limit=2**30))

        sink, writer = open_shard()
        for group in _groups(rows, embed):
            if sink.tell() > SHARD_BYTES:
                shard += 1
                sink, writer = open_shard()
            writer.write_table(pa.Table.from_pylist(_cells(group, files, embed), schema=features.arrow_schema))
            done(len(group))


def embedded_bytes(rows: list[dict], features: Features) -> int:
    """Size of all cells with their files' bytes in: what the Arrow cache of a loaded split takes on disk."""
    files = [column for column, feature in features.items() if isinstance(feature, Nifti | Image)]
    sizes = {path: Path(path).stat().st_size for row in rows for column in files if (path := row[column])}
    return sum(sizes[row[column]] for row in rows for column in files if row[column])


def _groups(rows: list[dict], embed: bool) -> Iterator[list[dict]]:
    if not embed:
        yield from (rows[n : n + ROWS_REFERENCED] for n in range(0, len(rows), ROWS_REFERENCED))
        return
    group: list[dict] = []
    for row in rows:
        if group and (len(group) == ROWS_EMBEDDED or row["case_id"] != group[0]["case_id"]):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _cells(rows: list[dict], files: list[str], embed: bool) -> list[dict]:
    content: dict[str, bytes] = {}

    def cell(path: str | None) -> dict | None:
        if path is None or not embed:
            return path and {"path": path, "bytes": None}
        if path not in content:
            content[path] = Path(path).read_bytes()
        # "<ID>/<file>": tells where it came from without a local path.
        return {"path": "/".join(Path(path).parts[-2:]), "bytes": content[path]}

    return [row | {column: cell(row[column]) for column in files} for row in rows]
