"""Makes a model a folder of static files: a page that runs it in the browser, on the GPU or the CPU."""

from __future__ import annotations

from edgedec.export.web.folder import WebOrder, write_web_folder

__all__ = ["WebOrder", "write_web_folder"]
