"""Telling our own cancellation from an exception of the same type that a handler raised by itself."""

import asyncio

import anyio


def is_cancellation(error: BaseException) -> bool:
    """Whether this exception ends the task that runs it, so that it has to be passed on.

    On asyncio a handler may raise `CancelledError` because a task of its own was cancelled; then nobody has asked for
    this task's end, and the attempt has failed like any other.
    """
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        return True
    if not isinstance(error, anyio.get_cancelled_exc_class()):
        return False
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return True
