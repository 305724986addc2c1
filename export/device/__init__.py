"""Puts a model and its drafters into one folder for a device; see ``core.device_folder``."""

from __future__ import annotations

from edgedec.export.device.choice import check_kinds, choose_drafters, named_model
from edgedec.export.device.folder import DeviceOrder, write_device_folder

__all__ = ["DeviceOrder", "check_kinds", "choose_drafters", "named_model", "write_device_folder"]
