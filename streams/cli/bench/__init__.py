"""The benchmark: the figures that the project promises, each measured beside a bare loop in the same run.

::

    command ── options, which measurements, the report
       │
       ├── publish  handle  backlog  latency  idle  takeover  handover     one module a measurement, each `measure()`
       │   concurrent  peers  volume                └─ crew ─┘             two workers, of which one goes
       │        │                                                          (the second row: PostgreSQL only)
       │        ▼
       │      Site      the database, the folder and the worker processes of one measurement
       │                (they run `handlers`, are told by an `errand`, and write `notes`)
       ▼
     report ── a table, or JSON: figures, targets, machine

The bare loops are the stores' own (`streams.stores.yardstick`).
"""
