"""No network, and a cache of `datasets` that goes away with the tests."""

import socket
from unittest.mock import Mock

import datasets
import pytest


@pytest.fixture(autouse=True, scope="session")
def datasets_cache(tmp_path_factory):
    before, datasets.config.HF_DATASETS_CACHE = datasets.config.HF_DATASETS_CACHE, tmp_path_factory.mktemp("datasets")
    yield
    datasets.config.HF_DATASETS_CACHE = before


@pytest.fixture(autouse=True)
def hosts_asked(monkeypatch):
    """A call for every host that the test tried to find; none is ever found."""
    unknown = Mock(side_effect=socket.gaierror(socket.EAI_NONAME, "no network in tests"))
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    return unknown.call_args_list
