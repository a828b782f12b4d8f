from ..collection import edits

edit = edits("10.message_batches")
edit("KeyError", "word_ids.get(word, 3)", "word_ids[word]")
edit("source: the dtype is float32, expected int64", ", dtype=torch.long", "")
edit("source: the shape is", "width = max(map(len, rows))", "width = 30")
edit("source: the shape is", "width = max(map(len, rows))", "width = 1 + max(map(len, rows))")
edit("one length a message", "len(row) for row in sources]", "len(row) for row in sources[:1]]")
edit("expected the tuple", "padded(sources), lengths, ", "padded(sources), ")


edit = edits("10.number_loss")
edit("the total is NaN", "torch.log_softmax(logits, dim=-1)", "logits.softmax(-1).log()")
edit("a float came back", "-(wanted * real).sum()", "-(wanted * real).sum().item()")
edit("no gradient goes back", "-(wanted * real).sum()", "-(wanted * real).sum().detach()")
edit("the dtype is float32", "log_softmax(logits,", "log_softmax(logits.float(),")
edit("expected the tuple", "return total, ", "return ")


edit = edits("10.fixed_vector")
edit(
    "no gradient reaches source",
    "state, states = vector,",
    "state, states = vector.detach(),",
    "token, vector]",
    "token, vector.detach()]",
)
edit("the vector: the shape is", "return vector,", "return vector.unsqueeze(1),")
edit("the states: the shape is", "dim=1)", "dim=0)")
edit("decoder(x, h) takes x", "torch.cat([token, vector], dim=-1)", "token")


edit = edits("10.read_message")
masked = "scores.masked_fill(~real, lowest), dim=-1) * real"
edit("a message without words", masked, "scores.masked_fill(~real, -torch.inf), dim=-1)")
edit("leaves NaN behind", masked, "scores + real.log(), dim=-1).nan_to_num()")
edit("padding gets the weight", masked, "scores.masked_fill(~real, lowest), dim=-1)")
edit("no gradient reaches W_h", "annotations @ W_h.T", "annotations @ W_h.detach().T")
edit(
    "the contexts: the shape is",
    "return weights @ annotations",
    "return (weights @ annotations).sum(1)",
)
edit("(contexts, weights)", "weights @ annotations, weights", "weights, weights @ annotations")
edit("weights[", "lowest = torch.finfo(scores.dtype).min", "lowest = -30.0")
edit("weights[", "lowest = torch.finfo(scores.dtype).min", "lowest = -1e4")


edit = edits("10.valid_number")
edit("step reads eos", "if last != eos:", "if True:")
edit("the result is", "range(longest)", "range(min(longest, 9))")
edit("the logarithm of a probability", "return tokens[:-1], log_p", "return tokens[:-1], -log_p")
edit("the result is", "return tokens[:-1], log_p", "return tokens, log_p")
edit("expected the tuple", "return tokens[:-1], log_p", "return tokens[:-1]")


edit = edits("10.excess_errors")
edit("None came back, but", "excess / count if count else None", "None")
edit("ZeroDivisionError", "if yes and no:", "if yes:")
edit("so expected None", "if count else None", "if count else 0.0")
edit("the keys are", "found[name] =", 'found["trait 0"] =')
edit("expected a dict", "return found", "return list(found.values())")
