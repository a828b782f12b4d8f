"""The table of Narang et al. 2021: modifications of the Transformer under one budget."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FAMILIES", "TABLE", "Row"]


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        parameters: In millions.
        operations: Per step, in 10¹².
        early: Loss on held-out text in nats per token after an eighth of the training, mean over
            runs.
        spread: Its standard deviation.
        final: Loss at the end, of one run.
    """

    label: str
    parameters: int
    operations: float
    steps_per_second: float
    early: float
    spread: float
    final: float


TABLE: dict[str, Row] = {
    "vanilla": Row("vanilla Transformer", 223, 11.1, 3.5, 2.182, 0.005, 1.838),
    "gelu": Row("GeLU", 223, 11.1, 3.58, 2.179, 0.003, 1.838),
    "swish": Row("Swish", 223, 11.1, 3.62, 2.186, 0.003, 1.847),
    "elu": Row("ELU", 223, 11.1, 3.56, 2.27, 0.007, 1.932),
    "glu": Row("GLU", 223, 11.1, 3.59, 2.174, 0.003, 1.814),
    "geglu": Row("GeGLU", 223, 11.1, 3.55, 2.13, 0.006, 1.792),
    "reglu": Row("ReGLU", 223, 11.1, 3.57, 2.145, 0.004, 1.803),
    "selu": Row("SeLU", 223, 11.1, 3.55, 2.315, 0.004, 1.948),
    "swiglu": Row("SwiGLU", 223, 11.1, 3.53, 2.127, 0.003, 1.789),
    "liglu": Row("LiGLU", 223, 11.1, 3.59, 2.149, 0.005, 1.798),
    "sigmoid": Row("Sigmoid", 223, 11.1, 3.63, 2.291, 0.019, 1.867),
    "softplus": Row("Softplus", 223, 11.1, 3.47, 2.207, 0.011, 1.85),
    "rms-norm": Row("RMS Norm", 223, 11.1, 3.68, 2.167, 0.008, 1.821),
    "rezero": Row("ReZero", 223, 11.1, 3.51, 2.262, 0.003, 1.939),
    "rezero-layer-norm": Row("ReZero + LayerNorm", 223, 11.1, 3.26, 2.223, 0.006, 1.858),
    "rezero-rms-norm": Row("ReZero + RMS Norm", 223, 11.1, 3.34, 2.221, 0.009, 1.875),
    "fixup": Row("Fixup", 223, 11.1, 2.95, 2.382, 0.012, 2.067),
    "deepest": Row("24 layers, d_ff = 1536, H = 6", 224, 11.1, 3.33, 2.2, 0.007, 1.843),
    "deeper": Row("18 layers, d_ff = 2048, H = 8", 223, 11.1, 3.38, 2.185, 0.005, 1.831),
    "wider": Row("8 layers, d_ff = 4608, H = 18", 223, 11.1, 3.69, 2.19, 0.005, 1.847),
    "widest": Row("6 layers, d_ff = 6144, H = 24", 223, 11.1, 3.7, 2.201, 0.01, 1.857),
    "block-sharing": Row("Block sharing", 65, 11.1, 3.91, 2.497, 0.037, 2.164),
    "block-sharing-factorised": Row(
        "block sharing, factorised embeddings", 45, 9.4, 4.21, 2.631, 0.305, 2.183
    ),
    "block-sharing-factorised-shared": Row(
        "block sharing, factorised & shared embeddings", 20, 9.1, 4.37, 2.907, 0.313, 2.385
    ),
    "encoder-sharing": Row("Encoder only block sharing", 170, 11.1, 3.68, 2.298, 0.023, 1.929),
    "decoder-sharing": Row("Decoder only block sharing", 144, 11.1, 3.7, 2.352, 0.029, 2.082),
    "factorised": Row("factorised Embedding", 227, 9.4, 3.8, 2.208, 0.006, 1.855),
    "factorised-shared": Row("factorised & shared embeddings", 202, 9.1, 3.92, 2.32, 0.01, 1.952),
    "tied-inputs": Row(
        "Tied encoder/decoder input embeddings", 248, 11.1, 3.55, 2.192, 0.002, 1.84
    ),
    "tied-decoder": Row(
        "Tied decoder input and output embeddings", 248, 11.1, 3.57, 2.187, 0.007, 1.827
    ),
    "untied": Row("Untied embeddings", 273, 11.1, 3.53, 2.195, 0.005, 1.834),
    "adaptive-inputs": Row("Adaptive input embeddings", 204, 9.2, 3.55, 2.25, 0.002, 1.899),
    "adaptive-softmax": Row("Adaptive softmax", 204, 9.2, 3.6, 2.364, 0.005, 1.982),
    "adaptive-softmax-wide": Row(
        "Adaptive softmax without projection", 223, 10.8, 3.43, 2.229, 0.009, 1.914
    ),
    "mixture-of-softmaxes": Row("Mixture of softmaxes", 232, 16.3, 2.24, 2.227, 0.017, 1.821),
    "transparent": Row("Transparent attention", 223, 11.1, 3.33, 2.181, 0.014, 1.874),
    "dynamic-convolution": Row("Dynamic convolution", 257, 11.8, 2.65, 2.403, 0.009, 2.047),
    "lightweight-convolution": Row("Lightweight convolution", 224, 10.4, 4.07, 2.37, 0.01, 1.989),
    "evolved": Row("Evolved Transformer", 217, 9.9, 3.09, 2.22, 0.003, 1.863),
    "synthesizer-dense": Row("Synthesizer (dense)", 224, 11.4, 3.47, 2.334, 0.021, 1.962),
    "synthesizer-dense-plus": Row("Synthesizer (dense plus)", 243, 12.6, 3.22, 2.191, 0.01, 1.84),
    "synthesizer-dense-alpha": Row(
        "Synthesizer (dense plus alpha)", 243, 12.6, 3.01, 2.18, 0.007, 1.828
    ),
    "synthesizer-factorised": Row("Synthesizer (factorised)", 207, 10.1, 3.94, 2.341, 0.017, 1.968),
    "synthesizer-random": Row("Synthesizer (random)", 254, 10.1, 4.08, 2.326, 0.012, 2.009),
    "synthesizer-random-plus": Row("Synthesizer (random plus)", 292, 12, 3.63, 2.189, 0.004, 1.842),
    "synthesizer-random-alpha": Row(
        "Synthesizer (random plus alpha)", 292, 12, 3.42, 2.186, 0.007, 1.828
    ),
    "universal": Row("Universal Transformer", 84, 40, 0.88, 2.406, 0.036, 2.053),
    "mixture-of-experts": Row("Mixture of experts", 648, 11.7, 3.2, 2.148, 0.006, 1.785),
    "switch": Row("Switch Transformer", 1100, 11.7, 3.18, 2.135, 0.007, 1.758),
    "funnel": Row("Funnel Transformer", 223, 1.9, 4.3, 2.288, 0.008, 1.918),
    "weighted": Row("Weighted Transformer", 280, 71, 0.59, 2.378, 0.021, 1.989),
    "product-keys": Row("Product key memory", 421, 386.6, 0.25, 2.155, 0.003, 1.798),
}
"""Our name of a modification → its row. Source: Narang et al. 2021, table 1."""

FAMILIES: dict[str, tuple[str, ...]] = {
    "activation": ("gelu", "swish", "elu", "selu", "sigmoid", "softplus"),
    "gate": ("glu", "geglu", "reglu", "swiglu", "liglu"),
    "norm and residual": ("rms-norm", "rezero", "rezero-layer-norm", "rezero-rms-norm", "fixup"),
    "depth or width": ("deepest", "deeper", "wider", "widest"),
    "shared blocks": (
        "block-sharing",
        "block-sharing-factorised",
        "block-sharing-factorised-shared",
        "encoder-sharing",
        "decoder-sharing",
    ),
    "embedding": (
        "factorised",
        "factorised-shared",
        "tied-inputs",
        "tied-decoder",
        "untied",
        "adaptive-inputs",
    ),
    "softmax": ("adaptive-softmax", "adaptive-softmax-wide", "mixture-of-softmaxes"),
    "convolution": ("dynamic-convolution", "lightweight-convolution", "evolved"),
    "synthesizer": (
        "synthesizer-dense",
        "synthesizer-dense-plus",
        "synthesizer-dense-alpha",
        "synthesizer-factorised",
        "synthesizer-random",
        "synthesizer-random-plus",
        "synthesizer-random-alpha",
    ),
    "more parameters": ("mixture-of-experts", "switch", "product-keys"),
    "other": ("transparent", "universal", "funnel", "weighted"),
}
"""What kind of change a row is; every row but the first is in one family."""
