import math

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from .collection import right, solution


@right("10.message_batches")
def with_pad_sequence(pairs, words, digits):
    words, digits = list(words), list(digits)

    def ids(tokens, known):
        found = [4 + known.index(t) if t in known else 3 for t in tokens]
        return torch.tensor(found, dtype=torch.int64)

    source = [ids(pair[0], words) for pair in pairs]
    number = [ids(pair[1], digits) for pair in pairs]
    one, two = torch.tensor([1]), torch.tensor([2])
    return (
        pad_sequence(source, batch_first=True),
        torch.tensor(list(map(len, source))),
        pad_sequence([torch.cat([one, row]) for row in number], batch_first=True),
        pad_sequence([torch.cat([row, two]) for row in number], batch_first=True),
    )


@right("10.message_batches")
def written_into_zeros(pairs, words, digits):
    lengths = torch.tensor([len(said) for said, _ in pairs])
    steps = 1 + max(len(number) for _, number in pairs)
    source = torch.zeros(len(pairs), int(lengths.max()), dtype=torch.long)
    target_in = torch.zeros(len(pairs), steps, dtype=torch.long)
    target_out = target_in.clone()
    for row, (said, number) in enumerate(pairs):
        for i, word in enumerate(said):
            source[row, i] = 4 + words.index(word) if word in words else 3
        target_in[row, 0] = 1
        for i, digit in enumerate(number):
            target_in[row, i + 1] = target_out[row, i] = 4 + digits.index(digit)
        target_out[row, len(number)] = 2
    return [source, lengths, target_in, target_out]


@right("10.number_loss")
def with_cross_entropy(logits, target):
    total = F.cross_entropy(logits.transpose(1, 2), target, ignore_index=0, reduction="sum")
    count, exact = int((target > 0).sum()), 0
    for said, wanted in zip(logits.argmax(-1), target):
        length = int((wanted > 0).sum())
        exact += torch.equal(said[:length], wanted[:length])
    return total, count, exact


@right("10.number_loss")
def with_logsumexp(logits, target):
    real = target.ne(0)
    rows = logits[real]
    losses = rows.logsumexp(1) - rows[torch.arange(len(rows)), target[real]]
    missed = (logits.argmax(-1) != target).logical_and(real).sum(1)
    return losses.sum(), real.sum().item(), (missed == 0).sum().item()


@right("10.fixed_vector")
def message_by_message(encoder, decoder, source, lengths, target, size):
    vectors, rows = [], []
    for x, length, y in zip(source, lengths.tolist(), target):
        vector = x.new_zeros(1, size)
        for word in x[:length]:
            vector = encoder(word[None], vector)
        states = [vector]
        for token in y:
            states.append(decoder(torch.hstack([token[None], vector]), states[-1]))
        vectors.append(vector)
        rows.append(torch.cat(states[1:]))
    return torch.cat(vectors), torch.stack(rows)


@right("10.fixed_vector")
def all_states_then_the_last(encoder, decoder, source, lengths, target, size):
    states = [source.new_zeros(len(source), size)]
    for word in source.unbind(1):
        states.append(encoder(word, states[-1]))
    vector = torch.stack(states)[lengths, torch.arange(len(source))]
    state, out = vector, []
    for t in range(target.shape[1]):
        state = decoder(torch.cat((target[:, t], vector), 1), state)
        out += [state]
    return [vector, torch.stack(out, 1)]


@right("10.read_message")
def message_after_message(states, annotations, lengths, W_s, W_h, v):
    contexts, weights = [], []
    for s, h, length in zip(states, annotations, lengths.tolist()):
        words = h[:length]
        hidden = torch.tanh(F.linear(s, W_s)[:, None] + F.linear(words, W_h))
        alpha = torch.softmax(hidden @ v, 1)
        contexts.append(alpha @ words)
        weights.append(F.pad(alpha, (0, len(h) - length)))
    return torch.stack(contexts), torch.stack(weights)


@right("10.read_message")
def without_nan_of_empty_messages(states, annotations, lengths, W_s, W_h, v):
    inside = F.linear(states, W_s)[:, :, None] + F.linear(annotations, W_h)[:, None]
    padding = torch.arange(annotations.shape[1]) >= lengths[:, None, None]
    scores = (inside.tanh() @ v).masked_fill(padding, -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return torch.bmm(weights, annotations), weights


@right("10.valid_number")
def in_two_lists(step, state, bos, eos, beam_size, longest, valid):
    running, finished = [(0.0, (), state)], []
    for _ in range(longest):
        grown = []
        for log_p, tokens, state in running:
            following, after = step(tokens[-1] if tokens else bos, state)
            for token in range(len(following)):
                grown.append((log_p + float(following[token]), (*tokens, token), after))
        both = sorted([*grown, *finished], key=lambda one: -one[0])[:beam_size]
        finished = [one for one in both if one[1][-1] == eos]
        running = [one for one in both if one[1][-1] != eos]
        if not running:
            break
    for log_p, tokens, _ in finished:
        if valid(tokens[:-1]):
            return list(tokens[:-1]), log_p
    return None


@right("10.valid_number")
def log_p_as_a_tensor(*given):
    found = solution("10.valid_number")(*given)
    return found and (torch.tensor(found[0], dtype=torch.long), torch.tensor(found[1]))


@right("10.excess_errors")
def with_numpy(wrong, lengths, traits):
    wrong, lengths = np.array(wrong), np.array(lengths)

    def excess(has):
        parts = []
        for n in np.unique(lengths):
            a, b = wrong[has & (lengths == n)], wrong[~has & (lengths == n)]
            if a.size and b.size:
                parts.append((a.size, a.mean() - b.mean()))
        if not parts:
            return None
        sizes, gaps = zip(*parts)
        return np.average(gaps, weights=sizes)

    return {name: excess(np.array(has)) for name, has in traits.items()}


@right("10.excess_errors")
def observed_and_expected(wrong, lengths, traits):
    result = {}
    for name, has in traits.items():
        observed = expected = count = 0
        for n in sorted(set(lengths)):
            others = [w for w, k, h in zip(wrong, lengths, has) if k == n and not h]
            mine = [w for w, k, h in zip(wrong, lengths, has) if k == n and h]
            if others and mine:
                observed += sum(mine)
                expected += len(mine) * sum(others) / len(others)
                count += len(mine)
        result[name] = (observed - expected) / count if count else None
    return result


@right("10.bits_by_position")
def token_by_token(logits, targets, characters, edges):
    log_p = logits.log_softmax(-1)
    found = []
    for p, q in zip(edges, edges[1:]):
        bits, count = 0.0, 0
        for b in range(len(targets)):
            for i in range(p, q):
                bits = bits - log_p[b, i, targets[b, i]] / math.log(2)
                count += int(characters[b, i])
        found.append(bits / count)
    return torch.stack(found)


@right("10.bits_by_position")
def by_running_sums(logits, targets, characters, edges):
    logits = logits.double()  # sums of large numbers cancel
    cost = torch.logsumexp(logits, -1) - logits.gather(-1, targets[..., None])[..., 0]
    sums = torch.nn.functional.pad(cost.sum(0).cumsum(0), (1, 0))[edges].diff()
    counts = torch.nn.functional.pad(characters.sum(0).cumsum(0), (1, 0))[edges].diff()
    return sums / counts / math.log(2)


@right("10.two_equalities")
def in_numpy(read, rows, lengths):
    far = near = 0.0
    for text, reference in rows:
        whole = read(text).numpy()
        off = [np.abs(whole - reference.numpy()).max()]
        change = [0.0]
        for m in filter(lambda m: m < len(text), lengths):
            change.append(np.abs(read(text[:m]).numpy() - whole[:m]).max())
        far = max(far, *(math.inf if math.isnan(x) else float(x) for x in off))
        near = max(near, *(math.inf if math.isnan(x) else float(x) for x in change))
    return far, near


@right("10.two_equalities")
def as_tensors(read, rows, lengths):
    return [
        torch.tensor(value, dtype=torch.float64)
        for value in solution("10.two_equalities")(read, rows, lengths)
    ]


@right("10.examine_tensors")
def by_counting_heads(config, tensors):
    found, heads = set(), config["num_key_value_heads"]
    for name, tensor in tensors.items():
        if name.endswith("norm.weight") and abs(tensor.mean()) < abs(tensor.mean() - 1):
            found.add(("norm", name))
        elif name.endswith(("k_proj.weight", "v_proj.weight")):
            each = [part.tolist() for part in tensor.chunk(heads)]
            first = [each.index(part) for part in each]  # of each head, its first copy
            kept = len(set(first))
            if 1 < kept < heads and first == [i % kept for i in range(heads)]:
                found.add(("keys", name))
        elif name == "lm_head.weight" and config["tie_word_embeddings"]:
            if (tensor != tensors["model.embed_tokens.weight"]).any():
                found.add(("output", name))
    return found


@right("10.attention_by_distance")
def with_complex_numbers(Q, K, base, layout):
    h, n, d = Q.shape
    k = torch.arange(d // 2, dtype=torch.float64)
    angle = torch.arange(n)[:, None] * base ** (-2 * k / d)
    turn = torch.polar(torch.ones_like(angle), angle)

    def pairs(x):
        x = x.double()
        one, two = (x[..., ::2], x[..., 1::2]) if layout == "interleaved" else x.chunk(2, -1)
        return torch.complex(one, two) * turn

    q, keys = pairs(Q), pairs(K).repeat_interleave(h // len(K), 0)
    scores = torch.einsum("hnk,hmk->hnm", q, keys.conj()).real / math.sqrt(d)
    place = torch.arange(n)
    far = place[:, None] - place
    weights = torch.where(far >= 0, scores, -torch.inf).softmax(-1)
    sums = [(weights * (far == t)).sum((1, 2)) / (n - t) for t in range(n)]
    return torch.stack(sums, 1).to(Q.dtype)


@right("10.repair_folder")
def by_rows(config, tensors, findings):
    config, mended = {**config}, {**tensors}
    d = config["head_dim"]
    order = [*range(0, d, 2), *range(1, d, 2)]
    for kind, what in sorted(findings, key=lambda pair: pair[0] != "keys"):
        if kind == "keys":
            heads = list(mended[what].split(d))
            again = [i for i in range(1, len(heads)) if torch.equal(heads[i], heads[0])]
            kept = again[0] if again else len(heads)
            mended[what] = torch.cat(heads[:kept])
            config["num_key_value_heads"] = kept
        elif kind == "layout":
            mended[what] = torch.cat([head[order] for head in mended[what].split(d)])
        elif kind == "norm":
            mended[what] = mended[what].add(1.0)
        elif kind == "output":
            mended.pop(what)
        elif kind == "base":
            config = {k: v for k, v in config.items() if k not in ("rope_theta", "rope_scaling")}
            config["rope_parameters"] = {"rope_theta": what, "rope_type": "default"}
        else:
            config["max_position_embeddings"] = what
    return config, mended


@right("10.write_with_less")
def in_numpy_with_lists(config, tensors, prompt, count):
    d, h, g = (config[f] for f in ("head_dim", "num_attention_heads", "num_key_value_heads"))
    T = {name: tensor.numpy() for name, tensor in tensors.items()}
    table, base = T["model.embed_tokens.weight"], config["rope_parameters"]["rope_theta"]
    kept = [([], []) for _ in range(config["num_hidden_layers"])]
    frequency = base ** (-np.arange(0, d, 2) / d)

    def norm(x, name):
        return x / np.sqrt((x * x).mean() + config["rms_norm_eps"]) * T[name]

    def turn(x, t):
        one, two = x[:, : d // 2], x[:, d // 2 :]
        cos, sin = np.cos(t * frequency), np.sin(t * frequency)
        return np.concatenate([one * cos - two * sin, one * sin + two * cos], 1)

    text = list(prompt)
    for t in range(len(prompt) + count - 1):
        x = table[text[t]]
        for block, (keys, values) in enumerate(kept):
            at = f"model.layers.{block}."
            u = norm(x, at + "input_layernorm.weight")
            q, k, v = (T[f"{at}self_attn.{p}_proj.weight"] @ u for p in "qkv")
            keys.append(turn(k.reshape(g, d), t))
            values.append(v.reshape(g, d))
            heads = []
            for head, query in enumerate(turn(q.reshape(h, d), t)):
                group = head // (h // g)
                scores = np.array([key[group] @ query for key in keys]) / math.sqrt(d)
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
                heads.append(sum(w * value[group] for w, value in zip(weights, values)))
            x = x + T[at + "self_attn.o_proj.weight"] @ np.concatenate(heads)
            u = norm(x, at + "post_attention_layernorm.weight")
            gate, up = (T[f"{at}mlp.{p}_proj.weight"] @ u for p in ("gate", "up"))
            x = x + T[at + "mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * up)
        if t >= len(prompt) - 1:
            text.append(int((table @ norm(x, "model.norm.weight")).argmax()))
    return text[len(prompt) :]
