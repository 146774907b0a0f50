"""Tables of a plan version's workload: figures, buckets, windows, seasons, mix, prefixes. Written with the plan."""

from warehouse.registry import LABELS, Column, Table

_VERSION = Column("plan_version", "INTEGER", "the plan version", positive=True)
_SERVICE = Column("service", "VARCHAR", "service of the workspace")
_LABEL = Column("label", "VARCHAR", "how sure it is", allowed=LABELS)

PLAN_WORKLOAD = Table(
    "plan_workload",
    "the workload of a service: one figure a row",
    (
        _VERSION,
        _SERVICE,
        Column("position", "INTEGER", "order on the sheet", minimum=0),
        Column("name", "VARCHAR", "figure"),
        Column("value", "DOUBLE", "value", "", True),
        Column("text", "VARCHAR", "value, where it is not a number", "", True),
        Column("unit", "VARCHAR", "unit"),
        _LABEL,
        Column("source", "VARCHAR", "what it was computed from"),
    ),
    key=("plan_version", "service", "name"),
    versioned=True,
)

WORKLOAD_BUCKET = Table(
    "workload_bucket",
    "a joint ISL x OSL bucket of a service's trace",
    (
        _VERSION,
        _SERVICE,
        Column("bucket", "VARCHAR", "its name"),
        Column("isl_from_tokens", "BIGINT", "shortest input, inclusive", "tokens", minimum=0),
        Column("isl_to_tokens", "BIGINT", "longest input, inclusive", "tokens", minimum=0),
        Column("osl_from_tokens", "BIGINT", "shortest output, inclusive", "tokens", minimum=0),
        Column("osl_to_tokens", "BIGINT", "longest output, inclusive", "tokens", minimum=0),
        Column("requests", "BIGINT", "requests in it", minimum=1),
        Column("share", "DOUBLE", "share of the requests", "", minimum=0, maximum=1),
        Column("isl_mean_tokens", "DOUBLE", "mean input", "tokens", positive=True),
        Column("osl_mean_tokens", "DOUBLE", "mean output", "tokens", positive=True),
        Column("input_share", "DOUBLE", "share of the input tokens", "", minimum=0, maximum=1),
        Column("output_share", "DOUBLE", "share of the output tokens", "", minimum=0, maximum=1),
        Column("cost_share", "DOUBLE", "share of the relative cost", "", minimum=0, maximum=1),
        Column("cost_spread", "DOUBLE", "cost of its 90th over that of its 10th percentile request", "", minimum=1),
        Column("peak_rps", "DOUBLE", "its rate in the planning window", "1/s", minimum=0),
    ),
    key=("plan_version", "service", "bucket"),
    versioned=True,
)

WORKLOAD_WINDOW = Table(
    "workload_window",
    "a time window of a service's trace",
    (
        _VERSION,
        _SERVICE,
        Column("window_start_at", "TIMESTAMP", "its start", "UTC"),
        Column("window_s", "INTEGER", "its length", "s", positive=True),
        Column("requests", "BIGINT", "arrivals in it", minimum=0),
        Column("arrival_rps", "DOUBLE", "arrivals a second", "1/s", minimum=0),
        Column("isl_tokens", "BIGINT", "input tokens that arrived", "tokens", minimum=0),
        Column("osl_tokens", "BIGINT", "output tokens that were asked for", "tokens", minimum=0),
    ),
    key=("plan_version", "service", "window_start_at", "window_s"),
    versioned=True,
)

WORKLOAD_SEASON = Table(
    "workload_season",
    "an hour of the day or a day of the week of a service's trace",
    (
        _VERSION,
        _SERVICE,
        Column("period", "VARCHAR", "what comes again, UTC", allowed=("hour", "weekday")),
        Column("slot", "INTEGER", "which: hours from 0, weekdays from 0, which is Monday", minimum=0, maximum=23),
        Column("covered_h", "DOUBLE", "hours of the trace that fall in it", "h", positive=True),
        Column("requests", "BIGINT", "arrivals in it", minimum=0),
        Column("arrival_rps", "DOUBLE", "arrivals a second in it", "1/s", minimum=0),
        Column("factor", "DOUBLE", "its rate over the trace's mean rate", "", minimum=0),
        _LABEL,
    ),
    key=("plan_version", "service", "period", "slot"),
    versioned=True,
)

MIX_DIMENSIONS = (
    "model", "adapter", "tenant", "outcome", "censored", "finish_reason", "streaming", "structured_output", "logprobs",
    "speculative", "multimodal",
)  # fmt: skip
WORKLOAD_MIX = Table(
    "workload_mix",
    "what a share of a service's requests have in common: a model, an adapter, a tenant, a feature, how they ended",
    (
        _VERSION,
        _SERVICE,
        Column("dimension", "VARCHAR", "what they are told apart by: a column of request", allowed=MIX_DIMENSIONS),
        Column("position", "INTEGER", "order of its values, the most frequent first", minimum=0),
        Column("value", "VARCHAR", "the value; the rest are 'others', what the source does not say 'not said'"),
        Column("requests", "BIGINT", "requests of it, also those that no engine worked on", minimum=1),
        Column("share", "DOUBLE", "share of the requests", "", minimum=0, maximum=1),
        Column("isl_mean_tokens", "DOUBLE", "mean input, where known", "tokens", True, 0),
        Column("osl_mean_tokens", "DOUBLE", "mean output, where known", "tokens", True, 0),
        _LABEL,
    ),
    key=("plan_version", "service", "dimension", "value"),
    versioned=True,
)

WORKLOAD_PREFIX = Table(
    "workload_prefix",
    "input tokens of a service's trace that a prefix cache of a size would find",
    (
        _VERSION,
        _SERVICE,
        Column("position", "INTEGER", "order, the smallest cache first", minimum=0),
        Column(
            "tier",
            "VARCHAR",
            "a cache: its size, one pool for the fleet that lets go of the least recently used; or as served",
        ),
        Column(
            "capacity_tokens", "DOUBLE", "what it holds; NULL: endless, or not known", "tokens", True, positive=True
        ),
        Column("hit_tokens", "BIGINT", "input tokens found in it", "tokens", minimum=0),
        Column(
            "hit_share",
            "DOUBLE",
            "share of the input tokens (as served: of those it is told of)",
            "",
            minimum=0,
            maximum=1,
        ),
        Column("added_share", "DOUBLE", "share that the next smaller cache does not find", "", minimum=0, maximum=1),
        _LABEL,
    ),
    key=("plan_version", "service", "tier"),
    versioned=True,
)

WORKLOAD = (PLAN_WORKLOAD, WORKLOAD_BUCKET, WORKLOAD_WINDOW, WORKLOAD_SEASON, WORKLOAD_MIX, WORKLOAD_PREFIX)
