from ..collection import edits, wrong

edit = edits("06.two_strangers")
edit("expected one of 'about as many'", "hardly any", "none")
edit("an int came back", '"hardly any"', "0")
edit("None came back", 'return "hardly any"', "pass")

edit = edits("06.average_weights")
edit(
    "right for small sizes, but with checkpoints",
    "for state in states]",
    "for state in states[-7:]]",
)
edit(
    "in half precision, which ends at 65,504",
    "stack.mean(0).to(newest.dtype)",
    "sum(state[name] for state in states) / len(states)",
)
edit(
    "expected that of the last checkpoint, not a mean",
    "result[name] = newest.clone()",
    "result[name] = torch.stack([state[name].double() for state in states]).mean(0)",
)
edit("expected that of the last checkpoint, got that of the first", "= newest", "= states[0][name]")
edit("the dtype is float64, expected float32", ".to(newest.dtype)", "")
edit("the dict lacks 'steps'", "result[name] = newest.clone()", "pass")
edit("a list came back", "return result", "return [states[-1]]")


@wrong("06.average_weights", "changes its argument states in place")
def into_the_first(states):
    result = states[0]
    for state in states[1:]:
        for name in result:
            result[name] += state[name]
    return {
        name: (t.double() / len(states)).to(t.dtype) if t.is_floating_point() else states[-1][name]
        for name, t in result.items()
    }


edit = edits("06.paper_bill")
edit("the backward pass takes twice as much again", "* 6 *", "* 2 *")
edit("its own eighth of the batch", "tokens / 8", "tokens")
edit("the bytes of the parameters is not 6.5", "* (1 + 1 + 2) * 4", "* 10")


edit = edits("06.token_batches")
edit(
    "in the order in which they are given: expected short ones first",
    "sorted(range(len(lengths)), key=lambda i: lengths[i])",
    "range(len(lengths))",
    "* lengths[i]",
    "* max(lengths[j] for j in [*batch, i])",
)
edit("the longest sentences come first", "i: ", "i: -", "* lengths[i]", "* lengths[batch[0]]")
edit("without its padding", "(len(batch) + 1) * lengths[i]", "sum(lengths[j] for j in [*batch, i])")
edit("the last batch is missing", "batches + [batch] if batch else batches", "batches")
edit("exactly the budget is allowed", "> budget", ">= budget")
edit(
    "after it has become too large",
    "if batch and (len(batch) + 1) * lengths[i] > budget:",
    "batch.append(i)\n        if len(batch) * lengths[i] > budget:",
    "batch = []\n        batch.append(i)",
    "batch = []",
)
edit(
    "the sentence that does not fit is lost",
    "batches.append(batch)\n            batch = []",
    "batches.append(batch)\n            batch = []\n            continue",
)
edit("the length of its first sentence", "1) * lengths[i]", "1) * lengths[batch[0]]")
edit(
    "a sentence longer than the budget is left out",
    "key=lambda i: lengths[i]):",
    "key=lambda i: lengths[i]):\n        if lengths[i] > budget:\n            continue",
)
edit("an empty batch stands before", "batch and ", "", "[batch] if batch else batches", "[batch]")
edit(
    "one list of positions came back",
    "return batches + [batch] if batch else batches",
    "return sorted(range(len(lengths)), key=lambda i: lengths[i])",
)
edit(
    "the batches hold the lengths",
    "return batches + [batch] if batch else batches",
    "return [[lengths[i] for i in part] for part in batches + [batch]]",
)
edit("equal lengths come in the wrong order", "lambda i: lengths[i]", "lambda i: (lengths[i], -i)")
