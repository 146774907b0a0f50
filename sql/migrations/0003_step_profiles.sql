ALTER TABLE "source_file" RENAME TO "old_source_file";
CREATE TABLE "source_file" (
  "source_file" VARCHAR NOT NULL,
  "kind" VARCHAR NOT NULL CHECK ("kind" IN ('trace', 'model', 'accelerator', 'price', 'engine', 'coefficient', 'profile', 'observation', 'workspace')),
  "named_by" VARCHAR,
  "format" VARCHAR NOT NULL,
  "sha256" VARCHAR NOT NULL,
  "size_bytes" BIGINT NOT NULL CHECK ("size_bytes" >= 0),
  "rows_read" BIGINT NOT NULL CHECK ("rows_read" >= 0),
  "rows_kept" BIGINT NOT NULL CHECK ("rows_kept" >= 0),
  "rows_rejected" BIGINT NOT NULL CHECK ("rows_rejected" >= 0),
  "detail" VARCHAR,
  "code_version" VARCHAR,
  "loaded_at" TIMESTAMP NOT NULL,
  PRIMARY KEY ("source_file")
);
COMMENT ON TABLE "source_file" IS 'a file (or hub revision) that was read';
COMMENT ON COLUMN "source_file"."source_file" IS 'the file as the workspace names it, or hub id @ revision';
COMMENT ON COLUMN "source_file"."kind" IS 'what it holds';
COMMENT ON COLUMN "source_file"."named_by" IS 'what the workspace calls it: itself, or the pattern or folder it is of';
COMMENT ON COLUMN "source_file"."format" IS 'the format it was read as';
COMMENT ON COLUMN "source_file"."sha256" IS 'fingerprint of its bytes and of the options it was read with';
COMMENT ON COLUMN "source_file"."size_bytes" IS 'its size [B]';
COMMENT ON COLUMN "source_file"."rows_read" IS 'data rows in the file';
COMMENT ON COLUMN "source_file"."rows_kept" IS 'rows that passed their contract';
COMMENT ON COLUMN "source_file"."rows_rejected" IS 'rows kept in rejected_row instead';
COMMENT ON COLUMN "source_file"."detail" IS 'what was detected: units, time zone, block size, options';
COMMENT ON COLUMN "source_file"."code_version" IS 'version of capsheet that read it';
COMMENT ON COLUMN "source_file"."loaded_at" IS 'when it was read [UTC]';
INSERT INTO "source_file" BY NAME SELECT "source_file", "kind", "named_by", "format", "sha256", "size_bytes", "rows_read", "rows_kept", "rows_rejected", "detail", "code_version", "loaded_at" FROM "old_source_file";
DROP TABLE "old_source_file";
CREATE TABLE "step_profile" (
  "source_file" VARCHAR NOT NULL,
  "line" BIGINT NOT NULL CHECK ("line" >= 0),
  "phase" VARCHAR NOT NULL CHECK ("phase" IN ('decode', 'prefill')),
  "profile" VARCHAR NOT NULL,
  "model_id" VARCHAR NOT NULL,
  "gpu_id" VARCHAR NOT NULL,
  "engine" VARCHAR NOT NULL,
  "engine_version" VARCHAR NOT NULL,
  "tp" INTEGER NOT NULL CHECK ("tp" > 0),
  "dp" INTEGER NOT NULL CHECK ("dp" > 0),
  "ep" INTEGER NOT NULL CHECK ("ep" > 0),
  "precision" VARCHAR NOT NULL,
  "sequences" DOUBLE CHECK (isfinite("sequences") AND "sequences" > 0),
  "context_tokens" DOUBLE CHECK (isfinite("context_tokens") AND "context_tokens" > 0),
  "span_tokens" DOUBLE CHECK (isfinite("span_tokens") AND "span_tokens" >= 0),
  "prompt_tokens" DOUBLE CHECK (isfinite("prompt_tokens") AND "prompt_tokens" > 0),
  "time_ms" DOUBLE NOT NULL CHECK (isfinite("time_ms") AND "time_ms" > 0),
  "seen_from" VARCHAR NOT NULL CHECK ("seen_from" IN ('client', 'engine')),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  PRIMARY KEY ("source_file", "line", "phase")
);
COMMENT ON TABLE "step_profile" IS 'a step''s time as it was measured, or as another model has it, on one configuration';
COMMENT ON COLUMN "step_profile"."source_file" IS 'the file it came from';
COMMENT ON COLUMN "step_profile"."line" IS 'its number among the file''s points or runs';
COMMENT ON COLUMN "step_profile"."phase" IS 'a decode step, or a prompt up to its first token';
COMMENT ON COLUMN "step_profile"."profile" IS 'the source as the workspace names it: its files are one profile';
COMMENT ON COLUMN "step_profile"."model_id" IS 'model that ran';
COMMENT ON COLUMN "step_profile"."gpu_id" IS 'accelerator';
COMMENT ON COLUMN "step_profile"."engine" IS 'engine';
COMMENT ON COLUMN "step_profile"."engine_version" IS 'its version';
COMMENT ON COLUMN "step_profile"."tp" IS 'tensor-parallel size';
COMMENT ON COLUMN "step_profile"."dp" IS 'data-parallel attention ranks';
COMMENT ON COLUMN "step_profile"."ep" IS 'expert-parallel groups';
COMMENT ON COLUMN "step_profile"."precision" IS 'precision of the weights';
COMMENT ON COLUMN "step_profile"."sequences" IS 'sequences that decode at once, a rank';
COMMENT ON COLUMN "step_profile"."context_tokens" IS 'tokens each of them holds, on average [tokens]';
COMMENT ON COLUMN "step_profile"."span_tokens" IS 'how far contexts grew while it was measured [tokens]';
COMMENT ON COLUMN "step_profile"."prompt_tokens" IS 'length of the prompt [tokens]';
COMMENT ON COLUMN "step_profile"."time_ms" IS 'how long it took [ms]';
COMMENT ON COLUMN "step_profile"."seen_from" IS 'whether it holds the server and the way to it';
COMMENT ON COLUMN "step_profile"."label" IS 'how it is known';
COMMENT ON COLUMN "step_profile"."source" IS 'where it came from';
ALTER TABLE "plan_candidate" RENAME TO "old_plan_candidate";
CREATE TABLE "plan_candidate" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "status" VARCHAR NOT NULL CHECK ("status" IN ('chosen', 'feasible', 'short_of_slo', 'not_shortlisted', 'does_not_fit', 'not_possible')),
  "reason" VARCHAR NOT NULL,
  "model_id" VARCHAR NOT NULL,
  "gpu_id" VARCHAR NOT NULL,
  "tp" INTEGER NOT NULL CHECK ("tp" > 0),
  "precision" VARCHAR NOT NULL,
  "kv_cache_dtype" VARCHAR NOT NULL,
  "engine" VARCHAR NOT NULL,
  "engine_version" VARCHAR NOT NULL,
  "gpus_per_replica" INTEGER NOT NULL CHECK ("gpus_per_replica" > 0),
  "gpu_memory_utilization" DOUBLE CHECK (isfinite("gpu_memory_utilization") AND "gpu_memory_utilization" >= 0 AND "gpu_memory_utilization" <= 1),
  "max_model_len" BIGINT NOT NULL CHECK ("max_model_len" > 0),
  "max_num_seqs" INTEGER CHECK ("max_num_seqs" > 0),
  "max_num_batched_tokens" INTEGER CHECK ("max_num_batched_tokens" > 0),
  "kv_budget_tokens" BIGINT CHECK ("kv_budget_tokens" >= 0),
  "k_bound" DOUBLE CHECK (isfinite("k_bound") AND "k_bound" >= 0),
  "l_bound" DOUBLE CHECK (isfinite("l_bound") AND "l_bound" >= 0),
  "zero_load_ttft_ms" DOUBLE CHECK (isfinite("zero_load_ttft_ms") AND "zero_load_ttft_ms" >= 0),
  "zero_load_tpot_ms" DOUBLE CHECK (isfinite("zero_load_tpot_ms") AND "zero_load_tpot_ms" >= 0),
  "step_time_source" VARCHAR,
  "binding" VARCHAR,
  "goodput_rps_per_replica" DOUBLE CHECK (isfinite("goodput_rps_per_replica") AND "goodput_rps_per_replica" >= 0),
  "goodput_rps_per_gpu" DOUBLE CHECK (isfinite("goodput_rps_per_gpu") AND "goodput_rps_per_gpu" >= 0),
  "replicas" INTEGER CHECK ("replicas" >= 0),
  "gpus" INTEGER CHECK ("gpus" >= 0),
  "usd_per_gpu_hour" DOUBLE CHECK (isfinite("usd_per_gpu_hour") AND "usd_per_gpu_hour" > 0),
  "usd_per_hour" DOUBLE CHECK (isfinite("usd_per_hour") AND "usd_per_hour" >= 0),
  "usd_per_million_output_tokens" DOUBLE CHECK (isfinite("usd_per_million_output_tokens") AND "usd_per_million_output_tokens" >= 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  PRIMARY KEY ("plan_version", "service", "candidate_id")
);
COMMENT ON TABLE "plan_candidate" IS 'a configuration that was considered for a service';
COMMENT ON COLUMN "plan_candidate"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan_candidate"."service" IS 'service of the workspace';
COMMENT ON COLUMN "plan_candidate"."candidate_id" IS 'configuration: gpu / TP / precision / engine';
COMMENT ON COLUMN "plan_candidate"."status" IS 'what became of it';
COMMENT ON COLUMN "plan_candidate"."reason" IS 'why';
COMMENT ON COLUMN "plan_candidate"."model_id" IS 'model';
COMMENT ON COLUMN "plan_candidate"."gpu_id" IS 'accelerator';
COMMENT ON COLUMN "plan_candidate"."tp" IS 'tensor-parallel size';
COMMENT ON COLUMN "plan_candidate"."precision" IS 'precision of the weights';
COMMENT ON COLUMN "plan_candidate"."kv_cache_dtype" IS 'precision of the KV cache';
COMMENT ON COLUMN "plan_candidate"."engine" IS 'engine';
COMMENT ON COLUMN "plan_candidate"."engine_version" IS 'its version';
COMMENT ON COLUMN "plan_candidate"."gpus_per_replica" IS 'accelerators a replica takes';
COMMENT ON COLUMN "plan_candidate"."gpu_memory_utilization" IS 'share of the memory the engine may use';
COMMENT ON COLUMN "plan_candidate"."max_model_len" IS 'longest context served [tokens]';
COMMENT ON COLUMN "plan_candidate"."max_num_seqs" IS 'sequences at once';
COMMENT ON COLUMN "plan_candidate"."max_num_batched_tokens" IS 'tokens a step may hold [tokens]';
COMMENT ON COLUMN "plan_candidate"."kv_budget_tokens" IS 'KV cache of a replica [tokens]';
COMMENT ON COLUMN "plan_candidate"."k_bound" IS 'K: requests of mean length that fit in the KV cache [requests]';
COMMENT ON COLUMN "plan_candidate"."l_bound" IS 'L: requests at once that keep TPOT inside its target [requests]';
COMMENT ON COLUMN "plan_candidate"."zero_load_ttft_ms" IS 'TTFT of a mean prompt on an idle replica [ms]';
COMMENT ON COLUMN "plan_candidate"."zero_load_tpot_ms" IS 'TPOT of a lone request [ms]';
COMMENT ON COLUMN "plan_candidate"."step_time_source" IS 'what its step times rest on: physics, or a profile first';
COMMENT ON COLUMN "plan_candidate"."binding" IS 'what binds: KV memory (K), TPOT (L), TTFT, E2E, weights';
COMMENT ON COLUMN "plan_candidate"."goodput_rps_per_replica" IS 'largest rate that keeps the SLO [1/s]';
COMMENT ON COLUMN "plan_candidate"."goodput_rps_per_gpu" IS 'the same over its accelerators [1/s]';
COMMENT ON COLUMN "plan_candidate"."replicas" IS 'replicas, headroom included';
COMMENT ON COLUMN "plan_candidate"."gpus" IS 'accelerators, headroom included';
COMMENT ON COLUMN "plan_candidate"."usd_per_gpu_hour" IS 'price [USD/h]';
COMMENT ON COLUMN "plan_candidate"."usd_per_hour" IS 'cost, headroom included [USD/h]';
COMMENT ON COLUMN "plan_candidate"."usd_per_million_output_tokens" IS 'cost at the mean demand [USD]';
COMMENT ON COLUMN "plan_candidate"."label" IS 'how sure it is';
INSERT INTO "plan_candidate" BY NAME SELECT "plan_version", "service", "candidate_id", "status", "reason", "model_id", "gpu_id", "tp", "precision", "kv_cache_dtype", "engine", "engine_version", "gpus_per_replica", "gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "kv_budget_tokens", "k_bound", "l_bound", "zero_load_ttft_ms", "zero_load_tpot_ms", "binding", "goodput_rps_per_replica", "goodput_rps_per_gpu", "replicas", "gpus", "usd_per_gpu_hour", "usd_per_hour", "usd_per_million_output_tokens", "label" FROM "old_plan_candidate";
DROP TABLE "old_plan_candidate";
ALTER TABLE "draft_plan_candidate" RENAME TO "old_draft_plan_candidate";
CREATE TABLE "draft_plan_candidate" (
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "status" VARCHAR NOT NULL CHECK ("status" IN ('chosen', 'feasible', 'short_of_slo', 'not_shortlisted', 'does_not_fit', 'not_possible')),
  "reason" VARCHAR NOT NULL,
  "model_id" VARCHAR NOT NULL,
  "gpu_id" VARCHAR NOT NULL,
  "tp" INTEGER NOT NULL CHECK ("tp" > 0),
  "precision" VARCHAR NOT NULL,
  "kv_cache_dtype" VARCHAR NOT NULL,
  "engine" VARCHAR NOT NULL,
  "engine_version" VARCHAR NOT NULL,
  "gpus_per_replica" INTEGER NOT NULL CHECK ("gpus_per_replica" > 0),
  "gpu_memory_utilization" DOUBLE CHECK (isfinite("gpu_memory_utilization") AND "gpu_memory_utilization" >= 0 AND "gpu_memory_utilization" <= 1),
  "max_model_len" BIGINT NOT NULL CHECK ("max_model_len" > 0),
  "max_num_seqs" INTEGER CHECK ("max_num_seqs" > 0),
  "max_num_batched_tokens" INTEGER CHECK ("max_num_batched_tokens" > 0),
  "kv_budget_tokens" BIGINT CHECK ("kv_budget_tokens" >= 0),
  "k_bound" DOUBLE CHECK (isfinite("k_bound") AND "k_bound" >= 0),
  "l_bound" DOUBLE CHECK (isfinite("l_bound") AND "l_bound" >= 0),
  "zero_load_ttft_ms" DOUBLE CHECK (isfinite("zero_load_ttft_ms") AND "zero_load_ttft_ms" >= 0),
  "zero_load_tpot_ms" DOUBLE CHECK (isfinite("zero_load_tpot_ms") AND "zero_load_tpot_ms" >= 0),
  "step_time_source" VARCHAR,
  "binding" VARCHAR,
  "goodput_rps_per_replica" DOUBLE CHECK (isfinite("goodput_rps_per_replica") AND "goodput_rps_per_replica" >= 0),
  "goodput_rps_per_gpu" DOUBLE CHECK (isfinite("goodput_rps_per_gpu") AND "goodput_rps_per_gpu" >= 0),
  "replicas" INTEGER CHECK ("replicas" >= 0),
  "gpus" INTEGER CHECK ("gpus" >= 0),
  "usd_per_gpu_hour" DOUBLE CHECK (isfinite("usd_per_gpu_hour") AND "usd_per_gpu_hour" > 0),
  "usd_per_hour" DOUBLE CHECK (isfinite("usd_per_hour") AND "usd_per_hour" >= 0),
  "usd_per_million_output_tokens" DOUBLE CHECK (isfinite("usd_per_million_output_tokens") AND "usd_per_million_output_tokens" >= 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed'))
);
COMMENT ON TABLE "draft_plan_candidate" IS 'a configuration that was considered for a service';
COMMENT ON COLUMN "draft_plan_candidate"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_plan_candidate"."candidate_id" IS 'configuration: gpu / TP / precision / engine';
COMMENT ON COLUMN "draft_plan_candidate"."status" IS 'what became of it';
COMMENT ON COLUMN "draft_plan_candidate"."reason" IS 'why';
COMMENT ON COLUMN "draft_plan_candidate"."model_id" IS 'model';
COMMENT ON COLUMN "draft_plan_candidate"."gpu_id" IS 'accelerator';
COMMENT ON COLUMN "draft_plan_candidate"."tp" IS 'tensor-parallel size';
COMMENT ON COLUMN "draft_plan_candidate"."precision" IS 'precision of the weights';
COMMENT ON COLUMN "draft_plan_candidate"."kv_cache_dtype" IS 'precision of the KV cache';
COMMENT ON COLUMN "draft_plan_candidate"."engine" IS 'engine';
COMMENT ON COLUMN "draft_plan_candidate"."engine_version" IS 'its version';
COMMENT ON COLUMN "draft_plan_candidate"."gpus_per_replica" IS 'accelerators a replica takes';
COMMENT ON COLUMN "draft_plan_candidate"."gpu_memory_utilization" IS 'share of the memory the engine may use';
COMMENT ON COLUMN "draft_plan_candidate"."max_model_len" IS 'longest context served [tokens]';
COMMENT ON COLUMN "draft_plan_candidate"."max_num_seqs" IS 'sequences at once';
COMMENT ON COLUMN "draft_plan_candidate"."max_num_batched_tokens" IS 'tokens a step may hold [tokens]';
COMMENT ON COLUMN "draft_plan_candidate"."kv_budget_tokens" IS 'KV cache of a replica [tokens]';
COMMENT ON COLUMN "draft_plan_candidate"."k_bound" IS 'K: requests of mean length that fit in the KV cache [requests]';
COMMENT ON COLUMN "draft_plan_candidate"."l_bound" IS 'L: requests at once that keep TPOT inside its target [requests]';
COMMENT ON COLUMN "draft_plan_candidate"."zero_load_ttft_ms" IS 'TTFT of a mean prompt on an idle replica [ms]';
COMMENT ON COLUMN "draft_plan_candidate"."zero_load_tpot_ms" IS 'TPOT of a lone request [ms]';
COMMENT ON COLUMN "draft_plan_candidate"."step_time_source" IS 'what its step times rest on: physics, or a profile first';
COMMENT ON COLUMN "draft_plan_candidate"."binding" IS 'what binds: KV memory (K), TPOT (L), TTFT, E2E, weights';
COMMENT ON COLUMN "draft_plan_candidate"."goodput_rps_per_replica" IS 'largest rate that keeps the SLO [1/s]';
COMMENT ON COLUMN "draft_plan_candidate"."goodput_rps_per_gpu" IS 'the same over its accelerators [1/s]';
COMMENT ON COLUMN "draft_plan_candidate"."replicas" IS 'replicas, headroom included';
COMMENT ON COLUMN "draft_plan_candidate"."gpus" IS 'accelerators, headroom included';
COMMENT ON COLUMN "draft_plan_candidate"."usd_per_gpu_hour" IS 'price [USD/h]';
COMMENT ON COLUMN "draft_plan_candidate"."usd_per_hour" IS 'cost, headroom included [USD/h]';
COMMENT ON COLUMN "draft_plan_candidate"."usd_per_million_output_tokens" IS 'cost at the mean demand [USD]';
COMMENT ON COLUMN "draft_plan_candidate"."label" IS 'how sure it is';
INSERT INTO "draft_plan_candidate" BY NAME SELECT "service", "candidate_id", "status", "reason", "model_id", "gpu_id", "tp", "precision", "kv_cache_dtype", "engine", "engine_version", "gpus_per_replica", "gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "kv_budget_tokens", "k_bound", "l_bound", "zero_load_ttft_ms", "zero_load_tpot_ms", "binding", "goodput_rps_per_replica", "goodput_rps_per_gpu", "replicas", "gpus", "usd_per_gpu_hour", "usd_per_hour", "usd_per_million_output_tokens", "label" FROM "old_draft_plan_candidate";
DROP TABLE "old_draft_plan_candidate";
