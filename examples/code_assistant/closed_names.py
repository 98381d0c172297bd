"""Names that are closed to tools: what programs keep for themselves, and where people keep secrets."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase

# A folder is closed with everything in it. A name behind "!" is open again; the last pattern that fits decides.
CLOSED: tuple[str, ...] = (
    *(".git", ".hg", ".svn", ".pilotage", ".git-credentials", ".gitconfig"),
    *(".env", ".env.*", "*.env", ".envrc", "!.env.example", "!.env.sample", "!.env.template"),
    *(".ssh", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "authorized_keys", "known_hosts"),
    *(
        "*.pem",
        "*.key",
        "*.p12",
        "*.pfx",
        "*.ppk",
        "*.jks",
        "*.keystore",
        "*.kdbx",
        "*.gpg",
        "*.asc",
        ".gnupg",
    ),
    *(
        ".netrc",
        "_netrc",
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".pypirc",
        "pip.conf",
        ".pip",
        ".cargo",
        ".gem",
    ),
    *(".aws", ".azure", ".kube", ".docker", ".dockercfg", ".gcloud", ".boto", ".s3cfg", ".terraformrc"),
    *(".pgpass", ".my.cnf", ".htpasswd", ".vault-token", "*.tfstate", "*.tfstate.*", "*.tfvars"),
    *("credentials", "credentials.*", "secrets", "secrets.*", "service-account*.json", ".password-store"),
    *("!secrets.py", "!credentials.py"),
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history"),
)


class ClosedNames:
    """A list of patterns for single names; upper and lower case are the same, and so are letters that look the same."""

    def __init__(self, patterns: Iterable[str] = CLOSED) -> None:
        self.patterns = tuple(patterns)
        self._rules = [(not each.startswith("!"), _plain(each.removeprefix("!"))) for each in self.patterns]

    def close(self, name: str) -> bool:
        """Return whether a name is closed."""
        plain = _plain(name)
        return next((closed for closed, rule in reversed(self._rules) if fnmatchcase(plain, rule)), False)


def _plain(name: str) -> str:
    """Return a name as a forgiving file system reads it: without case, invisible characters, and dots at the end."""
    seen = "".join(each for each in name if unicodedata.category(each) != "Cf")
    folded = unicodedata.normalize("NFKC", seen).casefold().partition(":")[0]
    return folded.rstrip(". ") or folded
