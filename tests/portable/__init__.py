"""Models and single ops in runtimes that know nothing of our kernels."""
