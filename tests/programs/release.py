"""Build a release from the last commit into `dist/`, and score the sample with its wheel in an empty environment.

`make release` runs this program. With `--notes` it only prints the notes of the version.
"""

from __future__ import annotations

import argparse
import email
import email.message
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
DIST = REPOSITORY / "dist"
TOOLS = ("build>=1.3,<2", "twine>=6,<8")
FLEET = "Fleet at 2026-06-15T00:00:00Z, window of 7 days, 14 agents"


def printed(*command: str | Path, **options: object) -> str:
    """Run a command and return its output. If the command fails, end the program."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return f"{done.stdout}{done.stderr}"


def demand(holds: object, message: str) -> None:
    """End the program with ``message`` if ``holds`` is false."""
    if not holds:
        sys.exit(message)


def notes() -> tuple[str, str]:
    """Return the newest version in CHANGELOG.md, and the notes of this version."""
    _, version, text, *_ = re.split(r"^## (.*)$", (REPOSITORY / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    return version, text.strip()


def environment(folder: Path, *packages: str) -> Path:
    """Create a Python environment with packages; return its folder of programs. uv is used because pip is slower."""
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    printed(python, "-m", "pip", "install", "--quiet", "uv")
    printed(python, "-m", "uv", "pip", "install", "--quiet", "--python", python, *packages)
    return folder / "bin"


def committed(folder: Path) -> Path:
    """Write the files of the last commit into the subfolder `sources`, and return its path."""
    sources = folder / "sources"
    sources.mkdir()
    printed("git", "-C", REPOSITORY, "archive", "--output", folder / "sources.tar", "HEAD")
    printed("tar", "-xf", folder / "sources.tar", "-C", sources)
    return sources


def build(folder: Path, tools: Path) -> Path:
    """Build both distributions from the last commit, and return the wheel."""
    sources = committed(folder)
    for old in DIST.glob("ciris_scoring-*"):
        old.unlink()
    printed(tools / "python", "-m", "build", "--outdir", DIST, sources)
    printed(tools / "python", "-m", "twine", "check", "--strict", *DIST.glob("ciris_scoring-*"))
    [wheel] = DIST.glob("*.whl")
    return wheel


def check_metadata(wheel: Path) -> None:
    """Check the version and the licence of a wheel, and that the tag of a CI run names this version."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        fields: email.message.Message = email.message_from_bytes(archive.read(metadata))
    version = notes()[0]
    demand(fields["Version"] == version, f"The wheel has version {fields['Version']}, CHANGELOG.md {version}.")
    tag = os.environ.get("GITHUB_REF_NAME", "")
    if os.environ.get("GITHUB_REF_TYPE") == "tag":
        demand(tag == f"v{version}", f"The tag is {tag}, the version {version}.")
    demand(any(name.endswith(".dist-info/licenses/LICENSE") for name in names), "The wheel has no LICENSE.")


def score_sample(folder: Path, wheel: Path) -> None:
    """Install the wheel in an empty environment and score the sample."""
    programs = environment(folder / "empty", f"{wheel}[embedded]")
    project = folder / "scores"
    clean = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}
    demand(
        notes()[0] in printed(programs / "ciris-scoring", "--version"),
        "ciris-scoring has another version than CHANGELOG.md.",
    )
    printed(programs / "ciris-scoring", "init", project)
    printed(programs / "pip", "check")
    try:
        told = printed(programs / "ciris-scoring", "run", "--embedded", cwd=project, env=clean)
        demand(FLEET in told, f"The printed fleet is not the sample: {told}")
    finally:
        printed(programs / "ciris-scoring", "stop", "--delete", cwd=project, env=clean)


def main() -> None:
    """Build and check a release, or print its notes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", action="store_true", help="only print the notes of the version")
    if parser.parse_args().notes:
        print(notes()[1])
        return
    DIST.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = environment(folder / "tools", *TOOLS)
        wheel = build(folder, tools)
        check_metadata(wheel)
        score_sample(folder, wheel)
    for file in sorted(DIST.glob("ciris_scoring-*")):
        print(f"dist/{file.name}, {file.stat().st_size / 1000:,.0f} kB")


if __name__ == "__main__":
    main()
