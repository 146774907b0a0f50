"""Tables of what production said back: prediction errors and the corrections they earned."""

from warehouse.registry import LABELS, Column, Table

PREDICTION_ERROR = Table(
    "prediction_error",
    "one predicted figure against what was observed",
    (
        Column("plan_version", "INTEGER", "the plan that predicted it", positive=True),
        Column("service", "VARCHAR", "service"),
        Column("observation_id", "VARCHAR", "the observation it is held against"),
        Column("bucket", "VARCHAR", "bucket of the observation: mean ISL x mean OSL at a rate"),
        Column("metric", "VARCHAR", "what was predicted", allowed=("ttft_p50", "ttft_p99", "tpot_mean", "e2e_mean")),
        Column("predicted_ms", "DOUBLE", "predicted", "ms", True, 0),
        Column("observed_ms", "DOUBLE", "observed", "ms", True, 0),
        Column("error_ms", "DOUBLE", "observed - predicted", "ms", True),
        Column("error_ratio", "DOUBLE", "predicted / observed - 1", "", True),
        Column("saturated", "BOOLEAN", "the observation was saturated: shown, never fitted"),
        Column("utilisation", "DOUBLE", "achieved rate over predicted capacity", "", True, 0),
        Column("label", "VARCHAR", "label of the prediction", allowed=LABELS),
        Column("note", "VARCHAR", "why a figure is missing or not comparable", "", True),
    ),
    key=("plan_version", "service", "observation_id", "metric"),
    versioned=True,
)

CALIBRATION = Table(
    "calibration",
    "a correction that observations earned; version 0 means none is in force",
    (
        Column("calibration_version", "INTEGER", "version", positive=True),
        Column("created_at", "TIMESTAMP", "when", "UTC"),
        Column("engine", "VARCHAR", "engine it is for"),
        Column("engine_version", "VARCHAR", "its version"),
        Column("gpu_id", "VARCHAR", "accelerator"),
        Column("model_id", "VARCHAR", "model"),
        Column("parameter", "VARCHAR", "what it corrects"),
        Column("factor", "DOUBLE", "what the prediction is multiplied by", positive=True),
        Column("observations", "INTEGER", "observations behind it", positive=True),
        Column("label", "VARCHAR", "how it is known", allowed=LABELS),
        Column("source", "VARCHAR", "the observations it was fitted on"),
    ),
    key=("calibration_version", "engine", "engine_version", "gpu_id", "model_id", "parameter"),
)

FEEDBACK = (PREDICTION_ERROR, CALIBRATION)
