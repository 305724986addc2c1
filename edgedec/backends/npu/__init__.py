"""Bundles for NPUs: passes of fixed lengths in standard ops, run by a plug-in of ONNX Runtime."""
