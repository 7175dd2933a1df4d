"""What the user can mend: it ends the probe with exit code 2 and one message."""

from __future__ import annotations


class ProbeError(Exception):
    """Where the fault is, what it is, and how to mend it."""

    def __init__(self, where: str, what: str, fix: str = "") -> None:
        super().__init__(f"{where}: {what}" + (f"\n  fix: {fix}" if fix else ""))


class MissingPackage(ProbeError):
    """A Python package the job needs is not there. One line."""

    def __init__(self, package: str, why: str, install: str) -> None:
        super().__init__(package, f"not installed, and {why}: pip install '{install}'")
