"""Bundles for NPUs: passes of fixed lengths in standard ops, run by QNN in ONNX Runtime, or by OpenVINO."""
