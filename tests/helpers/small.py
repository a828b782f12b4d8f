"""A whole small notebook that keeps every rule of the book, for tests to build, break and run."""

from pathlib import Path

import nbformat

from bookbuild import execute, publish, source

HEAD = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3 (ipykernel)
  language: python
  name: python3
---

(sec-small)=
# A small section

What is the sum of the first four numbers?

After this section you can run a notebook.

*runs in 20 s · 1 GB · CPU*
"""

BODY = """
The sum is an even number.

```{code-cell} ipython3
import torch
import matplotlib.pyplot as plt
total = torch.arange(4).sum().item()
print(total)
```

```{code-cell} ipython3
---
mystnb:
  figure:
    caption: Four bars.
    name: fig-bars
  image:
    alt: Four bars that grow by one from left to right, starting at zero
---
fig, ax = plt.subplots(figsize=(3, 2))
ax.bar(range(4), range(4))
plt.show()
```

```{code-cell} ipython3
:tags: [nbval-ignore-output]

import time
begin = time.perf_counter()
seconds = time.perf_counter() - begin
print(f"{seconds:.2g} s")
```

```{code-cell} ipython3
:tags: [hide-cell]

assert seconds >= 0
```
"""

EXERCISE = """
## Exercises

(ex-00-weighted-sum)=
### Exercise: A weighted sum

*●○○ · 5 minutes*

Write `weighted_sum(weights, values)`.

<details><summary>Show a hint</summary>

Multiply, then add.

</details>

```{code-cell} ipython3
:tags: [exercise]

def weighted_sum(weights, values):
    \"\"\"The values, averaged with these weights.\"\"\"
    ### BEGIN SOLUTION
    return weights @ values
    ### END SOLUTION
```

+++ {"tags": ["solution-gate"]}

The secret of a weighted sum is a matrix product.

+++

```{code-cell} ipython3
:tags: [check]

from attnbook.checks import check
check("00.weighted_sum", weighted_sum)
```
"""

SOURCE = HEAD + BODY + EXERCISE


def source_in(folder: Path, text: str = SOURCE) -> Path:
    """The source as a file of a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "small.md").write_text(text, encoding="utf-8")
    return folder / "small.md"


def made_in(folder: Path, text: str = SOURCE) -> Path:
    """The executed notebook, beside its source."""
    path = source_in(folder, text)
    nb = publish.readable(source.read_source(path), path)
    execute.execute(nb, folder)
    nbformat.write(nb, path.with_suffix(".ipynb"))
    return path.with_suffix(".ipynb")
