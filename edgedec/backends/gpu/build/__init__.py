"""From ``model.onnx`` to a program, a file for each op."""
