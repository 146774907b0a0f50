"""`vllm bench latency` results: seconds that a batch of equal requests takes from start to end.

https://github.com/vllm-project/vllm (Apache-2.0), vllm/benchmarks/latency.py. `--output-json` writes avg_latency,
latencies and percentiles, in seconds, and not what was run: add input_len, output_len and batch_size to the object, or
declare them; the `.pytorch.json` beside it has them in benchmark.extra_info.args. No server lies between.

A run with output_len 1 and one prompt is a prompt alone. Two runs that differ in output_len alone differ by decode
steps alone: (t2 - t1) / (o2 - o1) is one, at a context of input_len + (o1 + o2) / 2.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pipelines.sources.base import RAW_CHARACTERS, SourceError
from pipelines.sources.files import open_source, read_all
from pipelines.sources.profile_points import DOCUMENT_BYTES, Found, Read, number

NEEDED = ("input_len", "output_len", "batch_size")


@dataclass(frozen=True, slots=True)
class _Run:
    place: int
    """Which of the files."""
    line: int
    raw: str
    input_len: float
    output_len: float
    batch_size: float
    seconds: float


def looks_like(text: str) -> bool:
    """Whether the beginning of a file is a latency result."""
    return ('"avg_latency"' in text and '"latencies"' in text) or ('"benchmark_values"' in text and '"metric"' in text)


def read(files: Sequence[Found], declared: Mapping[str, object], tp: int) -> list[Read]:
    """Points of runs that belong together, each in the file of its longer run. `declared` fills what a run lacks.

    Raises:
        SourceError: a file is no whole JSON, or says of no run what was run.
    """
    results = [Read(notes=["latencies in s, no server between"]) for _ in files]
    runs: list[_Run] = []
    for place, found in enumerate(files):
        for line, record in enumerate(_records(found), 1):
            run = _run(found.name, place, line, record, declared, tp, results[place])
            if run is not None:
                runs.append(run)
    alike = sorted(runs, key=lambda run: (run.batch_size, run.input_len, run.output_len))
    for (batch, isl), group in itertools.groupby(alike, key=lambda run: (run.batch_size, run.input_len)):
        several = list(group)
        for run in several:
            if run.output_len == 1 and batch == 1:
                results[run.place].prompt(run.line, run.raw, tokens=isl, ms=run.seconds * 1e3, seen_from="engine")
        for short, long in itertools.pairwise(several):
            grown = long.output_len - short.output_len
            if grown > 0:
                ms = (long.seconds - short.seconds) / grown * 1e3
                context = isl + (short.output_len + long.output_len) / 2
                results[long.place].decode(long.line, long.raw, sequences=batch, context=context, span=grown, ms=ms)
        if len(several) == 1 and several[0].output_len > 1:
            why = "a second run of the same batch and input_len, with another output_len, tells decode from prefill"
            results[several[0].place].pass_over(several[0].line, why, several[0].raw)
    return results


def _run(
    name: str,
    place: int,
    line: int,
    record: Mapping[str, object],
    declared: Mapping[str, object],
    tp: int,
    result: Read,
) -> _Run | None:
    raw = json.dumps({k: v for k, v in record.items() if k != "latencies"}, default=str)[:RAW_CHARACTERS]
    sizes = {key: number(record, key) or number(declared, key) for key in NEEDED}
    lacking = [key for key, size in sizes.items() if not size or size < 1]
    if lacking:
        raise SourceError(
            f"{name}: a latency result does not say {', '.join(lacking)}. Add them to its object, or under options."
        )
    other = number(record, "tensor_parallel_size")
    if other is not None and other != tp:
        result.pass_over(line, f"it ran on TP {other:g}, and the profile is of TP {tp}", raw)
        return None
    seconds = _seconds(record)
    if seconds is None or seconds <= 0:
        result.broken.append((line, "latencies hold no time above 0", raw))
        return None
    found = [float(sizes[key] or 0) for key in NEEDED]
    return _Run(place, line, raw, found[0], found[1], found[2], seconds)


def _seconds(record: Mapping[str, object]) -> float | None:
    """Median over the iterations: the first may still compile."""
    latencies = record.get("latencies")
    if isinstance(latencies, list):
        times = [number({"s": value}, "s") for value in latencies]
        good = [time for time in times if time is not None]
        return median(good) if good and len(good) == len(times) else None
    return number(record, "avg_latency")


def _records(found: Found) -> list[Mapping[str, object]]:
    opened = open_source(found.path, found.name)
    if opened.kind != "text" or opened.size_bytes > DOCUMENT_BYTES:
        raise SourceError(f"{found.name} is no latency result. Name the JSON of `vllm bench latency --output-json`.")
    try:
        data = json.loads(read_all(opened))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{found.name} is not whole JSON: {str(error).splitlines()[0]}. Copy it again.") from None
    records = data if isinstance(data, list) else [data]
    if not records or not all(isinstance(record, dict) for record in records):
        raise SourceError(f"{found.name} is no latency result. Name the JSON of `vllm bench latency --output-json`.")
    return [_flat(record) for record in records]


def _flat(record: Mapping[str, object]) -> Mapping[str, object]:
    """A `.pytorch.json` record in the shape of a plain one."""
    benchmark, metric = record.get("benchmark"), record.get("metric")
    if not isinstance(benchmark, dict) or not isinstance(metric, dict):
        return record
    extra = benchmark.get("extra_info")
    args = extra.get("args") if isinstance(extra, dict) else None
    return {**(args if isinstance(args, dict) else {}), "latencies": metric.get("benchmark_values")}
