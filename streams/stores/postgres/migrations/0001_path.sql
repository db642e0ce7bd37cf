-- Topics, their logs, groups, members, leases and what was settled. Times are microseconds since the epoch.

CREATE TABLE streams.topics (
    topic_id integer GENERATED ALWAYS AS IDENTITY (MAXVALUE 524287) PRIMARY KEY, -- slot locks have 19 bits for it
    name text COLLATE "C" NOT NULL UNIQUE,
    partitions integer NOT NULL,
    codec text NOT NULL,
    created_at bigint NOT NULL
);

-- One row a partition, with the sequence that numbers its records.
CREATE TABLE streams.partitions (
    topic_id integer NOT NULL,
    partition integer NOT NULL,
    sequence regclass NOT NULL,
    PRIMARY KEY (topic_id, partition)
);

CREATE TABLE streams.records (
    topic_id integer NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    key text COLLATE "C",
    payload bytea NOT NULL,
    headers bytea,
    published_at bigint NOT NULL,
    PRIMARY KEY (topic_id, partition, "offset")
);

-- A group of one topic.
CREATE TABLE streams.groups (
    group_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    topic_id integer NOT NULL,
    start text NOT NULL,
    created_at bigint NOT NULL,
    UNIQUE (name, topic_id)
);

-- A beat changes one row, in its page. `incarnation` is the server's when the member registered.
CREATE TABLE streams.members (
    member text COLLATE "C" PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    serves text NOT NULL, -- JSON: [[group, topic], …]
    lease_micros bigint NOT NULL,
    alive_until bigint NOT NULL,
    turned boolean NOT NULL,
    stopping boolean NOT NULL,
    dead boolean NOT NULL DEFAULT false,
    incarnation uuid NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

-- The epoch grows with every acquisition; a row without a member is free.
CREATE TABLE streams.leases (
    group_id integer NOT NULL,
    partition integer NOT NULL,
    member text COLLATE "C",
    epoch bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, partition)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

-- One row: grows whenever who may hold what has changed.
CREATE TABLE streams.coordination (
    generation bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

INSERT INTO streams.coordination (generation) VALUES (0);

-- PostgreSQL itself empties this table after a crash and at a promotion, when what it had said was durable may be
-- gone, and keeps it over a clean restart. Whoever registered under another token can commit nothing any more.
CREATE UNLOGGED TABLE streams.incarnation (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    token uuid NOT NULL
);

-- Positions are appended, keyed so that a settlement can be in only once; a whole one replaces those before it.
CREATE TABLE streams.settlements (
    group_id integer NOT NULL,
    partition integer NOT NULL,
    epoch bigint NOT NULL,
    number bigint NOT NULL,
    position bigint NOT NULL,
    settled int8multirange NOT NULL, -- above the position
    whole boolean NOT NULL,
    withheld bigint[] NOT NULL DEFAULT '{}', -- records that it did not settle: the slot of an output was taken
    PRIMARY KEY (group_id, partition, epoch, number)
) WITH (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0);

CREATE TABLE streams.parked (
    group_id integer NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    key text COLLATE "C",
    attempts integer NOT NULL,
    due_at bigint NOT NULL,
    since bigint NOT NULL,
    error text NOT NULL,
    PRIMARY KEY (group_id, partition, "offset")
);

-- A dead letter copies its record whole.
CREATE TABLE streams.dead (
    dead_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id integer NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    key text COLLATE "C",
    payload bytea NOT NULL,
    headers bytea,
    published_at bigint NOT NULL,
    attempts integer NOT NULL,
    cause text NOT NULL,
    error text NOT NULL,
    traceback text NOT NULL,
    died_at bigint NOT NULL,
    UNIQUE (group_id, partition, "offset")
);

-- Members that sleep, and what would wake them: publishers ring for these, and for nobody else.
CREATE UNLOGGED TABLE streams.sleepers (
    member text COLLATE "C" NOT NULL,
    topic_id integer NOT NULL,
    awaited int4multirange NOT NULL,
    PRIMARY KEY (topic_id, member)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
