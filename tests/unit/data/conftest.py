"""No network, and a cache of `datasets` that goes away with the tests."""

import socket

import datasets
import pytest


@pytest.fixture(autouse=True, scope="session")
def datasets_cache(tmp_path_factory):
    before, datasets.config.HF_DATASETS_CACHE = datasets.config.HF_DATASETS_CACHE, tmp_path_factory.mktemp("datasets")
    yield
    datasets.config.HF_DATASETS_CACHE = before


@pytest.fixture(autouse=True)
def hosts_asked(monkeypatch):
    """Every host that the test tried to find; none is ever found."""
    asked = []

    def unknown(host, *args, **kwargs):
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "no network in tests")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    return asked
