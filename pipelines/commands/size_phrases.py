"""Sentences of the estimator and the planner in Chinese: what `capsheet size` shows beside names and figures.

Belongs here: pairs of an English sentence, as the code writes it, and its Chinese. `{x}` stands for any text, `{t_x}`
for text that is translated in turn, `{s_x}` for a source, `{n_x}` for a number. Does not: names and headings
(`size_texts`), sources of figures (`size_sources`).
"""

from __future__ import annotations

Pairs = tuple[tuple[str, str], ...]

REASONS: Pairs = (
    ("TP {n} does not divide {heads} attention heads", "TP {n} 不能整除 {heads} 个注意力头"),
    ("TP {n} and {heads} key/value heads do not divide one another", "TP {n} 与 {heads} 个 KV 头互不整除"),
    (
        "TP {n} does not divide the {n_groups} groups of the attention's output",
        "TP {n} 不能整除注意力输出的 {n_groups} 个组",
    ),
    (
        "TP {n} does not divide the vocabulary of {n_words}, padded to a multiple of {n_pad}",
        "TP {n} 不能整除补齐到 {n_pad} 倍数的词表 {n_words}",
    ),
    ("TP {n} does not divide the {t_part} {n_width}", "TP {n} 不能整除{t_part} {n_width}"),
    (
        "TP {n} cuts the {t_part} {n_width} into {n_each}, which the checkpoint's blocks of {n_block} do not divide",
        "TP {n} 把{t_part} {n_width} 切成 {n_each},检查点的 {n_block} 量化块不能整除",
    ),
    (
        "max_model_len {n} is beyond the {most} tokens the model allows",
        "max_model_len {n} 超过模型允许的 {most} token",
    ),
    (
        "no memory is left for the KV cache: {left} GiB a GPU after {weights} of weights on {visible} visible",
        "没有显存可留给 KV 缓存:可见 {visible} GiB,权重占 {weights} GiB 后每卡剩 {left} GiB",
    ),
    (
        "the KV cache's {blocks} blocks hold no request of max_model_len {n} ({needed} blocks)",
        "KV 缓存的 {blocks} 个块放不下一个 max_model_len {n} 的请求(需 {needed} 个块)",
    ),
    (
        "start-up would run out of memory once the cache is allocated: drawing for {n} sequences lacks {lacking} GiB "
        "beside the CUDA graphs",
        "分配缓存后启动会显存不足:为 {n} 个序列采样,除 CUDA 图外还缺 {lacking} GiB",
    ),
    (
        "{engine} does not take {t_feature}; it does from {since} on ({s_source})",
        "{engine} 不支持 {t_feature},自 {since} 起支持({s_source})",
    ),
    ("{engine} does not take {t_feature} ({s_source})", "{engine} 不支持 {t_feature}({s_source})"),
    (
        "TensorRT-LLM runs on NVIDIA cards only, and {gpu} is made by {vendor}",
        "TensorRT-LLM 只支持 NVIDIA,而 {gpu} 由 {vendor} 生产",
    ),
    ("not accounted for: {t_what}", "未计入:{t_what}"),
    (
        "how {engine} lays out the cache of compressed attention is not known",
        "{engine} 如何排布压缩注意力的缓存尚不清楚",
    ),
)

CHANGES: Pairs = (
    ("Use {engine} {version} or later.", "请用 {engine} {version} 或更新版本。"),
    ("Choose an engine, a card or a precision that goes with the others.", "请换用互相支持的引擎、加速卡或精度。"),
    ("It fits with --{flag} {n}.", "改为 --{flag} {n} 即可。"),
    ("It fits with tensor parallel {n} in {precision}.", "改为张量并行 {n} 并用 {precision} 权重即可。"),
    ("It fits with tensor parallel {n} on {gpu}.", "改为张量并行 {n} 并换用 {gpu} 即可。"),
    ("It fits with tensor parallel {n}.", "改为张量并行 {n} 即可。"),
    ("It fits without --{flag}.", "去掉 --{flag}(由引擎决定)即可。"),
    ("It fits on a GPU with {n} GiB visible, such as {gpu}.", "换用可见显存 {n} GiB 的 GPU(如 {gpu})即可。"),
    ("It fits in {precision}.", "权重改用 {precision} 即可。"),
    ("It fits on a GPU with {n} GiB visible.", "换用可见显存 {n} GiB 的 GPU 即可。"),
    (
        "No single change of utilisation, length, tensor parallel, precision or GPU makes it fit; combine them.",
        "单独改利用率、长度、张量并行、精度或 GPU 都不够,须组合调整。",
    ),
)

WARNINGS: Pairs = (
    (
        "CUDA graphs take {needed} GiB outside the budget and {left} GiB is left: warm-up may run out",
        "CUDA 图需占预算外 {needed} GiB,仅剩 {left} GiB:预热时可能显存不足",
    ),
    (
        "TP {n} crosses nodes of {size} {gpu}, and times assume the usual network between them",
        "TP {n} 跨越每节点 {size} 张 {gpu} 的边界,时间按常见的节点间网络假设",
    ),
    ("weights: {t_note}", "权重:{t_note}"),
    (
        "a share of {n_share} is above {n_most}, beyond which start-ups run out of memory in warm-up",
        "比例 {n_share} 高于 {n_most},超过后启动预热会显存不足",
    ),
    (
        "--coefficient {name}: {value} is outside its usual range, {low} to {high}",
        "--coefficient {name}:{value} 超出常见范围 {low} 至 {high}",
    ),
    ("{engine} {version}: the newest the catalogue has figures of", "{engine} {version}:目录中有数据的最新版本"),
    ("isl {n} tokens", "输入 {n} token"),
    ("osl {n} tokens", "输出 {n} token"),
    ("TTFT target {n} ms", "TTFT 目标 {n} ms"),
    ("TPOT target {n} ms", "TPOT 目标 {n} ms"),
    ("{field} {value} is the {kind} class default", "{field} {value} 取自 {kind} 的类默认值"),
    (
        "engines keep the cache of compressed attention in FP8, its rotated dimensions in {n} bits",
        "引擎以 FP8 保存压缩注意力的缓存,旋转维度为 {n} 位",
    ),
    (
        "no source gives {gpu}'s memory bandwidth or 16-bit rate, so no time is computed",
        "没有来源给出 {gpu} 的显存带宽或 16 位算力,故不计算时间",
    ),
)

NOTES: Pairs = (
    ("left free on purpose", "有意留空"),
    ("no recurrent layers", "无循环层"),
    ("recurrent layers", "循环层"),
    ("as the engine prints it", "与引擎日志口径一致"),
    ("agrees with the config", "与 config 相符"),
    ("share of visible memory", "占可见显存的比例"),
    ("share of weights and KV cache", "权重与 KV 缓存所占比例"),
    ("share of what is free after weights", "占加载权重后空闲显存的比例"),
    ("deducted from the budget", "从预算中扣除"),
    ("outside the budget: keep this much free", "在预算之外:须另留这么多"),
    ("requests of {n} tokens, in whole blocks", "每请求 {n} token,按整块计"),
    (
        "{seqs} sequences, {tokens} batched tokens; inside the memory left out",
        "{seqs} 个序列,每步 {tokens} token;含在预留显存之内",
    ),
    ("{seqs} sequences, {tokens} batched tokens", "{seqs} 个序列,每步 {tokens} token"),
    ("{n} group(s) of layers", "{n} 组层"),
    ("the files are {off} from what the config comes to ({size} GiB)", "文件与按 config 算出的 {size} GiB 相差 {off}"),
    (
        "the {own} checkpoint's {size} GiB say nothing about {other}",
        "{own} 检查点的 {size} GiB 不能说明 {other} 的大小",
    ),
    ("the files hold the tied head a second time; it is loaded once", "文件重复保存了共享的输出头,加载时只占一份"),
    ("{size} GiB of draft heads in the files are not loaded", "文件中 {size} GiB 的草稿头不加载"),
    ("files tie with the index's total_size", "文件大小与索引的 total_size 一致"),
    ("files are {off} from the index's total_size of {size} B", "文件与索引的 total_size {size} B 相差 {off}"),
    ("stored as {types}", "存储类型:{types}"),
    (
        "counts by type come to {off} of the files: packed or logical, so not used",
        "按类型计数与文件相差 {off}:为打包或逻辑计数,不采用",
    ),
    (
        "the weight files are of no known size (not told, or Git LFS pointers), so the config counts",
        "权重文件大小未知(未提供,或为 Git LFS 指针),故按 config 计算",
    ),
    (
        "{n} of the checkpoint's files are not here, so the index's total_size counts",
        "检查点缺 {n} 个文件,故以索引的 total_size 为准",
    ),
)

COMPATIBILITY: Pairs = (
    ("no source says whether {engine} takes {t_feature}", "没有来源说明 {engine} 是否支持 {t_feature}"),
    (
        "{t_feature}: stored so, widened to 16 bits in the kernel; that saves memory and not compute",
        "{t_feature}:仅以此精度存储,计算时在核函数内展开为 16 位,省显存而不省算力",
    ),
    ("{engine} takes {t_feature} from {since} on", "{engine} 自 {since} 起支持 {t_feature}"),
    (
        "{engine} runs on {gpu} through {vendor}'s own build or plugin; activation, graphs and what lies outside the "
        "allocator are taken from NVIDIA cards",
        "{engine} 须经 {vendor} 的专用版本或插件在 {gpu} 上运行;激活、图与分配器之外的显存取自 NVIDIA 卡的数据",
    ),
    (
        "before 0.9.2 vLLM keeps every token in sliding-window layers too: a later version holds more requests",
        "vLLM 0.9.2 之前滑动窗口层也保留全部 token:更新版本可容纳更多请求",
    ),
    (
        "{engine} does not make {precision} of this checkpoint as it loads: name a checkpoint that is in it",
        "{engine} 加载时不会把此检查点转为 {precision}:请指定该精度的检查点",
    ),
    (
        "the name of {file} tells no model: put its folder or hub id for MODEL in the command",
        "文件名 {file} 看不出模型:请在命令中把 MODEL 换成其目录或仓库名",
    ),
    (
        "the checkpoint runs code of its own (auto_map): read it before trusting it",
        "检查点会运行自带代码(auto_map):信任之前请先审阅",
    ),
    (
        "the newest figures of {engine} in the catalogue hold from {known} on and are taken for {version}",
        "目录中 {engine} 的最新数据自 {known} 起有效,此处用于 {version}",
    ),
    (
        "{engine} is older than {first}, the first version the catalogue tells apart: it takes the oldest figures",
        "{engine} 早于目录区分的首个版本 {first},采用最早的数据",
    ),
    (
        "{gpu} has no {type} rate in the catalogue: engines that run it there widen weights to 16 bits in the kernel, "
        "which saves memory and not compute",
        "目录中 {gpu} 无 {type} 算力:引擎在核函数内把权重展开为 16 位,省显存而不省算力",
    ),
    (
        "{generation} cards have no bfloat16: the command says --dtype half (float16)",
        "{generation} 不支持 bfloat16:命令中已加 --dtype half(float16)",
    ),
    ("an FP8 KV cache is widened as it is read on this card", "此卡读取 FP8 KV 缓存时须展开"),
    ("the documentation of {engine} names no KV cache in {dtype}", "{engine} 的文档未提及 {dtype} 的 KV 缓存"),
    (
        "the scales of an FP4 cache's blocks, about an eighth more, are not counted",
        "FP4 缓存的块缩放系数(约多八分之一)未计入",
    ),
    ("fp8_ds_mla is a layout of latent attention, which this model has not", "fp8_ds_mla 是 MLA 的布局,此模型没有 MLA"),
    ("set {key} to {value} in the YAML of {flags}", "在 {flags} 的 YAML 中设 {key} 为 {value}"),
    ("TensorRT-LLM has no flag for data parallel: start it {n} times", "TensorRT-LLM 无数据并行参数:请启动 {n} 份"),
    (
        "TensorRT-LLM has no flag for data parallel: set {key}: {value} in the YAML of {flags}",
        "TensorRT-LLM 无数据并行参数:请在 {flags} 的 YAML 中设 {key}: {value}",
    ),
    (
        "the command follows the documentation of {known}; an older version may want an engine built first",
        "命令依据 {known} 的文档;更早版本可能须先构建引擎",
    ),
)

FORMULAS: Pairs = (
    (
        "embedding + head + sum over layers (attention + norms + dense + experts) + vision",
        "嵌入 + 输出头 + 各层之和(注意力 + 归一化 + 稠密 + 专家)+ 视觉塔",
    ),
    (
        "parameters_total less routed experts a token leaves idle and the vision tower",
        "parameters_total 减去每 token 不激活的路由专家与视觉塔",
    ),
    (
        "bytes by part / the ranks that slice it; copies, embedding and head on their ranks; the binding stage",
        "各部分字节 / 切分它的卡数;复制部分、嵌入与输出头计入所在卡;取最紧的流水级",
    ),
    ("the larger of forward pass and sampler in the profiling run", "预跑时前向与采样两者取大"),
    ("engine profile at this TP", "引擎档案中该 TP 的数值"),
    ("a base, each layer and experts, by how many batch sizes are captured", "基数、每层与专家,随捕获的批大小数量而变"),
    ("sum over layers of cached elements of a rank x bytes of one", "各层每卡缓存元素数 x 元素字节之和"),
    ("whole blocks of the budget, in tokens as this engine counts them", "预算可容的整块数,按该引擎口径折算为 token"),
    (
        "blocks / blocks of a request of max_model_len tokens, on one engine core",
        "块数 / 一个 max_model_len 请求所需块数,单引擎核心",
    ),
    ("recurrent layers' state of one sequence", "循环层的每序列状态"),
    ("sum of the steps of one prompt alone, in chunks", "单个提示分块 prefill 的各步之和"),
    ("prefill + a request's time outside the steps", "prefill + 请求在步外的时间"),
    ("lanes x isl / prefill time", "通道数 x isl / prefill 时间"),
    ("as asked with --concurrency, else the limit of every bound", "--concurrency 给定的值,否则为各上限的最小值"),
    ("one decode step of a lane's share of the batch", "每通道批量的一个 decode 步"),
    ("1 / decode step", "1 / decode 步时"),
    ("batch / decode step", "批大小 / decode 步时"),
    ("decode step + the share of others' prefills that fall on it", "decode 步时 + 落在其上的他人 prefill 份额"),
    (
        "TPOT x spread ^ widening, wider on an accelerator without measurements",
        "TPOT x 离散度 ^ 放宽;无实测的加速卡更宽",
    ),
    (
        "K: blocks / blocks of a request of isl + osl tokens, over dp engine cores",
        "K:块数 / 一个 isl + osl 请求所需块数,乘 dp 个引擎核心",
    ),
    (
        "L: largest batch whose TPOT, prefills included, meets the target; none where no batch misses it",
        "L:含他人 prefill 的 TPOT 仍达标的最大批;若任何批都达标则不限",
    ),
    ("largest batch whose decode step alone meets the target", "仅 decode 步时达标的最大批"),
    ("the smallest of K, L, TTFT and max_num_seqs", "K、L、TTFT 与 max_num_seqs 的最小值"),
    ("the bound that gives the limit, or a full token budget before it", "决定上限的约束,或先行用满的每步 token 预算"),
    ("rate that keeps the limit in the engine", "使引擎内保持该并发的请求率"),
    ("floor(safety_factor x limit): where a load test begins", "floor(safety_factor x 上限):压测起点"),
    ("ceil(concurrency / first_load_test_requests)", "ceil(concurrency / first_load_test_requests)"),
    ("decode rate at TP n / (n x rate at TP 1), memory aside", "TP n 的 decode 速率 /(n x TP 1 的速率),不计显存"),
    ("as published for 1, 2 and 4 GPUs; the coefficient for eight", "1、2、4 卡取公布值,八卡取系数"),
    ("2 x active parameters x isl / (peak x GPUs x utilisation)", "2 x 激活参数 x isl /(峰值 x 卡数 x 利用率)"),
    (
        "weights of a GPU, embedding left out / its bandwidth: no decode step that reads them all is faster",
        "每卡权重(不含嵌入)/ 带宽:读全部权重的 decode 步不可能更快",
    ),
    (
        "bandwidth x utilisation x GPUs x communication / all weights (a batch touches most experts)",
        "带宽 x 利用率 x 卡数 x 通信效率 / 全部权重(成批时几乎触及所有专家)",
    ),
    ("the same, reading only the experts one token uses (batch 1)", "同上,但只读单个 token 的激活专家(批为 1)"),
    (
        "floor((memory - weights x (1 + activation share) - framework) / KV of isl + osl), per GPU",
        "floor((显存 - 权重 x (1 + 激活比例) - 框架)/ isl + osl 的 KV),每卡",
    ),
    (
        "floor(decode rate without batching / rate a user wants / degradation)",
        "floor(不成批的 decode 速率 / 用户目标速率 / 退化系数)",
    ),
    ("memory capacity where K <= L", "K <= L 时为显存容量"),
    (
        "visible x utilization - weights - activation - non_torch [- graphs from 0.21] - safety",
        "可见 x 利用率 - 权重 - 激活 - 非 PyTorch [- 图,自 0.21 起] - 安全余量",
    ),
    (
        "(visible - non_torch) x mem_fraction_static - weights - safety",
        "(可见 - 非 PyTorch)x mem_fraction_static - 权重 - 安全余量",
    ),
    (
        "(visible - weights - activation - non_torch) x free_gpu_memory_fraction - safety",
        "(可见 - 权重 - 激活 - 非 PyTorch)x free_gpu_memory_fraction - 安全余量",
    ),
)

FEATURES: Pairs = (
    ("attention's output", "注意力输出"),
    ("feed-forward width", "前馈宽度"),
    ("expert width", "专家宽度"),
    ("{precision} weights on {gpu}", "{gpu} 上的 {precision} 权重"),
)
"""Last, for it would match longer sentences."""
PHRASES: Pairs = (*REASONS, *CHANGES, *WARNINGS, *NOTES, *COMPATIBILITY, *FORMULAS, *FEATURES)
