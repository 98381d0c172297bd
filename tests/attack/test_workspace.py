"""Ways to the secrets beside the code: by name, by another spelling, by a link, through git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from examples.code_assistant.closed_names import CLOSED
from examples.code_assistant.git_tools import GitTools
from examples.code_assistant.workspace import Workspace
from examples.code_assistant.workspace_tools import WorkspaceTools
from pilotage import AgentToolRuntimeContext
from pilotage.errors import ToolError

pytestmark = pytest.mark.attack("workspace")

SECRET = "hunter2-and-more"
PLACES = """
.env .env.local .env.production prod.env .envrc sub/.env .git/config .git/credentials .git-credentials .ssh/id_rsa
.ssh/config id_rsa id_ed25519 deploy/id_ecdsa keys/id_rsa.bak server.pem tls/server.key app.p12 app.pfx putty.ppk
store.jks store.keystore passwords.kdbx .gnupg/secring.gpg backup.gpg private.asc .netrc _netrc .npmrc web/.npmrc .yarnrc.yml
.pypirc pip.conf .aws/credentials .azure/tokens .kube/config .docker/config.json .dockercfg .boto .s3cfg .pgpass .my.cnf
.htpasswd .vault-token terraform.tfstate terraform.tfstate.backup prod.tfvars credentials credentials.json
config/credentials.yml secrets.yaml secrets/db.txt service-account-7.json .bash_history .psql_history .pilotage/key
""".split()
SPELLINGS = [
    ".ENV",
    ".Env",
    "src/../.env",
    "./.env",
    ".env/",
    ".env.",
    ".env ",
    ".e\u200dnv",
    "\uff0eenv",
    ".env::$DATA",
]
LINKS = ["symbolic", "symbolic folder", "hard", "hard to outside", "hard to itself"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    for place in PLACES:
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(SECRET)
    (tmp_path / "outside").write_text(SECRET)
    (root / "README.md").write_text("hello\n")
    (root / ".env.example").write_text("KEY=\n")
    return root


def refused(workspace: Workspace, path: str) -> None:
    tools = WorkspaceTools(workspace)
    for call in (
        lambda: tools.read(path),
        lambda: tools.write(path, "mine"),
        lambda: tools.patch(path, SECRET, "mine"),
        lambda: tools.search(SECRET, path),
    ):
        with pytest.raises(ToolError) as error:
            call()
        assert SECRET not in str(error.value)


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_neither_read_nor_written(place: str, root: Path) -> None:
    refused(Workspace(root), place)
    assert (root / place).read_text() == SECRET


def test_no_secret_is_listed_or_found(root: Path) -> None:
    tools = WorkspaceTools(Workspace(root))
    assert tools.list_files() == [".env.example", "README.md"]
    assert tools.search(SECRET) == []
    assert tools.read(".env.example") == "KEY=\n"


@pytest.mark.parametrize("path", SPELLINGS)
def test_another_spelling_is_closed_too(path: str, root: Path) -> None:
    workspace = Workspace(root)
    for act in (lambda: workspace.read(path), lambda: workspace.write(path, "mine")):
        with pytest.raises(ToolError, match="is closed"):
            act()


@pytest.mark.parametrize("kind", LINKS)
def test_a_link_is_no_way_to_a_secret(kind: str, root: Path, tmp_path: Path) -> None:
    name = "notes.txt"
    match kind:
        case "symbolic":
            (root / name).symlink_to(root / ".env")
        case "symbolic folder":
            (root / "keys2").symlink_to(root / ".ssh")
            name = "keys2/id_rsa"
        case "hard":
            os.link(root / ".env", root / name)
        case "hard to outside":
            os.link(tmp_path / "outside", root / name)
        case _:
            (root / "plain.txt").write_text(SECRET)
            os.link(root / "plain.txt", root / name)
    refused(Workspace(root), name)
    assert WorkspaceTools(Workspace(root)).search(SECRET) == []
    assert (tmp_path / "outside").read_text() == SECRET


def test_the_list_can_be_changed(root: Path) -> None:
    workspace = Workspace(root, closed=[*CLOSED, "!*.pem", "*.md"])
    assert workspace.read("server.pem") == SECRET
    for closed in ("README.md", ".env"):
        with pytest.raises(ToolError, match="is closed"):
            workspace.read(closed)


def git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), "-c", "user.name=Ada", "-c", "user.email=ada@localhost", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose owner has committed a secret, and changed it since."""
    root = tmp_path / "repository"
    (root / "sub").mkdir(parents=True)
    git(root, "init", "--quiet", "--initial-branch=main")
    for place in (".env", "sub/server.pem", "b.txt"):
        (root / place).write_text("old\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "begin")
    (root / ".env").write_text(f"{SECRET}\n")
    (root / "sub/server.pem").write_text(f"{SECRET}\n")
    (root / ".npmrc").write_text(f"{SECRET}\n")
    (root / "b.txt").write_text("new\n")
    return root


async def test_a_diff_shows_no_secret(repository: Path) -> None:
    shown = await GitTools(Workspace(repository)).diff()
    assert "b.txt" in shown
    assert SECRET not in shown
    git(repository, "mv", ".env", "moved.env")
    assert SECRET not in await GitTools(Workspace(repository)).diff()


async def test_a_commit_takes_no_secret_along(repository: Path) -> None:
    context = AgentToolRuntimeContext("run", "conversation", "call", "git.commit", idempotency_key="key")
    await GitTools(Workspace(repository)).commit("change", context)
    assert git(repository, "show", "--name-only", "--format=").split() == ["b.txt"]


CHANGES = {
    "a change": "--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-%s\n+mine\n",
    "a deletion": "diff --git a/.env b/.env\ndeleted file mode 100644\n--- a/.env\n+++ /dev/null\n@@ -1 +0,0 @@\n-%s\n",
    "a new file": "--- /dev/null\n+++ b/.ssh/authorized_keys\n@@ -0,0 +1 @@\n+mine\n",
    "a copy": "diff --git a/.env b/c.txt\nsimilarity index 100%%\ncopy from .env\ncopy to c.txt\n",
    "a rename": "diff --git a/.env b/c.txt\nsimilarity index 100%%\nrename from .env\nrename to c.txt\n",
    "a quoted rename": 'diff --git "a/.en\\166" b/c.txt\nsimilarity index 100%%\nrename from ".en\\166"\nrename to c.txt\n',
    "a rename into": "diff --git a/b.txt b/.npmrc2\nsimilarity index 100%%\nrename from b.txt\nrename to .ssh/config\n",
}


def files(root: Path) -> list[str]:
    return sorted(str(each) for each in root.rglob("*") if ".git/" not in str(each))


@pytest.mark.parametrize("way", CHANGES)
async def test_a_change_of_a_secret_is_not_applied(way: str, repository: Path) -> None:
    change = CHANGES[way].replace("%s", SECRET).replace("%%", "%")
    before = files(repository)
    with pytest.raises(ToolError):
        await GitTools(Workspace(repository)).apply(change)
    assert files(repository) == before
    assert (repository / ".env").read_text() == f"{SECRET}\n"
