"""Sealing of journal records with AES-256-GCM and a key file: `pip install "pilotage[sealing]"`."""

from pilotage.adapters.sealing.key_file import (
    KeyFileError,
    SealingKey,
    SealingSettings,
    create_key_file,
    read_key_file,
)
from pilotage.adapters.sealing.plugin import record_sealer
from pilotage.adapters.sealing.sealer import AesGcmSealer

__all__ = [
    "AesGcmSealer",
    "KeyFileError",
    "SealingKey",
    "SealingSettings",
    "create_key_file",
    "read_key_file",
    "record_sealer",
]
