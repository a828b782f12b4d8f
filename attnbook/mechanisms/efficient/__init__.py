"""Attention to fewer keys: windows, blocks, compressed keys, Linformer."""
