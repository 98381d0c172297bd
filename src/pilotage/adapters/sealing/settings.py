"""Settings of sealing: the key files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pilotage.values import value

KEY_FILE = "PILOTAGE_SEALING_KEY_FILE"
OLD_KEY_FILES = "PILOTAGE_SEALING_OLD_KEY_FILES"


@value
class SealingSettings:
    """The key that seals, and older ones that still open.

    `creates_key` makes the key file at the first start. Leave it off if a missing file means that it was not
    mounted: records sealed with a new key cannot be opened with the old one, and vice versa.
    """

    key_file: Path
    old_key_files: tuple[Path, ...] = ()
    creates_key: bool = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> SealingSettings | None:
        """Return the settings in PILOTAGE_SEALING_KEY_FILE and PILOTAGE_SEALING_OLD_KEY_FILES (separated like PATH).

        None where no key file is named.
        """
        key_file = environ.get(KEY_FILE)
        if not key_file:
            return None
        old = filter(None, environ.get(OLD_KEY_FILES, "").split(os.pathsep))
        return cls(Path(key_file), tuple(map(Path, old)))
