"""Tables of a plan version: written once, in one transaction, and never changed after."""

from warehouse.registry import LABELS, Column, Table
from warehouse.tables.workload import WORKLOAD

_VERSION = Column("plan_version", "INTEGER", "the plan version", positive=True)
_SERVICE = Column("service", "VARCHAR", "service of the workspace")
_CANDIDATE = Column("candidate_id", "VARCHAR", "configuration: gpu / TP / precision / engine")
_LABEL = Column("label", "VARCHAR", "how sure it is", allowed=LABELS)


def _ms(name: str, meaning: str) -> Column:
    return Column(name, "DOUBLE", meaning, "ms", nullable=True, minimum=0)


PLAN_HEADER = Table(
    "plan",
    "a published plan version",
    (
        _VERSION,
        Column("workspace", "VARCHAR", "the workspace's name"),
        Column("created_at", "TIMESTAMP", "when it was published", "UTC"),
        Column("code_version", "VARCHAR", "version of capsheet that made it"),
        Column("calibration_version", "INTEGER", "correction in force; 0 is none", minimum=0),
        Column("inputs_sha256", "VARCHAR", "fingerprint of every input: same fingerprint, same numbers"),
        Column("inputs_json", "VARCHAR", "the inputs' fingerprints, by source"),
        Column("services", "INTEGER", "services planned", positive=True),
        Column("services_meeting_slo", "INTEGER", "services for which a configuration meets the SLO", minimum=0),
        Column("gpus_total", "INTEGER", "accelerators, headroom included", minimum=0),
        Column("usd_per_hour", "DOUBLE", "cost of all of them", "USD/h", minimum=0),
        Column("usd_per_month", "DOUBLE", "cost of all of them", "USD/month", minimum=0),
        Column("checks_failed", "INTEGER", "checks that warn", minimum=0),
        Column("previous_version", "INTEGER", "the version before", "", True, positive=True),
        Column("workbook", "VARCHAR", "name of the workbook"),
        Column("workbook_sha256", "VARCHAR", "fingerprint of the workbook as published"),
    ),
    key=("plan_version",),
    versioned=False,
)

PLAN_WORKBOOK = Table(
    "plan_workbook",
    "the workbook of a version, byte for byte: the file beside the warehouse is a copy of it",
    (
        _VERSION,
        Column("name", "VARCHAR", "file name"),
        Column("sha256", "VARCHAR", "fingerprint"),
        Column("content", "BLOB", "the workbook"),
    ),
    key=("plan_version",),
    public=False,
)

PLAN_ASSUMPTION = Table(
    "plan_assumption",
    "an input of the plan",
    (
        _VERSION,
        Column("position", "INTEGER", "order on the sheet", minimum=0),
        Column("service", "VARCHAR", "service, or 'all'"),
        Column("name", "VARCHAR", "its name"),
        Column("value", "DOUBLE", "its value, where it is a number", "", True),
        Column("text", "VARCHAR", "its value, where it is not", "", True),
        Column("unit", "VARCHAR", "its unit"),
        _LABEL,
        Column("source", "VARCHAR", "where it came from"),
        Column("comment", "VARCHAR", "what it does to the plan", "", True),
    ),
    key=("plan_version", "service", "name"),
    versioned=True,
)

CANDIDATE_STATUS = ("chosen", "feasible", "short_of_slo", "not_shortlisted", "does_not_fit", "not_possible")
PLAN_CANDIDATE = Table(
    "plan_candidate",
    "a configuration that was considered for a service",
    (
        _VERSION,
        _SERVICE,
        _CANDIDATE,
        Column("status", "VARCHAR", "what became of it", allowed=CANDIDATE_STATUS),
        Column("reason", "VARCHAR", "why"),
        Column("model_id", "VARCHAR", "model"),
        Column("gpu_id", "VARCHAR", "accelerator"),
        Column("tp", "INTEGER", "tensor-parallel size", positive=True),
        Column("precision", "VARCHAR", "precision of the weights"),
        Column("kv_cache_dtype", "VARCHAR", "precision of the KV cache"),
        Column("engine", "VARCHAR", "engine"),
        Column("engine_version", "VARCHAR", "its version"),
        Column("gpus_per_replica", "INTEGER", "accelerators a replica takes", positive=True),
        Column("gpu_memory_utilization", "DOUBLE", "share of the memory the engine may use", "", True, 0, 1),
        Column("max_model_len", "BIGINT", "longest context served", "tokens", positive=True),
        Column("max_num_seqs", "INTEGER", "sequences at once", "", True, positive=True),
        Column("max_num_batched_tokens", "INTEGER", "tokens a step may hold", "tokens", True, positive=True),
        Column("kv_budget_tokens", "BIGINT", "KV cache of a replica", "tokens", True, 0),
        Column("k_bound", "DOUBLE", "K: requests of mean length that fit in the KV cache", "requests", True, 0),
        Column("l_bound", "DOUBLE", "L: requests at once that keep TPOT inside its target", "requests", True, 0),
        Column("zero_load_ttft_ms", "DOUBLE", "TTFT of a mean prompt on an idle replica", "ms", True, 0),
        Column("zero_load_tpot_ms", "DOUBLE", "TPOT of a lone request", "ms", True, 0),
        Column("step_time_source", "VARCHAR", "what its step times rest on: physics, or a profile first", "", True),
        Column("binding", "VARCHAR", "what binds: KV memory (K), TPOT (L), TTFT, E2E, weights", "", True),
        Column("goodput_rps_per_replica", "DOUBLE", "largest rate that keeps the SLO", "1/s", True, 0),
        Column("goodput_rps_per_gpu", "DOUBLE", "the same over its accelerators", "1/s", True, 0),
        Column("replicas", "INTEGER", "replicas, headroom included", "", True, 0),
        Column("gpus", "INTEGER", "accelerators, headroom included", "", True, 0),
        Column("usd_per_gpu_hour", "DOUBLE", "price", "USD/h", True, positive=True),
        Column("usd_per_hour", "DOUBLE", "cost, headroom included", "USD/h", True, 0),
        Column("usd_per_million_output_tokens", "DOUBLE", "cost at the mean demand", "USD", True, 0),
        _LABEL,
    ),
    key=("plan_version", "service", "candidate_id"),
    versioned=True,
)

PLAN_MEMORY = Table(
    "plan_memory",
    "a term of a candidate's memory account",
    (
        _VERSION,
        _SERVICE,
        _CANDIDATE,
        Column("position", "INTEGER", "order of the account", minimum=0),
        Column("term", "VARCHAR", "term"),
        Column("value", "DOUBLE", "its value", ""),
        Column("unit", "VARCHAR", "its unit: GiB per GPU unless it says otherwise"),
        _LABEL,
        Column("source", "VARCHAR", "where it came from"),
        Column("note", "VARCHAR", "how it was computed", "", True),
    ),
    key=("plan_version", "service", "candidate_id", "term"),
    versioned=True,
)

CAPACITY_SCENARIOS = ("goodput_replica", "fleet_planned", "fleet_all_up", "fleet_one_down", "fleet_failures_down")
PLAN_CAPACITY = Table(
    "plan_capacity",
    "a replay of a candidate: workload, engine, result, margin",
    (
        _VERSION,
        _SERVICE,
        _CANDIDATE,
        Column("scenario", "VARCHAR", "what was replayed", allowed=CAPACITY_SCENARIOS),
        Column("replicas", "INTEGER", "replicas replayed", positive=True),
        Column("gpus", "INTEGER", "their accelerators", positive=True),
        Column("arrival_rps", "DOUBLE", "mean rate replayed", "1/s", positive=True),
        Column("requests", "BIGINT", "requests replayed", positive=True),
        Column("requests_counted", "BIGINT", "of these, in steady state", positive=True),
        Column("rejected_requests", "BIGINT", "requests the engine cannot take", minimum=0),
        Column("attainment", "DOUBLE", "share that met every target", "", minimum=0, maximum=1),
        Column("attainment_target", "DOUBLE", "share that must", "", minimum=0, maximum=1),
        Column("meets_slo", "BOOLEAN", "every percentile target and the attainment hold"),
        Column("binding", "VARCHAR", "the target with the least margin"),
        Column("margin_ratio", "DOUBLE", "least of (target / figure - 1) over the targets"),
        *(_ms(f"ttft_p{q}_ms", "time to first token") for q in (50, 90, 95, 99)),
        *(_ms(f"tpot_p{q}_ms", "mean time per output token after the first") for q in (50, 90, 95, 99)),
        *(_ms(f"e2e_p{q}_ms", "end-to-end latency") for q in (50, 90, 95, 99)),
        *(_ms(f"itl_p{q}_ms", "gap between two tokens, over every gap of every request") for q in (50, 90, 95, 99)),
        *(_ms(f"queue_p{q}_ms", "time waiting to be admitted") for q in (50, 90, 95, 99)),
        Column("input_tokens_per_s", "DOUBLE", "input tokens", "tokens/s", minimum=0),
        Column("output_tokens_per_s", "DOUBLE", "output tokens", "tokens/s", minimum=0),
        Column("running_mean", "DOUBLE", "sequences running on a replica", "", minimum=0),
        Column("waiting_max", "DOUBLE", "longest queue of a replica", "", minimum=0),
        Column("kv_usage_p99", "DOUBLE", "KV cache in use", "", minimum=0, maximum=1),
        Column("preemptions", "BIGINT", "preemptions", minimum=0),
        Column("queue_limit", "VARCHAR", "the limit under which requests queued longest; none: nobody queued"),
        Column("prefix_hit_share", "DOUBLE", "share of input tokens found in cache", "", minimum=0, maximum=1),
        Column("busy_share", "DOUBLE", "share of the time a replica was stepping", "", minimum=0, maximum=1),
        _LABEL,
    ),
    key=("plan_version", "service", "candidate_id", "scenario"),
    versioned=True,
)

PLAN_BUCKET = Table(
    "plan_bucket",
    "the replayed fleet's figures in one bucket",
    (
        _VERSION,
        _SERVICE,
        _CANDIDATE,
        Column("scenario", "VARCHAR", "what was replayed", allowed=CAPACITY_SCENARIOS),
        Column("bucket", "VARCHAR", "bucket"),
        Column("requests", "BIGINT", "steady-state requests in it", minimum=1),
        Column("attainment", "DOUBLE", "share that met every target", "", minimum=0, maximum=1),
        *(_ms(f"ttft_p{q}_ms", "time to first token") for q in (50, 90, 95, 99)),
        *(_ms(f"tpot_p{q}_ms", "mean time per output token after the first") for q in (50, 90, 95, 99)),
        *(_ms(f"e2e_p{q}_ms", "end-to-end latency") for q in (50, 90, 95, 99)),
        _LABEL,
    ),
    key=("plan_version", "service", "candidate_id", "scenario", "bucket"),
    versioned=True,
)

PLAN_SERIES = Table(
    "plan_series",
    "the chosen fleet over time in a replay, in bins of equal width",
    (
        _VERSION,
        _SERVICE,
        _CANDIDATE,
        Column("scenario", "VARCHAR", "what was replayed", allowed=CAPACITY_SCENARIOS),
        Column("bin", "INTEGER", "number of the bin", minimum=0),
        Column("start_s", "DOUBLE", "its start, from the start of the replay, warm-up included", "s", minimum=0),
        Column("bin_s", "DOUBLE", "its width", "s", positive=True),
        Column("running", "DOUBLE", "sequences running, over all replicas", "", minimum=0),
        Column("waiting", "DOUBLE", "requests queueing while a step is in work, over all replicas", "", minimum=0),
        Column("kv_usage", "DOUBLE", "share of all KV blocks in use", "", minimum=0, maximum=1),
        Column("preemptions", "BIGINT", "preemptions in the bin", minimum=0),
        Column("busy_share", "DOUBLE", "share of the time a replica was stepping", "", minimum=0, maximum=1),
        Column("queue_limit", "VARCHAR", "the limit under which requests queued longest; none: nobody queued"),
        _LABEL,
    ),
    key=("plan_version", "service", "scenario", "bin"),
    versioned=True,
)

RISKS = ("demand", "traffic", "failure", "deployment", "memory", "control")
PLAN_HEADROOM = Table(
    "plan_headroom",
    "what a service holds against one risk, and what that costs",
    (
        _VERSION,
        _SERVICE,
        Column("position", "INTEGER", "order on the sheet", minimum=0),
        Column("risk", "VARCHAR", "what it covers; 'demand' is the service itself", allowed=RISKS),
        Column("factor", "DOUBLE", "what demand is multiplied by", "", True, 0),
        Column("replicas", "INTEGER", "replicas it adds", minimum=0),
        Column("gpus", "INTEGER", "accelerators it adds", minimum=0),
        Column("basis", "VARCHAR", "how it was set"),
        _LABEL,
        Column("source", "VARCHAR", "where it came from"),
    ),
    key=("plan_version", "service", "risk"),
    versioned=True,
)

PLAN_COST = Table(
    "plan_cost",
    "a line of a service's cost",
    (
        _VERSION,
        _SERVICE,
        Column("position", "INTEGER", "order on the sheet", minimum=0),
        Column("item", "VARCHAR", "what is paid for", allowed=RISKS),
        Column("gpu_id", "VARCHAR", "accelerator"),
        Column("gpus", "INTEGER", "how many", minimum=0),
        Column("usd_per_gpu_hour", "DOUBLE", "price", "USD/h", positive=True),
        Column("hours_per_month", "DOUBLE", "hours billed a month", "h", positive=True),
        Column("usd_per_hour", "DOUBLE", "cost", "USD/h", minimum=0),
        Column("usd_per_month", "DOUBLE", "cost", "USD/month", minimum=0),
        _LABEL,
        Column("source", "VARCHAR", "source of the price"),
    ),
    key=("plan_version", "service", "item"),
    versioned=True,
)

PLAN_NUMBER = Table(
    "plan_number",
    "a published figure with how it came about",
    (
        _VERSION,
        Column("number", "VARCHAR", "its name: service.figure"),
        Column("value", "DOUBLE", "value"),
        Column("unit", "VARCHAR", "unit"),
        _LABEL,
        Column("formula", "VARCHAR", "id of the formula: module.function of the estimator"),
        Column("inputs_json", "VARCHAR", "the inputs, by name, with their values"),
        Column("source", "VARCHAR", "source of the formula or the figure"),
    ),
    key=("plan_version", "number"),
    versioned=True,
)

PLAN_CHECK = Table(
    "plan_check",
    "a check on the plan's inputs or figures",
    (
        _VERSION,
        Column("position", "INTEGER", "order on the sheet", minimum=0),
        Column("check_name", "VARCHAR", "what is checked"),
        Column("scope", "VARCHAR", "table, file or service it looks at"),
        Column("passed", "BOOLEAN", "it held"),
        Column("severity", "VARCHAR", "what a failure does", allowed=("stops", "warns", "informs")),
        Column("observed", "VARCHAR", "what was found"),
        Column("expected", "VARCHAR", "what was asked"),
        Column("remedy", "VARCHAR", "what to do", "", True),
    ),
    key=("plan_version", "check_name", "scope"),
    versioned=True,
)

PLAN = (
    PLAN_HEADER,
    PLAN_ASSUMPTION,
    *WORKLOAD,
    PLAN_CANDIDATE,
    PLAN_MEMORY,
    PLAN_CAPACITY,
    PLAN_BUCKET,
    PLAN_SERIES,
    PLAN_HEADROOM,
    PLAN_COST,
    PLAN_NUMBER,
    PLAN_CHECK,
    PLAN_WORKBOOK,
)
