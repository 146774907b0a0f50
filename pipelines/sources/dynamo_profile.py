"""NVIDIA Dynamo's pre-deployment profiler: `raw_data.npz` of its two sweeps, or the same as JSON.

https://github.com/ai-dynamo/dynamo (Apache-2.0), components/src/dynamo/profiler/utils/profile_prefill.py and
profile_decode.py. `selected_prefill_interpolation/raw_data.npz` holds prefill_isl (tokens), prefill_ttft (ms, one
prompt at a time) and prefill_thpt_per_gpu; `selected_decode_interpolation/raw_data.npz` holds x_kv_usage (share of the
cache), y_context_length (tokens, ISL + OSL / 2), z_itl (ms), z_thpt_per_gpu and max_kv_tokens. A ConfigMap keeps them
as prefill_raw_data.json and decode_raw_data.json. Decode was measured with cached prompts, so no step holds one.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pipelines.sources.base import SourceError, shown
from pipelines.sources.files import open_source, read_all
from pipelines.sources.profile_points import DOCUMENT_BYTES, Found, Read

PREFILL = ("prefill_isl", "prefill_ttft")
DECODE = ("x_kv_usage", "y_context_length", "z_itl", "max_kv_tokens")
MOCKER = "decode_active_kv_tokens"
"""Only in a mocker's table, which is a fit of a profile and no measurement."""
ANSWER_TOKENS = 500.0
"""Every answer of the decode sweep has this length (profile_decode.py, `osl`)."""
Numbers = NDArray[np.float64]


def is_profile(found: Found) -> bool:
    """Whether a file's name is one that the profiler gives."""
    return found.path.suffix == ".npz" or found.path.name in ("prefill_raw_data.json", "decode_raw_data.json")


def files_in(folder: Found) -> list[Found]:
    """The profiler's files in a results folder: both sweeps, or whichever is there."""
    names = (
        ("selected_prefill_interpolation/raw_data.npz", "prefill_raw_data.json"),
        ("selected_decode_interpolation/raw_data.npz", "decode_raw_data.json"),
    )
    found = (next((name for name in either if (folder.path / name).is_file()), None) for either in names)
    return [Found(f"{folder.name.rstrip('/')}/{name}", folder.path / name) for name in found if name]


def read(found: Found, ranks: int = 1) -> Read:
    """Points of one file. `ranks` data-parallel attention ranks share the sequences of the decode sweep.

    Raises:
        SourceError: the file is damaged, or does not hold the profiler's arrays.
    """
    held = _npz(found) if found.path.suffix == ".npz" else _json(found)
    if MOCKER in held:
        raise SourceError(
            f"{found.name} is a mocker's table, a fit of a profile. Name the profiler's own results folder."
        )
    if not set(PREFILL) <= set(held) and not set(DECODE) <= set(held):
        raise SourceError(
            f"{found.name} holds {shown(', '.join(sorted(held)) or 'nothing', 120)}; a profiler's file holds "
            f"{', '.join(PREFILL)}, or {', '.join(DECODE)}. Name its raw_data.npz."
        )
    result = Read()
    if set(PREFILL) <= set(held):
        _prefill(found.name, held, result)
    if set(DECODE) <= set(held):
        _decode(found.name, held, ranks, result)
    return result


def _prefill(name: str, held: Mapping[str, Numbers], result: Read) -> None:
    isl, ttft = _alike(name, held, PREFILL)
    for line, (tokens, ms) in enumerate(zip(isl, ttft, strict=True), 1):
        result.prompt(line, f"prefill_isl {tokens:g}, prefill_ttft {ms:g}", tokens=float(tokens), ms=float(ms))
    result.notes.append("prefill_ttft in ms, one prompt at a time")


def _decode(name: str, held: Mapping[str, Numbers], ranks: int, result: Read) -> None:
    usage, context, itl = _alike(name, held, DECODE[:3])
    if held["max_kv_tokens"].size != 1 or not held["max_kv_tokens"].ravel()[0] > 0:
        raise SourceError(f"{name}: max_kv_tokens is one number above 0, the cache's tokens. Profile again.")
    capacity = float(held["max_kv_tokens"].ravel()[0])
    if usage.size and float(np.nanmax(usage)) > 2.0:
        raise SourceError(
            f"{name}: x_kv_usage goes up to {float(np.nanmax(usage)):g}; it is a share of the cache, from 0 to 1. "
            "Divide it by 100 if it is in percent."
        )
    for line, (share, tokens, ms) in enumerate(zip(usage, context, itl, strict=True), 1):
        raw = f"x_kv_usage {share:g}, y_context_length {tokens:g}, z_itl {ms:g}"
        # The profiler divides a whole number of requests by the cache; take it back.
        sequences = round(share * capacity / tokens, 6) if tokens > 0 and np.isfinite(share * tokens) else np.nan
        span = min(ANSWER_TOKENS, 2 * float(tokens))
        result.decode(line, raw, sequences=float(sequences) / ranks, context=float(tokens), span=span, ms=float(ms))
    result.notes.append(f"z_itl in ms, answers of {ANSWER_TOKENS:g} tokens, a cache of {capacity:,.0f} tokens")


def _alike(name: str, held: Mapping[str, Numbers], keys: tuple[str, ...]) -> list[Numbers]:
    """The arrays of these keys, of one length."""
    arrays = [held[key] for key in keys]
    if any(array.ndim != 1 for array in arrays) or len({len(array) for array in arrays}) != 1:
        sizes = ", ".join(f"{key} {array.shape}" for key, array in zip(keys, arrays, strict=True))
        raise SourceError(f"{name}: {sizes} must be lists of one length. Profile again, or copy the file again.")
    return arrays


def _npz(found: Found) -> dict[str, Numbers]:
    try:
        with found.path.open("rb") as stream:
            content = stream.read(DOCUMENT_BYTES + 1)
    except OSError as error:
        raise SourceError(f"{found.name} cannot be read: {error.strerror}. Make it a readable file.") from None
    if len(content) > DOCUMENT_BYTES:
        raise SourceError(f"{found.name} is larger than {DOCUMENT_BYTES >> 20} MiB, and no profile is.")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            unpacked = sum(item.file_size for item in packed.infolist())
        if unpacked > DOCUMENT_BYTES:
            raise SourceError(f"{found.name} unpacks to {unpacked >> 20:,} MiB, and no profile is that large.")
        # Never pickles: those run code when they are read.
        with np.load(io.BytesIO(content), allow_pickle=False) as data:
            held = {key: data[key] for key in data.files}
    except (ValueError, OSError, EOFError, KeyError, NotImplementedError, RuntimeError, MemoryError) as error:
        raise _damaged(found.name, error) from None
    except (zipfile.BadZipFile, zlib.error, SyntaxError) as error:
        raise _damaged(found.name, error) from None
    wrong = next((key for key, array in held.items() if array.dtype.kind not in "fiu"), None)
    if wrong is not None:
        raise SourceError(f"{found.name}: {shown(wrong)} holds no numbers. Name the profiler's raw_data.npz.")
    return {key: array.astype(np.float64) for key, array in held.items()}


def _damaged(name: str, error: Exception) -> SourceError:
    said = " ".join(str(error).split())[:120] or type(error).__name__
    return SourceError(f"{name} is no whole npz file: {said}. Copy it again.")


def _json(found: Found) -> dict[str, Numbers]:
    opened = open_source(found.path, found.name)
    try:
        data = json.loads(read_all(opened))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{found.name} is not whole JSON: {str(error).splitlines()[0]}. Copy it again.") from None
    if not isinstance(data, dict):
        raise SourceError(f"{found.name} is no JSON object. Name the profiler's prefill_raw_data.json.")
    held: dict[str, Numbers] = {}
    for key, value in data.items():
        try:
            held[str(key)] = np.atleast_1d(np.array(value, dtype=np.float64))
        except (ValueError, TypeError, OverflowError):
            if key in (*PREFILL, *DECODE):
                raise SourceError(f"{found.name}: {key} holds something that is no number. Profile again.") from None
    return held
