"""Hatch build hook: the protocol code is made anew for every wheel and editable install."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProtocolHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        path = Path(self.root) / "scripts" / "generate_protocol.py"
        spec = importlib.util.spec_from_file_location("generate_protocol", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if module.stale_files():
            module.generate(module.TARGET)
