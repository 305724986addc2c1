"""Puts a model and its drafters into one folder for a device; see ``core.device_folder``."""

from __future__ import annotations

from edgedec.export.device.choice import ChosenDrafters, choose_drafters
from edgedec.export.device.folder import DeviceOrder, write_device_folder

__all__ = ["ChosenDrafters", "DeviceOrder", "choose_drafters", "write_device_folder"]
