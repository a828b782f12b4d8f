"""Calling a function that runs in another process, which nobody has to trust.

Two processes, one protocol. The *grader* holds the checks, the seeds and the right results. The
*sandbox* holds a student's code and nothing else of value. They exchange data: numbers, texts,
tensors, lists. What a function returns is never unpickled, and nothing that comes from the sandbox
is ever called or run.

Modules:
    serialization: values as a JSON tree and a block of tensors, and back
    channel: messages over two pipes, with a time limit and a size limit
    rpc: calls in both directions, gradients included
    child: the process in the sandbox
    silent: what is mounted there over the hidden parts of the packages
"""
