"""Exports a Hugging Face model directory: config.json, safetensors, tokenizer.json.

files.py      reads the small files         shards.py    finds and reads tensors in safetensors files
config.py     reads the model's sizes       rope.py      reads its rotary positions
names.py      translates tensor names       source.py    quantises the weights while they are read
tokenizer.py  reads tokenizer and template  exporter.py  writes the bundle
"""
