"""Telling our own cancellation from an exception of the same type that somebody else's code has caused."""

import asyncio

import anyio


def is_cancellation(error: BaseException) -> bool:
    """Whether this exception ends what runs here, so that it has to be passed on."""
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        return True
    return isinstance(error, anyio.get_cancelled_exc_class()) and is_cancelled()


def is_cancelled() -> bool:
    """Whether what runs here was cancelled by a scope of ours: whatever it raises then is nobody's failure."""
    return anyio.current_effective_deadline() == float("-inf")


def take_back_foreign(error: BaseException) -> bool:
    """Whether somebody has cancelled this very task by asyncio's own means; then that is taken back.

    A handler may raise `CancelledError` because a task of its own was cancelled, which is a failure like any other.
    But when code that cancels all tasks of a program ends it, nobody is to be charged.
    """
    task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) and _on_asyncio() else None
    if task is None or not task.cancelling():
        return False
    while task.cancelling():
        task.uncancel()
    return True


def _on_asyncio() -> bool:
    return anyio.get_cancelled_exc_class() is asyncio.CancelledError
