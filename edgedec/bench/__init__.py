"""Measuring: what passes cost, how fast we are beside others, and how close to the exact model.

passes     the cost of one pass over k tokens, and how much of the memory's bandwidth decoding uses
versus     decoding, prefill, load and memory of several runtimes, taking turns in the same run
faithful   top-1 agreement and KL divergence from a float32 reference on real text
worker     each side runs in a process of its own, with an interpreter of its own (``peers/``)
"""
