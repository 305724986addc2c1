"""Tasks of ``edgedec bench accuracy``: one module each, with the function ``run``."""
