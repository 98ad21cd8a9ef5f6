"""Before a wheel is made: the page of `gatedrnn view`, which git does not keep.

It is built from what view/package-lock.json names, by npm and its registry. Where that fails a warning says that the
wheel has no page; where GATEDRNN_RELEASE is set, as tools/release.py does, the build fails.
"""

import os
import shutil
import subprocess
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSTALL = "npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=1 --fetch-timeout=30000"
MINUTES = 10


class View(BuildHookInterface):
    def initialize(self, version, build_data):
        page = Path(self.root, "src/gatedrnn/view/page.html")
        if version == "editable" or page.exists():
            return
        fault = self.build() if shutil.which("npm") else "there is no Node.js"
        if fault and os.environ.get("GATEDRNN_RELEASE"):
            raise RuntimeError(f"a release needs the page for `gatedrnn view`: {fault}")
        if fault:
            self.app.display_warning(f"this wheel has no page for `gatedrnn view`: {fault}")

    def build(self):
        """Build the page; what failed, in one line, or nothing."""
        for command in (INSTALL, "npm run build"):
            try:
                done = subprocess.run(
                    command.split(), cwd=Path(self.root, "view"), capture_output=True, text=True, timeout=60 * MINUTES
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"`{command}` failed: {error}"
            if done.returncode:
                return f"`{command}` failed: {' '.join((done.stderr or done.stdout).split())[-300:]}"
        return ""
