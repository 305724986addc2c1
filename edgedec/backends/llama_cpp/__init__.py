"""llama.cpp as it is installed (extra ``gguf``): may it be missing, too old or broken.

binding.py       its C functions, through llama-cpp-python: a model and its cache
probe.py         the first load of a file with an installed library happens in another process
probe_worker.py  that process
advice.py        hints for a user about it

``edgedec.backends.llama_cpp.forward`` makes a ``Forward`` of it.
"""
