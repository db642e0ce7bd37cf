"""What a member holds and for how long it may trust that: the rhythm of its heart, and the fence.

Everything a member holds, it holds while its row says that it is alive, and one beat renews all
of it. Trust ends before the lease does, and is counted from when the beat was *sent*: however
late the database got to it, and the answer back, the row lives one time to live after that. In
thirtieths of the time to live::

    0         10        20        30
    |---------|---------|---------|
    sent      next      trust     the lease may pass on
              beat      ends
              #####.#####         a try is given up after 5, and the next waits for 1

    answers that never come:  tries at 10 and 16
    answers that say no:      tries at 10, 11, 12 … 19

The last third is what a member has for cancelling its handlers. It also covers clocks that
differ in speed; a forward step of the database's clock it cannot cover.

A lease is numbered by its epoch, one higher at every acquisition, also by the same member. Each
write carries member and epoch, and is refused unless the lease still says both: so what a
paused process sends when it goes on is too late, even if it has got the partition back since.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Self

LEAST_LEASE_SECONDS = 1
MOST_LEASE_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The times of a heart, all in seconds, as parts of its time to live. Made by `Rhythm.of`."""

    lease_seconds: float
    beat_seconds: float
    bound_seconds: float
    retry_seconds: float
    trust_seconds: float

    @classmethod
    def of(cls, lease_seconds: float) -> Self:
        """Beats every third, of a sixth at most, again after a thirtieth, trusted for two thirds.

        `ValueError` unless the time to live is a number of seconds from 1 to 86,400.
        """
        if not LEAST_LEASE_SECONDS <= lease_seconds <= MOST_LEASE_SECONDS:  # NaN is not, either
            raise ValueError(
                f"lease_seconds must be from {LEAST_LEASE_SECONDS} to {MOST_LEASE_SECONDS:,},"
                f" not {lease_seconds}: it is how long a killed worker's partitions wait"
            )
        return cls(
            lease_seconds=float(lease_seconds),
            beat_seconds=lease_seconds / 3,
            bound_seconds=lease_seconds / 6,
            retry_seconds=lease_seconds / 30,
            trust_seconds=lease_seconds * 2 / 3,
        )

    @property
    def tries_before_trust_ends(self) -> int:
        """How many tries start before trust ends when none of them gets an answer within its bound.

        Tries that are refused at once are five times as many.
        """
        return ceil((self.trust_seconds - self.beat_seconds) / (self.bound_seconds + self.retry_seconds))

    def trusted_until(self, sent: float) -> float:
        """When trust ends, by the clock that said when the last successful beat was `sent`."""
        return sent + self.trust_seconds

    def next_beat(self, sent: float, now: float, *, succeeded: bool) -> float:
        """When to try next, never before `now`.

        A beat after the successful one was `sent`; a retry after `now`, when it failed.
        """
        if succeeded:
            return max(now, sent + self.beat_seconds)
        return now + self.retry_seconds


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to one partition of a topic for a group, held by `member` under `epoch`.

    Nobody holds it when `member` is None. The epoch is 0 before the first acquisition and never
    falls.
    """

    group: str
    topic: str
    partition: int
    member: str | None
    epoch: int

    def acquired_by(self, member: str) -> Self:
        """The lease in new hands, or in the same ones again: always one epoch higher."""
        return replace(self, member=member, epoch=self.epoch + 1)

    def released(self) -> Self:
        """The lease in nobody's hands; the epoch stays, so that the next is above all before."""
        return replace(self, member=None)

    def permits(self, member: str, epoch: int) -> bool:
        """The fence: whether a write of this member under this epoch may commit."""
        return self.member == member and self.epoch == epoch
