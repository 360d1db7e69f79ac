"""What the files of a release were made of and by what (in-toto, SLSA 1), their digests, and a signature where a key is named.

A hoster's workflow signs in its own name besides; this signs with a key of the maintainers, without any service.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.release.archives import pinned_builder
from scripts.release.running import ROOT, run
from scripts.release.sbom import digest

KEY = "RELEASE_KEY"  # the path of a key of OpenSSH; one in an agent does as well, by its public half
SIGNED_AS = "understudy-release"  # what `ssh-keygen -Y verify` is told with -n


def statement(files: Sequence[Path]) -> str:
    subjects = [{"name": file.name, "digest": {"sha256": digest(file)}} for file in sorted(files)]
    made_of = [{"uri": "git+file:.", "digest": {"gitCommit": commit}}] if (commit := _git("rev-parse", "HEAD")) else []
    lock = {"uri": "uv.lock", "digest": {"sha256": digest(ROOT / "uv.lock")}}
    definition = {
        "buildType": "urn:understudy:make-release:1",
        "externalParameters": {"SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH")},
        "internalParameters": {"builder": pinned_builder(), "changed": bool(_git("status", "--porcelain"))},
        "resolvedDependencies": [*made_of, lock],
    }
    builder = {"id": os.environ.get("RELEASE_BUILDER", "urn:understudy:by-hand"), "version": {"python": sys.version.split()[0]}}
    return json.dumps(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": subjects,
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {"buildDefinition": definition, "runDetails": {"builder": builder}},
        }
    )


def digests(files: Sequence[Path]) -> str:
    """As `sha256sum --check` reads them."""
    return "".join(f"{digest(file)}  {file.name}\n" for file in sorted(files))


def sign(file: Path) -> Path | None:
    """The signature beside the file, or None where no key is named."""
    key = os.environ.get(KEY)
    if not key:
        return None
    if shutil.which("ssh-keygen") is None:
        raise SystemExit(f"release: {KEY} names a key, and ssh-keygen, which signs with it, is not installed")
    if not Path(key).is_file():
        raise SystemExit(f"release: {KEY} names {key}, and there is no such file: name a key of OpenSSH, or unset it")
    run(["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", SIGNED_AS, str(file)])
    return file.with_name(f"{file.name}.sig")


def _git(*words: str) -> str:
    """Nothing, where these sources are in no repository."""
    if shutil.which("git") is None:
        return ""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
