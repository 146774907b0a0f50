"""Sheet Capacity: the capacity table of the trace-to-GPU method: engine, result, operational margin, buckets.

Replays are shown as they came; the margin is the cost block (`reports.cost`).
"""

from __future__ import annotations

from openpyxl import Workbook

from reports import cost, styles
from reports.assumptions import Drivers
from reports.cost import CostBlock
from reports.decisions import SCENARIO_WORDS, Decision, target_words
from reports.frames import PlanFrames, Row, rows_of
from reports.page import Column, Page, Value

_WIDTHS = (15, 31, 25, 10, 10, 10, 11, 11, 11, 11, 11, 11, 13, 11, 11, 11, 11)
_WHO = (Column("Service"), Column("Configuration"), Column("Replayed"))
_ENGINE = (
    Column("Service"), Column("Configuration"), Column("GPU"), Column("TP", styles.COUNT),
    Column("GPUs per replica", styles.COUNT), Column("Memory share", styles.SHARE),
    Column("Longest context, tokens", styles.COUNT), Column("Sequences at once", styles.COUNT),
    Column("Tokens a step", styles.COUNT), Column("KV cache per replica, tokens", styles.COUNT), Column("Weights"),
    Column("KV cache type"), Column("Engine"), Column("Model", runs_on=True),
)  # fmt: skip
_RESULT = (
    *_WHO, Column("Replicas", styles.COUNT), Column("GPUs", styles.COUNT), Column("Requests/s", styles.RATE),
    Column("Attainment", styles.SHARE_FINE), Column("Target", styles.SHARE_FINE), Column("SLO"),
    Column("Least margin", styles.RATIO), Column("Requests counted", styles.COUNT),
    Column("Requests refused", styles.COUNT), Column("Tightest target"), Column("Input tokens/s", styles.COUNT),
    Column("Output tokens/s", styles.COUNT), Column("Prefix hits", styles.SHARE), Column("Label"),
)  # fmt: skip
_LATENCY = (
    *_WHO,
    *(Column(f"TTFT P{q}, ms", styles.MS_WHOLE) for q in (50, 90, 95, 99)),
    *(Column(f"TPOT P{q}, ms", styles.MS) for q in (50, 90, 95, 99)),
    *(Column(f"E2E P{q}, ms", styles.MS_WHOLE) for q in (50, 90, 95, 99)),
    Column("Queue P99, ms", styles.MS_WHOLE),
)  # fmt: skip
_LOAD = (
    *_WHO, Column("Requests replayed", styles.COUNT), Column("Running, mean", styles.MS),
    Column("Waiting, most", styles.COUNT), Column("KV cache used, P99", styles.SHARE),
    Column("Preemptions", styles.COUNT), Column("Busy", styles.SHARE),
)  # fmt: skip
_BUCKET = (
    *_WHO, Column("Requests", styles.COUNT), Column("Attainment", styles.SHARE_FINE),
    Column("TTFT P50, ms", styles.MS_WHOLE), Column("TTFT P99, ms", styles.MS_WHOLE), Column("TPOT P50, ms", styles.MS),
    Column("TPOT P99, ms", styles.MS), Column("E2E P50, ms", styles.MS_WHOLE), Column("E2E P99, ms", styles.MS_WHOLE),
    Column("Label"),
)  # fmt: skip


def write(
    workbook: Workbook, frames: PlanFrames, decisions: list[Decision], drivers: Drivers, subtitle: str
) -> tuple[Page, CostBlock]:
    """The sheet, and the cost block that stands on it."""
    page = Page(workbook, "Capacity", _WIDTHS)
    page.head("Capacity: what each fleet does, and what it holds in reserve", subtitle)
    page.section(
        "Operational margin and its cost", "One line a risk; GPUs and cost follow the shaded cells on Assumptions."
    )
    block = cost.write(page, frames, decisions, drivers)
    page.gap()
    replays = [row for d in decisions for row in _in_order(d, rows_of(frames.capacity, service=d.service))]
    page.section("Engine", "The chosen configuration of each service.")
    chosen = [d.chosen for d in decisions if d.chosen is not None]
    if chosen:
        page.table("t_engine", _ENGINE, [_engine(row) for row in chosen])
    else:
        page.note("No configuration meets its SLO.")
    page.gap()
    if not replays:
        page.section("Result")
        page.note("Nothing was replayed.")
        return page, block
    _result(page, replays)
    page.new_page()
    page.section(
        "Latency", "TTFT: time to first token. TPOT: mean time per output token after the first. E2E: whole request."
    )
    page.table("t_latency", _LATENCY, [_latency(row) for row in replays])
    page.gap()
    page.section("Load on a replica")
    page.table("t_load", _LOAD, [_load(row) for row in replays])
    page.gap()
    _buckets(page, frames, decisions)
    return page, block


def _in_order(decision: Decision, rows: list[Row]) -> list[Row]:
    rank = {row["candidate_id"]: i for i, row in enumerate(decision.ranked)}
    scenarios = list(SCENARIO_WORDS)
    return sorted(rows, key=lambda r: (rank.get(r["candidate_id"], len(rank)), scenarios.index(r["scenario"])))


def _who(row: Row) -> list[Value]:
    return [row["service"], row["candidate_id"], SCENARIO_WORDS[row["scenario"]]]


def _engine(row: Row) -> list[Value]:
    return [
        row["service"], row["candidate_id"], row["gpu_id"], row["tp"], row["gpus_per_replica"],
        row["gpu_memory_utilization"], row["max_model_len"], row["max_num_seqs"], row["max_num_batched_tokens"],
        row["kv_budget_tokens"], row["precision"], row["kv_cache_dtype"], f"{row['engine']} {row['engine_version']}",
        row["model_id"],
    ]  # fmt: skip


def _result(page: Page, replays: list[Row]) -> None:
    page.section(
        "Result",
        "Open-loop replay. Goodput: largest rate inside the SLO. Least margin: the smallest target / figure − 1.",
    )
    first = page.row + 1
    rows: list[list[Value]] = [
        [*_who(r), r["replicas"], r["gpus"], r["arrival_rps"], r["attainment"], r["attainment_target"],
         "meets" if r["meets_slo"] else "misses", r["margin_ratio"], r["requests_counted"], r["rejected_requests"],
         target_words(r["binding"]), r["input_tokens_per_s"], r["output_tokens_per_s"], r["prefix_hit_share"],
         r["label"]]
        for r in replays
    ]  # fmt: skip
    page.table("t_capacity", _RESULT, rows)
    page.status_column(9, first, page.row - 1)
    page.gap()


def _latency(row: Row) -> list[Value]:
    figures = [row[f"{metric}_p{q}_ms"] for metric in ("ttft", "tpot", "e2e") for q in (50, 90, 95, 99)]
    return [*_who(row), *figures, row["queue_p99_ms"]]


def _load(row: Row) -> list[Value]:
    names = ("requests", "running_mean", "waiting_max", "kv_usage_p99", "preemptions", "busy_share")
    return [*_who(row), *(row[name] for name in names)]


def _buckets(page: Page, frames: PlanFrames, decisions: list[Decision]) -> None:
    page.section("By bucket", "The replayed fleet's figures in each input x output length bucket.")
    columns = (
        *_BUCKET[:2],
        Column("Bucket, tokens"),
        *_BUCKET[3:-1],
        Column("Label"),
        Column("Replayed", runs_on=True),
    )
    rows: list[list[Value]] = [
        [r["service"], r["candidate_id"], r["bucket"], r["requests"], r["attainment"], r["ttft_p50_ms"],
         r["ttft_p99_ms"], r["tpot_p50_ms"], r["tpot_p99_ms"], r["e2e_p50_ms"], r["e2e_p99_ms"], r["label"],
         SCENARIO_WORDS[r["scenario"]]]
        for d in decisions
        for r in rows_of(frames.bucket_results, service=d.service)
    ]  # fmt: skip
    if rows:
        page.table("t_bucket_results", columns, rows)
    else:
        page.note("No fleet was replayed by bucket.")
