"""PyTorch's Transformer with the weights of ours, and which of their gradients must agree."""

import math

import torch
from torch import nn

B, M, N, D, H, FF = 3, 4, 5, 8, 2, 12


def randomised(module, seed=0):
    """Every parameter away from the zeros and ones of its start, which would hide mistakes."""
    g = torch.Generator().manual_seed(seed)
    module.double()
    with torch.no_grad():
        for p in module.parameters():
            drawn = torch.randn(p.shape, generator=g, dtype=torch.float64)
            p.copy_(drawn * 0.4 + (0.5 if p.dim() == 1 else 0))
    return module


def attention_pairs(ours, theirs):
    parts = (ours.query_projection, ours.key_projection, ours.value_projection)
    return [
        ([p.weight for p in parts], theirs.in_proj_weight),
        ([p.bias for p in parts], theirs.in_proj_bias),
        ([ours.output_projection.weight], theirs.out_proj.weight),
        ([ours.output_projection.bias], theirs.out_proj.bias),
    ]


def layer_pairs(ours, theirs):
    """(our parameters, theirs that joins them) of an encoder or decoder layer."""
    pairs = attention_pairs(ours.attention, theirs.self_attn)
    modules = [
        (ours.feed_forward.hidden, theirs.linear1),
        (ours.feed_forward.output, theirs.linear2),
        (ours.around_attention.norm, theirs.norm1),
    ]
    if isinstance(theirs, nn.TransformerDecoderLayer):
        pairs += attention_pairs(ours.cross_attention, theirs.multihead_attn)
        modules += [
            (ours.around_cross_attention.norm, theirs.norm2),
            (ours.around_feed_forward.norm, theirs.norm3),
        ]
    else:
        modules += [(ours.around_feed_forward.norm, theirs.norm2)]
    return pairs + [
        ([getattr(a, name)], getattr(b, name)) for a, b in modules for name in ("weight", "bias")
    ]


def model_pairs(ours, theirs):
    """The same for a whole Transformer beside ``nn.Transformer``."""
    pairs = []
    for mine, other in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for a, b in zip(mine.layers, other.layers, strict=True):
            pairs += layer_pairs(a, b)
        if isinstance(mine.norm, nn.Identity):
            other.norm = None
        else:
            pairs += [([mine.norm.weight], other.norm.weight), ([mine.norm.bias], other.norm.bias)]
    return pairs


def copy_weights(pairs):
    with torch.no_grad():
        for parts, full in pairs:
            full.copy_(torch.cat(parts))
    return pairs


def positions(n, d):
    table = torch.zeros(n, d, dtype=torch.float64)
    for p in range(n):
        for k in range(d // 2):
            angle = p / 10000 ** (2 * k / d)
            table[p, 2 * k], table[p, 2 * k + 1] = math.sin(angle), math.cos(angle)
    return table


def embedded(embedding, tokens):
    d = embedding.weight.shape[1]
    return embedding.weight[tokens] * math.sqrt(d) + positions(tokens.shape[1], d)


def logits(ours, theirs, source, lengths, target, scale=1):
    """The whole model through ``nn.Transformer``, from embeddings times ``scale``."""
    outside = torch.arange(source.shape[1]) >= lengths[:, None]
    future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
    given = embedded(ours.source_embedding, source), embedded(ours.target_embedding, target)
    padding = {"src_key_padding_mask": outside, "memory_key_padding_mask": outside}
    return theirs(*(scale * x for x in given), tgt_mask=future, **padding) @ ours.output.weight.T
