"""Measurements of speed, memory and accuracy, beside other runtimes.

harness    worker processes, inputs, saved replies, order of turns, ratios
studies    one measurement a file; none prints anything
peers      one program a runtime, which runs in a process of its own
report     one report of one model on one machine, made of studies
"""
