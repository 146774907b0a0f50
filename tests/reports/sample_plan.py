"""A plan version of two services, as the warehouse would hand it to the workbook: figures are made up, shapes are real.

Every frame is built through the registry, so a column added there fails here first.
"""

# ruff: noqa: E501, DTZ001  (rows read as tables; the warehouse keeps naive UTC)
from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from reports.frames import PlanFrames, PreviousPlan
from warehouse import registry

CREATED_AT = datetime(2026, 3, 4, 9, 30)
_TYPES: dict[str, pl.DataType | type[pl.DataType]] = {
    "VARCHAR": pl.String, "BIGINT": pl.Int64, "INTEGER": pl.Int32, "DOUBLE": pl.Float64, "BOOLEAN": pl.Boolean,
    "TIMESTAMP": pl.Datetime("us"), "BIGINT[]": pl.List(pl.Int64), "BLOB": pl.Binary,
}  # fmt: skip
HOURS = 730.0
PRICES = {"H100-SXM": 2.95, "H200-SXM": 3.5, "L40S": 1.5484}
PRICE_SOURCE = "skypilot-catalog v7 nebius/vms.csv @22fd1fe"
OUTPUT_MTOKENS_PER_HOUR = {"chat": 31.4159265358979, "assistant": 5.2}
RISKS = ("demand", "traffic", "failure", "deployment", "memory", "control")


def frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a frame with the registry's columns; what a row leaves out is null."""
    columns = registry.table(table).columns
    names = {c.name for c in columns}
    for row in rows:
        assert set(row) <= names, f"{table} has no column {set(row) - names}"
    data = [{c.name: row.get(c.name) for c in columns} for row in rows]
    return pl.DataFrame(data, schema={c.name: _TYPES[c.type] for c in columns}, orient="row")


def candidate(service: str, gpu: str, tp: int, precision: str, status: str, reason: str, **more: Any) -> dict[str, Any]:
    model = {"chat": "meta-llama/Llama-3.1-8B-Instruct", "assistant": "meta-llama/Llama-3.1-70B-Instruct"}
    row: dict[str, Any] = {
        "plan_version": 2, "service": service, "candidate_id": f"{gpu}/tp{tp}/{precision}/vllm-0.19.0", "status": status,
        "reason": reason, "model_id": model.get(service, "some/model"), "gpu_id": gpu, "tp": tp, "precision": precision,
        "kv_cache_dtype": "auto", "engine": "vllm", "engine_version": "0.19.0", "gpus_per_replica": tp,
        "gpu_memory_utilization": 0.9, "max_model_len": 8192, "max_num_seqs": 1024, "max_num_batched_tokens": 8192,
        "label": "estimated", "usd_per_gpu_hour": PRICES[gpu],
        "step_time_source": "physics x fitted coefficients" if status != "not_possible" else None,
    }  # fmt: skip
    row.update(more)
    if row.get("replicas") is not None:
        row["gpus"] = row["replicas"] * tp
        row["usd_per_hour"] = row["gpus"] * row["usd_per_gpu_hour"]
        row["usd_per_million_output_tokens"] = row["usd_per_hour"] / OUTPUT_MTOKENS_PER_HOUR.get(service, 1.7)
    return row


def _measured(
    kv: int, k: float, bound: float, ttft: float, tpot: float, binding: str, goodput: float, tp: int
) -> dict[str, Any]:
    return {
        "kv_budget_tokens": kv, "k_bound": k, "l_bound": bound, "zero_load_ttft_ms": ttft, "zero_load_tpot_ms": tpot,
        "binding": binding, "goodput_rps_per_replica": goodput, "goodput_rps_per_gpu": goodput / tp,
    }  # fmt: skip


def candidate_rows() -> list[dict[str, Any]]:
    best = "cheapest of the configurations that meet every target"
    return [
        candidate("chat", "H200-SXM", 1, "bf16", "feasible", "meets the SLO at 21.0 USD/h, 0.35 USD/h above the chosen one",
                  replicas=6, **_measured(905_312, 612.4, 280.13, 23.9, 5.41, "TPOT (L)", 13.37123456789, 1)),
        candidate("chat", "H100-SXM", 1, "bf16", "chosen", best, replicas=7,
                  step_time_source="measured by steps.csv: decode 1-512 sequences x 200-4,000 tokens; physics elsewhere",
                  **_measured(437_904, 296.2, 204.9, 24.123456789, 7.2987654321, "TPOT (L)", 10.04, 1)),
        candidate("chat", "L40S", 1, "bf16", "short_of_slo", "one replica keeps TTFT p99 inside 2000 ms only below 0.4 requests/s",
                  **_measured(131_520, 89.0, 12.1, 88.4, 21.9, "TTFT", 0.38, 1)),
        candidate("chat", "H100-SXM", 2, "bf16", "not_shortlisted", "analysis puts its cost at 1.4 times the best"),
        candidate("assistant", "H100-SXM", 4, "bf16", "chosen", best, replicas=3,
                  **_measured(502_288, 91.7, 66.0, 161.3, 21.7, "KV memory (K)", 1.41, 4)),
        candidate("assistant", "H200-SXM", 2, "bf16", "feasible", "meets the SLO at 42.0 USD/h, 6.6 USD/h above the chosen one",
                  replicas=6, **_measured(248_720, 45.0, 51.0, 203.0, 30.2, "KV memory (K)", 0.7, 2)),
        candidate("assistant", "L40S", 2, "bf16", "does_not_fit", "weights take 65.7 GiB per GPU, the engine may use 40.5"),
        candidate("assistant", "L40S", 8, "fp8", "not_possible", "no published fp8 weights at this revision", usd_per_gpu_hour=None),
    ]  # fmt: skip


def headroom_rows() -> list[dict[str, Any]]:
    basis = {
        "demand": "replicas the traced demand takes", "traffic": "demand × 1.2", "failure": "one replica may be lost",
        "deployment": "one replica more while rolling", "memory": "1 GiB kept free on each GPU; no replica of its own",
        "control": "growth of 50 % an hour over 10 minutes",
    }  # fmt: skip
    rows = []
    for service, tp, counts in (("chat", 1, (4, 1, 1, 1, 0, 0)), ("assistant", 4, (1, 1, 1, 0, 0, 0))):
        for position, (risk, count) in enumerate(zip(RISKS, counts, strict=True)):
            rows.append(
                {"plan_version": 2, "service": service, "position": position, "risk": risk,
                 "factor": 1.2 if risk == "traffic" else None, "replicas": count, "gpus": count * tp,
                 "basis": basis[risk], "label": "estimated" if risk == "demand" else "assumed", "source": "capsheet.yaml"}
            )  # fmt: skip
    return rows


def cost_rows(headroom: list[dict[str, Any]], gpu: str = "H100-SXM") -> list[dict[str, Any]]:
    price = PRICES[gpu]
    return [
        {"plan_version": 2, "service": h["service"], "position": h["position"], "item": h["risk"], "gpu_id": gpu,
         "gpus": h["gpus"], "usd_per_gpu_hour": price, "hours_per_month": HOURS, "usd_per_hour": h["gpus"] * price,
         "usd_per_month": h["gpus"] * price * HOURS, "label": "cited", "source": PRICE_SOURCE}
        for h in headroom
    ]  # fmt: skip


def header_row(cost: list[dict[str, Any]], version: int = 2, **more: Any) -> dict[str, Any]:
    row = {
        "plan_version": version, "workspace": "sample", "created_at": CREATED_AT, "code_version": "0.1.0",
        "calibration_version": 0, "inputs_sha256": "9f2c" * 16,
        "inputs_json": '{"capsheet.yaml": "1f0e", "inputs/chat_trace.parquet": "77aa", "models": {"meta-llama/Llama-3.1-8B-Instruct": "0e9e39f"}}',
        "services": 2, "services_meeting_slo": 2, "gpus_total": sum(c["gpus"] for c in cost),
        "usd_per_hour": math.fsum(c["usd_per_hour"] for c in cost),
        "usd_per_month": math.fsum(c["usd_per_month"] for c in cost), "checks_failed": 1, "previous_version": version - 1,
    }  # fmt: skip
    return {**row, **more}


def assumption_rows() -> list[dict[str, Any]]:
    inputs = [
        ("all", "hours_per_month", HOURS, None, "h", "assumed", "capsheet.yaml", "365 × 24 / 12"),
        *[("all", f"usd_per_gpu_hour {g}", p, None, "USD/h", "cited", PRICE_SOURCE, "on demand, eu-north1") for g, p in PRICES.items()],
        ("all", "max_rejected_share", 0.05, None, "share", "assumed", "capsheet.yaml", "more broken rows than this stop the plan"),
        ("chat", "model", None, "meta-llama/Llama-3.1-8B-Instruct", "", "verified", "config.json @0e9e39f", None),
        ("chat", "ttft_p99_target", 2000.0, None, "ms", "assumed", "capsheet.yaml", "part of the SLO"),
        ("chat", "tpot_p99_target", 50.0, None, "ms", "assumed", "capsheet.yaml", "part of the SLO"),
        ("chat", "attainment_target", 0.99, None, "share", "assumed", "capsheet.yaml", "share of requests inside every target"),
        ("chat", "demand_factor", 4.0, None, "", "assumed", "capsheet.yaml", "planned demand over traced demand"),
        ("chat", "traffic_factor", 1.2, None, "", "assumed", "capsheet.yaml", "forecast error and bursts the trace does not hold"),
        ("assistant", "model", None, "meta-llama/Llama-3.1-70B-Instruct", "", "verified", "config.json @1605565", None),
        ("assistant", "ttft_p99_target", 5000.0, None, "ms", "assumed", "capsheet.yaml", "part of the SLO"),
        ("assistant", "tpot_p99_target", 75.0, None, "ms", "assumed", "capsheet.yaml", "part of the SLO"),
    ]  # fmt: skip
    keys = ("service", "name", "value", "text", "unit", "label", "source", "comment")
    return [{"plan_version": 2, "position": i, **dict(zip(keys, row, strict=True))} for i, row in enumerate(inputs)]


def workload_rows() -> list[dict[str, Any]]:
    rows = []
    for service, scale in (("chat", 1.0), ("assistant", 0.21)):
        figures = [
            ("requests", round(181_442 * scale), "requests"), ("rate_mean", 8.4 * scale, "1/s"),
            ("rate_p99_1min", 24.734567 * scale, "1/s"), ("isl_p50", 812.0, "tokens"), ("isl_p99", 6212.0, "tokens"),
            ("osl_p50", 143.0, "tokens"), ("osl_p99", 1180.0, "tokens"), ("gap_variation", 1.3812345, ""),
            ("prefix_share", 0.2714, "share"),
        ]  # fmt: skip
        for position, (name, value, unit) in enumerate(figures):
            rows.append(
                {"plan_version": 2, "service": service, "position": position, "name": name, "value": value, "unit": unit,
                 "label": "measured", "source": f"inputs/{service}_trace.parquet"}
            )  # fmt: skip
    return rows


_BUCKETS = [
    (1, 128, 1, 128, 0.06, 77.0, 60.0), (1, 128, 129, 512, 0.09, 81.0, 260.0), (129, 512, 1, 128, 0.21, 302.0, 71.0),
    (129, 512, 129, 512, 0.17, 322.0, 244.0), (513, 2048, 1, 128, 0.13, 1030.0, 66.0),
    (513, 2048, 129, 512, 0.20, 1102.0, 281.0), (513, 2048, 513, 2048, 0.04, 1190.0, 902.0),
    (2049, 8192, 129, 512, 0.10, 3610.0, 310.0),
]  # fmt: skip


def _bucket_name(b: tuple[Any, ...]) -> str:
    return f"in {b[0]}-{b[1]} / out {b[2]}-{b[3]}"


def bucket_rows() -> list[dict[str, Any]]:
    return [
        {"plan_version": 2, "service": service, "bucket": _bucket_name(b), "isl_from_tokens": b[0], "isl_to_tokens": b[1],
         "osl_from_tokens": b[2], "osl_to_tokens": b[3], "requests": round(b[4] * 181_442), "share": b[4],
         "isl_mean_tokens": b[5], "osl_mean_tokens": b[6], "input_share": b[4] * b[5] / 970,
         "output_share": b[4] * b[6] / 217, "cost_share": b[4], "cost_spread": 2.41, "peak_rps": 31.2 * b[4]}
        for service in ("chat", "assistant") for b in _BUCKETS
    ]  # fmt: skip


def window_rows() -> list[dict[str, Any]]:
    start = datetime(2026, 2, 2)
    rows = []
    for service, scale, window_s in (("chat", 1.0, 300), ("chat", 1.0, 60), ("assistant", 0.21, 300)):
        for i in range(86_400 // window_s):
            day = i * window_s / 86_400
            rate = scale * (8.4 - 5.2 * math.cos(2 * math.pi * day) + 1.1 * math.sin(61.7 * day))
            rows.append(
                {"plan_version": 2, "service": service, "window_start_at": start + timedelta(seconds=i * window_s),
                 "window_s": window_s, "requests": round(rate * window_s), "arrival_rps": rate,
                 "isl_tokens": round(rate * window_s * 970), "osl_tokens": round(rate * window_s * 217)}
            )  # fmt: skip
    return rows


def season_rows() -> list[dict[str, Any]]:
    return [
        {"plan_version": 2, "service": "chat", "period": period, "slot": slot, "covered_h": hours,
         "requests": round(7560 * factor * hours), "arrival_rps": 2.1 * factor, "factor": factor, "label": "measured"}
        for period, slots, hours in (("hour", 24, 7.0), ("weekday", 7, 24.0)) for slot in range(slots)
        for factor in (1 - 0.6 * math.cos(2 * math.pi * (slot + 1) / slots),)
    ]  # fmt: skip


def mix_rows() -> list[dict[str, Any]]:
    values = [
        ("tenant", "search", 0.61, 790.0, 231.0), ("tenant", "others", 0.39, 1251.0, 195.0),
        ("outcome", "ok", 0.981, 970.0, 217.0), ("outcome", "cancelled", 0.012, 2212.0, 61.0),
        ("outcome", "failed", 0.007, None, None), ("structured_output", "true", 0.081, 611.0, 88.0),
        ("structured_output", "not said", 0.919, 1001.6, 228.4),
    ]  # fmt: skip
    return [
        {"plan_version": 2, "service": "chat", "dimension": dimension, "position": position, "value": value,
         "requests": round(181_442 * share), "share": share, "isl_mean_tokens": isl, "osl_mean_tokens": osl,
         "label": "measured"}
        for position, (dimension, value, share, isl, osl) in enumerate(values)
    ]  # fmt: skip


def prefix_rows() -> list[dict[str, Any]]:
    shares = [
        ("250,000 tokens", 250_000.0, 0.043, 0.043),
        ("4,000,000 tokens", 4e6, 0.178, 0.135),
        ("endless", None, 0.3736, 0.1956),
    ]
    return [
        {"plan_version": 2, "service": "chat", "position": i, "tier": tier, "capacity_tokens": capacity,
         "hit_tokens": round(176e6 * hit), "hit_share": hit, "added_share": added, "label": "measured"}
        for i, (tier, capacity, hit, added) in enumerate(shares)
    ]  # fmt: skip


def memory_rows(candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    visible = {"H100-SXM": 79.19, "H200-SXM": 139.8, "L40S": 44.99}
    rows = []
    for c in candidates:
        total = 14.99 if "8B" in c["model_id"] else 131.4
        uses = {
            "weights": total / c["tp"],
            "activation": 2.0712,
            "non_torch": 0.26 if c["tp"] == 1 else 2.1,
            "safety": 1.0,
        }
        kv = max(0.0, visible[c["gpu_id"]] * 0.9 - sum(uses.values()))
        account = [
            ("visible_memory", visible[c["gpu_id"]], "GiB", "measured", f"catalogue: {c['gpu_id']}", None),
            ("utilization", 0.9, "", "assumed", "capsheet.yaml", "share of visible memory"),
            ("weights", uses["weights"], "GiB", "verified", "safetensors sizes at the pinned revision", "bytes / TP"),
            ("activation", uses["activation"], "GiB", "estimated", "25 start-up logs", "1,024 sequences, 8,192 batched tokens"),
            ("non_torch", uses["non_torch"], "GiB", "cited", "start-up logs, H100", f"TP {c['tp']}"),
            ("cuda_graphs", 0.89, "GiB", "estimated", "start-up logs", "outside the budget: keep this much free"),
            ("safety", 1.0, "GiB", "assumed", "workspace", "left free on purpose"),
            ("kv_budget", kv, "GiB", "estimated", "vllm budget rule", None),
            ("kv_bytes_per_token", 131_072.0, "B", "verified", "config.json", "auto"),
            ("kv_budget_tokens", float(c.get("kv_budget_tokens") or 0), "tokens", "estimated", "vllm page layout", "as the engine prints it"),
        ]  # fmt: skip
        for position, (term, value, unit, label, source, note) in enumerate(account):
            rows.append(
                {"plan_version": 2, "service": c["service"], "candidate_id": c["candidate_id"], "position": position,
                 "term": term, "value": value, "unit": unit, "label": label, "source": source, "note": note}
            )  # fmt: skip
    return rows


def capacity_rows(candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for c in candidates:
        scenarios: list[tuple[str, int, float, float]] = []
        if c["status"] in ("chosen", "feasible", "short_of_slo"):
            scenarios = [("goodput_replica", 1, c["goodput_rps_per_replica"], 0.9901)]
        if c["status"] == "chosen":
            rate = {"chat": 40.3, "assistant": 2.2}.get(c["service"], 1.0)
            scenarios += [
                ("fleet_planned", c["replicas"] - 1, rate, 0.9958), ("fleet_all_up", c["replicas"], rate, 0.9993),
                ("fleet_one_down", max(1, c["replicas"] - 2), rate, 0.9871),
            ]  # fmt: skip
        for scenario, replicas, rate, attainment in scenarios:
            tails = {f"{m}_p{q}_ms": base * f for m, base in (("ttft", 61.3), ("tpot", 17.9123456), ("e2e", 3402.0))
                     for q, f in ((50, 1.0), (90, 1.61), (95, 1.93), (99, 2.4))}  # fmt: skip
            rows.append(
                {"plan_version": 2, "service": c["service"], "candidate_id": c["candidate_id"], "scenario": scenario,
                 "replicas": replicas, "gpus": replicas * c["tp"], "arrival_rps": rate, "requests": round(rate * 1800),
                 "requests_counted": round(rate * 1500), "rejected_requests": 0, "attainment": attainment,
                 "attainment_target": 0.99, "meets_slo": attainment >= 0.99, "binding": "tpot_p99",
                 "margin_ratio": 50 / (17.9123456 * 2.4) - 1, **tails, "queue_p99_ms": 12.2,
                 "input_tokens_per_s": rate * 970, "output_tokens_per_s": rate * 217, "running_mean": 31.4,
                 "waiting_max": 14.0, "kv_usage_p99": 0.412, "preemptions": 0, "prefix_hit_share": 0.271,
                 "busy_share": 0.962, "label": "estimated"}
            )  # fmt: skip
    return rows


def bucket_result_rows(candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"plan_version": 2, "service": c["service"], "candidate_id": c["candidate_id"], "scenario": "fleet_planned",
         "bucket": _bucket_name(b), "requests": round(b[4] * 9000), "attainment": 0.99 + b[4] / 100,
         "ttft_p50_ms": 20 + b[5] / 20, "ttft_p99_ms": 90 + b[5] / 5, "tpot_p50_ms": 17.2, "tpot_p99_ms": 38.123456789,
         "e2e_p50_ms": b[6] * 17.2, "e2e_p99_ms": b[6] * 33.0, "label": "estimated"}
        for c in candidates if c["status"] == "chosen" for b in _BUCKETS
    ]  # fmt: skip


_STAGES = [(0, 8.8, False), (1, 30.9, False), (2, 61.8, False), (4, 123.6, False), (6, 116.3, True)]
OBSERVATION_SOURCE = "inference-perf, Llama-3.1-8B on one H100, vLLM 0.11.0"


def observation_rows() -> list[dict[str, Any]]:
    return [
        {"observation_id": f"inference-perf vllm stage {stage}", "source_file": "inputs/observations.csv",
         "model_id": "meta-llama/Llama-3.1-8B-Instruct", "gpu_id": "H100-SXM", "engine": "vllm", "engine_version": "0.11.0",
         "tp": 1, "precision": "bf16", "replicas": 1, "arrival": "constant", "requested_rps": 222.8 if saturated else rate,
         "achieved_rps": rate, "served_rps": rate * 0.98, "duration_s": 60.0, "requests": round(rate * 60), "failures": 0,
         "isl_mean_tokens": 119.4, "osl_mean_tokens": 126.0, "ttft_p50_ms": 33.5, "tpot_mean_ms": 4.99,
         "tpot_basis": "reported", "saturated": saturated, "label": "measured", "source": OBSERVATION_SOURCE}
        for stage, rate, saturated in _STAGES
    ]  # fmt: skip


def error_rows() -> list[dict[str, Any]]:
    seen = {"ttft_p50": (21.0, 26.2, 33.456598, 71.9, 2104.0), "tpot_mean": (4.1, 4.4, 4.988067250871145, 8.1, 19.2)}
    told = {"ttft_p50": (19.2, 24.9, 36.0, 60.1, 1440.0), "tpot_mean": (4.3, 4.5, 5.2, 7.2, 14.9)}
    rows = []
    for metric, observed in seen.items():
        for (stage, rate, saturated), o, p in zip(_STAGES, observed, told[metric], strict=True):
            rows.append(
                {"plan_version": 2, "service": "chat", "observation_id": f"inference-perf vllm stage {stage}",
                 "bucket": f"119 in / 126 out at {rate:g}/s", "metric": metric, "predicted_ms": p, "observed_ms": o,
                 "error_ms": o - p, "error_ratio": p / o - 1, "saturated": saturated, "utilisation": rate / 140,
                 "label": "estimated", "note": "client throttled itself" if saturated else None}
            )  # fmt: skip
    return rows


def number_rows() -> list[dict[str, Any]]:
    return [
        {"plan_version": 2, "number": f"chat.{name}", "value": value, "unit": unit, "label": "estimated", "formula": formula,
         "inputs_json": inputs, "source": source}
        for name, value, unit, formula, inputs, source in (
            ("kv_budget_tokens", 437_904.0, "tokens", "memory.kv_budget", '{"limit_gib": 71.271, "weights_gib": 14.99}', "start-up logs"),
            ("l_bound", 204.9, "requests", "bounds.l_bound", '{"tpot_target_ms": 50, "context_tokens": 955.3312345678}', "step model"),
            ("replicas", 7.0, "replicas", "plan.replicas", '{"demand": 4, "traffic": 1, "failure": 1, "deployment": 1}', "replay"),
        )
    ]  # fmt: skip


def check_rows() -> list[dict[str, Any]]:
    checks = [
        ("every request has positive lengths", "chat_trace.parquet", True, "stops", "181,442 of 181,442", "all", None),
        ("KV budget is positive", "chat", True, "stops", "437,904 tokens", "> 0", None),
        ("engine version of the observations is the planned one", "observations.csv", False, "warns",
         "0.11.0", "0.19.0", "benchmark the version you will run, then run capsheet recalibrate"),
        ("prices are at most 90 days old", "prices", False, "informs", "skypilot v7, 2025-06", "2026", "name your own prices in capsheet.yaml"),
    ]  # fmt: skip
    keys = ("check_name", "scope", "passed", "severity", "observed", "expected", "remedy")
    return [{"plan_version": 2, "position": i, **dict(zip(keys, row, strict=True))} for i, row in enumerate(checks)]


def rejected() -> tuple[pl.DataFrame, pl.DataFrame]:
    rows = [
        {
            "source_file": "inputs/chat_trace.csv",
            "line": 18,
            "reason": "osl_tokens is 0",
            "raw": "2026-02-02 00:00:04,812,0",
        },
        {
            "source_file": "inputs/chat_trace.csv",
            "line": 907,
            "reason": "arrival_at is not a time",
            "raw": '=HYPERLINK("x"),10,10',
        },
    ]
    counts = pl.DataFrame(
        {
            "source_file": ["inputs/chat_trace.csv"] * 2,
            "reason": ["osl_tokens is 0", "arrival_at is not a time"],
            "rows": [41, 3],
        }
    )
    return counts, frame("rejected_row", rows)


def previous_plan() -> PreviousPlan:
    """Version 1: one chat replica less, dearer H100s, and a service that is gone."""
    headroom = [dict(h, plan_version=1) for h in headroom_rows()]
    headroom[0].update(replicas=3, gpus=3)
    headroom.append(dict(headroom[0], service="batch", replicas=2, gpus=2))
    cost = cost_rows(headroom)
    for row in cost:
        row["usd_per_gpu_hour"], row["plan_version"] = 3.1, 1
        row["usd_per_hour"] = row["gpus"] * 3.1
        row["usd_per_month"] = row["gpus"] * 3.1 * HOURS
    old = [
        dict(c, usd_per_gpu_hour=3.1 if c["gpu_id"] == "H100-SXM" else c["usd_per_gpu_hour"]) for c in candidate_rows()
    ]
    old[1]["replicas"] = 6
    header = header_row(cost, version=1, previous_version=None, created_at=datetime(2026, 2, 25, 8, 0))
    return PreviousPlan(
        frame("plan", [header]),
        frame("plan_candidate", old),
        frame("plan_headroom", headroom),
        frame("plan_cost", cost),
    )


def sample_plan(**changes: Any) -> PlanFrames:
    """The whole plan; `changes` replaces frames by field name."""
    candidates, headroom = candidate_rows(), headroom_rows()
    cost = cost_rows(headroom)
    counts, rejected_rows = rejected()
    frames: dict[str, Any] = {
        "header": frame("plan", [header_row(cost)]).drop("workbook", "workbook_sha256"),
        "assumptions": frame("plan_assumption", assumption_rows()),
        "workload": frame("plan_workload", workload_rows()),
        "buckets": frame("workload_bucket", bucket_rows()),
        "windows": frame("workload_window", window_rows()),
        "seasons": frame("workload_season", season_rows()),
        "mix": frame("workload_mix", mix_rows()),
        "prefixes": frame("workload_prefix", prefix_rows()),
        "candidates": frame("plan_candidate", candidates),
        "memory": frame("plan_memory", memory_rows(candidates)),
        "capacity": frame("plan_capacity", capacity_rows(candidates)),
        "bucket_results": frame("plan_bucket", bucket_result_rows(candidates)),
        "headroom": frame("plan_headroom", headroom),
        "cost": frame("plan_cost", cost),
        "numbers": frame("plan_number", number_rows()),
        "checks": frame("plan_check", check_rows()),
        "errors": frame("prediction_error", error_rows()),
        "observations": frame("observation", observation_rows()),
        "rejected_counts": counts,
        "rejected_rows": rejected_rows,
        "previous": previous_plan(),
    }
    return PlanFrames(**{**frames, **changes})
