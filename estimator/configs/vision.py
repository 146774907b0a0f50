"""Parameters of a vision tower and its projector, from the shapes its config states.

Belongs here: the tower's size. Does not: the memory its profile run takes (`estimator.memory`).
"""

from __future__ import annotations

from estimator.configs.fields import Fields, UnsupportedConfig


def vision_parameters(config: Fields, hidden: int) -> tuple[int, str | None]:
    """Parameters of the tower and projector, and what could not be accounted for (None when all was)."""
    try:
        vision = config.mapping("vision_config", "vision_tower_config", "visual")
        if vision is None or not vision.values:
            return 0, None
        return _tower(vision, config, hidden), None
    except UnsupportedConfig as problem:
        return 0, f"vision tower ({problem})"


def vision_shape(config: Fields) -> tuple[int, int]:
    """Layers and width of a `vision_config` as SGLang reads them, ViT-L's where unnamed; zeros without a tower."""
    try:
        vision = config.mapping("vision_config")
        if vision is None or not vision.values:
            return 0, 0
        return vision.integer("num_hidden_layers", default=24), vision.integer("hidden_size", default=1024)
    except UnsupportedConfig:
        return 0, 0


def _tower(vision: Fields, config: Fields, hidden: int) -> int:
    # Where a tower names both, hidden_size is the language model's (Qwen2-VL).
    width = vision.integer("embed_dim", "hidden_size", "vt_hidden_size", "width")
    depth = vision.integer("num_hidden_layers", "depth", "vt_num_hidden_layers", "layers")
    inner = vision.integer(
        "intermediate_size", "vt_intermediate_size", default=int(vision.number("mlp_ratio", default=4.0) * width)
    )
    patch = vision.integer("patch_size", default=14)
    channels = vision.integer("num_channels", "in_channels", default=3)
    temporal = vision.integer("temporal_patch_size", default=1)
    gated = vision.text("model_type") in {"pixtral", "qwen2_5_vl", "gemma4_vision"}
    qkv = vision.integer("qkv_hidden_size", default=width)
    layer = 4 * width * qkv + (3 if gated else 2) * width * inner + 6 * width + inner
    image = vision.integer("image_size", default=0, minimum=0)
    positions = vision.integer("num_position_embeddings", "position_embedding_size", default=0, minimum=0)
    if not positions and image and not gated:
        positions = (image // patch) ** 2
    tower = depth * layer + channels * temporal * patch * patch * width + positions * width
    merge = vision.integer(
        "spatial_merge_size", default=config.integer("spatial_merge_size", default=0, minimum=0), minimum=0
    )
    kernel = vision.integers("merge_kernel_size")
    if kernel:
        merge = kernel[0]
    if merge > 1:
        merged = width * merge * merge
        mergers = 1 + len(vision.integers("deepstack_visual_indexes") or [])
        first = width if vision.text("model_type") == "pixtral" else merged
        return tower + mergers * (merged * first + first * hidden)
    projector = (
        width * hidden
        if not vision.has("projector_input_dim")
        else (
            width * 4 * vision.integer("intermediate_size") + vision.integer("vision_output_dim", default=4096) * hidden
        )
    )
    if config.text("model_type").startswith("llava"):
        layers = config.values.get("vision_feature_layer")
        stacked = len(layers) if isinstance(layers, list) else 1
        projector = width * stacked * hidden + hidden * hidden
    return tower + projector
