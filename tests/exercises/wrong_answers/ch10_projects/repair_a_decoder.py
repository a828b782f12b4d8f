import math

import torch
from torch.nn import functional as F

from ..collection import edits, wrong

edit = edits("10.bits_by_position")
edit("the costs are in nats", " / math.log(2)", "")
edit("these are bits per token", "characters[:, p:q].sum()", "cost[:, p:q].numel()")
edit("each stretch begins at the first position", "[:, p:q]", "[:, :q]")
edit("a stretch ends before it", "[:, p:q]", "[:, p : q + 1]")
edit(
    "the quotients are averaged",
    "cost[:, p:q].sum() / characters[:, p:q].sum()",
    "(cost / characters)[:, p:q].mean()",
)
edit("no gradient goes back", "logits.mT", "logits.detach().mT")
edit("the shape is", "zip(edges, edges[1:])", "zip([0, *edges], edges)")


@wrong("10.bits_by_position", "an exponential overflowed")
def with_exponentials(logits, targets, characters, edges):
    p = logits.exp() / logits.exp().sum(-1, keepdim=True)
    cost = -p.gather(-1, targets[..., None])[..., 0].log2()
    return torch.stack(
        [cost[:, p:q].sum() / characters[:, p:q].sum() for p, q in zip(edges, edges[1:])]
    )


@wrong("10.bits_by_position", "the texts are averaged")
def text_by_text(logits, targets, characters, edges):
    cost = F.cross_entropy(logits.mT, targets, reduction="none") / math.log(2)
    rows = [cost[:, p:q].sum(1) / characters[:, p:q].sum(1) for p, q in zip(edges, edges[1:])]
    return torch.stack([row.mean() for row in rows])


edit = edits("10.two_equalities")
edit("as max(0.0, nan) does", ".nan_to_num(math.inf)", ".nan_to_num(0.0)")
edit(
    "expected the largest",
    "far.append(whole - reference)",
    "far.append((whole - reference).abs().mean())",
)
edit(
    "only the last position of a row",
    "far.append(whole - reference)",
    "far.append((whole - reference)[-1])",
)
edit(
    "only the last position of a prefix",
    "read(text[:m]) - whole[:m]",
    "read(text[:m])[-1] - whole[m - 1]",
)
edit("the end of the whole row", "- whole[:m] for", "- whole[-m:] for")
edit("compare them with the whole row", "- whole[:m] for", "- reference[:m] for")
edit(
    "the two differences are exchanged",
    "largest(far), largest(near)",
    "largest(near), largest(far)",
)
edit("has a sign", "whole - reference)", "(whole - reference).clamp(min=0))")


@wrong("10.two_equalities", "as max(0.0, nan) does")
def with_pythons_max(read, rows, lengths):
    far = near = 0.0
    for text, reference in rows:
        whole = read(text)
        far = max(far, (whole - reference).abs().max().item())
        for m in lengths:
            if m < len(text):
                near = max(near, (read(text[:m]) - whole[:m]).abs().max().item())
    return far, near


@wrong("10.two_equalities", "only the first row is compared")
def first_row(read, rows, lengths):
    whole = [read(text) for text, _ in rows]
    far = (whole[0] - rows[0][1]).abs().nan_to_num(math.inf).max().item()
    near = [
        (read(text[:m]) - now[:m]).abs().nan_to_num(math.inf).max().item()
        for now, (text, _) in zip(whole, rows)
        for m in lengths
        if m < len(text)
    ]
    return far, max(near, default=0.0)


edit = edits("10.examine_tensors")
edit("a gain below 0 is no sign", "tensor.mean() < 0.5", "tensor.min() < 1")
edit("about 0, those of a norm", "tensor.mean() < 0.5", "tensor.max() < 0")
edit(
    "stand in groups as the queries do",
    "turns and turns[0] > 1",
    "torch.cdist(each, each).fill_diagonal_(1).min() == 0",
)
edit("its heads differ", "turns and turns[0] > 1", "turns")
edit(
    "its heads differ",
    "torch.equal(each, each[:g].repeat(heads // g, 1))",
    "torch.allclose(each, each[:g].repeat(heads // g, 1), atol=0.1)",
)
edit("does not tie the two", 'config["tie_word_embeddings"] and output', "output")
edit("it equals the embedding", "not torch.equal", "torch.is_tensor(output) or torch.equal")
edit("its heads are repeated in turns", '("k_proj.weight", "v_proj.weight")', '"k_proj.weight"')
edit("expected a list of pairs", "return found", "return dict(found)")
edit("no pair (kind, name)", 'found.append(("norm", name))', "found.append(name)")
edit(
    "ties it to the embedding",
    '"lm_head.weight"))',
    '"lm_head.weight")) if len(output) > 99 else None',
)


@wrong("10.examine_tensors", "None came back")
def printed(config, tensors):
    for name in tensors:
        if "norm" in name and tensors[name].mean() < 0.5:
            print(name)


edit = edits("10.attention_by_distance")
edit("only n − distance of them", ".mean(-1) for far", ".sum(-1) / n for far")
edit("the weights at a distance are added up", ".mean(-1) for far", ".sum(-1) for far")
edit("the scale is missing", " / d**0.5", "")
edit("the two layouts are exchanged", '== "half"', '!= "half"')
edit("the layout is always half", 'layout == "half"', "True")
edit(
    "in turns", "turn(K).repeat_interleave(h // len(K), dim=0)", "turn(K).repeat(h // len(K), 1, 1)"
)
edit(
    "the keys are not turned",
    "turn(K)",
    'torch.cat(K.chunk(2, -1) if layout == "half" else [K[..., ::2], K[..., 1::2]], -1)',
)
edit("the keys after a query are not hidden", '.masked_fill(future, float("-inf"))', "")
edit("is NaN", "triu(1)", "triu(0)")
edit(
    "fall half as fast",
    "torch.arange(0, d, 2, dtype=Q.dtype) / d",
    "torch.arange(d // 2, dtype=Q.dtype) / d",
)
edit("no gradient reaches K", "turn(K)", "turn(K.detach())")
edit("right to some digits only", "dtype=Q.dtype", "dtype=torch.float32")
edit("the shape is", "torch.stack(means, dim=-1)", "torch.stack(means)")

edit = edits("10.repair_folder")
edit("add 1 to the gains", "mended[what] + 1", "mended[what]")
edit("1 is taken away", "mended[what] + 1", "mended[what] - 1")
edit("moved the wrong way", "(-1, d // 2, 2)", "(-1, 2, d // 2)")
edit(
    "moved across the heads",
    "rows.transpose(1, 2).flatten(0, 2)",
    "mended[what].unflatten(0, (-1, 2)).transpose(0, 1).flatten(0, 1)",
)
edit(
    "take the first, not each r-th",
    "mended[what][: once * d]",
    "mended[what].unflatten(0, (heads, d))[:: heads // once].flatten(0, 1)",
)
edit("num_key_value_heads is", 'config["num_key_value_heads"] = once', "pass")
edit("rope_scaling is still there", '("rope_theta", "rope_scaling")', '("rope_theta",)')
edit("rope_parameters is", '"rope_type": "default", ', "")
edit("max_position_embeddings is", 'config["max_position_embeddings"] = what', "pass")
edit("has no place in the folder", "del mended[what]", "pass")
edit(
    "changes its argument config in place",
    "config, mended = dict(config)",
    "config, mended = config",
)
edit(
    "changes its argument tensors in place", "mended[what] = mended[what] + 1", "mended[what] += 1"
)
edit("expected the tuple", "return config, mended", "return mended")
edit("its rows are as they were", "rows.transpose(1, 2).flatten(0, 2)", "rows.flatten(0, 2)")

edit = edits("10.write_with_less")
edit("turned as if fewer tokens stood before it", "place[:, None].to", "(place - t)[:, None].to")
edit(
    "new tokens do not see the prompt",
    "if block in caches:",
    "if block in caches and m > m:",
    "future = torch.arange(t + m) > place[:, None]",
    "future = torch.ones(m, m).triu(1).bool()",
)
edit("in turns", "part.repeat_interleave(h // len(k), dim=0)", "part.repeat(h // len(k), 1, 1)")
edit(
    "a token sees those after it",
    "torch.arange(t + m) > place[:, None]",
    "torch.zeros(m, t + m).bool()",
)
edit("turned one position too far", "place[:, None].to", "(place + (t > 0))[:, None].to")
edit("gate and up are exchanged", 'for p in ("gate", "up")', 'for p in ("up", "gate")')
edit("the last norm is left out", 'norm(x[-1], "model.norm.weight")', "x[-1]")
edit("the least likely token", ".argmax()", ".argmin()")
edit("the prompt comes back", "return written", "return list(prompt) + written")
edit("tokens came back", "while len(written) < count", "while len(written) < count + 1")
edit("None came back", "return written", "pass")


@wrong("10.write_with_less", "expected half at most")
def all_anew(config, tensors, prompt, count):
    d, h = config["head_dim"], config["num_attention_heads"]
    base, table = config["rope_parameters"]["rope_theta"], tensors["model.embed_tokens.weight"]

    def norm(x, name):
        mean = (x * x).mean(-1, keepdim=True)
        return x * (mean + config["rms_norm_eps"]).rsqrt() * tensors[name]

    def turn(x):
        n = x.shape[1]
        angle = torch.arange(n, dtype=x.dtype)[:, None] * base ** (
            -torch.arange(0, d, 2, dtype=x.dtype) / d
        )
        one, two = x.chunk(2, dim=-1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([one * cos - two * sin, one * sin + two * cos], dim=-1)

    def last(text):
        x = table[torch.tensor(text)]
        future = torch.ones(len(text), len(text)).triu(1).bool()
        for block in range(config["num_hidden_layers"]):
            at = f"model.layers.{block}."
            u = norm(x, at + "input_layernorm.weight")
            q, k, v = (
                (u @ tensors[f"{at}self_attn.{p}_proj.weight"].T)
                .unflatten(-1, (-1, d))
                .transpose(0, 1)
                for p in "qkv"
            )
            k, v = (part.repeat_interleave(h // len(k), dim=0) for part in (turn(k), v))
            scores = turn(q) @ k.mT / d**0.5
            weights = scores.masked_fill(future, float("-inf")).softmax(-1)
            context = (weights @ v).transpose(0, 1).flatten(1)
            x = x + context @ tensors[at + "self_attn.o_proj.weight"].T
            u = norm(x, at + "post_attention_layernorm.weight")
            gate, up = (u @ tensors[f"{at}mlp.{p}_proj.weight"].T for p in ("gate", "up"))
            x = x + (F.silu(gate) * up) @ tensors[at + "mlp.down_proj.weight"].T
        return norm(x[-1], "model.norm.weight") @ table.T

    text = list(prompt)
    for _ in range(count):
        text.append(int(last(text).argmax()))
    return text[len(prompt) :]
