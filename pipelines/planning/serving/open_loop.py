"""Open-loop runs: requests at a constant rate, latencies with percentiles, the engine's arguments beside.

Belongs here: the columns of such files and the rules for what they hold. Does not: what makes a case of any kind
(`building`).

Rules, from configuration columns alone:

- Stage -1 sums up the stages of an experiment, each of which is a row of its own: left out.
- Arrivals read from a trace are no constant rate, and their lengths are not stated: left out.
- TPOT is `tpot_from_e2e_ms`; the reported inter-token latency counts chunks of the stream, not tokens.
- TTFT P99 of a first stage (stage 0) is the server's start-up: predicted, and not counted.
- `isl_system` tokens of every prompt are the same, and stay in the prefix cache.
"""

from __future__ import annotations

from collections.abc import Mapping

from estimator.serving import Layout, Protocol
from pipelines.planning.serving.building import Built, Lookups, build, engine_of, version_of
from pipelines.planning.serving.cells import Cells, Unreadable, measured
from pipelines.planning.serving.models import Models

COLUMNS = ("model", "gpu", "tp", "request_rate_rps", "isl_nominal", "osl_nominal")
"""What a file must have; any other configuration column may be absent or empty."""
MEASURED = {"ttft": "ttft_mean_ms", "tpot": "tpot_from_e2e_ms", "e2e": "e2e_mean_ms", "ttft_p99": "ttft_p99_ms"}
"""Metric to the column that measures it."""
SETTINGS = ("max_num_batched_tokens", "max_num_seqs", "max_model_len")


def measured_of(cells: Mapping[str, str]) -> dict[str, float]:
    """What a row measured, in milliseconds by metric."""
    return measured(cells, MEASURED)


def read(cells: Cells, models: Models, lookups: Lookups) -> Built:
    """The case of one row; raises Unreadable (a ValueError) with the reason why there is none."""
    if cells.text("stage") in {"-1", "-1.0"}:
        raise Unreadable("sums up the stages, each a row of its own")
    arrival = cells.text("arrival").lower()
    if arrival and not arrival.startswith("constant"):
        raise Unreadable("arrivals are not at a constant rate")
    engine = engine_of(cells.text("engine") or "vllm")
    version = version_of(cells.text("engine_version") or cells.text("vllm_version"))
    served = models.served(cells.required("model"), cells.text("precision"))
    assumed = ["fixed lengths, as nominal", "evenly spaced arrivals"]
    if cells.text("cpu_offload").lower() == "true":
        assumed.append("offloading of KV to the host costs nothing")
    duration = cells.number("stage_duration_s")
    rate = cells.needed("request_rate_rps")
    shared = cells.number("isl_system") or 0.0
    return build(
        served,
        lookups.accelerator(cells.required("gpu")),
        engine,
        version,
        Layout(tp=cells.count("tp"), dp=1, pp=cells.count("pp"), workers=cells.count("dp")),
        Protocol(
            rate_rps=rate,
            shared_prefix_tokens=shared,
            requests=round(rate * duration) if duration and rate * duration >= 1 else None,
        ),
        cells.needed("isl_nominal"),
        cells.needed("osl_nominal"),
        lookups,
        settings={name: cells.count(name) for name in SETTINGS if cells.text(name)},
        assumed=tuple(assumed),
        uncounted={"ttft_p99": "the first stage starts a cold server"} if cells.text("stage") in {"0", "0.0"} else {},
    )
