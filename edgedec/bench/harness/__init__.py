"""Parts that several studies share.

worker, serve, prepare     a process for each side, and the requests to it
runtimes                   the runtimes that can be compared, and how each is started
replies, journal           sides that answer the same prompts in rotation; answers kept in a file
texts, questions           inputs from files
chat_prompts               prompts as a chat makes them
pairing                    order of turns; medians and quartiles
memory_levels              budgets, absolute or relative to the memory without one
cgroups                    groups of processes whose memory the kernel limits
"""
