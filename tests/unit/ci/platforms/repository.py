"""A git repository on `main`, for platforms that read a checkout, and the server that it was cloned from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class Repository:
    """A checkout with one commit; nothing of the user's configuration counts.

    Args:
        top: Where it is made.
    """

    def __init__(self, top: Path) -> None:
        self.top = top
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(top.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        top.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.server = top.with_name(f"{top.name}.git")
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(self.server))
        (top / ".git" / "info" / "exclude").write_text("/agent-eval-out/\n")
        (top / "README").write_text("shop\n")
        self.commit()
        self.push("main")

    def commit(self) -> str:
        """Commit everything but what an evaluation writes; the commit's name."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=change")
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str, start: str) -> None:
        """Begin a branch at a commit, with the files as they are."""
        self.git("update-ref", f"refs/heads/{name}", start)
        self.git("symbolic-ref", "HEAD", f"refs/heads/{name}")

    def push(self, branch: str, commit: str = "HEAD") -> None:
        """Let a branch of the server point to a commit."""
        self.git("push", "--quiet", "--force", str(self.server), f"{commit}:refs/heads/{branch}")

    def check_out(self, commit: str) -> None:
        """Be at a commit and on no branch, with the files as they are."""
        (self.top / ".git" / "HEAD").write_text(f"{commit}\n")

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *who, *arguments],
            cwd=self.top,
            env=self.environ,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()
