"""Sheet Candidates: every configuration considered, ranked, with what became of it and why.

Cost is live: GPUs × the price on Assumptions; the chosen row's GPUs follow the fleet's.
"""

from __future__ import annotations

from openpyxl import Workbook

from reports import styles
from reports.assumptions import Drivers
from reports.cost import CostBlock
from reports.decisions import STATUS_WORDS, Decision, target_words
from reports.formulas import product, quotient
from reports.frames import Row
from reports.page import Column, FromRow, Page, Value

_RANKING = (
    Column("Service"), Column("Rank", styles.COUNT), Column("Configuration"), Column("Status"),
    Column("Goodput per GPU, requests/s", styles.RATE), Column("Goodput per replica, requests/s", styles.RATE),
    Column("Replicas", styles.COUNT), Column("GPUs", styles.COUNT), Column("USD per GPU-hour", styles.PRICE),
    Column("USD/h", styles.MONEY), Column("USD per 1M output tokens", styles.MONEY_FINE), Column("What binds"),
    Column("K, requests", styles.MS), Column("L, requests", styles.MS), Column("Idle TTFT, ms", styles.MS),
    Column("Idle TPOT, ms", styles.MS), Column("Why"),
)  # fmt: skip
_SETTINGS = (
    Column("Service"), Column("Rank", styles.COUNT), Column("Configuration"), Column("GPU"), Column("TP", styles.COUNT),
    Column("GPUs per replica", styles.COUNT), Column("Memory share", styles.SHARE),
    Column("Longest context, tokens", styles.COUNT), Column("Sequences at once", styles.COUNT),
    Column("Tokens a step", styles.COUNT), Column("KV cache per replica, tokens", styles.COUNT), Column("Weights"),
    Column("KV cache type"), Column("Engine"), Column("Version"), Column("Label"), Column("Model"),
    Column("Step times rest on"),
)  # fmt: skip


def write(workbook: Workbook, decisions: list[Decision], drivers: Drivers, cost: CostBlock, subtitle: str) -> Page:
    """The sheet."""
    page = Page(workbook, "Candidates", (15, 6, 31, 16, 11, 11, 9, 9, 11, 11, 12, 15, 10, 10, 10, 10, 46, 46))
    page.head("Candidates: what was considered, best first", subtitle)
    ranking: list[list[Value | FromRow]] = []
    settings: list[list[Value]] = []
    for decision in decisions:
        for rank, row in enumerate(decision.ranked, start=1):
            ranking.append(_ranked(decision, rank, row, drivers, cost))
            settings.append(
                [row["service"], rank, row["candidate_id"], row["gpu_id"], row["tp"], row["gpus_per_replica"],
                 row["gpu_memory_utilization"], row["max_model_len"], row["max_num_seqs"],
                 row["max_num_batched_tokens"], row["kv_budget_tokens"], row["precision"], row["kv_cache_dtype"],
                 row["engine"], row["engine_version"], row["label"], row["model_id"],
                 row["step_time_source"]]
            )  # fmt: skip
    page.section(
        "Ranking",
        "Goodput: largest rate inside the SLO. K: requests that fit the KV cache. L: requests at once inside TPOT.",
    )
    if not ranking:
        page.note("No configuration was considered.")
        return page
    first = page.row + 1
    page.table("t_candidates", _RANKING, ranking)
    page.status_column(4, first, page.row - 1)
    page.gap()
    page.section("Settings", "What each configuration runs with.")
    page.table("t_settings", _SETTINGS, settings)
    return page


def _ranked(decision: Decision, rank: int, row: Row, drivers: Drivers, cost: CostBlock) -> list[Value | FromRow]:
    fleet = cost.services.get(decision.service) if row["status"] == "chosen" else None
    price = None if row["usd_per_gpu_hour"] is None else drivers.prices[row["gpu_id"], row["usd_per_gpu_hour"]]
    output = drivers.output_mtokens_per_hour.get(decision.service)
    priced = price is not None and row["gpus"] is not None
    hourly: Value | FromRow = (lambda c: product(c["GPUs"], c["USD per GPU-hour"])) if priced else None
    per_token: Value | FromRow = (
        (lambda c: quotient(c["USD/h"], output)) if priced and output is not None and row["gpus"] else None
    )
    return [
        row["service"], rank, row["candidate_id"], STATUS_WORDS[row["status"]], row["goodput_rps_per_gpu"],
        row["goodput_rps_per_replica"], fleet.replicas if fleet else row["replicas"],
        fleet.gpus if fleet else row["gpus"], price, hourly, per_token, target_words(row["binding"]), row["k_bound"],
        row["l_bound"], row["zero_load_ttft_ms"], row["zero_load_tpot_ms"], row["reason"],
    ]  # fmt: skip
