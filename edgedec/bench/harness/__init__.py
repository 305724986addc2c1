"""Parts that several studies share.

study                      the runner: cases that sides answer in turns, each side in a process of its own
journal, saved_lines       rows in a file, from which a study goes on
worker, serve, prepare     a process, the requests to it, and models in a runtime's own form
runtimes                   the runtimes that can be compared, and how each is started
replies                    conversations as cases: the next turn continues plain decoding's reply
texts, questions           inputs from files
chat_prompts               prompts as a chat makes them
schemas                    JSON schemas of many kinds
pairing                    order of turns; medians, quartiles, intervals
energy                     one meter for all sides, or one estimate
memory_levels              budgets, absolute or relative to the memory without one
cgroups                    groups of processes whose memory the kernel limits
other_load                 processor time that other programs take
"""
