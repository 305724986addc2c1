"""GPUs by WebGPU: ``model.onnx`` as a program of kernels in WGSL, with the bits of the CPU's kernels."""
