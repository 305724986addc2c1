"""Export of a Hugging Face model directory: config.json, safetensors, tokenizer.json.

files.py       its small files        shards.py    where its tensors lie, and reading them
config.py      its shape              rope.py      its rotary positions
names.py       names of tensors        source.py   the directory as a source of weights, quantised on the way
tokenizer.py   tokenizer and template  exporter.py  all of it into a bundle
"""
