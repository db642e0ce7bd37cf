"""`MODULE:APP`: finding a user's app, and saying what is wrong when it is not there."""

import sys
import traceback
from importlib import import_module
from types import ModuleType, TracebackType

from streams import Streams
from streams.cli.usage import UsageError


def load(target: str) -> Streams:
    """The app that `MODULE:APP` names; the traceback of a module that fails goes to stderr.

    Raises:
        UsageError: there is no such module, it cannot be imported, or what it has under that name is no app.
    """
    name, colon, attribute = target.partition(":")
    if not colon or not name or not attribute:
        raise UsageError(f"{target!r} names no app: write MODULE:APP, as in shop:app for the app of shop.py")
    if name.endswith(".py"):
        raise UsageError(f"{target!r} names a file: write the module's name, as in {name[:-3]}:{attribute}")
    module = _import(name)
    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError(f"the module {name} has no {attribute!r}; {_apps(module)}")
        found = getattr(found, part)
    if not isinstance(found, Streams):
        raise UsageError(f"{target} is no Streams app but of the type {type(found).__name__}; {_apps(module)}")
    return found


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise UsageError(
                f"there is no module {error.name!r}; it was looked for in {sys.path[0]} and where Python finds packages"
            ) from None
        own = _inside(error.__traceback__)
        traceback.print_exception(type(error), error, own)
        raise UsageError(f"the module {name} cannot be imported: {type(error).__name__}: {error}") from None


def _inside(frames: TracebackType | None) -> TracebackType | None:
    """The part of a traceback below the import itself."""
    while frames is not None and ("importlib" in frames.tb_frame.f_code.co_filename or _is_ours(frames)):
        frames = frames.tb_next
    return frames


def _is_ours(frames: TracebackType) -> bool:
    return frames.tb_frame.f_code.co_filename == __file__


def _apps(module: ModuleType) -> str:
    names = [f"{module.__name__}:{name}" for name, value in vars(module).items() if isinstance(value, Streams)]
    return f"its apps are {', '.join(names)}" if names else "it has no Streams app"
