"""inference-perf's stage reports (`stage_N_lifecycle_metrics.json`): one observation a stage.

https://github.com/kubernetes-sigs/inference-perf (Apache-2.0). Durations are seconds. The report says nothing of the
model, the engine or the hardware: the workspace declares those (`served`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pipelines.sources.base import SourceError, shown
from pipelines.sources.files import Opened, read_all

UNSAID = ("model_id", "gpu_id", "engine", "engine_version", "tp", "precision", "arrival")
"""What a stage report does not say and a comparison needs."""

SATURATED_BELOW = 0.95
"""Achieved over requested rate below which a stage counts as saturated."""

LATE_S = 1.0
"""Mean lateness of the client's own sends above which a stage counts as saturated, in seconds."""

BUNDLED_BELOW = 0.2
"""ITL median over ITL mean below which the client saw bundles of tokens, not tokens."""


def is_stage(opened: Opened) -> bool:
    """Whether the file's beginning looks like a stage report."""
    head = "".join(opened.first_lines[:4])[:2_000]
    return head.lstrip().startswith("{") and '"load_summary"' in head


def stage(opened: Opened) -> dict[str, object] | str:
    """The observation of one stage report in the registry's columns, as far as the report goes; or why it is none.

    TPOT: where the client counted stream chunks instead of tokens (the ITL median is far below its mean), the reported
    TPOT is a mean over chunks and too small; then it is (mean E2E - mean TTFT) / (mean OSL - 1), basis `from_e2e`.
    Saturated: the client sent less than 95 % of the rate it was asked for, or sent its requests more than a second
    late on average (it waited for the server).

    Raises:
        SourceError: the file is not JSON.
    """
    try:
        report = json.loads(read_all(opened))
    except (ValueError, RecursionError) as error:
        what = str(error).splitlines()[0]
        raise SourceError(f"{opened.name} is not whole JSON: {what}. Copy the report again.") from None
    try:
        return _observation(_Reader(report))
    except _UnusableError as unusable:
        return str(unusable)


def _observation(read: _Reader) -> dict[str, object]:
    requests = round(read.need("successes", "count"))
    achieved = read.need("load_summary", "achieved_rate")
    requested = read.get("load_summary", "requested_rate")
    isl = read.need("successes", "prompt_len", "mean")
    osl = read.need("successes", "output_len", "mean")
    ttft_s = read.get("successes", "latency", "time_to_first_token", "mean")
    e2e_s = read.get("successes", "latency", "request_latency", "mean")
    tpot_ms, basis = _tpot(read, ttft_s, e2e_s, osl)
    delay_s = read.get("load_summary", "schedule_delay", "mean", least=-1e12) or 0.0
    behind = requested is not None and achieved < SATURATED_BELOW * requested
    return {
        "requested_rps": requested,
        "achieved_rps": achieved,
        "served_rps": read.get("successes", "throughput", "requests_per_sec"),
        "duration_s": read.need("load_summary", "send_duration"),
        "requests": requests,
        "failures": round(read.get("failures", "count") or 0),
        "isl_mean_tokens": isl,
        "osl_mean_tokens": osl,
        "ttft_mean_ms": _ms(ttft_s),
        **{f"ttft_{name}_ms": _ms(read.latency("time_to_first_token", key)) for name, key in _QUANTILES},
        "tpot_mean_ms": tpot_ms,
        "tpot_basis": basis,
        "e2e_mean_ms": _ms(e2e_s),
        "e2e_p50_ms": _ms(read.latency("request_latency", "median")),
        "e2e_p99_ms": _ms(read.latency("request_latency", "p99")),
        "saturated": behind or delay_s > LATE_S,
    }


_QUANTILES = (("p50", "median"), ("p90", "p90"), ("p99", "p99"))


def _tpot(read: _Reader, ttft_s: float | None, e2e_s: float | None, osl: float) -> tuple[float | None, str | None]:
    reported = read.get("successes", "latency", "time_per_output_token", "mean")
    itl_mean = read.get("successes", "latency", "inter_token_latency", "mean")
    itl_median = read.get("successes", "latency", "inter_token_latency", "median")
    bundled = itl_mean is not None and itl_median is not None and itl_median < BUNDLED_BELOW * itl_mean
    if (bundled or reported is None) and ttft_s is not None and e2e_s is not None and osl > 1 and e2e_s > ttft_s:
        return (e2e_s - ttft_s) / (osl - 1) * 1e3, "from_e2e"
    if reported is None or bundled:
        return None, None
    return reported * 1e3, "reported"


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


class _UnusableError(ValueError):
    """Why a report is no observation."""


class _Reader:
    """Figures of a report by path: absent is None; what is there must be a number."""

    def __init__(self, report: object) -> None:
        self.report = report

    def get(self, *path: str, least: float = 0.0) -> float | None:
        node = self.report
        for key in path:
            node = node.get(key) if isinstance(node, Mapping) else None
        if node is None:
            return None
        if isinstance(node, bool) or not isinstance(node, int | float) or not least <= node < 1e12:
            raise _UnusableError(f"{'.'.join(path)} is {shown(str(node))}, not a usable number")
        return float(node)

    def latency(self, metric: str, key: str) -> float | None:
        return self.get("successes", "latency", metric, key)

    def need(self, *path: str) -> float:
        value = self.get(*path)
        if not value:
            raise _UnusableError(
                f"{'.'.join(path)} {'is missing' if value is None else 'is 0'}: nothing to compare with"
            )
        return value
