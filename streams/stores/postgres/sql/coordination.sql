-- name: group_ids
-- All groups with their topics.
SELECT g.name, t.name, g.group_id FROM streams.groups g JOIN streams.topics t USING (topic_id)

-- name: ensure_group
-- Make the group unless it exists; false when there is no such topic.
SELECT streams.ensure_group($1, $2, $3, $4)

-- name: generation
-- Has who may hold what changed?
SELECT generation FROM streams.coordination

-- name: register
-- A new member, alive from now.
SELECT streams.register($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: beat
-- Prolong a member's life.
SELECT streams.beat($1, $2, $3, $4)

-- name: leave
-- Release what a member holds, remove its row.
SELECT streams.leave($1)

-- name: view
-- Members and leases in one snapshot, and the clock.
SELECT c.generation, streams.now($3),
    coalesce((
        SELECT json_agg(json_build_array(m.member, m.host, m.pid, m.serves, m.lease_micros, m.alive_until, m.turned,
            m.stopping, m.dead) ORDER BY m.member)
        FROM streams.members m WHERE NOT m.dead
    ), '[]')::text,
    coalesce((
        SELECT json_agg(json_build_array(p.number, l.partition, l.member, l.epoch) ORDER BY p.number, l.partition)
        FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS p(group_name, topic, number)
        JOIN streams.topics t ON t.name = p.topic
        JOIN streams.groups g ON g.topic_id = t.topic_id AND g.name = p.group_name
        JOIN streams.leases l ON l.group_id = g.group_id
    ), '[]')::text
FROM streams.coordination c

-- name: acquire
-- Declare the dead; take what is free, each under an epoch one higher.
SELECT group_id, partition, epoch FROM streams.acquire($1, $2, $3, $4, $5, $6)

-- name: release
-- Give leases back, unless they were passed on.
SELECT streams.release($1, $2, $3, $4)

-- name: last_offsets
-- The highest offset that each partition has ever numbered, and the clock.
SELECT w.group_id, w.partition, coalesce(pg_sequence_last_value(p.sequence), 0), streams.now($3)
FROM unnest($1::integer[], $2::integer[]) AS w(group_id, partition)
JOIN streams.groups g USING (group_id)
JOIN streams.partitions p ON p.topic_id = g.topic_id AND p.partition = w.partition
