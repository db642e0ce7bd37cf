"""The worker: members, partitions and handlers of one process.

::

    Worker ──────── one life after another ──▶ Membership ── Heart (own thread, own connection)
      │                                          │
      │ one a subscription                       ├─ Rebalancer   who should hold what: acquire, hand over
      ▼                                          ├─ Fetcher      one read for all partitions with room
    Dispatcher ◀── ready lanes ── Actor ◀────────┤  (an Actor per leased partition and epoch)
      runners: take a lane, run its records      └─ Settler      one commit for all that was settled
"""

from streams.worker.worker import Worker

__all__ = ["Worker"]
