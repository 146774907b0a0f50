"""Cost of the replay in CPU seconds, compile time and memory. Run: python -m tests.benchmarks.bench_replay.

Measures the kernel alone (compiled, arguments packed and unpacked) and the whole process (interpreter, imports, cached
or fresh compilation). The Azure conversation trace is read beside the checkout; without it one like it is drawn.
The fastest public step simulator of the same rules does 2,100 requests per CPU second on this trace.
"""

from __future__ import annotations

import csv
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np

from estimator.configs import parse_config
from estimator.hardware import Accelerator
from estimator.replay import EngineLimits, Handoff, Pool, Replay, Workload, replay, replay_separated
from estimator.replay.arrivals import poisson
from estimator.step_time import coefficients_for, step_parameters
from estimator.weights import weights

H100 = Accelerator("H100-SXM", 79.2, 3350, 989, 1979, 1979, None, 900, 5)
ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests" / "benchmarks" / "results.json"
AZURE = ROOT.parent / "shared" / "data" / "traces" / "azure2023_conv.csv"
PUBLIC_SIMULATOR_RPS = 2_100
LIMITS = EngineLimits(
    kv_blocks=28_000, max_num_seqs=1024, max_num_batched_tokens=8192, max_model_len=16_384, prefix_caching=False
)
SHORT_OF_BLOCKS = EngineLimits(
    kv_blocks=2_500, max_num_seqs=1024, max_num_batched_tokens=8192, max_model_len=16_384, prefix_caching=False
)
"""A tenth of the pool: requests that are admitted push each other out again."""
EXCLUSIVE = replace(LIMITS, exclusive_prefill=True)
CACHING = EngineLimits(kv_blocks=28_000, max_num_seqs=1024, max_num_batched_tokens=8192, max_model_len=16_384)


def step() -> np.ndarray:
    """A dense 8B-class model on one H100."""
    # Read as files: a table reader takes longer to import than all of this takes to run.
    catalog = ROOT / "warehouse" / "catalog"
    with (catalog / "coefficients.csv").open(newline="") as lines:
        coefficients = coefficients_for(list(csv.DictReader(lines)), "vllm", "0.15.1", "H100-SXM", "bf16")
    model = parse_config(json.loads((catalog / "models" / "meta-llama--Llama-3.1-8B-Instruct.json").read_text()), "8B")
    return step_parameters(model, weights(model), H100, 1, coefficients)


def azure() -> tuple[str, Workload]:
    """The trace, or as many requests of its mean lengths and rate."""
    if not AZURE.is_file():
        rng = np.random.default_rng(1)
        n = 19_366
        lengths = (np.clip(rng.lognormal(np.log(mean) - 0.5, 1.0, n), 1, 8000).astype(int) for mean in (1155, 211))
        return "drawn at random", Workload.of(poisson(n, 5.5, 1), *lengths)
    with AZURE.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    start = datetime.fromisoformat(rows[0]["TIMESTAMP"][:26])
    seconds = [(datetime.fromisoformat(row["TIMESTAMP"][:26]) - start).total_seconds() for row in rows]
    isl = [int(row["ContextTokens"]) for row in rows]
    return "Azure conversation trace", Workload.of(seconds, isl, [max(1, int(row["GeneratedTokens"])) for row in rows])


def with_prefixes(workload: Workload) -> Workload:
    """The same requests; a fifth of each prompt is one of 50 shared prefixes, in 16-token blocks: the costliest."""
    rng = np.random.default_rng(1)
    blocks = workload.isl_tokens // 16
    shared = (blocks * 0.2).astype(int)
    family = rng.integers(0, 50, len(workload))
    offsets = np.concatenate(([0], np.cumsum(blocks)))
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], blocks)
    own = np.arange(offsets[-1]) + 1_000_000
    common = np.repeat(family, blocks) * 1000 + place
    ids = np.where(place < np.repeat(shared, blocks), common, own)
    return Workload.of(workload.arrival_s, workload.isl_tokens, workload.osl_tokens, offsets, ids, 16)


def cpu_s(call: Callable[[], Replay], times: int = 3) -> tuple[float, Replay]:
    """CPU seconds of the fastest of a few calls, and what it returned."""
    best, result = float("inf"), call()
    for _ in range(times):
        start = time.process_time()
        result = call()
        best = min(best, time.process_time() - start)
    return best, result


def child_cpu_s(source: str, cache: str) -> float:
    """CPU seconds of a whole Python process that keeps its compiled code in `cache`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", source], cwd=ROOT, env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


WHOLE = "from tests.benchmarks import bench_replay as b; from estimator.replay import replay; {}"
MEMORY = (
    "from pathlib import Path; from tests.benchmarks import bench_replay as b; from estimator.replay import replay; "
    "w = b.many({n}); replay(w, b.step(), b.LIMITS); print(Path('/proc/self/status').read_text())"
)


def many(n: int) -> Workload:
    """`n` requests of the trace's lengths at its rate, over and over."""
    _, w = azure()
    pick = np.arange(n) % len(w)
    return Workload.of(poisson(n, w.rate_rps, 1), w.isl_tokens[pick], w.osl_tokens[pick])


def resident_mb(n: int) -> float:
    """Most memory of a process that replays `n` requests."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY.format(n=n)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    # Linux; getrusage would count what the parent held when it forked.
    return int(done.stdout.split("VmHWM:")[1].split()[0]) / 1024


def main() -> dict[str, float]:
    """Print the table and add its figures to results.json."""
    p = step()
    name, trace = azure()
    figures: dict[str, float] = {}
    print(f"{name}: {len(trace):,} requests at {trace.rate_rps:.2f}/s; CPU seconds, kernel alone")
    print(f"{'setting':46}{'requests/CPU s':>16}{'x public':>10}{'busy':>7}{'preempted':>11}")

    def row(key: str, text: str, workload: Workload, limits: EngineLimits, **options: object) -> float:
        seconds, result = cpu_s(lambda: replay(workload, p, limits, **options))  # type: ignore[arg-type]
        rate = len(workload) / seconds
        figures[key] = rate
        print(
            f"{text:46}{rate:16,.0f}{rate / PUBLIC_SIMULATOR_RPS:10.0f}{result.busy_share:7.0%}"
            f"{int(result.preemptions.sum()):11,}"
        )
        return seconds

    row("replay_azure_requests_per_cpu_s", "one engine", trace, LIMITS)
    row("replay_azure_singly_requests_per_cpu_s", "one engine, every step singly", trace, LIMITS, fast_forward=False)
    for factor in (2.0, 3.0, 4.0, 8.0):
        key = f"replay_azure_x{factor:g}_requests_per_cpu_s"
        row(key, f"one engine at {factor:g} x the rate", trace.scaled(factor), LIMITS)
    row("replay_azure_preempting_requests_per_cpu_s", "one engine at 4 x, a tenth of the KV pool", trace.scaled(4.0),
        SHORT_OF_BLOCKS)  # fmt: skip
    row("replay_azure_exclusive_requests_per_cpu_s", "one engine at 4 x, prompts in steps of their own",
        trace.scaled(4.0), EXCLUSIVE)  # fmt: skip
    prefixed = with_prefixes(trace).scaled(8.0)
    row("replay_azure_full_requests_per_cpu_s", "8 engines, 8 x, 16-token prefixes, ITL", prefixed, CACHING, replicas=8)
    busier = prefixed.scaled(3.0)
    row(
        "replay_azure_full_x3_requests_per_cpu_s",
        "8 engines, 24 x, 16-token prefixes, ITL",
        busier,
        CACHING,
        replicas=8,
    )
    figures["replay_hundred_thousand_s"] = row(
        "replay_hundred_thousand_requests_per_cpu_s", "100,000 requests", many(100_000), LIMITS
    )
    eight = trace.scaled(8.0)
    row("replay_ranks_requests_per_cpu_s", "2 replicas of 4 ranks, 8 x", eight, LIMITS, replicas=2, ranks=4)
    # 131 kB of KV a token over a 400 Gbit/s link.
    pool, way = Pool(p, LIMITS, 4), Handoff(131_072, 50e9)
    seconds, both = cpu_s(lambda: replay_separated(eight, pool, pool, way).client)
    key = "replay_separated_requests_per_cpu_s"
    figures[key] = len(eight) / seconds
    text = "4 prefill and 4 decode replicas, 8 x"
    print(f"{text:46}{figures[key]:16,.0f}{figures[key] / PUBLIC_SIMULATOR_RPS:10.0f}{both.busy_share:7.0%}")
    figures["replay_million_s"] = row(
        "replay_million_requests_per_cpu_s", "one million requests", many(1_000_000), LIMITS
    )
    growth = math.log10(figures["replay_million_s"] / figures["replay_hundred_thousand_s"])
    figures["replay_cost_exponent"] = growth
    print(
        f"one million requests: {figures['replay_million_s']:.2f} CPU s; cost grows with requests to the {growth:.2f}"
    )

    with tempfile.TemporaryDirectory() as cache:
        figures["replay_cold_process_s"] = child_cpu_s(WHOLE.format("replay(b.azure()[1], b.step(), b.LIMITS)"), cache)
        figures["replay_warm_process_s"] = child_cpu_s(WHOLE.format("replay(b.azure()[1], b.step(), b.LIMITS)"), cache)
        figures["replay_no_replay_process_s"] = child_cpu_s(WHOLE.format("b.azure()"), cache)
    print(
        f"whole process, trace read and replayed once: {figures['replay_cold_process_s']:.1f} CPU s, nothing compiled; "
        f"{figures['replay_warm_process_s']:.1f} with compiled code cached, of which "
        f"{figures['replay_no_replay_process_s']:.1f} without any replay"
    )
    figures["replay_compile_s"] = figures["replay_cold_process_s"] - figures["replay_warm_process_s"]
    few, lot = resident_mb(100_000), resident_mb(1_000_000)
    figures["replay_bytes_per_request"] = (lot - few) * 2**20 / 900_000
    print(f"memory: {few:,.0f} MiB for 100,000 requests, {lot:,.0f} for a million: ", end="")
    print(f"{figures['replay_bytes_per_request']:,.0f} bytes a request")
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    RESULTS.write_text(json.dumps({**known, **figures}, indent=2, sort_keys=True) + "\n")
    return figures


if __name__ == "__main__":
    main()
