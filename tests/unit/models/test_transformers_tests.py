"""transformers' own tests of models, `ModelTesterMixin`, on ours: from the source distribution of what is installed."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import transformers

MISSING = {
    "generation/test_utils.py": "class GenerationTesterMixin: ...\n",
    "exporters/test_export.py": "class ExportTesterMixin: ...\n",
}
"""Modules that their tests import and the source distribution lacks."""


@pytest.fixture
def common(tmp_path):
    """A folder with their tests as the package `common`, and what they import."""

    def downloaded(*asked):
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(tmp_path), *asked], check=True
        )

    downloaded("--no-binary", ":all:", "--no-build-isolation", f"transformers=={transformers.__version__}")
    downloaded("parameterized==0.9.0")
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    shutil.move(next(tmp_path.glob("transformers-*/tests")), tmp_path / "common")
    zipfile.ZipFile(next(tmp_path.glob("*.whl"))).extractall(tmp_path)
    for name, text in MISSING.items():
        (tmp_path / "common" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "common" / name).write_text(text)
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_our_models_pass_transformers_own_tests_of_models(common):
    module = shutil.copy(Path(__file__).with_name("common_models.py"), common)
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(common), "-W", "ignore", "--tb=short"]
    environment = os.environ | {"PYTHONPATH": str(common), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, module], cwd=common, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 140, done.stdout[-300:]
