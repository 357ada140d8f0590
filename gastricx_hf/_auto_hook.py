"""Registers the Auto classes without making `import gastricx_hf` import torch or transformers.

Registering needs the Auto classes and our model classes, seconds of imports. So it waits until somebody has imported
`transformers.models.auto` anyway. "Has imported" needs care: `transformers.generation` imports the auto modules while
`transformers.modeling_utils` is half executed, and our classes need the whole of it. Therefore registration happens at the end of the
first import after which no module of transformers, and none of our families, is still being executed.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder

TRIGGER = "transformers.models.auto.configuration_auto"
WATCHED = ("transformers.", "gastricx_hf.models.")


def install() -> None:
    """Register now where the auto modules are there already, otherwise as soon as they are."""
    hook = _RegisterWhenReady()
    if not hook.register_if_ready(current=None):
        sys.meta_path.insert(0, hook)


class _RegisterWhenReady:
    """A `sys.meta_path` finder that finds nothing new: it only learns when a watched module has been executed."""

    done = False

    def find_spec(self, name, path=None, target=None):
        if self.done or not name.startswith(WATCHED):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                self.register_if_ready(current=name)

            spec.loader.exec_module = exec_module
        return spec

    def register_if_ready(self, current: str | None) -> bool:
        """Register unless done, not needed yet, or too early; `current` has just been executed but still counts as initialising."""
        watched = {name: module for name, module in list(sys.modules.items()) if name.startswith(WATCHED) and name != current}
        busy = any(getattr(getattr(module, "__spec__", None), "_initializing", False) for module in watched.values())
        if self.done or busy or TRIGGER not in sys.modules:
            return False
        self.done = True
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        from gastricx_hf.models.auto import register

        register()
        return True
