"""Weka's agent traces: one conversation a document or line, seconds from its start, hashes of 64-token blocks.

As AIPerf and GuideLLM read them (`weka_trace`): `t` counts within a conversation, subagents hold requests of their own,
hash ids are the conversation's own where `hash_id_scope` is local, and only whole blocks are hashed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from pipelines.sources.arrivals import relative
from pipelines.sources.base import NOT_A_REQUEST
from pipelines.sources.columns import MAX_SECONDS, Reading, Rule, quantity, text, whole
from pipelines.sources.layout import Cells, Layout, TraceOptions
from pipelines.sources.outcome import censored

_DEEPEST = 20


def _recognises(objects: Sequence[Mapping[str, object]]) -> bool:
    return any(isinstance(value.get("requests"), list) and "block_size" in value for value in objects)


def _records(value: Mapping[str, object]) -> Iterator[Mapping[str, object] | str]:
    if not isinstance(value.get("requests"), list):
        yield "requests is missing"
        return
    scope = "" if value.get("hash_id_scope") == "global" else str(value.get("id"))
    yield from _requests(value, value["requests"], scope, 0)


def _requests(
    conversation: Mapping[str, object], requests: object, scope: str, depth: int
) -> Iterator[Mapping[str, object] | str]:
    for request in requests if isinstance(requests, list) else []:
        if not isinstance(request, dict):
            yield "a request that is not an object"
        elif request.get("type") == "subagent":
            yield f"{NOT_A_REQUEST}: a subagent, whose requests follow"
            if depth < _DEEPEST:
                yield from _requests(conversation, request.get("requests"), scope, depth + 1)
        else:
            yield {
                **{key: request.get(key) for key in ("t", "in", "out", "model", "stop", "ttft", "api_time")},
                "block_size": conversation.get("block_size"),
                "hash_ids": _placed(request.get("hash_ids"), scope),
                "session_id": conversation.get("id"),
                "media": any(kind in ("image", "audio", "video") for kind in _list(request.get("input_types"))),
            }


def _list(held: object) -> list[object]:
    return held if isinstance(held, list) else []


def _placed(ids: object, scope: str) -> object:
    """Local ids made the conversation's own: 63 bits of BLAKE2 over its id and theirs."""
    if not scope or not isinstance(ids, list):
        return ids
    return [
        int.from_bytes(hashlib.blake2b(f"{scope}:{item}".encode("utf-8", "replace"), digest_size=8).digest()) >> 1
        for item in ids
    ]


def _readings(_: str, __: Cells, options: TraceOptions, ___: Sequence[str]) -> tuple[list[Reading], list[str]]:
    hashes, block = pl.col("hash_ids"), whole("prefix_block_tokens", "block_size", most=2**31 - 1)
    most = (pl.col("in").cast(pl.Float64, strict=False) / block.value).ceil()
    few = Rule(hashes.is_null() | (hashes.list.len() <= most), pl.lit("more hash_ids than its input has blocks"))
    readings = [
        *relative("t", "s", options),
        whole("isl_tokens", "in"),
        whole("osl_tokens", "out", least=0),
        block,
        Reading("prefix_hashes", hashes, (few,)),
        text("session_id", "session_id"),
        text("model", "model"),
        text("finish_reason", "stop"),
        quantity("ttft_ms", "ttft", most=MAX_SECONDS, scale=1_000),
        quantity("e2e_ms", "api_time", most=MAX_SECONDS, scale=1_000),
        Reading("multimodal", pl.col("media") == "true"),
        censored(pl.col("stop"), pl.lit("ok")),
    ]
    return readings, [
        f"t in s within a conversation; each begins at {options.start_at}",
        "prefix blocks of the file's block_size, whole ones only",
        "lines count requests",
    ]


WEKA = Layout(
    "weka",
    "Weka agent trace",
    required=("t", "in", "out", "model", "stop", "ttft", "api_time", "block_size", "hash_ids", "session_id", "media"),
    readings=_readings,
    heeds=("start_at",),
    containers=("json",),
    cell_types={"hash_ids": pl.List(pl.Int64())},
    records=_records,
    recognises=_recognises,
    numbered=True,
)
