"""Bytes of a checkpoint from what its repository says: file sizes, the index's total, the hub's counts by type.

Belongs here: which files are weights, and whether the statements agree. Does not: fetching any of them (`hub`,
`modelscope`, `models`), bytes computed from a config (`estimator.weights`). File sizes decide; the others only check
them: a hub's counts by type are not bytes where several values are packed into one (FP4, GPTQ).
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

INDEX = "model.safetensors.index.json"
TIE_TOLERANCE = 0.002
"""Headers and padding between the bytes of files and the bytes of the tensors in them."""
_HEADER_BYTES = 100 * 2**20
_LEAST_BYTES, _MOST_BYTES = 1024, 10**15
"""Sizes a file of weights may have: a Git LFS pointer is some 130 bytes long, no checkpoint reaches a petabyte."""
_WIDTHS = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "BF16": 2, "F16": 2, "I16": 2, "U16": 2,
    "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1, "F4": 0.5,
}  # fmt: skip
"""Bytes of one stored value by safetensors type."""


def checkpoint_bytes(sizes: Mapping[str, int | None]) -> int | None:
    """Bytes of the weights an engine loads, from the names and sizes of a repository's own (top) folder; None if none,
    or if one of them is of no size that weights have: not told, or a pointer that Git LFS left.

    A repository may hold the same weights twice: `model*.safetensors` is taken before other safetensors (Mistral's
    `consolidated`), and any safetensors before `.bin` files. Sizes are on disk; they are not dtype counts, which
    miscount packed formats.
    """
    found = _weights(sizes)
    told = [size for size in found if size is not None and _LEAST_BYTES <= size <= _MOST_BYTES]
    return sum(told) if told and len(told) == len(found) else None


def _weights(sizes: Mapping[str, int | None]) -> list[int | None]:
    """The sizes of the files an engine loads; empty when there are none."""
    for pattern in (
        r"model.*\.safetensors",
        r"(?!consolidated).*\.safetensors",
        r".*\.safetensors",
        r"pytorch_model.*\.bin",
    ):
        found = [size for name, size in sizes.items() if "/" not in name and re.fullmatch(pattern, name)]
        if found:
            return found
    return []


def missing_shards(index: Mapping[str, Any], names: Collection[str]) -> int:
    """Files of weights that an index names and a folder does not hold."""
    named = index.get("weight_map")
    shards = {str(file) for file in named.values()} if isinstance(named, Mapping) else set()
    return len(shards - set(names))


def bytes_by_type(counts: Mapping[str, Any]) -> dict[str, float] | None:
    """Bytes of a hub's counts of stored values by type, largest first; None when a type or a count is not known."""
    found: dict[str, float] = {}
    for name, count in counts.items():
        if name not in _WIDTHS or isinstance(count, bool) or not isinstance(count, int) or count < 0:
            return None
        found[name] = count * _WIDTHS[name]
    return dict(sorted(found.items(), key=lambda item: -item[1])) or None


def index_total(index: Mapping[str, Any]) -> int | None:
    """`metadata.total_size` of a safetensors index: bytes of its tensors; None when it does not say."""
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    return int(total) if isinstance(total, int | float) and not isinstance(total, bool) and total > 0 else None


def statement(
    sizes: Mapping[str, int | None], total: int | None = None, by_type: Mapping[str, float] | None = None
) -> str:
    """One line on how the file sizes, the index and the bytes by type agree; empty when there is nothing to compare."""
    file_bytes = checkpoint_bytes(sizes)
    if file_bytes is None:
        return (
            "the weight files are of no known size (not told, or Git LFS pointers), so the config counts"
            if _weights(sizes)
            else ""
        )
    said: list[str] = []
    if total is not None:
        off = file_bytes / total - 1
        said.append(
            "files tie with the index's total_size"
            if abs(off) <= TIE_TOLERANCE
            else f"files are {off:+.1%} from the index's total_size of {total:,} B"
        )
    if by_type:
        typed = sum(by_type.values())
        off = typed / file_bytes - 1
        if abs(off) <= TIE_TOLERANCE:
            said.append(
                "stored as " + ", ".join(f"{name} {size / typed:.1%}" for name, size in by_type.items() if size)
            )
        else:
            said.append(f"counts by type come to {off:+.1%} of the files: packed or logical, so not used")
    return "; ".join(said)


def local_bytes_by_type(files: list[Path]) -> dict[str, float] | None:
    """Bytes of the tensors in local safetensors files by type, read from their headers; None when one has none."""
    found: dict[str, float] = {}
    for file in files:
        header = _header(file)
        if header is None:
            return None
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            try:
                start, end = tensor["data_offsets"]
                found[str(tensor["dtype"])] = found.get(str(tensor["dtype"]), 0.0) + (end - start)
            except (KeyError, TypeError, ValueError):
                return None
    return dict(sorted(found.items(), key=lambda item: -item[1])) or None


def _header(file: Path) -> dict[str, Any] | None:
    """A safetensors header: its length in 8 bytes, then JSON."""
    with file.open("rb") as stream:
        start = stream.read(8)
        if len(start) < 8:
            return None
        (length,) = struct.unpack("<Q", start)
        if not 2 <= length <= _HEADER_BYTES:
            return None
        try:
            parsed = json.loads(stream.read(length))
        except (ValueError, RecursionError):
            return None
    return parsed if isinstance(parsed, dict) else None
