"""Makes a model a folder of static files: a page that runs it in the browser, on the GPU or the CPU."""

from __future__ import annotations

from edgedec.export.web.folder import write_web_folder

__all__ = ["write_web_folder"]
