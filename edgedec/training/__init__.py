"""Making what helps to draft for one target: its own replies are gathered, and drafters are made of them.

rollouts     the target's replies as token ids, in a file that survives a kill
gather       a model answers prompts in batches
tables       what follows where, counted in the replies
replay       tokens that a round would have committed, had it been drafted otherwise
make_tables  from replies to prepared tables
features     the target's hidden states and best tokens over these replies, kept on disk
order        the order of the data; schedule has the learning rate; unrolling the rows of a step and agreement
learner      a drafter as the trainer sees it; recipe has the settings of a run
adapter_*    a small model whose scales are trained; small_source reads it, small_model has it in torch
trainer      trains a learner; it and others that import torch are to be imported inside functions
"""
