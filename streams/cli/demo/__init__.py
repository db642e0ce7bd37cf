"""The demo: worker processes on one file, one of them killed half way, and a verdict on what the handlers wrote.

::

    command ── options, the last words
       │
     Trial ──── one run ──▶ Plan      which number is published under which key
       │                    Fleet     the worker processes; each runs `handlers`, and writes its own `notes`
       │                    Screen    what there is to see meanwhile
       └── at the end ────▶ verdict   was anything lost, or any key out of order? From the notes alone.
"""
