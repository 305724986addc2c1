"""Assembly: a loaded model with its budget, its drafters and the costs of its passes."""
