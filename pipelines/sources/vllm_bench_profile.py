"""`vllm bench serve` results, one run or many: JSON, appended JSON, `vllm bench sweep`'s summary.json and summary.csv.

https://github.com/vllm-project/vllm (Apache-2.0), vllm/benchmarks/serve.py and vllm/benchmarks/sweep/serve.py. SGLang's
bench_serving writes the same fields (https://github.com/sgl-project/sglang, Apache-2.0), one run a line.
Two things in a run say how long a step takes, and only in a closed loop (`--max-concurrency C`, request rate inf):

- median_itl_ms is a plain decode step of C sequences as long as fewer than half of the steps hold a prompt. C - 1
  others send a prompt each while one answer runs, so that is (C - 1) / OSL of the steps, times the chunks that a prompt
  is computed in. Where the client saw bundles of tokens its ITL is far from its TPOT, and says nothing of a step.
- median_ttft_ms of a lone client (C = 1) is a prompt alone, with what lies outside the engine.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping

from pipelines.sources.base import RAW_CHARACTERS, SourceError
from pipelines.sources.files import open_source, read_all
from pipelines.sources.profile_points import DOCUMENT_BYTES, Found, Read, number

MOST_PROMPT_STEPS = 0.4
"""Share of steps with a prompt up to which the median gap is a plain decode step, with some room below a half."""
CHUNK_TOKENS = 2048
"""Tokens of a chunk where nobody says: the smallest budget vLLM serves with by default."""
BUNDLED = 1.25
"""Mean ITL over mean TPOT, either way, beyond which the client did not see single tokens."""
MOST_FAILED = 0.05
_TP = ("tensor_parallel_size", "tensor-parallel-size", "tp")
_ITL = ("median_itl_ms", "p50_itl_ms")
_TTFT = ("median_ttft_ms", "p50_ttft_ms")
_Run = Mapping[str, object]


def looks_like(text: str) -> bool:
    """Whether the beginning of a file is a result of `vllm bench serve`, or a table of them."""
    return "total_input_tokens" in text and ("ttft_ms" in text or "request_throughput" in text)


def files_in(folder: Found) -> list[Found]:
    """The runs of a sweep's folder, each once: its summary.csv, else the combinations' summary.json, else every run."""

    def named(pattern: str) -> list[Found]:
        paths = sorted(path for path in folder.path.rglob(pattern) if path.is_file())
        return [Found(f"{folder.name.rstrip('/')}/{p.relative_to(folder.path).as_posix()}", p) for p in paths]

    return named("summary.csv") or named("summary.json") or named("*.json")


def read(found: Found, tp: int) -> Read:
    """Points of a file's runs; runs of another tensor-parallel size than `tp` are another configuration's.

    Raises:
        SourceError: the file is neither JSON nor a CSV with the benchmark's columns.
    """
    result = Read()
    line = 0
    for line, run in enumerate(_runs(found), 1):
        raw = json.dumps({k: v for k, v in run.items() if not isinstance(v, list | dict)}, default=str)
        _points(line, run, tp, raw[:RAW_CHARACTERS], result)
    if not line:
        raise SourceError(f"{found.name} holds no run. Name a result of `vllm bench serve` or a sweep's summary.csv.")
    result.notes.append("median_itl_ms of closed loops, median_ttft_ms of a lone client, in ms")
    return result


def _points(line: int, run: _Run, tp: int, raw: str, result: Read) -> None:
    if "error_type" in run or number(run, "run_number") == -1:
        result.pass_over(line, "a run that failed, or a warm-up", raw)
        return
    server = run.get("server_info")
    other = number(run, *_TP) or (number(server, "tp_size") if isinstance(server, dict) else None)
    if other is not None and other != tp:
        result.pass_over(line, f"it ran on TP {other:g}, and the profile is of TP {tp}", raw)
        return
    done, isl, osl = (number(run, name) for name in ("completed", "total_input_tokens", "total_output_tokens"))
    if not done or done < 1 or not isl or isl <= 0 or not osl or osl <= 0:
        result.broken.append((line, "completed, total_input_tokens and total_output_tokens must be above 0", raw))
        return
    isl, osl = isl / done, osl / done
    clients, failed = number(run, "max_concurrency"), number(run, "failed") or 0.0
    if str(run.get("request_rate", "inf")).strip().lower() not in ("inf", "infinity") or not clients:
        result.pass_over(line, "an open loop, whose batch varies; run it with --max-concurrency alone", raw)
    elif failed > MOST_FAILED * (done + failed):
        result.pass_over(line, f"{failed:g} of its requests failed", raw)
    elif done < clients:
        result.pass_over(line, f"fewer requests ({done:g}) than clients ({clients:g})", raw)
    else:
        before = len(result.rows) + len(result.broken)
        _decode(line, run, clients, isl, osl, raw, result)
        ttft = number(run, *_TTFT)
        if clients == 1 and ttft is not None:
            result.prompt(line, raw, tokens=isl, ms=ttft)
        if len(result.rows) + len(result.broken) == before:
            result.broken.append((line, "it has no median of ITL", raw))


def _decode(line: int, run: _Run, clients: float, isl: float, osl: float, raw: str, result: Read) -> None:
    gap, mean, tpot = number(run, *_ITL), number(run, "mean_itl_ms"), number(run, "mean_tpot_ms")
    if osl < 2 or gap is None:
        return
    prompts = (clients - 1) / osl * math.ceil(isl / CHUNK_TOKENS)
    if prompts > MOST_PROMPT_STEPS:
        result.pass_over(line, f"a prompt in {prompts:.0%} of its steps: its median gap is no plain decode step", raw)
    elif mean and tpot and not 1 / BUNDLED <= mean / tpot <= BUNDLED:
        result.pass_over(line, f"its ITL is {mean / tpot:.2g} x its TPOT: the client saw bundles of tokens", raw)
    else:
        result.decode(line, raw, sequences=clients, context=isl + osl / 2, span=osl, ms=gap)


def _runs(found: Found) -> Iterator[_Run]:
    """The runs of a file, whichever of the shapes it has."""
    opened = open_source(found.path, found.name)
    if opened.kind != "text" or opened.size_bytes > DOCUMENT_BYTES:
        raise SourceError(f"{found.name} is no benchmark result. Name the JSON or the summary.csv of a sweep.")
    try:
        text = read_all(opened).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"{found.name} is not UTF-8 (byte {error.start}). Copy it again.") from None
    if text.lstrip()[:1] not in ("{", "["):
        yield from _csv_runs(found.name, text)
        return
    decoder, at = json.JSONDecoder(), 0
    while (at := len(text) - len(text[at:].lstrip())) < len(text):
        try:
            data, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{found.name} is not whole JSON: {str(error).splitlines()[0]}. Copy it again.") from None
        for run in data if isinstance(data, list) else [data]:
            if not isinstance(run, dict):
                raise SourceError(f"{found.name} holds {type(run).__name__} where a run's object is expected.")
            yield run


def _csv_runs(name: str, text: str) -> Iterator[_Run]:
    rows = csv.reader(io.StringIO(text), strict=True)
    try:
        header = next(rows, [])
        if not looks_like(",".join(header)):
            raise SourceError(
                f"{name}, line 1: a sweep's summary has total_input_tokens, max_concurrency, median_itl_ms and "
                "median_ttft_ms among its columns. Name the summary.csv of `vllm bench sweep serve`."
            )
        for row in rows:
            if row:
                # Runs without a field leave its cell empty, as pandas writes it.
                yield {key: cell for key, cell in zip(header, row, strict=False) if cell != ""}
    except csv.Error as error:
        raise SourceError(f"{name}, line {rows.line_num}: {error}. Copy the file again.") from None
