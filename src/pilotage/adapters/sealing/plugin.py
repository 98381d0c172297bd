"""The plugin `sealing`: a sealer for applications that name a key file."""

from __future__ import annotations

from pilotage.adapters.sealing.key_file import SealingSettings, read_key_file, read_or_create_key_file
from pilotage.adapters.sealing.sealer import AesGcmSealer
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.container.application import Application
from pilotage.container.plugins import is_installed
from pilotage.container.pod import Pod


@Pod
def record_sealer(settings: SealingSettings) -> AesGcmSealer:
    """Return the sealer with the keys that the settings name.

    Raises:
        KeyFileError: a key file cannot be used; the application does not start.
    """
    read = read_or_create_key_file if settings.creates_key else read_key_file
    return AesGcmSealer(read(settings.key_file), map(read_key_file, settings.old_key_files))


def initialize(app: Application) -> None:
    """Register the sealer if the extra is installed, a key file is named and the application has no sealer."""
    if app.contains(IRecordSealer) or not is_installed("cryptography"):
        return
    if app.contains(SealingSettings):
        app.add(record_sealer)
    elif (settings := SealingSettings.from_environment()) is not None:
        app.add(settings, record_sealer)
