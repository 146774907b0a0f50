"""The words of `capsheet size` in English and Chinese, as data.

Belongs here: headings, names of figures and terms, and patterns for the estimator's sentences. Does not: layout.
A name without an entry is shown as it is.
"""

from __future__ import annotations

import re

LANGUAGES = ("en", "zh")

HEADINGS = {
    "account": ("Memory of one GPU", "单卡显存账"),
    "calculator": ("Time and throughput of one replica", "单副本的时延与吞吐"),
    "fleet": ("Fleet tiers, at the whole context length", "部署档位(按完整上下文长度)"),
    "settings": ("Engine settings as resolved", "引擎参数(解析后)"),
    "notes": ("Notes", "说明"),
    "command": ("Launch command", "启动命令"),
    "derivation": ("Derivation", "推导过程"),
    "coefficients": (
        "Coefficients, each may be set with --coefficient NAME=VALUE",
        "系数(可用 --coefficient 名称=值 覆盖)",
    ),
    "term": ("term", "项目"),
    "figure": ("figure", "指标"),
    "value": ("value", "数值"),
    "unit": ("unit", "单位"),
    "label": ("label", "可信度"),
    "note": ("note", "备注"),
    "source": ("source", "来源"),
    "setting": ("setting", "参数"),
    "tier": ("tier", "档位"),
    "requests": ("holds at least", "至少容纳请求"),
    "gpus": ("GPUs", "GPU 数"),
    "weights": ("weights GiB/GPU", "权重 GiB/卡"),
    "cache": ("KV GiB/GPU", "KV GiB/卡"),
    "held": ("holds", "可容纳"),
    "usual": ("usual range", "常见范围"),
    "default": ("default", "默认值"),
    "formula": ("formula", "公式"),
    "inputs": ("inputs", "输入"),
    "none": ("no size up to 16", "16 卡以内无可行规模"),
}

SENTENCES = {
    "fits": (
        "Fits: {held:,.2f} requests of {length:,} tokens at once on one engine core, {tokens:,} tokens of KV cache.",
        "可以部署:单个引擎核心可同时容纳 {held:,.2f} 个 {length:,} token 的请求,KV 缓存共 {tokens:,} token。",
    ),
    "not": ("Does not fit: {why}.", "无法部署:{why}。"),
    "warning": ("Warning: {why}.", "警告:{why}。"),
    "assumed": ("Assumed: {what}.", "假设:{what}。"),
    "parameters": (
        "{total} parameters, {active} used by a token; {attention}; weights in {precision}.",
        "参数量 {total},每 token 激活 {active};注意力 {attention};权重精度 {precision}。",
    ),
}

NAMES = {
    "visible_memory": ("visible memory", "可见显存"),
    "utilization": ("utilisation", "显存利用率"),
    "weights": ("weights", "权重"),
    "activation": ("activation peak", "激活峰值"),
    "non_torch": ("outside PyTorch", "非 PyTorch 显存"),
    "cuda_graphs": ("CUDA graphs", "CUDA 图"),
    "safety": ("safety", "安全余量"),
    "kv_budget": ("KV budget", "KV 预算"),
    "kv_bytes_per_token": ("KV of a token", "每 token KV"),
    "state_per_sequence": ("state of a sequence", "每序列状态"),
    "kv_blocks": ("KV blocks", "KV 块数"),
    "kv_budget_tokens": ("KV tokens", "KV token 数"),
    "max_concurrency": ("requests at length", "该长度的并发"),
    "prefill_ms": ("prefill of one prompt", "单请求 prefill"),
    "zero_load_ttft_ms": ("TTFT on an idle replica", "空载 TTFT"),
    "prefill_tokens_per_s_per_replica": ("prefill rate of the replica", "副本 prefill 速率"),
    "batch": ("batch", "批大小"),
    "decode_step_ms": ("decode step at the batch", "该批大小的 decode 步时"),
    "decode_tokens_per_s_per_user": ("decode rate per user", "每用户 decode 速率"),
    "decode_tokens_per_s_per_replica": ("decode rate per replica", "每副本 decode 速率"),
    "tpot_ms": ("TPOT, prefills included", "TPOT(含他人 prefill)"),
    "k_requests": ("K: memory holds", "K:显存可容纳"),
    "l_requests": ("L: TPOT allows", "L:TPOT 允许"),
    "tpot_batch_limit": ("batch limit from TPOT, decode alone", "TPOT 批上限(仅 decode)"),
    "concurrency_limit": ("limit of every bound", "各上限的最小值"),
    "bottleneck": ("bottleneck", "瓶颈"),
    "capacity_rps": ("rate at that limit", "该上限的请求率"),
    "first_load_test_requests": ("begin a load test at", "压测起点"),
    "replicas_for_concurrency": ("replicas for the concurrency", "所需副本数"),
    "parallel_efficiency": ("parallel efficiency at the batch", "并行效率(该批大小)"),
    "parallel_efficiency_rule": ("parallel efficiency, rule", "并行效率(经验)"),
    "rule_prefill_ms": ("prefill, rule", "prefill(经验公式)"),
    "rule_tpot_floor_ms": ("TPOT floor: reading all weights", "TPOT 下界(读全部权重)"),
    "rule_decode_tokens_per_s_per_user": ("decode rate, rule", "decode 速率(经验公式)"),
    "moe_conservative_tokens_per_s_per_user": ("MoE conservative: all experts", "MoE 保守(读全部专家)"),
    "moe_optimistic_tokens_per_s_per_user": ("MoE optimistic: active experts", "MoE 乐观(仅激活专家)"),
    "rule_k_requests": ("K, rule", "K(经验公式)"),
    "rule_l_requests": ("L, rule: no batching", "L(经验公式,不计批处理)"),
    "rule_bottleneck": ("bottleneck, rule", "瓶颈(经验公式)"),
    "min": ("minimum", "最小"),
    "dev": ("development", "开发"),
    "prod": ("production", "生产"),
    "verified": ("verified", "已验证"),
    "measured": ("measured", "实测"),
    "cited": ("cited", "引用"),
    "inferred": ("inferred", "推断"),
    "estimated": ("estimated", "估算"),
    "assumed": ("assumed", "假设"),
    "KV memory (K)": ("KV memory (K)", "KV 显存 (K)"),
    "token budget": ("token budget", "每步 token 预算"),
    "memory capacity": ("memory capacity", "显存容量"),
    "memory bandwidth / compute": ("memory bandwidth / compute", "显存带宽 / 算力"),
    "requests": ("requests", "请求"),
    "tokens": ("tokens", "token"),
    "blocks": ("blocks", "块"),
    "replicas": ("replicas", "副本"),
    "share": ("share", "比例"),
    "left free on purpose": ("left free on purpose", "有意留空"),
    "no recurrent layers": ("no recurrent layers", "无循环层"),
    "recurrent layers": ("recurrent layers", "循环层"),
    "as the engine prints it": ("as the engine prints it", "与引擎日志口径一致"),
    "agrees with the config": ("agrees with the config", "与 config 相符"),
    "share of visible memory": ("share of visible memory", "占可见显存"),
    "deducted from the budget": ("deducted from the budget", "从预算中扣除"),
    "outside the budget: keep this much free": (
        "outside the budget: keep this much free",
        "在预算之外:须另留这么多",
    ),
}

_NUMBER = r"([\d,.]+)"
PATTERNS: tuple[tuple[str, str], ...] = (
    (rf"TP {_NUMBER} does not divide {_NUMBER} attention heads", r"TP \1 不能整除 \2 个注意力头"),
    (rf"TP {_NUMBER} and {_NUMBER} key/value heads do not divide one another", r"TP \1 与 \2 个 KV 头互不整除"),
    (rf"TP {_NUMBER} does not divide the feed-forward width {_NUMBER}", r"TP \1 不能整除前馈宽度 \2"),
    (rf"TP {_NUMBER} does not divide the expert width {_NUMBER}", r"TP \1 不能整除专家宽度 \2"),
    (
        rf"max_model_len {_NUMBER} is beyond the {_NUMBER} tokens the model allows",
        r"max_model_len \1 超过模型允许的 \2 token",
    ),
    (
        rf"no memory is left for the KV cache: (-?[\d,.]+) GiB a GPU after {_NUMBER} of weights on {_NUMBER} visible",
        r"没有显存可留给 KV 缓存:可见 \3 GiB,权重占 \2 GiB 后每卡剩 \1 GiB",
    ),
    (
        rf"the KV cache's {_NUMBER} blocks hold no request of max_model_len {_NUMBER} \({_NUMBER} blocks\)",
        r"KV 缓存的 \1 个块放不下一个 max_model_len \2 的请求(需 \3 个块)",
    ),
    (rf"It fits with (--[\w-]+) {_NUMBER}\.", r"改为 \1 \2 即可。"),
    (rf"It fits with tensor parallel {_NUMBER}\.", r"改为张量并行 \1 即可。"),
    (r"It fits in (\w+)\.", r"权重改用 \1 即可。"),
    (rf"It fits on a GPU with {_NUMBER} GiB visible\.", r"换用可见显存 \1 GiB 的 GPU 即可。"),
    (
        r"No single change of utilisation, length, tensor parallel, precision or GPU makes it fit; combine them\.",
        "单独改利用率、长度、张量并行、精度或 GPU 都不够,须组合调整。",
    ),
    (
        rf"CUDA graphs take {_NUMBER} GiB outside the budget and {_NUMBER} GiB is left: warm-up may run out",
        r"CUDA 图需占预算外 \1 GiB,仅剩 \2 GiB:预热时可能显存不足",
    ),
    (
        r"(\S+) ([\d.]+): the newest the catalogue has figures of",
        r"\1 \2:目录中有数据的最新版本",
    ),
    (rf"isl {_NUMBER} tokens", r"输入 \1 token"),
    (rf"osl {_NUMBER} tokens", r"输出 \1 token"),
    (rf"(TTFT|TPOT) target {_NUMBER} ms", r"\1 目标 \2 ms"),
    (rf"requests of {_NUMBER} tokens, in whole blocks", r"每请求 \1 token,按整块计"),
    (rf"{_NUMBER} sequences, {_NUMBER} batched tokens", r"\1 个序列,每步 \2 token"),
    (rf"{_NUMBER} group\(s\) of layers", r"\1 组层"),
    (
        r"no source gives (\S+)'s memory bandwidth or 16-bit rate, so no time is computed",
        r"没有来源给出 \1 的显存带宽或 16 位算力,故不计算时间",
    ),
)
"""The estimator's sentences, whole, and their Chinese."""


def word(text: str, lang: str) -> str:
    """A heading, name, label or sentence of the estimator in a language; unknown text stays as it is."""
    at = LANGUAGES.index(lang)
    if text in HEADINGS and text not in NAMES:
        return HEADINGS[text][at]
    if text in NAMES:
        return NAMES[text][at]
    if lang == "zh":
        for pattern, translated in PATTERNS:
            if re.fullmatch(pattern, text):
                return re.sub(pattern, translated, text)
    return text


def heading(name: str, lang: str) -> str:
    """A heading or column title."""
    return HEADINGS[name][LANGUAGES.index(lang)]


def sentence(name: str, lang: str, **values: object) -> str:
    """A sentence with its values."""
    return SENTENCES[name][LANGUAGES.index(lang)].format(**values)
