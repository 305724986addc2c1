"""Bundles run by ONNX Runtime with EdgeDec's kernels."""
