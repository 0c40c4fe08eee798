"""How commands reach the controller: the one place that reads the configuration and makes a client."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from minislurm.domain.configuration import Configuration

if TYPE_CHECKING:
    from minislurm.rpc.client import ControllerClient


@lru_cache(maxsize=1)
def configuration() -> Configuration:
    """The cluster's configuration (MINISLURM_CONF, then /etc/minislurm). Raises ConfigurationError."""
    from minislurm.domain.configuration_file import load

    return load()


def connect() -> ControllerClient:
    """A client of the controller, to be used as a context manager. Raises ConfigurationError.

    Loads grpc, so a command calls it when everything that can be said without the controller is said.
    """
    from minislurm.rpc.client import ControllerClient

    return ControllerClient(configuration())
