"""Tests of GPUs: kernels in WGSL, the backend that runs them."""
