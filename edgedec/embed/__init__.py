"""Vectors and scores of whole texts: encoders, their memory, and how texts become batches."""
