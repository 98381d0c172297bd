"""Golden databases as they are stored: a text for each database, the key of sealed records, and a manifest."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.adapters.sqlalchemy import dumping
from tests.adapters.sqlalchemy.databases import (
    postgresql_settings,
    schema_named,
    sqlite_settings,
)
from tests.golden.place import KEY, LEDGER, Place
from tests.golden.reading import Read

STORED = Path(__file__).parent / "stored"
VOCABULARY = STORED.with_name("vocabulary.json")
KINDS = ("sqlite", "postgresql")


@dataclass(frozen=True)
class Golden:
    """The golden database of a version on one kind of database."""

    version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.version}-{self.kind}"

    @property
    def _folder(self) -> Path:
        return STORED / self.version

    def store(self, text: str, key: bytes, manifest: dict[str, object]) -> None:
        """Write everything down."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # Without a time in it the same text is the same file.
        self._file("sql.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        self._file("key").write_bytes(key)
        self._file("json").write_text(json.dumps(manifest, indent=1) + "\n")

    def runs(self) -> dict[str, Read]:
        """Of each case: the id of its run, how it stands and how it ends."""
        found: dict[str, Read] = self._manifest()["runs"]
        return found

    @contextmanager
    def copy(self, folder: Path, schema: str) -> Iterator[Place]:
        """A copy of the database with its ledger and its key."""
        key = folder / KEY
        key.touch(mode=0o600)
        key.write_bytes(self._file("key").read_bytes())
        lines = self._manifest()["ledger"]
        (folder / LEDGER).write_text("".join(json.dumps(line) + "\n" for line in lines))
        text = gzip.decompress(self._file("sql.gz").read_bytes()).decode()
        with loaded(self.kind, text, folder, schema) as place:
            yield place

    def _manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads(self._file("json").read_text())
        return manifest

    def _file(self, ending: str) -> Path:
        return self._folder / f"{self.kind}.{ending}"


@contextmanager
def empty(kind: str, folder: Path, schema: str) -> Iterator[Place]:
    """A place without tables."""
    if kind == "sqlite":
        yield Place(sqlite_settings(folder), folder)
        return
    with schema_named(schema):
        yield Place(postgresql_settings(schema), folder)


@contextmanager
def loaded(kind: str, text: str, folder: Path, schema: str) -> Iterator[Place]:
    """A place with the tables of a text."""
    with empty(kind, folder, schema) as place:
        if kind == "sqlite":
            dumping.load_sqlite(text, folder / "pilotage.db")
        else:
            dumping.load_postgresql(text, schema)
        yield place


def text_of(kind: str, folder: Path, schema: str) -> str:
    """The database of a place as text."""
    return (
        dumping.sqlite_text(folder / "pilotage.db") if kind == "sqlite" else dumping.postgresql_text(schema)
    )


def stored_words() -> dict[str, list[str]]:
    """The words that runs are stored in, by where they stand."""
    words: dict[str, list[str]] = json.loads(VOCABULARY.read_text())
    return words


def stored_versions() -> list[str]:
    """The versions whose databases are stored."""
    return sorted(folder.name for folder in STORED.iterdir() if folder.is_dir())
