"""Before a wheel is made: the page of `gatedrnn view`, which git does not keep."""

import shutil
import subprocess
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class View(BuildHookInterface):
    def initialize(self, version, build_data):
        page = Path(self.root, "src/gatedrnn/view/page.html")
        if version == "editable" or page.exists():
            return
        if shutil.which("npm") is None:
            self.app.display_warning("no Node.js here: this wheel has no page for `gatedrnn view`")
            return
        subprocess.run(["make", "view"], cwd=self.root, check=True)
