"""Making what helps to draft for one target: its own replies are gathered, and drafters are made of them.

rollouts   the target's replies as token ids, in a file that survives a kill
gather     a model answers prompts in batches
"""
