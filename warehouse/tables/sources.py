"""Tables of what came in from outside: files, requests, models, accelerators, prices, engines, observations."""

from collections.abc import Iterable
from dataclasses import replace

from warehouse.registry import LABELS, Column, Table

SOURCE_KINDS = (
    "trace",
    "model",
    "accelerator",
    "price",
    "engine",
    "coefficient",
    "profile",
    "observation",
    "workspace",
)

SOURCE_FILE = Table(
    "source_file",
    "a file (or hub revision) that was read",
    (
        Column("source_file", "VARCHAR", "the file as the workspace names it, or hub id @ revision"),
        Column("kind", "VARCHAR", "what it holds", allowed=SOURCE_KINDS),
        Column(
            "named_by", "VARCHAR", "what the workspace calls it: itself, or the pattern or folder it is of", "", True
        ),
        Column("format", "VARCHAR", "the format it was read as"),
        Column("sha256", "VARCHAR", "fingerprint of its bytes and of the options it was read with"),
        Column("size_bytes", "BIGINT", "its size", "B", minimum=0),
        Column("rows_read", "BIGINT", "data rows in the file", minimum=0),
        Column("rows_kept", "BIGINT", "rows that passed their contract", minimum=0),
        Column("rows_rejected", "BIGINT", "rows kept in rejected_row instead", minimum=0),
        Column("detail", "VARCHAR", "what was detected: units, time zone, block size, options", nullable=True),
        Column("code_version", "VARCHAR", "version of capsheet that read it", nullable=True),
        Column("loaded_at", "TIMESTAMP", "when it was read", "UTC"),
    ),
    key=("source_file",),
)

REJECTED_ROW = Table(
    "rejected_row",
    "a row that failed its contract, kept with its reason",
    (
        Column("source_file", "VARCHAR", "the file it came from"),
        Column("line", "BIGINT", "its line in the file, the header being 1", minimum=0),
        Column("reason", "VARCHAR", "why it was rejected"),
        Column("raw", "VARCHAR", "the row as it stood, cut at 2,000 characters", nullable=True),
    ),
    key=("source_file", "line", "reason"),
)

OUTCOMES = ("ok", "failed", "rejected", "cancelled", "cache_hit", "unknown")

_REQUEST_COLUMNS = (
    Column("line", "BIGINT", "its line in that file, or its number among the file's spans or records", minimum=0),
    Column("arrival_at", "TIMESTAMP", "when it reached the service", "UTC"),
    Column("isl_tokens", "BIGINT", "input sequence length; NULL: unknown", "tokens", True, 0, 100_000_000),
    Column("osl_tokens", "BIGINT", "output sequence length; NULL: unknown", "tokens", True, 0, 100_000_000),
    Column("cached_tokens", "BIGINT", "input tokens the source says were served from cache", "tokens", True, 0),
    Column("prefix_hashes", "BIGINT[]", "chained ids of its input blocks: equal ids, equal prefix", nullable=True),
    Column("prefix_block_tokens", "INTEGER", "tokens a prefix block holds", "tokens", True, positive=True),
    Column("session_id", "VARCHAR", "conversation it belongs to", nullable=True),
    Column("model", "VARCHAR", "model the source names", nullable=True),
    Column("adapter", "VARCHAR", "LoRA adapter", nullable=True),
    Column("tenant", "VARCHAR", "who sent it", nullable=True),
    Column(
        "outcome",
        "VARCHAR",
        "how it ended; rejected: turned away (429, 503); cache_hit: answered without an engine",
        allowed=OUTCOMES,
    ),
    Column("ttft_ms", "DOUBLE", "observed time to first token", "ms", True, 0),
    Column("e2e_ms", "DOUBLE", "observed end-to-end latency", "ms", True, 0),
    Column("queue_ms", "DOUBLE", "observed queue time", "ms", True, 0),
    Column("replayable", "BOOLEAN", "an engine worked on it and both lengths are known: what plans and replays count"),
    Column(
        "censored",
        "VARCHAR",
        "why its lengths fall short of what was wanted: cut at a cap, or cancelled",
        nullable=True,
        allowed=("input_cap", "output_cap", "cancelled"),
    ),
    Column("written_at", "TIMESTAMP", "arrival as the source has it, where spreading moved it", "UTC", True),
    Column("request_id", "VARCHAR", "the source's own id for it", nullable=True),
    Column("finish_reason", "VARCHAR", "why the answer ended, in the source's word", nullable=True),
    Column("deadline_ms", "DOUBLE", "how long its client waits before it gives up", "ms", True, 0),
    Column("max_tokens", "BIGINT", "output limit it asked for", "tokens", True, 0),
    Column("temperature", "DOUBLE", "sampling temperature it asked for", nullable=True, minimum=0),
    Column("top_p", "DOUBLE", "nucleus sampling it asked for", nullable=True, minimum=0),
    Column("samples", "INTEGER", "answers it asked for (n)", nullable=True, minimum=0),
    Column("streaming", "BOOLEAN", "the answer was streamed", nullable=True),
    Column("structured_output", "BOOLEAN", "it asked for a schema, grammar or JSON", nullable=True),
    Column("logprobs", "BOOLEAN", "it asked for log probabilities", nullable=True),
    Column("speculative", "BOOLEAN", "it was decoded speculatively", nullable=True),
    Column("multimodal", "BOOLEAN", "its input is more than text", nullable=True),
    Column("media_items", "INTEGER", "images, clips and files in its input", nullable=True, minimum=0),
)


def _stored(name: str, row: str, columns: Iterable[Column]) -> Table:
    """A part of `request`: the file as a number, words as an enumeration. Many rows, so every byte counts."""
    kept = (replace(column, type="ENUM") if column.allowed else column for column in columns)
    number = Column("file_number", "INTEGER", "number of the file in request_file", positive=True)
    return Table(name, row, (number, *kept), key=("file_number", "line"), public=False)


_PLAIN = ("line", "arrival_at", "isl_tokens", "osl_tokens", "outcome", "replayable", "censored")
_REQUEST_FILE = Table(
    "request_file",
    "a trace file by the number that its requests carry",
    (
        Column("file_number", "INTEGER", "its number", positive=True),
        Column("source_file", "VARCHAR", "the file"),
        Column("first_at", "TIMESTAMP", "its first arrival, as the file has it", "UTC", True),
        Column("last_at", "TIMESTAMP", "its last arrival, as the file has it", "UTC", True),
    ),
    key=("file_number",),
    public=False,
)
_REQUEST_PLAIN = _stored(
    "request_plain",
    "one request of a file that says no more than when it came and how long it was",
    (column for column in _REQUEST_COLUMNS if column.name in _PLAIN),
)
_REQUEST_FULL = _stored("request_full", "one request of a file that says more of it", _REQUEST_COLUMNS)
# Columns without a value cost a load as much as those with one, so that files which lack most of them have a table of
# their own.
REQUEST = Table(
    "request",
    "one request of a trace, served or not",
    (Column("source_file", "VARCHAR", "the file a row came from"), *_REQUEST_COLUMNS),
    key=("source_file", "line"),
    parts=(_REQUEST_FILE, _REQUEST_PLAIN, _REQUEST_FULL),
)

MODEL = Table(
    "model",
    "a model at a revision",
    (
        Column("model_id", "VARCHAR", "hub id, or the config's path"),
        Column("revision", "VARCHAR", "pinned commit, 'local' for a file, 'catalog' for the shipped facts"),
        Column("model_type", "VARCHAR", "architecture the config declares"),
        Column("attention_kind", "VARCHAR", "how it attends: MHA, GQA, MQA, MLA, sliding/full, hybrid"),
        Column("layers", "INTEGER", "decoder layers", "layers", positive=True),
        Column("hidden_size", "INTEGER", "model width", positive=True),
        Column("heads", "INTEGER", "query heads of the widest layer", positive=True),
        Column("kv_heads", "INTEGER", "key/value heads of the widest layer", positive=True),
        Column("head_dim", "INTEGER", "dimension of a head", positive=True),
        Column("vocab_size", "INTEGER", "vocabulary", positive=True),
        Column("max_position_tokens", "BIGINT", "longest context the config allows", "tokens", True, positive=True),
        Column("parameters_total", "BIGINT", "parameters", positive=True),
        Column("parameters_active", "BIGINT", "parameters a token uses", positive=True),
        Column("dtype", "VARCHAR", "weight type the config declares"),
        Column("quantization", "VARCHAR", "quantisation scheme, 'none' when there is none"),
        Column(
            "checkpoint_bytes", "BIGINT", "bytes of its weight files, where somebody says", "B", True, positive=True
        ),
        Column("weight_bytes", "BIGINT", "bytes of the weights an engine loads", "B", positive=True),
        Column("weight_label", "VARCHAR", "how the bytes are known", allowed=LABELS),
        Column("kv_bytes_per_token", "DOUBLE", "KV cache a token takes over all ranks, 16-bit cache", "B", minimum=0),
        Column("config_json", "VARCHAR", "the config as read"),
        Column("source", "VARCHAR", "where the config came from"),
    ),
    key=("model_id",),
)

_TFLOPS = "dense rate, no sparsity"
ACCELERATOR = Table(
    "accelerator",
    "an accelerator of the catalogue",
    (
        Column("gpu_id", "VARCHAR", "its name in capsheet"),
        Column("vendor", "VARCHAR", "maker"),
        Column("arch", "VARCHAR", "generation"),
        Column("memory_gb", "DOUBLE", "memory on the label", "GB", True, positive=True),
        Column("visible_memory_gib", "DOUBLE", "memory an engine sees", "GiB", True, positive=True),
        Column("visible_memory_label", "VARCHAR", "how the visible memory is known", "", True, allowed=LABELS),
        Column("memory_bandwidth_gbs", "DOUBLE", "memory bandwidth", "GB/s", True, positive=True),
        Column("fp16_dense_tflops", "DOUBLE", _TFLOPS, "TFLOPS", True, positive=True),
        Column("fp8_dense_tflops", "DOUBLE", _TFLOPS, "TFLOPS", True, positive=True),
        Column("int8_dense_tops", "DOUBLE", _TFLOPS, "TOPS", True, positive=True),
        Column("fp4_dense_tflops", "DOUBLE", _TFLOPS, "TFLOPS", True, positive=True),
        Column("interconnect_gbs", "DOUBLE", "link to its peers, both directions together", "GB/s", True, 0),
        Column("interconnect", "VARCHAR", "kind of link", "", True),
        Column("node_gpus", "INTEGER", "accelerators one server or link domain joins", "", True, positive=True),
        Column("pcie_gen", "INTEGER", "PCIe generation", "", True, positive=True),
        Column("tdp_w", "DOUBLE", "board power", "W", True, positive=True),
        Column("label", "VARCHAR", "how the figures are known", allowed=LABELS),
        Column("source", "VARCHAR", "where the figures came from"),
        Column("note", "VARCHAR", "conflicts between sources", "", True),
    ),
    key=("gpu_id",),
)

PRICE = Table(
    "price",
    "a price of an accelerator",
    (
        Column("price_id", "VARCHAR", "its name in capsheet"),
        Column("gpu_id", "VARCHAR", "accelerator it is for"),
        Column("provider", "VARCHAR", "who sells it; 'workspace' when the workspace sets it"),
        Column("sku", "VARCHAR", "the provider's name for it", "", True),
        Column("commitment", "VARCHAR", "on-demand, reserved, spot, capacity block"),
        Column("region", "VARCHAR", "where", "", True),
        Column("usd_per_gpu_hour", "DOUBLE", "price of one accelerator for one hour", "USD/h", positive=True),
        Column("as_of", "VARCHAR", "the date the source gives"),
        Column("planning_default", "BOOLEAN", "a plan uses this one: at most one an accelerator"),
        Column("label", "VARCHAR", "how it is known", allowed=LABELS),
        Column("source", "VARCHAR", "where it came from"),
        Column("note", "VARCHAR", "conflicts", "", True),
    ),
    key=("price_id",),
)

ENGINE_PROFILE = Table(
    "engine_profile",
    "one setting, default or coefficient of an engine, with where it holds",
    (
        Column("engine", "VARCHAR", "engine"),
        Column("version_from", "VARCHAR", "first version it holds for"),
        Column("version_before", "VARCHAR", "first version it no longer holds for", "", True),
        Column("gpu_scope", "VARCHAR", "accelerator or memory class it holds for, '*' for all"),
        Column("parameter", "VARCHAR", "what it sets"),
        Column("value", "DOUBLE", "the value"),
        Column("unit", "VARCHAR", "its unit"),
        Column("usual_low", "DOUBLE", "low end of the usual range", "", True),
        Column("usual_high", "DOUBLE", "high end of the usual range", "", True),
        Column("label", "VARCHAR", "how it is known", allowed=LABELS),
        Column("source", "VARCHAR", "where it came from"),
        Column("meaning", "VARCHAR", "what it means"),
    ),
    key=("engine", "version_from", "gpu_scope", "parameter"),
)

_SERVED = "what production or a benchmark saw"
OBSERVATION = Table(
    "observation",
    "one stage, window or bucket of measured serving",
    (
        Column("observation_id", "VARCHAR", "its name: source and stage"),
        Column("source_file", "VARCHAR", "the file it came from"),
        Column("model_id", "VARCHAR", "model served"),
        Column("gpu_id", "VARCHAR", "accelerator"),
        Column("engine", "VARCHAR", "engine"),
        Column("engine_version", "VARCHAR", "its version"),
        Column("tp", "INTEGER", "tensor-parallel size", positive=True),
        Column("precision", "VARCHAR", "precision of the weights"),
        Column("replicas", "INTEGER", "replicas that served it", positive=True),
        Column("max_num_seqs", "INTEGER", "sequences an engine may run at once", "", True, positive=True),
        Column("max_num_batched_tokens", "INTEGER", "tokens a step may hold", "tokens", True, positive=True),
        Column("chunked_prefill", "BOOLEAN", "prompts may be cut into chunks", "", True),
        Column("prefix_caching", "BOOLEAN", "prefixes are cached", "", True),
        Column("arrival", "VARCHAR", "arrival process", allowed=("constant", "poisson", "trace", "closed_loop")),
        Column("requested_rps", "DOUBLE", "rate the client asked for", "1/s", True, positive=True),
        Column("achieved_rps", "DOUBLE", "rate the client sent", "1/s", positive=True),
        Column("served_rps", "DOUBLE", "requests finished a second", "1/s", True, positive=True),
        Column("duration_s", "DOUBLE", "how long it lasted", "s", positive=True),
        Column("requests", "BIGINT", "requests that succeeded", positive=True),
        Column("failures", "BIGINT", "requests that failed", minimum=0),
        Column("isl_mean_tokens", "DOUBLE", "mean input length", "tokens", positive=True),
        Column("osl_mean_tokens", "DOUBLE", "mean output length", "tokens", positive=True),
        Column("cached_share", "DOUBLE", "share of input tokens found in cache", "", True, 0, 1),
        Column("ttft_mean_ms", "DOUBLE", _SERVED, "ms", True, positive=True),
        Column("ttft_p50_ms", "DOUBLE", _SERVED, "ms", True, positive=True),
        Column("ttft_p90_ms", "DOUBLE", _SERVED, "ms", True, positive=True),
        Column("ttft_p99_ms", "DOUBLE", _SERVED, "ms", True, positive=True),
        Column("tpot_mean_ms", "DOUBLE", "mean time per output token after the first", "ms", True, positive=True),
        Column(
            "tpot_basis", "VARCHAR", "how TPOT was had: 'reported' or 'from_e2e' (E2E - TTFT over OSL - 1)", "", True
        ),
        Column("e2e_mean_ms", "DOUBLE", _SERVED, "ms", True, positive=True),
        Column("e2e_p50_ms", "DOUBLE", _SERVED, "ms", True, positive=True),
        Column("e2e_p99_ms", "DOUBLE", _SERVED, "ms", True, positive=True),
        Column("saturated", "BOOLEAN", "the client could not send what it asked, or the queue grew"),
        Column("label", "VARCHAR", "how it is known", allowed=LABELS),
        Column("source", "VARCHAR", "where it came from"),
    ),
    key=("observation_id",),
)

STEP_PROFILE = Table(
    "step_profile",
    "a step's time as it was measured, or as another model has it, on one configuration",
    (
        Column("source_file", "VARCHAR", "the file it came from"),
        Column("line", "BIGINT", "its number among the file's points or runs", minimum=0),
        Column("phase", "VARCHAR", "a decode step, or a prompt up to its first token", allowed=("decode", "prefill")),
        Column("profile", "VARCHAR", "the source as the workspace names it: its files are one profile"),
        Column("model_id", "VARCHAR", "model that ran"),
        Column("gpu_id", "VARCHAR", "accelerator"),
        Column("engine", "VARCHAR", "engine"),
        Column("engine_version", "VARCHAR", "its version"),
        Column("tp", "INTEGER", "tensor-parallel size", positive=True),
        Column("dp", "INTEGER", "data-parallel attention ranks", positive=True),
        Column("ep", "INTEGER", "expert-parallel groups", positive=True),
        Column("precision", "VARCHAR", "precision of the weights"),
        Column("sequences", "DOUBLE", "sequences that decode at once, a rank", "", True, positive=True),
        Column("context_tokens", "DOUBLE", "tokens each of them holds, on average", "tokens", True, positive=True),
        Column("span_tokens", "DOUBLE", "how far contexts grew while it was measured", "tokens", True, 0),
        Column("prompt_tokens", "DOUBLE", "length of the prompt", "tokens", True, positive=True),
        Column("time_ms", "DOUBLE", "how long it took", "ms", positive=True),
        Column("seen_from", "VARCHAR", "whether it holds the server and the way to it", allowed=("client", "engine")),
        Column("label", "VARCHAR", "how it is known", allowed=LABELS),
        Column("source", "VARCHAR", "where it came from"),
    ),
    key=("source_file", "line", "phase"),
)

SOURCES = (SOURCE_FILE, REJECTED_ROW, REQUEST, MODEL, ACCELERATOR, PRICE, ENGINE_PROFILE, STEP_PROFILE, OBSERVATION)
