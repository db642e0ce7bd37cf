-- name: topic
-- One topic by its name.
SELECT topic_id, partitions, codec FROM streams.topics WHERE name = $1

-- name: identity
-- Which database this is, of which run of which server.
SELECT d.oid, pg_postmaster_start_time() FROM pg_database d WHERE d.datname = current_database()

-- name: ensure_topic
-- Make a topic; one made meanwhile by another process stays as it is.
SELECT streams.ensure_topic($1, $2, $3, $4)

-- name: topics
-- All topics with the number of records in their logs.
SELECT t.name, t.partitions, t.codec, (SELECT count(*) FROM streams.records r WHERE r.topic_id = t.topic_id)
FROM streams.topics t ORDER BY t.name

-- name: try_append
-- Write records in a transaction of its own; their offsets, NULL under slots that others hold.
SELECT streams.append($1, $2, $3, $4, $5, $6, $7)

-- name: begin_waiting
-- A transaction that may wait long: the server looks whether we are still there.
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL lock_timeout = '30s';
SET LOCAL client_connection_check_interval = '1s';
SET LOCAL idle_in_transaction_session_timeout = '10s';
SELECT streams.durable()

-- name: append_within
-- Write records in the caller's transaction; their offsets.
SELECT streams.append_within($1, $2, $3, $4, $5, $6, $7, $8)

-- name: fetch
-- Records between two offsets of each span, lowest first; then, of each cursor, numbered from -1 down, the end.
SELECT s.cursor, r."offset", r.key, r.payload, r.headers, r.published_at
FROM unnest($1::integer[], $2::integer[], $3::integer[], $4::bigint[], $5::bigint[], $6::integer[], $7::bigint[])
    AS s(cursor, topic_id, partition, low, high, limit_records, limit_bytes)
CROSS JOIN LATERAL (
    SELECT *, row_number() OVER before AS number,
        sum(octet_length(f.payload) + 256) OVER before - octet_length(f.payload) - 256 AS bytes
    FROM (
        SELECT "offset", key, payload, headers, published_at FROM streams.records
        WHERE topic_id = s.topic_id AND partition = s.partition AND "offset" > s.low AND "offset" < s.high
        ORDER BY "offset" LIMIT s.limit_records
    ) AS f
    WINDOW before AS (ORDER BY f."offset" ROWS UNBOUNDED PRECEDING)
) AS r
WHERE r.bytes <= s.limit_bytes OR r.number <= 2
UNION ALL
SELECT e.cursor, (
    SELECT max("offset") FROM streams.records WHERE topic_id = e.topic_id AND partition = e.partition
), NULL, NULL, NULL, NULL
FROM unnest($8::integer[], $9::integer[], $10::integer[]) AS e(cursor, topic_id, partition)

-- name: channel
-- Where rings are heard.
SELECT streams.channel()

-- name: lie_down
-- Be rung for.
SELECT streams.lie_down($1, $2, $3)

-- name: get_up
-- Be rung for no more.
DELETE FROM streams.sleepers WHERE member = $1

-- name: holders
-- Who holds slots, by topic and partition: whoever has an offset that nobody sees yet is among them.
SELECT t.topic_id, CASE WHEN s.slot < 4096 THEN s.slot * t.partitions / 4096 ELSE s.slot - 4096 END AS partition,
    l.virtualtransaction, l.pid IS NULL AS prepared
FROM pg_locks l
CROSS JOIN LATERAL (SELECT (l.objid::bigint >> 13)::integer AS topic_id, (l.objid::bigint & 8191)::integer AS slot) s
JOIN streams.topics t ON t.topic_id = s.topic_id
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid = 'streams'::regnamespace::oid
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
