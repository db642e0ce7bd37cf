"""How much is measured."""

import msgspec


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a full run; `scaled` makes a quick one of them."""

    publish_rounds: int = 5
    publish_records: int = 20_000
    handle_rounds: int = 5
    handle_records: int = 200_000
    concurrent_rounds: int = 5
    concurrent_records: int = 40_000
    volume_records: int = 100_000
    peer_rounds: int = 3
    peer_records: int = 200_000
    peer_jobs: int = 20_000
    backlog_rounds: int = 2
    backlog_few: int = 50_000
    backlog_many: int = 1_000_000
    latency_samples: int = 500
    idle_seconds: float = 20.0
    kills: int = 20
    handovers: int = 50
    joins: int = 3
    ring_rounds: int = 10
    ring_records: int = 10_000
    snapshot_rounds: int = 5
    snapshot_records: int = 100_000
    snapshot_seconds: float = 120.0

    def scaled(self, scale: float) -> "Sizes":
        """All of it so many times, but something of everything."""
        return Sizes(
            publish_rounds=_scaled(self.publish_rounds, scale, least=2, most=self.publish_rounds),
            publish_records=_scaled(self.publish_records, scale, least=100),
            handle_rounds=_scaled(self.handle_rounds, scale, least=2, most=self.handle_rounds),
            handle_records=_scaled(self.handle_records, scale, least=100),
            concurrent_rounds=_scaled(self.concurrent_rounds, scale, least=2, most=self.concurrent_rounds),
            concurrent_records=_scaled(self.concurrent_records, scale, least=512),
            volume_records=_scaled(self.volume_records, scale, least=1_000),
            peer_rounds=_scaled(self.peer_rounds, scale, least=1, most=self.peer_rounds),
            peer_records=_scaled(self.peer_records, scale, least=100),
            peer_jobs=_scaled(self.peer_jobs, scale, least=100),
            backlog_rounds=_scaled(self.backlog_rounds, scale, least=1, most=self.backlog_rounds),
            backlog_few=_scaled(self.backlog_few, scale, least=100),
            backlog_many=_scaled(self.backlog_many, scale, least=200),
            latency_samples=_scaled(self.latency_samples, scale, least=5),
            idle_seconds=max(1.0, self.idle_seconds * scale),
            kills=_scaled(self.kills, scale, least=1),
            handovers=_scaled(self.handovers, scale, least=2),
            joins=_scaled(self.joins, scale, least=1, most=self.joins),
            ring_rounds=_scaled(self.ring_rounds, scale, least=1, most=self.ring_rounds),
            ring_records=_scaled(self.ring_records, scale, least=200),
            snapshot_rounds=_scaled(self.snapshot_rounds, scale, least=1, most=self.snapshot_rounds),
            snapshot_records=_scaled(self.snapshot_records, scale, least=100),
            snapshot_seconds=max(1.0, self.snapshot_seconds * scale),
        )


def _scaled(size: int, scale: float, *, least: int, most: int | None = None) -> int:
    scaled = max(least, round(size * scale))
    return scaled if most is None else min(most, scaled)
