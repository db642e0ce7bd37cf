CREATE TABLE streams_coordination (
    generation INTEGER NOT NULL
) STRICT;

CREATE TABLE streams_dead (
    dead_id INTEGER PRIMARY KEY,
    group_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    key TEXT,
    payload BLOB NOT NULL,
    headers BLOB,
    published_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    cause TEXT NOT NULL,
    error TEXT NOT NULL,
    traceback TEXT NOT NULL,
    died_at INTEGER NOT NULL,
    UNIQUE (group_id, partition, offset)
) STRICT;

CREATE TABLE streams_groups (
    group_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    topic_id INTEGER NOT NULL,
    start TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (name, topic_id)
) STRICT;

CREATE TABLE streams_leases (
    group_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    member TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, partition)
) STRICT, WITHOUT ROWID;

CREATE TABLE streams_members (
    member TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    serves TEXT NOT NULL, -- JSON: [[group, topic], …]
    lease_micros INTEGER NOT NULL,
    alive_until INTEGER NOT NULL,
    turned INTEGER NOT NULL,
    stopping INTEGER NOT NULL,
    dead INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE streams_migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    breaking INTEGER NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

CREATE TABLE streams_parked (
    group_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    key TEXT,
    attempts INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    since INTEGER NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (group_id, partition, offset)
) STRICT, WITHOUT ROWID;

CREATE TABLE streams_partitions (
    topic_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    last_offset INTEGER NOT NULL DEFAULT 0,
    records INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (topic_id, partition)
) STRICT, WITHOUT ROWID;

CREATE TABLE streams_records (
    topic_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    key TEXT,
    payload BLOB NOT NULL,
    headers BLOB,
    published_at INTEGER NOT NULL,
    PRIMARY KEY (topic_id, partition, offset)
) STRICT, WITHOUT ROWID;

CREATE TABLE streams_settlements (
    group_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    position INTEGER NOT NULL,
    settled TEXT NOT NULL, -- JSON: [[low, high], …], above the position
    whole INTEGER NOT NULL,
    PRIMARY KEY (group_id, partition, epoch, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE streams_topics (
    topic_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    partitions INTEGER NOT NULL,
    codec TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
