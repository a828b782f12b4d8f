"""The engine room: what makes attention fast or safe and is not the mechanism. Fused and streaming
kernels, dtypes, gradients by hand, numbers that are not finite; imports torch alone.
"""
