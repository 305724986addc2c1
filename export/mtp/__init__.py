"""Drafters of the layer that a checkpoint has for predicting further tokens (MTP, ``nextn``)."""
