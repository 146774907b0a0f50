ALTER TABLE "plan_capacity" RENAME TO "old_plan_capacity";
CREATE TABLE "plan_capacity" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "scenario" VARCHAR NOT NULL CHECK ("scenario" IN ('goodput_replica', 'fleet_planned', 'fleet_all_up', 'fleet_one_down', 'fleet_failures_down')),
  "replicas" INTEGER NOT NULL CHECK ("replicas" > 0),
  "gpus" INTEGER NOT NULL CHECK ("gpus" > 0),
  "arrival_rps" DOUBLE NOT NULL CHECK (isfinite("arrival_rps") AND "arrival_rps" > 0),
  "requests" BIGINT NOT NULL CHECK ("requests" > 0),
  "requests_counted" BIGINT NOT NULL CHECK ("requests_counted" > 0),
  "rejected_requests" BIGINT NOT NULL CHECK ("rejected_requests" >= 0),
  "attainment" DOUBLE NOT NULL CHECK (isfinite("attainment") AND "attainment" >= 0 AND "attainment" <= 1),
  "attainment_target" DOUBLE NOT NULL CHECK (isfinite("attainment_target") AND "attainment_target" >= 0 AND "attainment_target" <= 1),
  "meets_slo" BOOLEAN NOT NULL,
  "binding" VARCHAR NOT NULL,
  "margin_ratio" DOUBLE NOT NULL CHECK (isfinite("margin_ratio")),
  "ttft_p50_ms" DOUBLE CHECK (isfinite("ttft_p50_ms") AND "ttft_p50_ms" >= 0),
  "ttft_p90_ms" DOUBLE CHECK (isfinite("ttft_p90_ms") AND "ttft_p90_ms" >= 0),
  "ttft_p95_ms" DOUBLE CHECK (isfinite("ttft_p95_ms") AND "ttft_p95_ms" >= 0),
  "ttft_p99_ms" DOUBLE CHECK (isfinite("ttft_p99_ms") AND "ttft_p99_ms" >= 0),
  "tpot_p50_ms" DOUBLE CHECK (isfinite("tpot_p50_ms") AND "tpot_p50_ms" >= 0),
  "tpot_p90_ms" DOUBLE CHECK (isfinite("tpot_p90_ms") AND "tpot_p90_ms" >= 0),
  "tpot_p95_ms" DOUBLE CHECK (isfinite("tpot_p95_ms") AND "tpot_p95_ms" >= 0),
  "tpot_p99_ms" DOUBLE CHECK (isfinite("tpot_p99_ms") AND "tpot_p99_ms" >= 0),
  "e2e_p50_ms" DOUBLE CHECK (isfinite("e2e_p50_ms") AND "e2e_p50_ms" >= 0),
  "e2e_p90_ms" DOUBLE CHECK (isfinite("e2e_p90_ms") AND "e2e_p90_ms" >= 0),
  "e2e_p95_ms" DOUBLE CHECK (isfinite("e2e_p95_ms") AND "e2e_p95_ms" >= 0),
  "e2e_p99_ms" DOUBLE CHECK (isfinite("e2e_p99_ms") AND "e2e_p99_ms" >= 0),
  "itl_p50_ms" DOUBLE CHECK (isfinite("itl_p50_ms") AND "itl_p50_ms" >= 0),
  "itl_p90_ms" DOUBLE CHECK (isfinite("itl_p90_ms") AND "itl_p90_ms" >= 0),
  "itl_p95_ms" DOUBLE CHECK (isfinite("itl_p95_ms") AND "itl_p95_ms" >= 0),
  "itl_p99_ms" DOUBLE CHECK (isfinite("itl_p99_ms") AND "itl_p99_ms" >= 0),
  "queue_p50_ms" DOUBLE CHECK (isfinite("queue_p50_ms") AND "queue_p50_ms" >= 0),
  "queue_p90_ms" DOUBLE CHECK (isfinite("queue_p90_ms") AND "queue_p90_ms" >= 0),
  "queue_p95_ms" DOUBLE CHECK (isfinite("queue_p95_ms") AND "queue_p95_ms" >= 0),
  "queue_p99_ms" DOUBLE CHECK (isfinite("queue_p99_ms") AND "queue_p99_ms" >= 0),
  "input_tokens_per_s" DOUBLE NOT NULL CHECK (isfinite("input_tokens_per_s") AND "input_tokens_per_s" >= 0),
  "output_tokens_per_s" DOUBLE NOT NULL CHECK (isfinite("output_tokens_per_s") AND "output_tokens_per_s" >= 0),
  "running_mean" DOUBLE NOT NULL CHECK (isfinite("running_mean") AND "running_mean" >= 0),
  "waiting_max" DOUBLE NOT NULL CHECK (isfinite("waiting_max") AND "waiting_max" >= 0),
  "kv_usage_p99" DOUBLE NOT NULL CHECK (isfinite("kv_usage_p99") AND "kv_usage_p99" >= 0 AND "kv_usage_p99" <= 1),
  "preemptions" BIGINT NOT NULL CHECK ("preemptions" >= 0),
  "queue_limit" VARCHAR NOT NULL,
  "prefix_hit_share" DOUBLE NOT NULL CHECK (isfinite("prefix_hit_share") AND "prefix_hit_share" >= 0 AND "prefix_hit_share" <= 1),
  "busy_share" DOUBLE NOT NULL CHECK (isfinite("busy_share") AND "busy_share" >= 0 AND "busy_share" <= 1),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  PRIMARY KEY ("plan_version", "service", "candidate_id", "scenario")
);
COMMENT ON TABLE "plan_capacity" IS 'a replay of a candidate: workload, engine, result, margin';
COMMENT ON COLUMN "plan_capacity"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan_capacity"."service" IS 'service of the workspace';
COMMENT ON COLUMN "plan_capacity"."candidate_id" IS 'configuration: gpu / TP / precision / engine';
COMMENT ON COLUMN "plan_capacity"."scenario" IS 'what was replayed';
COMMENT ON COLUMN "plan_capacity"."replicas" IS 'replicas replayed';
COMMENT ON COLUMN "plan_capacity"."gpus" IS 'their accelerators';
COMMENT ON COLUMN "plan_capacity"."arrival_rps" IS 'mean rate replayed [1/s]';
COMMENT ON COLUMN "plan_capacity"."requests" IS 'requests replayed';
COMMENT ON COLUMN "plan_capacity"."requests_counted" IS 'of these, in steady state';
COMMENT ON COLUMN "plan_capacity"."rejected_requests" IS 'requests the engine cannot take';
COMMENT ON COLUMN "plan_capacity"."attainment" IS 'share that met every target';
COMMENT ON COLUMN "plan_capacity"."attainment_target" IS 'share that must';
COMMENT ON COLUMN "plan_capacity"."meets_slo" IS 'every percentile target and the attainment hold';
COMMENT ON COLUMN "plan_capacity"."binding" IS 'the target with the least margin';
COMMENT ON COLUMN "plan_capacity"."margin_ratio" IS 'least of (target / figure - 1) over the targets';
COMMENT ON COLUMN "plan_capacity"."ttft_p50_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "plan_capacity"."ttft_p90_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "plan_capacity"."ttft_p95_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "plan_capacity"."ttft_p99_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "plan_capacity"."tpot_p50_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "plan_capacity"."tpot_p90_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "plan_capacity"."tpot_p95_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "plan_capacity"."tpot_p99_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "plan_capacity"."e2e_p50_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "plan_capacity"."e2e_p90_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "plan_capacity"."e2e_p95_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "plan_capacity"."e2e_p99_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "plan_capacity"."itl_p50_ms" IS 'gap between two tokens, over every gap of every request [ms]';
COMMENT ON COLUMN "plan_capacity"."itl_p90_ms" IS 'gap between two tokens, over every gap of every request [ms]';
COMMENT ON COLUMN "plan_capacity"."itl_p95_ms" IS 'gap between two tokens, over every gap of every request [ms]';
COMMENT ON COLUMN "plan_capacity"."itl_p99_ms" IS 'gap between two tokens, over every gap of every request [ms]';
COMMENT ON COLUMN "plan_capacity"."queue_p50_ms" IS 'time waiting to be admitted [ms]';
COMMENT ON COLUMN "plan_capacity"."queue_p90_ms" IS 'time waiting to be admitted [ms]';
COMMENT ON COLUMN "plan_capacity"."queue_p95_ms" IS 'time waiting to be admitted [ms]';
COMMENT ON COLUMN "plan_capacity"."queue_p99_ms" IS 'time waiting to be admitted [ms]';
COMMENT ON COLUMN "plan_capacity"."input_tokens_per_s" IS 'input tokens [tokens/s]';
COMMENT ON COLUMN "plan_capacity"."output_tokens_per_s" IS 'output tokens [tokens/s]';
COMMENT ON COLUMN "plan_capacity"."running_mean" IS 'sequences running on a replica';
COMMENT ON COLUMN "plan_capacity"."waiting_max" IS 'longest queue of a replica';
COMMENT ON COLUMN "plan_capacity"."kv_usage_p99" IS 'KV cache in use';
COMMENT ON COLUMN "plan_capacity"."preemptions" IS 'preemptions';
COMMENT ON COLUMN "plan_capacity"."queue_limit" IS 'the limit under which requests queued longest; none: nobody queued';
COMMENT ON COLUMN "plan_capacity"."prefix_hit_share" IS 'share of input tokens found in cache';
COMMENT ON COLUMN "plan_capacity"."busy_share" IS 'share of the time a replica was stepping';
COMMENT ON COLUMN "plan_capacity"."label" IS 'how sure it is';
INSERT INTO "plan_capacity" BY NAME SELECT "plan_version", "service", "candidate_id", "scenario", "replicas", "gpus", "arrival_rps", "requests", "requests_counted", "rejected_requests", "attainment", "attainment_target", "meets_slo", "binding", "margin_ratio", "ttft_p50_ms", "ttft_p90_ms", "ttft_p95_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p90_ms", "tpot_p95_ms", "tpot_p99_ms", "e2e_p50_ms", "e2e_p90_ms", "e2e_p95_ms", "e2e_p99_ms", "itl_p50_ms", "itl_p90_ms", "itl_p95_ms", "itl_p99_ms", "queue_p50_ms", "queue_p90_ms", "queue_p95_ms", "queue_p99_ms", "input_tokens_per_s", "output_tokens_per_s", "running_mean", "waiting_max", "kv_usage_p99", "preemptions", "queue_limit", "prefix_hit_share", "busy_share", "label" FROM "old_plan_capacity";
DROP TABLE "old_plan_capacity";
ALTER TABLE "draft_plan_capacity" RENAME TO "old_draft_plan_capacity";
CREATE TABLE "draft_plan_capacity" (
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "scenario" VARCHAR NOT NULL CHECK ("scenario" IN ('goodput_replica', 'fleet_planned', 'fleet_all_up', 'fleet_one_down', 'fleet_failures_down')),
  "replicas" INTEGER NOT NULL CHECK ("replicas" > 0),
  "gpus" INTEGER NOT NULL CHECK ("gpus" > 0),
  "arrival_rps" DOUBLE NOT NULL CHECK (isfinite("arrival_rps") AND "arrival_rps" > 0),
  "requests" BIGINT NOT NULL CHECK ("requests" > 0),
  "requests_counted" BIGINT NOT NULL CHECK ("requests_counted" > 0),
  "rejected_requests" BIGINT NOT NULL CHECK ("rejected_requests" >= 0),
  "attainment" DOUBLE NOT NULL CHECK (isfinite("attainment") AND "attainment" >= 0 AND "attainment" <= 1),
  "attainment_target" DOUBLE NOT NULL CHECK (isfinite("attainment_target") AND "attainment_target" >= 0 AND "attainment_target" <= 1),
  "meets_slo" BOOLEAN NOT NULL,
  "binding" VARCHAR NOT NULL,
  "margin_ratio" DOUBLE NOT NULL CHECK (isfinite("margin_ratio")),
  "ttft_p50_ms" DOUBLE CHECK (isfinite("ttft_p50_ms") AND "ttft_p50_ms" >= 0),
  "ttft_p90_ms" DOUBLE CHECK (isfinite("ttft_p90_ms") AND "ttft_p90_ms" >= 0),
  "ttft_p95_ms" DOUBLE CHECK (isfinite("ttft_p95_ms") AND "ttft_p95_ms" >= 0),
  "ttft_p99_ms" DOUBLE CHECK (isfinite("ttft_p99_ms") AND "ttft_p99_ms" >= 0),
  "tpot_p50_ms" DOUBLE CHECK (isfinite("tpot_p50_ms") AND "tpot_p50_ms" >= 0),
  "tpot_p90_ms" DOUBLE CHECK (isfinite("tpot_p90_ms") AND "tpot_p90_ms" >= 0),
  "tpot_p95_ms" DOUBLE CHECK (isfinite("tpot_p95_ms") AND "tpot_p95_ms" >= 0),
  "tpot_p99_ms" DOUBLE CHECK (isfinite("tpot_p99_ms") AND "tpot_p99_ms" >= 0),
  "e2e_p50_ms" DOUBLE CHECK (isfinite("e2e_p50_ms") AND "e2e_p50_ms" >= 0),
  "e2e_p90_ms" DOUBLE CHECK (isfinite("e2e_p90_ms") AND "e2e_p90_ms" >= 0),
  "e2e_p95_ms" DOUBLE CHECK (isfinite("e2e_p95_ms") AND "e2e_p95_ms" >= 0),
  "e2e_p99_ms" DOUBLE CHECK (isfinite("e2e_p99_ms") AND "e2e_p99_ms" >= 0),
  "itl_p50_ms" DOUBLE CHECK (isfinite("itl_p50_ms") AND "itl_p50_ms" >= 0),
  "itl_p90_ms" DOUBLE CHECK (isfinite("itl_p90_ms") AND "itl_p90_ms" >= 0),
  "itl_p95_ms" DOUBLE CHECK (isfinite("itl_p95_ms") AND "itl_p95_ms" >= 0),
  "itl_p99_ms" DOUBLE CHECK (isfinite("itl_p99_ms") AND "itl_p99_ms" >= 0),
  "queue_p50_ms" DOUBLE CHECK (isfinite("queue_p50_ms") AND "queue_p50_ms" >= 0),
  "queue_p90_ms" DOUBLE CHECK (isfinite("queue_p90_ms") AND "queue_p90_ms" >= 0),
  "queue_p95_ms" DOUBLE CHECK (isfinite("queue_p95_ms") AND "queue_p95_ms" >= 0),
  "queue_p99_ms" DOUBLE CHECK (isfinite("queue_p99_ms") AND "queue_p99_ms" >= 0),
  "input_tokens_per_s" DOUBLE NOT NULL CHECK (isfinite("input_tokens_per_s") AND "input_tokens_per_s" >= 0),
  "output_tokens_per_s" DOUBLE NOT NULL CHECK (isfinite("output_tokens_per_s") AND "output_tokens_per_s" >= 0),
  "running_mean" DOUBLE NOT NULL CHECK (isfinite("running_mean") AND "running_mean" >= 0),
  "waiting_max" DOUBLE NOT NULL CHECK (isfinite("waiting_max") AND "waiting_max" >= 0),
  "kv_usage_p99" DOUBLE NOT NULL CHECK (isfinite("kv_usage_p99") AND "kv_usage_p99" >= 0 AND "kv_usage_p99" <= 1),
  "preemptions" BIGINT NOT NULL CHECK ("preemptions" >= 0),
  "queue_limit" VARCHAR NOT NULL,
  "prefix_hit_share" DOUBLE NOT NULL CHECK (isfinite("prefix_hit_share") AND "prefix_hit_share" >= 0 AND "prefix_hit_share" <= 1),
  "busy_share" DOUBLE NOT NULL CHECK (isfinite("busy_share") AND "busy_share" >= 0 AND "busy_share" <= 1),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed'))
);
COMMENT ON TABLE "draft_plan_capacity" IS 'a replay of a candidate: workload, engine, result, margin';
COMMENT ON COLUMN "draft_plan_capacity"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_plan_capacity"."candidate_id" IS 'configuration: gpu / TP / precision / engine';
COMMENT ON COLUMN "draft_plan_capacity"."scenario" IS 'what was replayed';
COMMENT ON COLUMN "draft_plan_capacity"."replicas" IS 'replicas replayed';
COMMENT ON COLUMN "draft_plan_capacity"."gpus" IS 'their accelerators';
COMMENT ON COLUMN "draft_plan_capacity"."arrival_rps" IS 'mean rate replayed [1/s]';
COMMENT ON COLUMN "draft_plan_capacity"."requests" IS 'requests replayed';
COMMENT ON COLUMN "draft_plan_capacity"."requests_counted" IS 'of these, in steady state';
COMMENT ON COLUMN "draft_plan_capacity"."rejected_requests" IS 'requests the engine cannot take';
COMMENT ON COLUMN "draft_plan_capacity"."attainment" IS 'share that met every target';
COMMENT ON COLUMN "draft_plan_capacity"."attainment_target" IS 'share that must';
COMMENT ON COLUMN "draft_plan_capacity"."meets_slo" IS 'every percentile target and the attainment hold';
COMMENT ON COLUMN "draft_plan_capacity"."binding" IS 'the target with the least margin';
COMMENT ON COLUMN "draft_plan_capacity"."margin_ratio" IS 'least of (target / figure - 1) over the targets';
COMMENT ON COLUMN "draft_plan_capacity"."ttft_p50_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."ttft_p90_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."ttft_p95_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."ttft_p99_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."tpot_p50_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."tpot_p90_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."tpot_p95_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."tpot_p99_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."e2e_p50_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."e2e_p90_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."e2e_p95_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."e2e_p99_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."itl_p50_ms" IS 'gap between two tokens, over every gap of every request [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."itl_p90_ms" IS 'gap between two tokens, over every gap of every request [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."itl_p95_ms" IS 'gap between two tokens, over every gap of every request [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."itl_p99_ms" IS 'gap between two tokens, over every gap of every request [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."queue_p50_ms" IS 'time waiting to be admitted [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."queue_p90_ms" IS 'time waiting to be admitted [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."queue_p95_ms" IS 'time waiting to be admitted [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."queue_p99_ms" IS 'time waiting to be admitted [ms]';
COMMENT ON COLUMN "draft_plan_capacity"."input_tokens_per_s" IS 'input tokens [tokens/s]';
COMMENT ON COLUMN "draft_plan_capacity"."output_tokens_per_s" IS 'output tokens [tokens/s]';
COMMENT ON COLUMN "draft_plan_capacity"."running_mean" IS 'sequences running on a replica';
COMMENT ON COLUMN "draft_plan_capacity"."waiting_max" IS 'longest queue of a replica';
COMMENT ON COLUMN "draft_plan_capacity"."kv_usage_p99" IS 'KV cache in use';
COMMENT ON COLUMN "draft_plan_capacity"."preemptions" IS 'preemptions';
COMMENT ON COLUMN "draft_plan_capacity"."queue_limit" IS 'the limit under which requests queued longest; none: nobody queued';
COMMENT ON COLUMN "draft_plan_capacity"."prefix_hit_share" IS 'share of input tokens found in cache';
COMMENT ON COLUMN "draft_plan_capacity"."busy_share" IS 'share of the time a replica was stepping';
COMMENT ON COLUMN "draft_plan_capacity"."label" IS 'how sure it is';
INSERT INTO "draft_plan_capacity" BY NAME SELECT "service", "candidate_id", "scenario", "replicas", "gpus", "arrival_rps", "requests", "requests_counted", "rejected_requests", "attainment", "attainment_target", "meets_slo", "binding", "margin_ratio", "ttft_p50_ms", "ttft_p90_ms", "ttft_p95_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p90_ms", "tpot_p95_ms", "tpot_p99_ms", "e2e_p50_ms", "e2e_p90_ms", "e2e_p95_ms", "e2e_p99_ms", "itl_p50_ms", "itl_p90_ms", "itl_p95_ms", "itl_p99_ms", "queue_p50_ms", "queue_p90_ms", "queue_p95_ms", "queue_p99_ms", "input_tokens_per_s", "output_tokens_per_s", "running_mean", "waiting_max", "kv_usage_p99", "preemptions", "queue_limit", "prefix_hit_share", "busy_share", "label" FROM "old_draft_plan_capacity";
DROP TABLE "old_draft_plan_capacity";
ALTER TABLE "plan_bucket" RENAME TO "old_plan_bucket";
CREATE TABLE "plan_bucket" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "scenario" VARCHAR NOT NULL CHECK ("scenario" IN ('goodput_replica', 'fleet_planned', 'fleet_all_up', 'fleet_one_down', 'fleet_failures_down')),
  "bucket" VARCHAR NOT NULL,
  "requests" BIGINT NOT NULL CHECK ("requests" >= 1),
  "attainment" DOUBLE NOT NULL CHECK (isfinite("attainment") AND "attainment" >= 0 AND "attainment" <= 1),
  "ttft_p50_ms" DOUBLE CHECK (isfinite("ttft_p50_ms") AND "ttft_p50_ms" >= 0),
  "ttft_p90_ms" DOUBLE CHECK (isfinite("ttft_p90_ms") AND "ttft_p90_ms" >= 0),
  "ttft_p95_ms" DOUBLE CHECK (isfinite("ttft_p95_ms") AND "ttft_p95_ms" >= 0),
  "ttft_p99_ms" DOUBLE CHECK (isfinite("ttft_p99_ms") AND "ttft_p99_ms" >= 0),
  "tpot_p50_ms" DOUBLE CHECK (isfinite("tpot_p50_ms") AND "tpot_p50_ms" >= 0),
  "tpot_p90_ms" DOUBLE CHECK (isfinite("tpot_p90_ms") AND "tpot_p90_ms" >= 0),
  "tpot_p95_ms" DOUBLE CHECK (isfinite("tpot_p95_ms") AND "tpot_p95_ms" >= 0),
  "tpot_p99_ms" DOUBLE CHECK (isfinite("tpot_p99_ms") AND "tpot_p99_ms" >= 0),
  "e2e_p50_ms" DOUBLE CHECK (isfinite("e2e_p50_ms") AND "e2e_p50_ms" >= 0),
  "e2e_p90_ms" DOUBLE CHECK (isfinite("e2e_p90_ms") AND "e2e_p90_ms" >= 0),
  "e2e_p95_ms" DOUBLE CHECK (isfinite("e2e_p95_ms") AND "e2e_p95_ms" >= 0),
  "e2e_p99_ms" DOUBLE CHECK (isfinite("e2e_p99_ms") AND "e2e_p99_ms" >= 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  PRIMARY KEY ("plan_version", "service", "candidate_id", "scenario", "bucket")
);
COMMENT ON TABLE "plan_bucket" IS 'the replayed fleet''s figures in one bucket';
COMMENT ON COLUMN "plan_bucket"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan_bucket"."service" IS 'service of the workspace';
COMMENT ON COLUMN "plan_bucket"."candidate_id" IS 'configuration: gpu / TP / precision / engine';
COMMENT ON COLUMN "plan_bucket"."scenario" IS 'what was replayed';
COMMENT ON COLUMN "plan_bucket"."bucket" IS 'bucket';
COMMENT ON COLUMN "plan_bucket"."requests" IS 'steady-state requests in it';
COMMENT ON COLUMN "plan_bucket"."attainment" IS 'share that met every target';
COMMENT ON COLUMN "plan_bucket"."ttft_p50_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "plan_bucket"."ttft_p90_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "plan_bucket"."ttft_p95_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "plan_bucket"."ttft_p99_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "plan_bucket"."tpot_p50_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "plan_bucket"."tpot_p90_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "plan_bucket"."tpot_p95_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "plan_bucket"."tpot_p99_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "plan_bucket"."e2e_p50_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "plan_bucket"."e2e_p90_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "plan_bucket"."e2e_p95_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "plan_bucket"."e2e_p99_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "plan_bucket"."label" IS 'how sure it is';
INSERT INTO "plan_bucket" BY NAME SELECT "plan_version", "service", "candidate_id", "scenario", "bucket", "requests", "attainment", "ttft_p50_ms", "ttft_p90_ms", "ttft_p95_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p90_ms", "tpot_p95_ms", "tpot_p99_ms", "e2e_p50_ms", "e2e_p90_ms", "e2e_p95_ms", "e2e_p99_ms", "label" FROM "old_plan_bucket";
DROP TABLE "old_plan_bucket";
ALTER TABLE "draft_plan_bucket" RENAME TO "old_draft_plan_bucket";
CREATE TABLE "draft_plan_bucket" (
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "scenario" VARCHAR NOT NULL CHECK ("scenario" IN ('goodput_replica', 'fleet_planned', 'fleet_all_up', 'fleet_one_down', 'fleet_failures_down')),
  "bucket" VARCHAR NOT NULL,
  "requests" BIGINT NOT NULL CHECK ("requests" >= 1),
  "attainment" DOUBLE NOT NULL CHECK (isfinite("attainment") AND "attainment" >= 0 AND "attainment" <= 1),
  "ttft_p50_ms" DOUBLE CHECK (isfinite("ttft_p50_ms") AND "ttft_p50_ms" >= 0),
  "ttft_p90_ms" DOUBLE CHECK (isfinite("ttft_p90_ms") AND "ttft_p90_ms" >= 0),
  "ttft_p95_ms" DOUBLE CHECK (isfinite("ttft_p95_ms") AND "ttft_p95_ms" >= 0),
  "ttft_p99_ms" DOUBLE CHECK (isfinite("ttft_p99_ms") AND "ttft_p99_ms" >= 0),
  "tpot_p50_ms" DOUBLE CHECK (isfinite("tpot_p50_ms") AND "tpot_p50_ms" >= 0),
  "tpot_p90_ms" DOUBLE CHECK (isfinite("tpot_p90_ms") AND "tpot_p90_ms" >= 0),
  "tpot_p95_ms" DOUBLE CHECK (isfinite("tpot_p95_ms") AND "tpot_p95_ms" >= 0),
  "tpot_p99_ms" DOUBLE CHECK (isfinite("tpot_p99_ms") AND "tpot_p99_ms" >= 0),
  "e2e_p50_ms" DOUBLE CHECK (isfinite("e2e_p50_ms") AND "e2e_p50_ms" >= 0),
  "e2e_p90_ms" DOUBLE CHECK (isfinite("e2e_p90_ms") AND "e2e_p90_ms" >= 0),
  "e2e_p95_ms" DOUBLE CHECK (isfinite("e2e_p95_ms") AND "e2e_p95_ms" >= 0),
  "e2e_p99_ms" DOUBLE CHECK (isfinite("e2e_p99_ms") AND "e2e_p99_ms" >= 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed'))
);
COMMENT ON TABLE "draft_plan_bucket" IS 'the replayed fleet''s figures in one bucket';
COMMENT ON COLUMN "draft_plan_bucket"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_plan_bucket"."candidate_id" IS 'configuration: gpu / TP / precision / engine';
COMMENT ON COLUMN "draft_plan_bucket"."scenario" IS 'what was replayed';
COMMENT ON COLUMN "draft_plan_bucket"."bucket" IS 'bucket';
COMMENT ON COLUMN "draft_plan_bucket"."requests" IS 'steady-state requests in it';
COMMENT ON COLUMN "draft_plan_bucket"."attainment" IS 'share that met every target';
COMMENT ON COLUMN "draft_plan_bucket"."ttft_p50_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "draft_plan_bucket"."ttft_p90_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "draft_plan_bucket"."ttft_p95_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "draft_plan_bucket"."ttft_p99_ms" IS 'time to first token [ms]';
COMMENT ON COLUMN "draft_plan_bucket"."tpot_p50_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "draft_plan_bucket"."tpot_p90_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "draft_plan_bucket"."tpot_p95_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "draft_plan_bucket"."tpot_p99_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "draft_plan_bucket"."e2e_p50_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "draft_plan_bucket"."e2e_p90_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "draft_plan_bucket"."e2e_p95_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "draft_plan_bucket"."e2e_p99_ms" IS 'end-to-end latency [ms]';
COMMENT ON COLUMN "draft_plan_bucket"."label" IS 'how sure it is';
INSERT INTO "draft_plan_bucket" BY NAME SELECT "service", "candidate_id", "scenario", "bucket", "requests", "attainment", "ttft_p50_ms", "ttft_p90_ms", "ttft_p95_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p90_ms", "tpot_p95_ms", "tpot_p99_ms", "e2e_p50_ms", "e2e_p90_ms", "e2e_p95_ms", "e2e_p99_ms", "label" FROM "old_draft_plan_bucket";
DROP TABLE "old_draft_plan_bucket";
ALTER TABLE "plan_series" RENAME TO "old_plan_series";
CREATE TABLE "plan_series" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "scenario" VARCHAR NOT NULL CHECK ("scenario" IN ('goodput_replica', 'fleet_planned', 'fleet_all_up', 'fleet_one_down', 'fleet_failures_down')),
  "bin" INTEGER NOT NULL CHECK ("bin" >= 0),
  "start_s" DOUBLE NOT NULL CHECK (isfinite("start_s") AND "start_s" >= 0),
  "bin_s" DOUBLE NOT NULL CHECK (isfinite("bin_s") AND "bin_s" > 0),
  "running" DOUBLE NOT NULL CHECK (isfinite("running") AND "running" >= 0),
  "waiting" DOUBLE NOT NULL CHECK (isfinite("waiting") AND "waiting" >= 0),
  "kv_usage" DOUBLE NOT NULL CHECK (isfinite("kv_usage") AND "kv_usage" >= 0 AND "kv_usage" <= 1),
  "preemptions" BIGINT NOT NULL CHECK ("preemptions" >= 0),
  "busy_share" DOUBLE NOT NULL CHECK (isfinite("busy_share") AND "busy_share" >= 0 AND "busy_share" <= 1),
  "queue_limit" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  PRIMARY KEY ("plan_version", "service", "scenario", "bin")
);
COMMENT ON TABLE "plan_series" IS 'the chosen fleet over time in a replay, in bins of equal width';
COMMENT ON COLUMN "plan_series"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan_series"."service" IS 'service of the workspace';
COMMENT ON COLUMN "plan_series"."candidate_id" IS 'configuration: gpu / TP / precision / engine';
COMMENT ON COLUMN "plan_series"."scenario" IS 'what was replayed';
COMMENT ON COLUMN "plan_series"."bin" IS 'number of the bin';
COMMENT ON COLUMN "plan_series"."start_s" IS 'its start, from the start of the replay, warm-up included [s]';
COMMENT ON COLUMN "plan_series"."bin_s" IS 'its width [s]';
COMMENT ON COLUMN "plan_series"."running" IS 'sequences running, over all replicas';
COMMENT ON COLUMN "plan_series"."waiting" IS 'requests queueing while a step is in work, over all replicas';
COMMENT ON COLUMN "plan_series"."kv_usage" IS 'share of all KV blocks in use';
COMMENT ON COLUMN "plan_series"."preemptions" IS 'preemptions in the bin';
COMMENT ON COLUMN "plan_series"."busy_share" IS 'share of the time a replica was stepping';
COMMENT ON COLUMN "plan_series"."queue_limit" IS 'the limit under which requests queued longest; none: nobody queued';
COMMENT ON COLUMN "plan_series"."label" IS 'how sure it is';
INSERT INTO "plan_series" BY NAME SELECT "plan_version", "service", "candidate_id", "scenario", "bin", "start_s", "bin_s", "running", "waiting", "kv_usage", "preemptions", "busy_share", "queue_limit", "label" FROM "old_plan_series";
DROP TABLE "old_plan_series";
ALTER TABLE "draft_plan_series" RENAME TO "old_draft_plan_series";
CREATE TABLE "draft_plan_series" (
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "scenario" VARCHAR NOT NULL CHECK ("scenario" IN ('goodput_replica', 'fleet_planned', 'fleet_all_up', 'fleet_one_down', 'fleet_failures_down')),
  "bin" INTEGER NOT NULL CHECK ("bin" >= 0),
  "start_s" DOUBLE NOT NULL CHECK (isfinite("start_s") AND "start_s" >= 0),
  "bin_s" DOUBLE NOT NULL CHECK (isfinite("bin_s") AND "bin_s" > 0),
  "running" DOUBLE NOT NULL CHECK (isfinite("running") AND "running" >= 0),
  "waiting" DOUBLE NOT NULL CHECK (isfinite("waiting") AND "waiting" >= 0),
  "kv_usage" DOUBLE NOT NULL CHECK (isfinite("kv_usage") AND "kv_usage" >= 0 AND "kv_usage" <= 1),
  "preemptions" BIGINT NOT NULL CHECK ("preemptions" >= 0),
  "busy_share" DOUBLE NOT NULL CHECK (isfinite("busy_share") AND "busy_share" >= 0 AND "busy_share" <= 1),
  "queue_limit" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed'))
);
COMMENT ON TABLE "draft_plan_series" IS 'the chosen fleet over time in a replay, in bins of equal width';
COMMENT ON COLUMN "draft_plan_series"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_plan_series"."candidate_id" IS 'configuration: gpu / TP / precision / engine';
COMMENT ON COLUMN "draft_plan_series"."scenario" IS 'what was replayed';
COMMENT ON COLUMN "draft_plan_series"."bin" IS 'number of the bin';
COMMENT ON COLUMN "draft_plan_series"."start_s" IS 'its start, from the start of the replay, warm-up included [s]';
COMMENT ON COLUMN "draft_plan_series"."bin_s" IS 'its width [s]';
COMMENT ON COLUMN "draft_plan_series"."running" IS 'sequences running, over all replicas';
COMMENT ON COLUMN "draft_plan_series"."waiting" IS 'requests queueing while a step is in work, over all replicas';
COMMENT ON COLUMN "draft_plan_series"."kv_usage" IS 'share of all KV blocks in use';
COMMENT ON COLUMN "draft_plan_series"."preemptions" IS 'preemptions in the bin';
COMMENT ON COLUMN "draft_plan_series"."busy_share" IS 'share of the time a replica was stepping';
COMMENT ON COLUMN "draft_plan_series"."queue_limit" IS 'the limit under which requests queued longest; none: nobody queued';
COMMENT ON COLUMN "draft_plan_series"."label" IS 'how sure it is';
INSERT INTO "draft_plan_series" BY NAME SELECT "service", "candidate_id", "scenario", "bin", "start_s", "bin_s", "running", "waiting", "kv_usage", "preemptions", "busy_share", "queue_limit", "label" FROM "old_draft_plan_series";
DROP TABLE "old_draft_plan_series";
