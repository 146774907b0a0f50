CREATE TABLE "source_file" (
  "source_file" VARCHAR NOT NULL,
  "kind" VARCHAR NOT NULL CHECK ("kind" IN ('trace', 'model', 'accelerator', 'price', 'engine', 'coefficient', 'observation', 'workspace')),
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

CREATE TABLE "rejected_row" (
  "source_file" VARCHAR NOT NULL,
  "line" BIGINT NOT NULL CHECK ("line" >= 0),
  "reason" VARCHAR NOT NULL,
  "raw" VARCHAR
);
COMMENT ON TABLE "rejected_row" IS 'a row that failed its contract, kept with its reason';
COMMENT ON COLUMN "rejected_row"."source_file" IS 'the file it came from';
COMMENT ON COLUMN "rejected_row"."line" IS 'its line in the file, the header being 1';
COMMENT ON COLUMN "rejected_row"."reason" IS 'why it was rejected';
COMMENT ON COLUMN "rejected_row"."raw" IS 'the row as it stood, cut at 2,000 characters';

CREATE TABLE "request" (
  "source_file" VARCHAR NOT NULL,
  "line" BIGINT NOT NULL CHECK ("line" >= 0),
  "arrival_at" TIMESTAMP NOT NULL,
  "isl_tokens" BIGINT CHECK ("isl_tokens" >= 0 AND "isl_tokens" <= 100000000),
  "osl_tokens" BIGINT CHECK ("osl_tokens" >= 0 AND "osl_tokens" <= 100000000),
  "cached_tokens" BIGINT CHECK ("cached_tokens" >= 0),
  "prefix_hashes" BIGINT[],
  "prefix_block_tokens" INTEGER CHECK ("prefix_block_tokens" > 0),
  "session_id" VARCHAR,
  "model" VARCHAR,
  "adapter" VARCHAR,
  "tenant" VARCHAR,
  "outcome" VARCHAR NOT NULL CHECK ("outcome" IN ('ok', 'failed', 'rejected', 'cancelled', 'cache_hit', 'unknown')),
  "ttft_ms" DOUBLE CHECK (isfinite("ttft_ms") AND "ttft_ms" >= 0),
  "e2e_ms" DOUBLE CHECK (isfinite("e2e_ms") AND "e2e_ms" >= 0),
  "queue_ms" DOUBLE CHECK (isfinite("queue_ms") AND "queue_ms" >= 0),
  "replayable" BOOLEAN NOT NULL,
  "censored" VARCHAR CHECK ("censored" IN ('input_cap', 'output_cap', 'cancelled')),
  "written_at" TIMESTAMP,
  "request_id" VARCHAR,
  "finish_reason" VARCHAR,
  "deadline_ms" DOUBLE CHECK (isfinite("deadline_ms") AND "deadline_ms" >= 0),
  "max_tokens" BIGINT CHECK ("max_tokens" >= 0),
  "temperature" DOUBLE CHECK (isfinite("temperature") AND "temperature" >= 0),
  "top_p" DOUBLE CHECK (isfinite("top_p") AND "top_p" >= 0),
  "samples" INTEGER CHECK ("samples" >= 0),
  "streaming" BOOLEAN,
  "structured_output" BOOLEAN,
  "logprobs" BOOLEAN,
  "speculative" BOOLEAN,
  "multimodal" BOOLEAN,
  "media_items" INTEGER CHECK ("media_items" >= 0)
);
COMMENT ON TABLE "request" IS 'one request of a trace, served or not';
COMMENT ON COLUMN "request"."source_file" IS 'the file a row came from';
COMMENT ON COLUMN "request"."line" IS 'its line in that file, or its number among the file''s spans or records';
COMMENT ON COLUMN "request"."arrival_at" IS 'when it reached the service [UTC]';
COMMENT ON COLUMN "request"."isl_tokens" IS 'input sequence length; NULL: unknown [tokens]';
COMMENT ON COLUMN "request"."osl_tokens" IS 'output sequence length; NULL: unknown [tokens]';
COMMENT ON COLUMN "request"."cached_tokens" IS 'input tokens the source says were served from cache [tokens]';
COMMENT ON COLUMN "request"."prefix_hashes" IS 'chained ids of its input blocks: equal ids, equal prefix';
COMMENT ON COLUMN "request"."prefix_block_tokens" IS 'tokens a prefix block holds [tokens]';
COMMENT ON COLUMN "request"."session_id" IS 'conversation it belongs to';
COMMENT ON COLUMN "request"."model" IS 'model the source names';
COMMENT ON COLUMN "request"."adapter" IS 'LoRA adapter';
COMMENT ON COLUMN "request"."tenant" IS 'who sent it';
COMMENT ON COLUMN "request"."outcome" IS 'how it ended; rejected: turned away (429, 503); cache_hit: answered without an engine';
COMMENT ON COLUMN "request"."ttft_ms" IS 'observed time to first token [ms]';
COMMENT ON COLUMN "request"."e2e_ms" IS 'observed end-to-end latency [ms]';
COMMENT ON COLUMN "request"."queue_ms" IS 'observed queue time [ms]';
COMMENT ON COLUMN "request"."replayable" IS 'an engine worked on it and both lengths are known: what plans and replays count';
COMMENT ON COLUMN "request"."censored" IS 'why its lengths fall short of what was wanted: cut at a cap, or cancelled';
COMMENT ON COLUMN "request"."written_at" IS 'arrival as the source has it, where spreading moved it [UTC]';
COMMENT ON COLUMN "request"."request_id" IS 'the source''s own id for it';
COMMENT ON COLUMN "request"."finish_reason" IS 'why the answer ended, in the source''s word';
COMMENT ON COLUMN "request"."deadline_ms" IS 'how long its client waits before it gives up [ms]';
COMMENT ON COLUMN "request"."max_tokens" IS 'output limit it asked for [tokens]';
COMMENT ON COLUMN "request"."temperature" IS 'sampling temperature it asked for';
COMMENT ON COLUMN "request"."top_p" IS 'nucleus sampling it asked for';
COMMENT ON COLUMN "request"."samples" IS 'answers it asked for (n)';
COMMENT ON COLUMN "request"."streaming" IS 'the answer was streamed';
COMMENT ON COLUMN "request"."structured_output" IS 'it asked for a schema, grammar or JSON';
COMMENT ON COLUMN "request"."logprobs" IS 'it asked for log probabilities';
COMMENT ON COLUMN "request"."speculative" IS 'it was decoded speculatively';
COMMENT ON COLUMN "request"."multimodal" IS 'its input is more than text';
COMMENT ON COLUMN "request"."media_items" IS 'images, clips and files in its input';

CREATE TABLE "model" (
  "model_id" VARCHAR NOT NULL,
  "revision" VARCHAR NOT NULL,
  "model_type" VARCHAR NOT NULL,
  "attention_kind" VARCHAR NOT NULL,
  "layers" INTEGER NOT NULL CHECK ("layers" > 0),
  "hidden_size" INTEGER NOT NULL CHECK ("hidden_size" > 0),
  "heads" INTEGER NOT NULL CHECK ("heads" > 0),
  "kv_heads" INTEGER NOT NULL CHECK ("kv_heads" > 0),
  "head_dim" INTEGER NOT NULL CHECK ("head_dim" > 0),
  "vocab_size" INTEGER NOT NULL CHECK ("vocab_size" > 0),
  "max_position_tokens" BIGINT CHECK ("max_position_tokens" > 0),
  "parameters_total" BIGINT NOT NULL CHECK ("parameters_total" > 0),
  "parameters_active" BIGINT NOT NULL CHECK ("parameters_active" > 0),
  "dtype" VARCHAR NOT NULL,
  "quantization" VARCHAR NOT NULL,
  "checkpoint_bytes" BIGINT CHECK ("checkpoint_bytes" > 0),
  "weight_bytes" BIGINT NOT NULL CHECK ("weight_bytes" > 0),
  "weight_label" VARCHAR NOT NULL CHECK ("weight_label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "kv_bytes_per_token" DOUBLE NOT NULL CHECK (isfinite("kv_bytes_per_token") AND "kv_bytes_per_token" >= 0),
  "config_json" VARCHAR NOT NULL,
  "source" VARCHAR NOT NULL,
  PRIMARY KEY ("model_id")
);
COMMENT ON TABLE "model" IS 'a model at a revision';
COMMENT ON COLUMN "model"."model_id" IS 'hub id, or the config''s path';
COMMENT ON COLUMN "model"."revision" IS 'pinned commit, ''local'' for a file, ''catalog'' for the shipped facts';
COMMENT ON COLUMN "model"."model_type" IS 'architecture the config declares';
COMMENT ON COLUMN "model"."attention_kind" IS 'how it attends: MHA, GQA, MQA, MLA, sliding/full, hybrid';
COMMENT ON COLUMN "model"."layers" IS 'decoder layers [layers]';
COMMENT ON COLUMN "model"."hidden_size" IS 'model width';
COMMENT ON COLUMN "model"."heads" IS 'query heads of the widest layer';
COMMENT ON COLUMN "model"."kv_heads" IS 'key/value heads of the widest layer';
COMMENT ON COLUMN "model"."head_dim" IS 'dimension of a head';
COMMENT ON COLUMN "model"."vocab_size" IS 'vocabulary';
COMMENT ON COLUMN "model"."max_position_tokens" IS 'longest context the config allows [tokens]';
COMMENT ON COLUMN "model"."parameters_total" IS 'parameters';
COMMENT ON COLUMN "model"."parameters_active" IS 'parameters a token uses';
COMMENT ON COLUMN "model"."dtype" IS 'weight type the config declares';
COMMENT ON COLUMN "model"."quantization" IS 'quantisation scheme, ''none'' when there is none';
COMMENT ON COLUMN "model"."checkpoint_bytes" IS 'bytes of its weight files, where somebody says [B]';
COMMENT ON COLUMN "model"."weight_bytes" IS 'bytes of the weights an engine loads [B]';
COMMENT ON COLUMN "model"."weight_label" IS 'how the bytes are known';
COMMENT ON COLUMN "model"."kv_bytes_per_token" IS 'KV cache a token takes over all ranks, 16-bit cache [B]';
COMMENT ON COLUMN "model"."config_json" IS 'the config as read';
COMMENT ON COLUMN "model"."source" IS 'where the config came from';

CREATE TABLE "accelerator" (
  "gpu_id" VARCHAR NOT NULL,
  "vendor" VARCHAR NOT NULL,
  "arch" VARCHAR NOT NULL,
  "memory_gb" DOUBLE CHECK (isfinite("memory_gb") AND "memory_gb" > 0),
  "visible_memory_gib" DOUBLE CHECK (isfinite("visible_memory_gib") AND "visible_memory_gib" > 0),
  "visible_memory_label" VARCHAR CHECK ("visible_memory_label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "memory_bandwidth_gbs" DOUBLE CHECK (isfinite("memory_bandwidth_gbs") AND "memory_bandwidth_gbs" > 0),
  "fp16_dense_tflops" DOUBLE CHECK (isfinite("fp16_dense_tflops") AND "fp16_dense_tflops" > 0),
  "fp8_dense_tflops" DOUBLE CHECK (isfinite("fp8_dense_tflops") AND "fp8_dense_tflops" > 0),
  "int8_dense_tops" DOUBLE CHECK (isfinite("int8_dense_tops") AND "int8_dense_tops" > 0),
  "fp4_dense_tflops" DOUBLE CHECK (isfinite("fp4_dense_tflops") AND "fp4_dense_tflops" > 0),
  "interconnect_gbs" DOUBLE CHECK (isfinite("interconnect_gbs") AND "interconnect_gbs" >= 0),
  "interconnect" VARCHAR,
  "node_gpus" INTEGER CHECK ("node_gpus" > 0),
  "pcie_gen" INTEGER CHECK ("pcie_gen" > 0),
  "tdp_w" DOUBLE CHECK (isfinite("tdp_w") AND "tdp_w" > 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  "note" VARCHAR,
  PRIMARY KEY ("gpu_id")
);
COMMENT ON TABLE "accelerator" IS 'an accelerator of the catalogue';
COMMENT ON COLUMN "accelerator"."gpu_id" IS 'its name in capsheet';
COMMENT ON COLUMN "accelerator"."vendor" IS 'maker';
COMMENT ON COLUMN "accelerator"."arch" IS 'generation';
COMMENT ON COLUMN "accelerator"."memory_gb" IS 'memory on the label [GB]';
COMMENT ON COLUMN "accelerator"."visible_memory_gib" IS 'memory an engine sees [GiB]';
COMMENT ON COLUMN "accelerator"."visible_memory_label" IS 'how the visible memory is known';
COMMENT ON COLUMN "accelerator"."memory_bandwidth_gbs" IS 'memory bandwidth [GB/s]';
COMMENT ON COLUMN "accelerator"."fp16_dense_tflops" IS 'dense rate, no sparsity [TFLOPS]';
COMMENT ON COLUMN "accelerator"."fp8_dense_tflops" IS 'dense rate, no sparsity [TFLOPS]';
COMMENT ON COLUMN "accelerator"."int8_dense_tops" IS 'dense rate, no sparsity [TOPS]';
COMMENT ON COLUMN "accelerator"."fp4_dense_tflops" IS 'dense rate, no sparsity [TFLOPS]';
COMMENT ON COLUMN "accelerator"."interconnect_gbs" IS 'link to its peers, both directions together [GB/s]';
COMMENT ON COLUMN "accelerator"."interconnect" IS 'kind of link';
COMMENT ON COLUMN "accelerator"."node_gpus" IS 'accelerators one server or link domain joins';
COMMENT ON COLUMN "accelerator"."pcie_gen" IS 'PCIe generation';
COMMENT ON COLUMN "accelerator"."tdp_w" IS 'board power [W]';
COMMENT ON COLUMN "accelerator"."label" IS 'how the figures are known';
COMMENT ON COLUMN "accelerator"."source" IS 'where the figures came from';
COMMENT ON COLUMN "accelerator"."note" IS 'conflicts between sources';

CREATE TABLE "price" (
  "price_id" VARCHAR NOT NULL,
  "gpu_id" VARCHAR NOT NULL,
  "provider" VARCHAR NOT NULL,
  "sku" VARCHAR,
  "commitment" VARCHAR NOT NULL,
  "region" VARCHAR,
  "usd_per_gpu_hour" DOUBLE NOT NULL CHECK (isfinite("usd_per_gpu_hour") AND "usd_per_gpu_hour" > 0),
  "as_of" VARCHAR NOT NULL,
  "planning_default" BOOLEAN NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  "note" VARCHAR,
  PRIMARY KEY ("price_id")
);
COMMENT ON TABLE "price" IS 'a price of an accelerator';
COMMENT ON COLUMN "price"."price_id" IS 'its name in capsheet';
COMMENT ON COLUMN "price"."gpu_id" IS 'accelerator it is for';
COMMENT ON COLUMN "price"."provider" IS 'who sells it; ''workspace'' when the workspace sets it';
COMMENT ON COLUMN "price"."sku" IS 'the provider''s name for it';
COMMENT ON COLUMN "price"."commitment" IS 'on-demand, reserved, spot, capacity block';
COMMENT ON COLUMN "price"."region" IS 'where';
COMMENT ON COLUMN "price"."usd_per_gpu_hour" IS 'price of one accelerator for one hour [USD/h]';
COMMENT ON COLUMN "price"."as_of" IS 'the date the source gives';
COMMENT ON COLUMN "price"."planning_default" IS 'a plan uses this one: at most one an accelerator';
COMMENT ON COLUMN "price"."label" IS 'how it is known';
COMMENT ON COLUMN "price"."source" IS 'where it came from';
COMMENT ON COLUMN "price"."note" IS 'conflicts';

CREATE TABLE "engine_profile" (
  "engine" VARCHAR NOT NULL,
  "version_from" VARCHAR NOT NULL,
  "version_before" VARCHAR,
  "gpu_scope" VARCHAR NOT NULL,
  "parameter" VARCHAR NOT NULL,
  "value" DOUBLE NOT NULL CHECK (isfinite("value")),
  "unit" VARCHAR NOT NULL,
  "usual_low" DOUBLE CHECK (isfinite("usual_low")),
  "usual_high" DOUBLE CHECK (isfinite("usual_high")),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  "meaning" VARCHAR NOT NULL,
  PRIMARY KEY ("engine", "version_from", "gpu_scope", "parameter")
);
COMMENT ON TABLE "engine_profile" IS 'one setting, default or coefficient of an engine, with where it holds';
COMMENT ON COLUMN "engine_profile"."engine" IS 'engine';
COMMENT ON COLUMN "engine_profile"."version_from" IS 'first version it holds for';
COMMENT ON COLUMN "engine_profile"."version_before" IS 'first version it no longer holds for';
COMMENT ON COLUMN "engine_profile"."gpu_scope" IS 'accelerator or memory class it holds for, ''*'' for all';
COMMENT ON COLUMN "engine_profile"."parameter" IS 'what it sets';
COMMENT ON COLUMN "engine_profile"."value" IS 'the value';
COMMENT ON COLUMN "engine_profile"."unit" IS 'its unit';
COMMENT ON COLUMN "engine_profile"."usual_low" IS 'low end of the usual range';
COMMENT ON COLUMN "engine_profile"."usual_high" IS 'high end of the usual range';
COMMENT ON COLUMN "engine_profile"."label" IS 'how it is known';
COMMENT ON COLUMN "engine_profile"."source" IS 'where it came from';
COMMENT ON COLUMN "engine_profile"."meaning" IS 'what it means';

CREATE TABLE "observation" (
  "observation_id" VARCHAR NOT NULL,
  "source_file" VARCHAR NOT NULL,
  "model_id" VARCHAR NOT NULL,
  "gpu_id" VARCHAR NOT NULL,
  "engine" VARCHAR NOT NULL,
  "engine_version" VARCHAR NOT NULL,
  "tp" INTEGER NOT NULL CHECK ("tp" > 0),
  "precision" VARCHAR NOT NULL,
  "replicas" INTEGER NOT NULL CHECK ("replicas" > 0),
  "max_num_seqs" INTEGER CHECK ("max_num_seqs" > 0),
  "max_num_batched_tokens" INTEGER CHECK ("max_num_batched_tokens" > 0),
  "chunked_prefill" BOOLEAN,
  "prefix_caching" BOOLEAN,
  "arrival" VARCHAR NOT NULL CHECK ("arrival" IN ('constant', 'poisson', 'trace', 'closed_loop')),
  "requested_rps" DOUBLE CHECK (isfinite("requested_rps") AND "requested_rps" > 0),
  "achieved_rps" DOUBLE NOT NULL CHECK (isfinite("achieved_rps") AND "achieved_rps" > 0),
  "served_rps" DOUBLE CHECK (isfinite("served_rps") AND "served_rps" > 0),
  "duration_s" DOUBLE NOT NULL CHECK (isfinite("duration_s") AND "duration_s" > 0),
  "requests" BIGINT NOT NULL CHECK ("requests" > 0),
  "failures" BIGINT NOT NULL CHECK ("failures" >= 0),
  "isl_mean_tokens" DOUBLE NOT NULL CHECK (isfinite("isl_mean_tokens") AND "isl_mean_tokens" > 0),
  "osl_mean_tokens" DOUBLE NOT NULL CHECK (isfinite("osl_mean_tokens") AND "osl_mean_tokens" > 0),
  "cached_share" DOUBLE CHECK (isfinite("cached_share") AND "cached_share" >= 0 AND "cached_share" <= 1),
  "ttft_mean_ms" DOUBLE CHECK (isfinite("ttft_mean_ms") AND "ttft_mean_ms" > 0),
  "ttft_p50_ms" DOUBLE CHECK (isfinite("ttft_p50_ms") AND "ttft_p50_ms" > 0),
  "ttft_p90_ms" DOUBLE CHECK (isfinite("ttft_p90_ms") AND "ttft_p90_ms" > 0),
  "ttft_p99_ms" DOUBLE CHECK (isfinite("ttft_p99_ms") AND "ttft_p99_ms" > 0),
  "tpot_mean_ms" DOUBLE CHECK (isfinite("tpot_mean_ms") AND "tpot_mean_ms" > 0),
  "tpot_basis" VARCHAR,
  "e2e_mean_ms" DOUBLE CHECK (isfinite("e2e_mean_ms") AND "e2e_mean_ms" > 0),
  "e2e_p50_ms" DOUBLE CHECK (isfinite("e2e_p50_ms") AND "e2e_p50_ms" > 0),
  "e2e_p99_ms" DOUBLE CHECK (isfinite("e2e_p99_ms") AND "e2e_p99_ms" > 0),
  "saturated" BOOLEAN NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  PRIMARY KEY ("observation_id")
);
COMMENT ON TABLE "observation" IS 'one stage, window or bucket of measured serving';
COMMENT ON COLUMN "observation"."observation_id" IS 'its name: source and stage';
COMMENT ON COLUMN "observation"."source_file" IS 'the file it came from';
COMMENT ON COLUMN "observation"."model_id" IS 'model served';
COMMENT ON COLUMN "observation"."gpu_id" IS 'accelerator';
COMMENT ON COLUMN "observation"."engine" IS 'engine';
COMMENT ON COLUMN "observation"."engine_version" IS 'its version';
COMMENT ON COLUMN "observation"."tp" IS 'tensor-parallel size';
COMMENT ON COLUMN "observation"."precision" IS 'precision of the weights';
COMMENT ON COLUMN "observation"."replicas" IS 'replicas that served it';
COMMENT ON COLUMN "observation"."max_num_seqs" IS 'sequences an engine may run at once';
COMMENT ON COLUMN "observation"."max_num_batched_tokens" IS 'tokens a step may hold [tokens]';
COMMENT ON COLUMN "observation"."chunked_prefill" IS 'prompts may be cut into chunks';
COMMENT ON COLUMN "observation"."prefix_caching" IS 'prefixes are cached';
COMMENT ON COLUMN "observation"."arrival" IS 'arrival process';
COMMENT ON COLUMN "observation"."requested_rps" IS 'rate the client asked for [1/s]';
COMMENT ON COLUMN "observation"."achieved_rps" IS 'rate the client sent [1/s]';
COMMENT ON COLUMN "observation"."served_rps" IS 'requests finished a second [1/s]';
COMMENT ON COLUMN "observation"."duration_s" IS 'how long it lasted [s]';
COMMENT ON COLUMN "observation"."requests" IS 'requests that succeeded';
COMMENT ON COLUMN "observation"."failures" IS 'requests that failed';
COMMENT ON COLUMN "observation"."isl_mean_tokens" IS 'mean input length [tokens]';
COMMENT ON COLUMN "observation"."osl_mean_tokens" IS 'mean output length [tokens]';
COMMENT ON COLUMN "observation"."cached_share" IS 'share of input tokens found in cache';
COMMENT ON COLUMN "observation"."ttft_mean_ms" IS 'what production or a benchmark saw [ms]';
COMMENT ON COLUMN "observation"."ttft_p50_ms" IS 'what production or a benchmark saw [ms]';
COMMENT ON COLUMN "observation"."ttft_p90_ms" IS 'what production or a benchmark saw [ms]';
COMMENT ON COLUMN "observation"."ttft_p99_ms" IS 'what production or a benchmark saw [ms]';
COMMENT ON COLUMN "observation"."tpot_mean_ms" IS 'mean time per output token after the first [ms]';
COMMENT ON COLUMN "observation"."tpot_basis" IS 'how TPOT was had: ''reported'' or ''from_e2e'' (E2E - TTFT over OSL - 1)';
COMMENT ON COLUMN "observation"."e2e_mean_ms" IS 'what production or a benchmark saw [ms]';
COMMENT ON COLUMN "observation"."e2e_p50_ms" IS 'what production or a benchmark saw [ms]';
COMMENT ON COLUMN "observation"."e2e_p99_ms" IS 'what production or a benchmark saw [ms]';
COMMENT ON COLUMN "observation"."saturated" IS 'the client could not send what it asked, or the queue grew';
COMMENT ON COLUMN "observation"."label" IS 'how it is known';
COMMENT ON COLUMN "observation"."source" IS 'where it came from';

CREATE TABLE "plan" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "workspace" VARCHAR NOT NULL,
  "created_at" TIMESTAMP NOT NULL,
  "code_version" VARCHAR NOT NULL,
  "calibration_version" INTEGER NOT NULL CHECK ("calibration_version" >= 0),
  "inputs_sha256" VARCHAR NOT NULL,
  "inputs_json" VARCHAR NOT NULL,
  "services" INTEGER NOT NULL CHECK ("services" > 0),
  "services_meeting_slo" INTEGER NOT NULL CHECK ("services_meeting_slo" >= 0),
  "gpus_total" INTEGER NOT NULL CHECK ("gpus_total" >= 0),
  "usd_per_hour" DOUBLE NOT NULL CHECK (isfinite("usd_per_hour") AND "usd_per_hour" >= 0),
  "usd_per_month" DOUBLE NOT NULL CHECK (isfinite("usd_per_month") AND "usd_per_month" >= 0),
  "checks_failed" INTEGER NOT NULL CHECK ("checks_failed" >= 0),
  "previous_version" INTEGER CHECK ("previous_version" > 0),
  "workbook" VARCHAR NOT NULL,
  "workbook_sha256" VARCHAR NOT NULL,
  PRIMARY KEY ("plan_version")
);
COMMENT ON TABLE "plan" IS 'a published plan version';
COMMENT ON COLUMN "plan"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan"."workspace" IS 'the workspace''s name';
COMMENT ON COLUMN "plan"."created_at" IS 'when it was published [UTC]';
COMMENT ON COLUMN "plan"."code_version" IS 'version of capsheet that made it';
COMMENT ON COLUMN "plan"."calibration_version" IS 'correction in force; 0 is none';
COMMENT ON COLUMN "plan"."inputs_sha256" IS 'fingerprint of every input: same fingerprint, same numbers';
COMMENT ON COLUMN "plan"."inputs_json" IS 'the inputs'' fingerprints, by source';
COMMENT ON COLUMN "plan"."services" IS 'services planned';
COMMENT ON COLUMN "plan"."services_meeting_slo" IS 'services for which a configuration meets the SLO';
COMMENT ON COLUMN "plan"."gpus_total" IS 'accelerators, headroom included';
COMMENT ON COLUMN "plan"."usd_per_hour" IS 'cost of all of them [USD/h]';
COMMENT ON COLUMN "plan"."usd_per_month" IS 'cost of all of them [USD/month]';
COMMENT ON COLUMN "plan"."checks_failed" IS 'checks that warn';
COMMENT ON COLUMN "plan"."previous_version" IS 'the version before';
COMMENT ON COLUMN "plan"."workbook" IS 'name of the workbook';
COMMENT ON COLUMN "plan"."workbook_sha256" IS 'fingerprint of the workbook as published';

CREATE TABLE "plan_assumption" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "service" VARCHAR NOT NULL,
  "name" VARCHAR NOT NULL,
  "value" DOUBLE CHECK (isfinite("value")),
  "text" VARCHAR,
  "unit" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  "comment" VARCHAR,
  PRIMARY KEY ("plan_version", "service", "name")
);
COMMENT ON TABLE "plan_assumption" IS 'an input of the plan';
COMMENT ON COLUMN "plan_assumption"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan_assumption"."position" IS 'order on the sheet';
COMMENT ON COLUMN "plan_assumption"."service" IS 'service, or ''all''';
COMMENT ON COLUMN "plan_assumption"."name" IS 'its name';
COMMENT ON COLUMN "plan_assumption"."value" IS 'its value, where it is a number';
COMMENT ON COLUMN "plan_assumption"."text" IS 'its value, where it is not';
COMMENT ON COLUMN "plan_assumption"."unit" IS 'its unit';
COMMENT ON COLUMN "plan_assumption"."label" IS 'how sure it is';
COMMENT ON COLUMN "plan_assumption"."source" IS 'where it came from';
COMMENT ON COLUMN "plan_assumption"."comment" IS 'what it does to the plan';

CREATE TABLE "draft_plan_assumption" (
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "service" VARCHAR NOT NULL,
  "name" VARCHAR NOT NULL,
  "value" DOUBLE CHECK (isfinite("value")),
  "text" VARCHAR,
  "unit" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  "comment" VARCHAR
);
COMMENT ON TABLE "draft_plan_assumption" IS 'an input of the plan';
COMMENT ON COLUMN "draft_plan_assumption"."position" IS 'order on the sheet';
COMMENT ON COLUMN "draft_plan_assumption"."service" IS 'service, or ''all''';
COMMENT ON COLUMN "draft_plan_assumption"."name" IS 'its name';
COMMENT ON COLUMN "draft_plan_assumption"."value" IS 'its value, where it is a number';
COMMENT ON COLUMN "draft_plan_assumption"."text" IS 'its value, where it is not';
COMMENT ON COLUMN "draft_plan_assumption"."unit" IS 'its unit';
COMMENT ON COLUMN "draft_plan_assumption"."label" IS 'how sure it is';
COMMENT ON COLUMN "draft_plan_assumption"."source" IS 'where it came from';
COMMENT ON COLUMN "draft_plan_assumption"."comment" IS 'what it does to the plan';

CREATE TABLE "plan_workload" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "name" VARCHAR NOT NULL,
  "value" DOUBLE CHECK (isfinite("value")),
  "text" VARCHAR,
  "unit" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  PRIMARY KEY ("plan_version", "service", "name")
);
COMMENT ON TABLE "plan_workload" IS 'the workload of a service: one figure a row';
COMMENT ON COLUMN "plan_workload"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan_workload"."service" IS 'service of the workspace';
COMMENT ON COLUMN "plan_workload"."position" IS 'order on the sheet';
COMMENT ON COLUMN "plan_workload"."name" IS 'figure';
COMMENT ON COLUMN "plan_workload"."value" IS 'value';
COMMENT ON COLUMN "plan_workload"."text" IS 'value, where it is not a number';
COMMENT ON COLUMN "plan_workload"."unit" IS 'unit';
COMMENT ON COLUMN "plan_workload"."label" IS 'how sure it is';
COMMENT ON COLUMN "plan_workload"."source" IS 'what it was computed from';

CREATE TABLE "draft_plan_workload" (
  "service" VARCHAR NOT NULL,
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "name" VARCHAR NOT NULL,
  "value" DOUBLE CHECK (isfinite("value")),
  "text" VARCHAR,
  "unit" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL
);
COMMENT ON TABLE "draft_plan_workload" IS 'the workload of a service: one figure a row';
COMMENT ON COLUMN "draft_plan_workload"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_plan_workload"."position" IS 'order on the sheet';
COMMENT ON COLUMN "draft_plan_workload"."name" IS 'figure';
COMMENT ON COLUMN "draft_plan_workload"."value" IS 'value';
COMMENT ON COLUMN "draft_plan_workload"."text" IS 'value, where it is not a number';
COMMENT ON COLUMN "draft_plan_workload"."unit" IS 'unit';
COMMENT ON COLUMN "draft_plan_workload"."label" IS 'how sure it is';
COMMENT ON COLUMN "draft_plan_workload"."source" IS 'what it was computed from';

CREATE TABLE "workload_bucket" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "bucket" VARCHAR NOT NULL,
  "isl_from_tokens" BIGINT NOT NULL CHECK ("isl_from_tokens" >= 0),
  "isl_to_tokens" BIGINT NOT NULL CHECK ("isl_to_tokens" >= 0),
  "osl_from_tokens" BIGINT NOT NULL CHECK ("osl_from_tokens" >= 0),
  "osl_to_tokens" BIGINT NOT NULL CHECK ("osl_to_tokens" >= 0),
  "requests" BIGINT NOT NULL CHECK ("requests" >= 1),
  "share" DOUBLE NOT NULL CHECK (isfinite("share") AND "share" >= 0 AND "share" <= 1),
  "isl_mean_tokens" DOUBLE NOT NULL CHECK (isfinite("isl_mean_tokens") AND "isl_mean_tokens" > 0),
  "osl_mean_tokens" DOUBLE NOT NULL CHECK (isfinite("osl_mean_tokens") AND "osl_mean_tokens" > 0),
  "input_share" DOUBLE NOT NULL CHECK (isfinite("input_share") AND "input_share" >= 0 AND "input_share" <= 1),
  "output_share" DOUBLE NOT NULL CHECK (isfinite("output_share") AND "output_share" >= 0 AND "output_share" <= 1),
  "cost_share" DOUBLE NOT NULL CHECK (isfinite("cost_share") AND "cost_share" >= 0 AND "cost_share" <= 1),
  "cost_spread" DOUBLE NOT NULL CHECK (isfinite("cost_spread") AND "cost_spread" >= 1),
  "peak_rps" DOUBLE NOT NULL CHECK (isfinite("peak_rps") AND "peak_rps" >= 0),
  PRIMARY KEY ("plan_version", "service", "bucket")
);
COMMENT ON TABLE "workload_bucket" IS 'a joint ISL x OSL bucket of a service''s trace';
COMMENT ON COLUMN "workload_bucket"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "workload_bucket"."service" IS 'service of the workspace';
COMMENT ON COLUMN "workload_bucket"."bucket" IS 'its name';
COMMENT ON COLUMN "workload_bucket"."isl_from_tokens" IS 'shortest input, inclusive [tokens]';
COMMENT ON COLUMN "workload_bucket"."isl_to_tokens" IS 'longest input, inclusive [tokens]';
COMMENT ON COLUMN "workload_bucket"."osl_from_tokens" IS 'shortest output, inclusive [tokens]';
COMMENT ON COLUMN "workload_bucket"."osl_to_tokens" IS 'longest output, inclusive [tokens]';
COMMENT ON COLUMN "workload_bucket"."requests" IS 'requests in it';
COMMENT ON COLUMN "workload_bucket"."share" IS 'share of the requests';
COMMENT ON COLUMN "workload_bucket"."isl_mean_tokens" IS 'mean input [tokens]';
COMMENT ON COLUMN "workload_bucket"."osl_mean_tokens" IS 'mean output [tokens]';
COMMENT ON COLUMN "workload_bucket"."input_share" IS 'share of the input tokens';
COMMENT ON COLUMN "workload_bucket"."output_share" IS 'share of the output tokens';
COMMENT ON COLUMN "workload_bucket"."cost_share" IS 'share of the relative cost';
COMMENT ON COLUMN "workload_bucket"."cost_spread" IS 'cost of its 90th over that of its 10th percentile request';
COMMENT ON COLUMN "workload_bucket"."peak_rps" IS 'its rate in the planning window [1/s]';

CREATE TABLE "draft_workload_bucket" (
  "service" VARCHAR NOT NULL,
  "bucket" VARCHAR NOT NULL,
  "isl_from_tokens" BIGINT NOT NULL CHECK ("isl_from_tokens" >= 0),
  "isl_to_tokens" BIGINT NOT NULL CHECK ("isl_to_tokens" >= 0),
  "osl_from_tokens" BIGINT NOT NULL CHECK ("osl_from_tokens" >= 0),
  "osl_to_tokens" BIGINT NOT NULL CHECK ("osl_to_tokens" >= 0),
  "requests" BIGINT NOT NULL CHECK ("requests" >= 1),
  "share" DOUBLE NOT NULL CHECK (isfinite("share") AND "share" >= 0 AND "share" <= 1),
  "isl_mean_tokens" DOUBLE NOT NULL CHECK (isfinite("isl_mean_tokens") AND "isl_mean_tokens" > 0),
  "osl_mean_tokens" DOUBLE NOT NULL CHECK (isfinite("osl_mean_tokens") AND "osl_mean_tokens" > 0),
  "input_share" DOUBLE NOT NULL CHECK (isfinite("input_share") AND "input_share" >= 0 AND "input_share" <= 1),
  "output_share" DOUBLE NOT NULL CHECK (isfinite("output_share") AND "output_share" >= 0 AND "output_share" <= 1),
  "cost_share" DOUBLE NOT NULL CHECK (isfinite("cost_share") AND "cost_share" >= 0 AND "cost_share" <= 1),
  "cost_spread" DOUBLE NOT NULL CHECK (isfinite("cost_spread") AND "cost_spread" >= 1),
  "peak_rps" DOUBLE NOT NULL CHECK (isfinite("peak_rps") AND "peak_rps" >= 0)
);
COMMENT ON TABLE "draft_workload_bucket" IS 'a joint ISL x OSL bucket of a service''s trace';
COMMENT ON COLUMN "draft_workload_bucket"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_workload_bucket"."bucket" IS 'its name';
COMMENT ON COLUMN "draft_workload_bucket"."isl_from_tokens" IS 'shortest input, inclusive [tokens]';
COMMENT ON COLUMN "draft_workload_bucket"."isl_to_tokens" IS 'longest input, inclusive [tokens]';
COMMENT ON COLUMN "draft_workload_bucket"."osl_from_tokens" IS 'shortest output, inclusive [tokens]';
COMMENT ON COLUMN "draft_workload_bucket"."osl_to_tokens" IS 'longest output, inclusive [tokens]';
COMMENT ON COLUMN "draft_workload_bucket"."requests" IS 'requests in it';
COMMENT ON COLUMN "draft_workload_bucket"."share" IS 'share of the requests';
COMMENT ON COLUMN "draft_workload_bucket"."isl_mean_tokens" IS 'mean input [tokens]';
COMMENT ON COLUMN "draft_workload_bucket"."osl_mean_tokens" IS 'mean output [tokens]';
COMMENT ON COLUMN "draft_workload_bucket"."input_share" IS 'share of the input tokens';
COMMENT ON COLUMN "draft_workload_bucket"."output_share" IS 'share of the output tokens';
COMMENT ON COLUMN "draft_workload_bucket"."cost_share" IS 'share of the relative cost';
COMMENT ON COLUMN "draft_workload_bucket"."cost_spread" IS 'cost of its 90th over that of its 10th percentile request';
COMMENT ON COLUMN "draft_workload_bucket"."peak_rps" IS 'its rate in the planning window [1/s]';

CREATE TABLE "workload_window" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "window_start_at" TIMESTAMP NOT NULL,
  "window_s" INTEGER NOT NULL CHECK ("window_s" > 0),
  "requests" BIGINT NOT NULL CHECK ("requests" >= 0),
  "arrival_rps" DOUBLE NOT NULL CHECK (isfinite("arrival_rps") AND "arrival_rps" >= 0),
  "isl_tokens" BIGINT NOT NULL CHECK ("isl_tokens" >= 0),
  "osl_tokens" BIGINT NOT NULL CHECK ("osl_tokens" >= 0),
  PRIMARY KEY ("plan_version", "service", "window_start_at", "window_s")
);
COMMENT ON TABLE "workload_window" IS 'a time window of a service''s trace';
COMMENT ON COLUMN "workload_window"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "workload_window"."service" IS 'service of the workspace';
COMMENT ON COLUMN "workload_window"."window_start_at" IS 'its start [UTC]';
COMMENT ON COLUMN "workload_window"."window_s" IS 'its length [s]';
COMMENT ON COLUMN "workload_window"."requests" IS 'arrivals in it';
COMMENT ON COLUMN "workload_window"."arrival_rps" IS 'arrivals a second [1/s]';
COMMENT ON COLUMN "workload_window"."isl_tokens" IS 'input tokens that arrived [tokens]';
COMMENT ON COLUMN "workload_window"."osl_tokens" IS 'output tokens that were asked for [tokens]';

CREATE TABLE "draft_workload_window" (
  "service" VARCHAR NOT NULL,
  "window_start_at" TIMESTAMP NOT NULL,
  "window_s" INTEGER NOT NULL CHECK ("window_s" > 0),
  "requests" BIGINT NOT NULL CHECK ("requests" >= 0),
  "arrival_rps" DOUBLE NOT NULL CHECK (isfinite("arrival_rps") AND "arrival_rps" >= 0),
  "isl_tokens" BIGINT NOT NULL CHECK ("isl_tokens" >= 0),
  "osl_tokens" BIGINT NOT NULL CHECK ("osl_tokens" >= 0)
);
COMMENT ON TABLE "draft_workload_window" IS 'a time window of a service''s trace';
COMMENT ON COLUMN "draft_workload_window"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_workload_window"."window_start_at" IS 'its start [UTC]';
COMMENT ON COLUMN "draft_workload_window"."window_s" IS 'its length [s]';
COMMENT ON COLUMN "draft_workload_window"."requests" IS 'arrivals in it';
COMMENT ON COLUMN "draft_workload_window"."arrival_rps" IS 'arrivals a second [1/s]';
COMMENT ON COLUMN "draft_workload_window"."isl_tokens" IS 'input tokens that arrived [tokens]';
COMMENT ON COLUMN "draft_workload_window"."osl_tokens" IS 'output tokens that were asked for [tokens]';

CREATE TABLE "workload_season" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "period" VARCHAR NOT NULL CHECK ("period" IN ('hour', 'weekday')),
  "slot" INTEGER NOT NULL CHECK ("slot" >= 0 AND "slot" <= 23),
  "covered_h" DOUBLE NOT NULL CHECK (isfinite("covered_h") AND "covered_h" > 0),
  "requests" BIGINT NOT NULL CHECK ("requests" >= 0),
  "arrival_rps" DOUBLE NOT NULL CHECK (isfinite("arrival_rps") AND "arrival_rps" >= 0),
  "factor" DOUBLE NOT NULL CHECK (isfinite("factor") AND "factor" >= 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  PRIMARY KEY ("plan_version", "service", "period", "slot")
);
COMMENT ON TABLE "workload_season" IS 'an hour of the day or a day of the week of a service''s trace';
COMMENT ON COLUMN "workload_season"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "workload_season"."service" IS 'service of the workspace';
COMMENT ON COLUMN "workload_season"."period" IS 'what comes again, UTC';
COMMENT ON COLUMN "workload_season"."slot" IS 'which: hours from 0, weekdays from 0, which is Monday';
COMMENT ON COLUMN "workload_season"."covered_h" IS 'hours of the trace that fall in it [h]';
COMMENT ON COLUMN "workload_season"."requests" IS 'arrivals in it';
COMMENT ON COLUMN "workload_season"."arrival_rps" IS 'arrivals a second in it [1/s]';
COMMENT ON COLUMN "workload_season"."factor" IS 'its rate over the trace''s mean rate';
COMMENT ON COLUMN "workload_season"."label" IS 'how sure it is';

CREATE TABLE "draft_workload_season" (
  "service" VARCHAR NOT NULL,
  "period" VARCHAR NOT NULL CHECK ("period" IN ('hour', 'weekday')),
  "slot" INTEGER NOT NULL CHECK ("slot" >= 0 AND "slot" <= 23),
  "covered_h" DOUBLE NOT NULL CHECK (isfinite("covered_h") AND "covered_h" > 0),
  "requests" BIGINT NOT NULL CHECK ("requests" >= 0),
  "arrival_rps" DOUBLE NOT NULL CHECK (isfinite("arrival_rps") AND "arrival_rps" >= 0),
  "factor" DOUBLE NOT NULL CHECK (isfinite("factor") AND "factor" >= 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed'))
);
COMMENT ON TABLE "draft_workload_season" IS 'an hour of the day or a day of the week of a service''s trace';
COMMENT ON COLUMN "draft_workload_season"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_workload_season"."period" IS 'what comes again, UTC';
COMMENT ON COLUMN "draft_workload_season"."slot" IS 'which: hours from 0, weekdays from 0, which is Monday';
COMMENT ON COLUMN "draft_workload_season"."covered_h" IS 'hours of the trace that fall in it [h]';
COMMENT ON COLUMN "draft_workload_season"."requests" IS 'arrivals in it';
COMMENT ON COLUMN "draft_workload_season"."arrival_rps" IS 'arrivals a second in it [1/s]';
COMMENT ON COLUMN "draft_workload_season"."factor" IS 'its rate over the trace''s mean rate';
COMMENT ON COLUMN "draft_workload_season"."label" IS 'how sure it is';

CREATE TABLE "workload_mix" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "dimension" VARCHAR NOT NULL CHECK ("dimension" IN ('model', 'adapter', 'tenant', 'outcome', 'censored', 'finish_reason', 'streaming', 'structured_output', 'logprobs', 'speculative', 'multimodal')),
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "value" VARCHAR NOT NULL,
  "requests" BIGINT NOT NULL CHECK ("requests" >= 1),
  "share" DOUBLE NOT NULL CHECK (isfinite("share") AND "share" >= 0 AND "share" <= 1),
  "isl_mean_tokens" DOUBLE CHECK (isfinite("isl_mean_tokens") AND "isl_mean_tokens" >= 0),
  "osl_mean_tokens" DOUBLE CHECK (isfinite("osl_mean_tokens") AND "osl_mean_tokens" >= 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  PRIMARY KEY ("plan_version", "service", "dimension", "value")
);
COMMENT ON TABLE "workload_mix" IS 'what a share of a service''s requests have in common: a model, an adapter, a tenant, a feature, how they ended';
COMMENT ON COLUMN "workload_mix"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "workload_mix"."service" IS 'service of the workspace';
COMMENT ON COLUMN "workload_mix"."dimension" IS 'what they are told apart by: a column of request';
COMMENT ON COLUMN "workload_mix"."position" IS 'order of its values, the most frequent first';
COMMENT ON COLUMN "workload_mix"."value" IS 'the value; the rest are ''others'', what the source does not say ''not said''';
COMMENT ON COLUMN "workload_mix"."requests" IS 'requests of it, also those that no engine worked on';
COMMENT ON COLUMN "workload_mix"."share" IS 'share of the requests';
COMMENT ON COLUMN "workload_mix"."isl_mean_tokens" IS 'mean input, where known [tokens]';
COMMENT ON COLUMN "workload_mix"."osl_mean_tokens" IS 'mean output, where known [tokens]';
COMMENT ON COLUMN "workload_mix"."label" IS 'how sure it is';

CREATE TABLE "draft_workload_mix" (
  "service" VARCHAR NOT NULL,
  "dimension" VARCHAR NOT NULL CHECK ("dimension" IN ('model', 'adapter', 'tenant', 'outcome', 'censored', 'finish_reason', 'streaming', 'structured_output', 'logprobs', 'speculative', 'multimodal')),
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "value" VARCHAR NOT NULL,
  "requests" BIGINT NOT NULL CHECK ("requests" >= 1),
  "share" DOUBLE NOT NULL CHECK (isfinite("share") AND "share" >= 0 AND "share" <= 1),
  "isl_mean_tokens" DOUBLE CHECK (isfinite("isl_mean_tokens") AND "isl_mean_tokens" >= 0),
  "osl_mean_tokens" DOUBLE CHECK (isfinite("osl_mean_tokens") AND "osl_mean_tokens" >= 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed'))
);
COMMENT ON TABLE "draft_workload_mix" IS 'what a share of a service''s requests have in common: a model, an adapter, a tenant, a feature, how they ended';
COMMENT ON COLUMN "draft_workload_mix"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_workload_mix"."dimension" IS 'what they are told apart by: a column of request';
COMMENT ON COLUMN "draft_workload_mix"."position" IS 'order of its values, the most frequent first';
COMMENT ON COLUMN "draft_workload_mix"."value" IS 'the value; the rest are ''others'', what the source does not say ''not said''';
COMMENT ON COLUMN "draft_workload_mix"."requests" IS 'requests of it, also those that no engine worked on';
COMMENT ON COLUMN "draft_workload_mix"."share" IS 'share of the requests';
COMMENT ON COLUMN "draft_workload_mix"."isl_mean_tokens" IS 'mean input, where known [tokens]';
COMMENT ON COLUMN "draft_workload_mix"."osl_mean_tokens" IS 'mean output, where known [tokens]';
COMMENT ON COLUMN "draft_workload_mix"."label" IS 'how sure it is';

CREATE TABLE "workload_prefix" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "tier" VARCHAR NOT NULL,
  "capacity_tokens" DOUBLE CHECK (isfinite("capacity_tokens") AND "capacity_tokens" > 0),
  "hit_tokens" BIGINT NOT NULL CHECK ("hit_tokens" >= 0),
  "hit_share" DOUBLE NOT NULL CHECK (isfinite("hit_share") AND "hit_share" >= 0 AND "hit_share" <= 1),
  "added_share" DOUBLE NOT NULL CHECK (isfinite("added_share") AND "added_share" >= 0 AND "added_share" <= 1),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  PRIMARY KEY ("plan_version", "service", "tier")
);
COMMENT ON TABLE "workload_prefix" IS 'input tokens of a service''s trace that a prefix cache of a size would find';
COMMENT ON COLUMN "workload_prefix"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "workload_prefix"."service" IS 'service of the workspace';
COMMENT ON COLUMN "workload_prefix"."position" IS 'order, the smallest cache first';
COMMENT ON COLUMN "workload_prefix"."tier" IS 'a cache: its size, one pool for the fleet that lets go of the least recently used; or as served';
COMMENT ON COLUMN "workload_prefix"."capacity_tokens" IS 'what it holds; NULL: endless, or not known [tokens]';
COMMENT ON COLUMN "workload_prefix"."hit_tokens" IS 'input tokens found in it [tokens]';
COMMENT ON COLUMN "workload_prefix"."hit_share" IS 'share of the input tokens (as served: of those it is told of)';
COMMENT ON COLUMN "workload_prefix"."added_share" IS 'share that the next smaller cache does not find';
COMMENT ON COLUMN "workload_prefix"."label" IS 'how sure it is';

CREATE TABLE "draft_workload_prefix" (
  "service" VARCHAR NOT NULL,
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "tier" VARCHAR NOT NULL,
  "capacity_tokens" DOUBLE CHECK (isfinite("capacity_tokens") AND "capacity_tokens" > 0),
  "hit_tokens" BIGINT NOT NULL CHECK ("hit_tokens" >= 0),
  "hit_share" DOUBLE NOT NULL CHECK (isfinite("hit_share") AND "hit_share" >= 0 AND "hit_share" <= 1),
  "added_share" DOUBLE NOT NULL CHECK (isfinite("added_share") AND "added_share" >= 0 AND "added_share" <= 1),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed'))
);
COMMENT ON TABLE "draft_workload_prefix" IS 'input tokens of a service''s trace that a prefix cache of a size would find';
COMMENT ON COLUMN "draft_workload_prefix"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_workload_prefix"."position" IS 'order, the smallest cache first';
COMMENT ON COLUMN "draft_workload_prefix"."tier" IS 'a cache: its size, one pool for the fleet that lets go of the least recently used; or as served';
COMMENT ON COLUMN "draft_workload_prefix"."capacity_tokens" IS 'what it holds; NULL: endless, or not known [tokens]';
COMMENT ON COLUMN "draft_workload_prefix"."hit_tokens" IS 'input tokens found in it [tokens]';
COMMENT ON COLUMN "draft_workload_prefix"."hit_share" IS 'share of the input tokens (as served: of those it is told of)';
COMMENT ON COLUMN "draft_workload_prefix"."added_share" IS 'share that the next smaller cache does not find';
COMMENT ON COLUMN "draft_workload_prefix"."label" IS 'how sure it is';

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
COMMENT ON COLUMN "plan_candidate"."binding" IS 'what binds: KV memory (K), TPOT (L), TTFT, E2E, weights';
COMMENT ON COLUMN "plan_candidate"."goodput_rps_per_replica" IS 'largest rate that keeps the SLO [1/s]';
COMMENT ON COLUMN "plan_candidate"."goodput_rps_per_gpu" IS 'the same over its accelerators [1/s]';
COMMENT ON COLUMN "plan_candidate"."replicas" IS 'replicas, headroom included';
COMMENT ON COLUMN "plan_candidate"."gpus" IS 'accelerators, headroom included';
COMMENT ON COLUMN "plan_candidate"."usd_per_gpu_hour" IS 'price [USD/h]';
COMMENT ON COLUMN "plan_candidate"."usd_per_hour" IS 'cost, headroom included [USD/h]';
COMMENT ON COLUMN "plan_candidate"."usd_per_million_output_tokens" IS 'cost at the mean demand [USD]';
COMMENT ON COLUMN "plan_candidate"."label" IS 'how sure it is';

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
COMMENT ON COLUMN "draft_plan_candidate"."binding" IS 'what binds: KV memory (K), TPOT (L), TTFT, E2E, weights';
COMMENT ON COLUMN "draft_plan_candidate"."goodput_rps_per_replica" IS 'largest rate that keeps the SLO [1/s]';
COMMENT ON COLUMN "draft_plan_candidate"."goodput_rps_per_gpu" IS 'the same over its accelerators [1/s]';
COMMENT ON COLUMN "draft_plan_candidate"."replicas" IS 'replicas, headroom included';
COMMENT ON COLUMN "draft_plan_candidate"."gpus" IS 'accelerators, headroom included';
COMMENT ON COLUMN "draft_plan_candidate"."usd_per_gpu_hour" IS 'price [USD/h]';
COMMENT ON COLUMN "draft_plan_candidate"."usd_per_hour" IS 'cost, headroom included [USD/h]';
COMMENT ON COLUMN "draft_plan_candidate"."usd_per_million_output_tokens" IS 'cost at the mean demand [USD]';
COMMENT ON COLUMN "draft_plan_candidate"."label" IS 'how sure it is';

CREATE TABLE "plan_memory" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "term" VARCHAR NOT NULL,
  "value" DOUBLE NOT NULL CHECK (isfinite("value")),
  "unit" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  "note" VARCHAR,
  PRIMARY KEY ("plan_version", "service", "candidate_id", "term")
);
COMMENT ON TABLE "plan_memory" IS 'a term of a candidate''s memory account';
COMMENT ON COLUMN "plan_memory"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan_memory"."service" IS 'service of the workspace';
COMMENT ON COLUMN "plan_memory"."candidate_id" IS 'configuration: gpu / TP / precision / engine';
COMMENT ON COLUMN "plan_memory"."position" IS 'order of the account';
COMMENT ON COLUMN "plan_memory"."term" IS 'term';
COMMENT ON COLUMN "plan_memory"."value" IS 'its value';
COMMENT ON COLUMN "plan_memory"."unit" IS 'its unit: GiB per GPU unless it says otherwise';
COMMENT ON COLUMN "plan_memory"."label" IS 'how sure it is';
COMMENT ON COLUMN "plan_memory"."source" IS 'where it came from';
COMMENT ON COLUMN "plan_memory"."note" IS 'how it was computed';

CREATE TABLE "draft_plan_memory" (
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "term" VARCHAR NOT NULL,
  "value" DOUBLE NOT NULL CHECK (isfinite("value")),
  "unit" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  "note" VARCHAR
);
COMMENT ON TABLE "draft_plan_memory" IS 'a term of a candidate''s memory account';
COMMENT ON COLUMN "draft_plan_memory"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_plan_memory"."candidate_id" IS 'configuration: gpu / TP / precision / engine';
COMMENT ON COLUMN "draft_plan_memory"."position" IS 'order of the account';
COMMENT ON COLUMN "draft_plan_memory"."term" IS 'term';
COMMENT ON COLUMN "draft_plan_memory"."value" IS 'its value';
COMMENT ON COLUMN "draft_plan_memory"."unit" IS 'its unit: GiB per GPU unless it says otherwise';
COMMENT ON COLUMN "draft_plan_memory"."label" IS 'how sure it is';
COMMENT ON COLUMN "draft_plan_memory"."source" IS 'where it came from';
COMMENT ON COLUMN "draft_plan_memory"."note" IS 'how it was computed';

CREATE TABLE "plan_capacity" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "scenario" VARCHAR NOT NULL CHECK ("scenario" IN ('goodput_replica', 'fleet_planned', 'fleet_all_up', 'fleet_one_down')),
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

CREATE TABLE "draft_plan_capacity" (
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "scenario" VARCHAR NOT NULL CHECK ("scenario" IN ('goodput_replica', 'fleet_planned', 'fleet_all_up', 'fleet_one_down')),
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

CREATE TABLE "plan_bucket" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "scenario" VARCHAR NOT NULL CHECK ("scenario" IN ('goodput_replica', 'fleet_planned', 'fleet_all_up', 'fleet_one_down')),
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

CREATE TABLE "draft_plan_bucket" (
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "scenario" VARCHAR NOT NULL CHECK ("scenario" IN ('goodput_replica', 'fleet_planned', 'fleet_all_up', 'fleet_one_down')),
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

CREATE TABLE "plan_series" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "scenario" VARCHAR NOT NULL CHECK ("scenario" IN ('goodput_replica', 'fleet_planned', 'fleet_all_up', 'fleet_one_down')),
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

CREATE TABLE "draft_plan_series" (
  "service" VARCHAR NOT NULL,
  "candidate_id" VARCHAR NOT NULL,
  "scenario" VARCHAR NOT NULL CHECK ("scenario" IN ('goodput_replica', 'fleet_planned', 'fleet_all_up', 'fleet_one_down')),
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

CREATE TABLE "plan_headroom" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "risk" VARCHAR NOT NULL CHECK ("risk" IN ('demand', 'traffic', 'failure', 'deployment', 'memory', 'control')),
  "factor" DOUBLE CHECK (isfinite("factor") AND "factor" >= 0),
  "replicas" INTEGER NOT NULL CHECK ("replicas" >= 0),
  "gpus" INTEGER NOT NULL CHECK ("gpus" >= 0),
  "basis" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  PRIMARY KEY ("plan_version", "service", "risk")
);
COMMENT ON TABLE "plan_headroom" IS 'what a service holds against one risk, and what that costs';
COMMENT ON COLUMN "plan_headroom"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan_headroom"."service" IS 'service of the workspace';
COMMENT ON COLUMN "plan_headroom"."position" IS 'order on the sheet';
COMMENT ON COLUMN "plan_headroom"."risk" IS 'what it covers; ''demand'' is the service itself';
COMMENT ON COLUMN "plan_headroom"."factor" IS 'what demand is multiplied by';
COMMENT ON COLUMN "plan_headroom"."replicas" IS 'replicas it adds';
COMMENT ON COLUMN "plan_headroom"."gpus" IS 'accelerators it adds';
COMMENT ON COLUMN "plan_headroom"."basis" IS 'how it was set';
COMMENT ON COLUMN "plan_headroom"."label" IS 'how sure it is';
COMMENT ON COLUMN "plan_headroom"."source" IS 'where it came from';

CREATE TABLE "draft_plan_headroom" (
  "service" VARCHAR NOT NULL,
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "risk" VARCHAR NOT NULL CHECK ("risk" IN ('demand', 'traffic', 'failure', 'deployment', 'memory', 'control')),
  "factor" DOUBLE CHECK (isfinite("factor") AND "factor" >= 0),
  "replicas" INTEGER NOT NULL CHECK ("replicas" >= 0),
  "gpus" INTEGER NOT NULL CHECK ("gpus" >= 0),
  "basis" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL
);
COMMENT ON TABLE "draft_plan_headroom" IS 'what a service holds against one risk, and what that costs';
COMMENT ON COLUMN "draft_plan_headroom"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_plan_headroom"."position" IS 'order on the sheet';
COMMENT ON COLUMN "draft_plan_headroom"."risk" IS 'what it covers; ''demand'' is the service itself';
COMMENT ON COLUMN "draft_plan_headroom"."factor" IS 'what demand is multiplied by';
COMMENT ON COLUMN "draft_plan_headroom"."replicas" IS 'replicas it adds';
COMMENT ON COLUMN "draft_plan_headroom"."gpus" IS 'accelerators it adds';
COMMENT ON COLUMN "draft_plan_headroom"."basis" IS 'how it was set';
COMMENT ON COLUMN "draft_plan_headroom"."label" IS 'how sure it is';
COMMENT ON COLUMN "draft_plan_headroom"."source" IS 'where it came from';

CREATE TABLE "plan_cost" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "item" VARCHAR NOT NULL CHECK ("item" IN ('demand', 'traffic', 'failure', 'deployment', 'memory', 'control')),
  "gpu_id" VARCHAR NOT NULL,
  "gpus" INTEGER NOT NULL CHECK ("gpus" >= 0),
  "usd_per_gpu_hour" DOUBLE NOT NULL CHECK (isfinite("usd_per_gpu_hour") AND "usd_per_gpu_hour" > 0),
  "hours_per_month" DOUBLE NOT NULL CHECK (isfinite("hours_per_month") AND "hours_per_month" > 0),
  "usd_per_hour" DOUBLE NOT NULL CHECK (isfinite("usd_per_hour") AND "usd_per_hour" >= 0),
  "usd_per_month" DOUBLE NOT NULL CHECK (isfinite("usd_per_month") AND "usd_per_month" >= 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  PRIMARY KEY ("plan_version", "service", "item")
);
COMMENT ON TABLE "plan_cost" IS 'a line of a service''s cost';
COMMENT ON COLUMN "plan_cost"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan_cost"."service" IS 'service of the workspace';
COMMENT ON COLUMN "plan_cost"."position" IS 'order on the sheet';
COMMENT ON COLUMN "plan_cost"."item" IS 'what is paid for';
COMMENT ON COLUMN "plan_cost"."gpu_id" IS 'accelerator';
COMMENT ON COLUMN "plan_cost"."gpus" IS 'how many';
COMMENT ON COLUMN "plan_cost"."usd_per_gpu_hour" IS 'price [USD/h]';
COMMENT ON COLUMN "plan_cost"."hours_per_month" IS 'hours billed a month [h]';
COMMENT ON COLUMN "plan_cost"."usd_per_hour" IS 'cost [USD/h]';
COMMENT ON COLUMN "plan_cost"."usd_per_month" IS 'cost [USD/month]';
COMMENT ON COLUMN "plan_cost"."label" IS 'how sure it is';
COMMENT ON COLUMN "plan_cost"."source" IS 'source of the price';

CREATE TABLE "draft_plan_cost" (
  "service" VARCHAR NOT NULL,
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "item" VARCHAR NOT NULL CHECK ("item" IN ('demand', 'traffic', 'failure', 'deployment', 'memory', 'control')),
  "gpu_id" VARCHAR NOT NULL,
  "gpus" INTEGER NOT NULL CHECK ("gpus" >= 0),
  "usd_per_gpu_hour" DOUBLE NOT NULL CHECK (isfinite("usd_per_gpu_hour") AND "usd_per_gpu_hour" > 0),
  "hours_per_month" DOUBLE NOT NULL CHECK (isfinite("hours_per_month") AND "hours_per_month" > 0),
  "usd_per_hour" DOUBLE NOT NULL CHECK (isfinite("usd_per_hour") AND "usd_per_hour" >= 0),
  "usd_per_month" DOUBLE NOT NULL CHECK (isfinite("usd_per_month") AND "usd_per_month" >= 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL
);
COMMENT ON TABLE "draft_plan_cost" IS 'a line of a service''s cost';
COMMENT ON COLUMN "draft_plan_cost"."service" IS 'service of the workspace';
COMMENT ON COLUMN "draft_plan_cost"."position" IS 'order on the sheet';
COMMENT ON COLUMN "draft_plan_cost"."item" IS 'what is paid for';
COMMENT ON COLUMN "draft_plan_cost"."gpu_id" IS 'accelerator';
COMMENT ON COLUMN "draft_plan_cost"."gpus" IS 'how many';
COMMENT ON COLUMN "draft_plan_cost"."usd_per_gpu_hour" IS 'price [USD/h]';
COMMENT ON COLUMN "draft_plan_cost"."hours_per_month" IS 'hours billed a month [h]';
COMMENT ON COLUMN "draft_plan_cost"."usd_per_hour" IS 'cost [USD/h]';
COMMENT ON COLUMN "draft_plan_cost"."usd_per_month" IS 'cost [USD/month]';
COMMENT ON COLUMN "draft_plan_cost"."label" IS 'how sure it is';
COMMENT ON COLUMN "draft_plan_cost"."source" IS 'source of the price';

CREATE TABLE "plan_number" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "number" VARCHAR NOT NULL,
  "value" DOUBLE NOT NULL CHECK (isfinite("value")),
  "unit" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "formula" VARCHAR NOT NULL,
  "inputs_json" VARCHAR NOT NULL,
  "source" VARCHAR NOT NULL,
  PRIMARY KEY ("plan_version", "number")
);
COMMENT ON TABLE "plan_number" IS 'a published figure with how it came about';
COMMENT ON COLUMN "plan_number"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan_number"."number" IS 'its name: service.figure';
COMMENT ON COLUMN "plan_number"."value" IS 'value';
COMMENT ON COLUMN "plan_number"."unit" IS 'unit';
COMMENT ON COLUMN "plan_number"."label" IS 'how sure it is';
COMMENT ON COLUMN "plan_number"."formula" IS 'id of the formula: module.function of the estimator';
COMMENT ON COLUMN "plan_number"."inputs_json" IS 'the inputs, by name, with their values';
COMMENT ON COLUMN "plan_number"."source" IS 'source of the formula or the figure';

CREATE TABLE "draft_plan_number" (
  "number" VARCHAR NOT NULL,
  "value" DOUBLE NOT NULL CHECK (isfinite("value")),
  "unit" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "formula" VARCHAR NOT NULL,
  "inputs_json" VARCHAR NOT NULL,
  "source" VARCHAR NOT NULL
);
COMMENT ON TABLE "draft_plan_number" IS 'a published figure with how it came about';
COMMENT ON COLUMN "draft_plan_number"."number" IS 'its name: service.figure';
COMMENT ON COLUMN "draft_plan_number"."value" IS 'value';
COMMENT ON COLUMN "draft_plan_number"."unit" IS 'unit';
COMMENT ON COLUMN "draft_plan_number"."label" IS 'how sure it is';
COMMENT ON COLUMN "draft_plan_number"."formula" IS 'id of the formula: module.function of the estimator';
COMMENT ON COLUMN "draft_plan_number"."inputs_json" IS 'the inputs, by name, with their values';
COMMENT ON COLUMN "draft_plan_number"."source" IS 'source of the formula or the figure';

CREATE TABLE "plan_check" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "check_name" VARCHAR NOT NULL,
  "scope" VARCHAR NOT NULL,
  "passed" BOOLEAN NOT NULL,
  "severity" VARCHAR NOT NULL CHECK ("severity" IN ('stops', 'warns', 'informs')),
  "observed" VARCHAR NOT NULL,
  "expected" VARCHAR NOT NULL,
  "remedy" VARCHAR,
  PRIMARY KEY ("plan_version", "check_name", "scope")
);
COMMENT ON TABLE "plan_check" IS 'a check on the plan''s inputs or figures';
COMMENT ON COLUMN "plan_check"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan_check"."position" IS 'order on the sheet';
COMMENT ON COLUMN "plan_check"."check_name" IS 'what is checked';
COMMENT ON COLUMN "plan_check"."scope" IS 'table, file or service it looks at';
COMMENT ON COLUMN "plan_check"."passed" IS 'it held';
COMMENT ON COLUMN "plan_check"."severity" IS 'what a failure does';
COMMENT ON COLUMN "plan_check"."observed" IS 'what was found';
COMMENT ON COLUMN "plan_check"."expected" IS 'what was asked';
COMMENT ON COLUMN "plan_check"."remedy" IS 'what to do';

CREATE TABLE "draft_plan_check" (
  "position" INTEGER NOT NULL CHECK ("position" >= 0),
  "check_name" VARCHAR NOT NULL,
  "scope" VARCHAR NOT NULL,
  "passed" BOOLEAN NOT NULL,
  "severity" VARCHAR NOT NULL CHECK ("severity" IN ('stops', 'warns', 'informs')),
  "observed" VARCHAR NOT NULL,
  "expected" VARCHAR NOT NULL,
  "remedy" VARCHAR
);
COMMENT ON TABLE "draft_plan_check" IS 'a check on the plan''s inputs or figures';
COMMENT ON COLUMN "draft_plan_check"."position" IS 'order on the sheet';
COMMENT ON COLUMN "draft_plan_check"."check_name" IS 'what is checked';
COMMENT ON COLUMN "draft_plan_check"."scope" IS 'table, file or service it looks at';
COMMENT ON COLUMN "draft_plan_check"."passed" IS 'it held';
COMMENT ON COLUMN "draft_plan_check"."severity" IS 'what a failure does';
COMMENT ON COLUMN "draft_plan_check"."observed" IS 'what was found';
COMMENT ON COLUMN "draft_plan_check"."expected" IS 'what was asked';
COMMENT ON COLUMN "draft_plan_check"."remedy" IS 'what to do';

CREATE TABLE "plan_workbook" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "name" VARCHAR NOT NULL,
  "sha256" VARCHAR NOT NULL,
  "content" BLOB NOT NULL,
  PRIMARY KEY ("plan_version")
);
COMMENT ON TABLE "plan_workbook" IS 'the workbook of a version, byte for byte: the file beside the warehouse is a copy of it';
COMMENT ON COLUMN "plan_workbook"."plan_version" IS 'the plan version';
COMMENT ON COLUMN "plan_workbook"."name" IS 'file name';
COMMENT ON COLUMN "plan_workbook"."sha256" IS 'fingerprint';
COMMENT ON COLUMN "plan_workbook"."content" IS 'the workbook';

CREATE TABLE "prediction_error" (
  "plan_version" INTEGER NOT NULL CHECK ("plan_version" > 0),
  "service" VARCHAR NOT NULL,
  "observation_id" VARCHAR NOT NULL,
  "bucket" VARCHAR NOT NULL,
  "metric" VARCHAR NOT NULL CHECK ("metric" IN ('ttft_p50', 'ttft_p99', 'tpot_mean', 'e2e_mean')),
  "predicted_ms" DOUBLE CHECK (isfinite("predicted_ms") AND "predicted_ms" >= 0),
  "observed_ms" DOUBLE CHECK (isfinite("observed_ms") AND "observed_ms" >= 0),
  "error_ms" DOUBLE CHECK (isfinite("error_ms")),
  "error_ratio" DOUBLE CHECK (isfinite("error_ratio")),
  "saturated" BOOLEAN NOT NULL,
  "utilisation" DOUBLE CHECK (isfinite("utilisation") AND "utilisation" >= 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "note" VARCHAR,
  PRIMARY KEY ("plan_version", "service", "observation_id", "metric")
);
COMMENT ON TABLE "prediction_error" IS 'one predicted figure against what was observed';
COMMENT ON COLUMN "prediction_error"."plan_version" IS 'the plan that predicted it';
COMMENT ON COLUMN "prediction_error"."service" IS 'service';
COMMENT ON COLUMN "prediction_error"."observation_id" IS 'the observation it is held against';
COMMENT ON COLUMN "prediction_error"."bucket" IS 'bucket of the observation: mean ISL x mean OSL at a rate';
COMMENT ON COLUMN "prediction_error"."metric" IS 'what was predicted';
COMMENT ON COLUMN "prediction_error"."predicted_ms" IS 'predicted [ms]';
COMMENT ON COLUMN "prediction_error"."observed_ms" IS 'observed [ms]';
COMMENT ON COLUMN "prediction_error"."error_ms" IS 'observed - predicted [ms]';
COMMENT ON COLUMN "prediction_error"."error_ratio" IS 'predicted / observed - 1';
COMMENT ON COLUMN "prediction_error"."saturated" IS 'the observation was saturated: shown, never fitted';
COMMENT ON COLUMN "prediction_error"."utilisation" IS 'achieved rate over predicted capacity';
COMMENT ON COLUMN "prediction_error"."label" IS 'label of the prediction';
COMMENT ON COLUMN "prediction_error"."note" IS 'why a figure is missing or not comparable';

CREATE TABLE "draft_prediction_error" (
  "service" VARCHAR NOT NULL,
  "observation_id" VARCHAR NOT NULL,
  "bucket" VARCHAR NOT NULL,
  "metric" VARCHAR NOT NULL CHECK ("metric" IN ('ttft_p50', 'ttft_p99', 'tpot_mean', 'e2e_mean')),
  "predicted_ms" DOUBLE CHECK (isfinite("predicted_ms") AND "predicted_ms" >= 0),
  "observed_ms" DOUBLE CHECK (isfinite("observed_ms") AND "observed_ms" >= 0),
  "error_ms" DOUBLE CHECK (isfinite("error_ms")),
  "error_ratio" DOUBLE CHECK (isfinite("error_ratio")),
  "saturated" BOOLEAN NOT NULL,
  "utilisation" DOUBLE CHECK (isfinite("utilisation") AND "utilisation" >= 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "note" VARCHAR
);
COMMENT ON TABLE "draft_prediction_error" IS 'one predicted figure against what was observed';
COMMENT ON COLUMN "draft_prediction_error"."service" IS 'service';
COMMENT ON COLUMN "draft_prediction_error"."observation_id" IS 'the observation it is held against';
COMMENT ON COLUMN "draft_prediction_error"."bucket" IS 'bucket of the observation: mean ISL x mean OSL at a rate';
COMMENT ON COLUMN "draft_prediction_error"."metric" IS 'what was predicted';
COMMENT ON COLUMN "draft_prediction_error"."predicted_ms" IS 'predicted [ms]';
COMMENT ON COLUMN "draft_prediction_error"."observed_ms" IS 'observed [ms]';
COMMENT ON COLUMN "draft_prediction_error"."error_ms" IS 'observed - predicted [ms]';
COMMENT ON COLUMN "draft_prediction_error"."error_ratio" IS 'predicted / observed - 1';
COMMENT ON COLUMN "draft_prediction_error"."saturated" IS 'the observation was saturated: shown, never fitted';
COMMENT ON COLUMN "draft_prediction_error"."utilisation" IS 'achieved rate over predicted capacity';
COMMENT ON COLUMN "draft_prediction_error"."label" IS 'label of the prediction';
COMMENT ON COLUMN "draft_prediction_error"."note" IS 'why a figure is missing or not comparable';

CREATE TABLE "calibration" (
  "calibration_version" INTEGER NOT NULL CHECK ("calibration_version" > 0),
  "created_at" TIMESTAMP NOT NULL,
  "engine" VARCHAR NOT NULL,
  "engine_version" VARCHAR NOT NULL,
  "gpu_id" VARCHAR NOT NULL,
  "model_id" VARCHAR NOT NULL,
  "parameter" VARCHAR NOT NULL,
  "factor" DOUBLE NOT NULL CHECK (isfinite("factor") AND "factor" > 0),
  "observations" INTEGER NOT NULL CHECK ("observations" > 0),
  "label" VARCHAR NOT NULL CHECK ("label" IN ('verified', 'measured', 'cited', 'inferred', 'estimated', 'assumed')),
  "source" VARCHAR NOT NULL,
  PRIMARY KEY ("calibration_version", "engine", "engine_version", "gpu_id", "model_id", "parameter")
);
COMMENT ON TABLE "calibration" IS 'a correction that observations earned; version 0 means none is in force';
COMMENT ON COLUMN "calibration"."calibration_version" IS 'version';
COMMENT ON COLUMN "calibration"."created_at" IS 'when [UTC]';
COMMENT ON COLUMN "calibration"."engine" IS 'engine it is for';
COMMENT ON COLUMN "calibration"."engine_version" IS 'its version';
COMMENT ON COLUMN "calibration"."gpu_id" IS 'accelerator';
COMMENT ON COLUMN "calibration"."model_id" IS 'model';
COMMENT ON COLUMN "calibration"."parameter" IS 'what it corrects';
COMMENT ON COLUMN "calibration"."factor" IS 'what the prediction is multiplied by';
COMMENT ON COLUMN "calibration"."observations" IS 'observations behind it';
COMMENT ON COLUMN "calibration"."label" IS 'how it is known';
COMMENT ON COLUMN "calibration"."source" IS 'the observations it was fitted on';
