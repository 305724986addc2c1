"""Makes a model a folder of static files: a page that runs it in the browser, on the GPU or the CPU."""
