-- name: settle
-- Apply settlements; of those that were not refused, the number, from 1, and the offsets that stay unsettled.
SELECT settlement, withheld FROM streams.settle($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
    $17, $18, $19, $20, $21)

-- name: progress
-- Where groups are in partitions: the last position, and the ranges since the last whole settlement.
SELECT w.group_id, w.partition, s.position, s.settled::text, s.whole
FROM unnest($1::integer[], $2::integer[]) AS w(group_id, partition)
CROSS JOIN LATERAL (
    SELECT position, settled, whole, epoch, number FROM streams.settlements s
    WHERE s.group_id = w.group_id AND s.partition = w.partition AND (s.epoch, s.number) >= (
        SELECT o.epoch, o.number FROM streams.settlements o
        WHERE o.group_id = w.group_id AND o.partition = w.partition AND o.whole
        ORDER BY o.epoch DESC, o.number DESC LIMIT 1
    )
) AS s
ORDER BY w.group_id, w.partition, s.epoch, s.number

-- name: parked
-- The rows of unsettled records.
SELECT w.group_id, w.partition, k."offset", k.key, k.attempts, k.due_at, k.since, k.error
FROM unnest($1::integer[], $2::integer[]) AS w(group_id, partition)
JOIN streams.parked k ON k.group_id = w.group_id AND k.partition = w.partition
ORDER BY w.group_id, w.partition, k."offset"

-- name: parked_everywhere
-- The rows of unsettled records of all groups.
SELECT g.name, t.name, k.partition, k."offset", k.key, k.attempts, k.due_at, k.since, k.error
FROM streams.parked k JOIN streams.groups g USING (group_id) JOIN streams.topics t USING (topic_id)
ORDER BY g.name, t.name, k.partition, k."offset"

-- name: groups
-- All groups with the lease, the end, the progress and the parked records of each partition, in one snapshot.
SELECT g.name, t.name, l.partition, l.epoch, coalesce((
        SELECT max("offset") FROM streams.records r WHERE r.topic_id = t.topic_id AND r.partition = l.partition
    ), 0), (
        SELECT m.member FROM streams.members m
        WHERE m.member = l.member AND NOT m.dead AND m.alive_until > streams.now($1)
    ), array(
        SELECT s.position || ' ' || CASE WHEN s.whole THEN 1 ELSE 0 END || ' ' || s.settled
        FROM streams.settlements s
        WHERE s.group_id = l.group_id AND s.partition = l.partition AND (s.epoch, s.number) >= (
            SELECT o.epoch, o.number FROM streams.settlements o
            WHERE o.group_id = l.group_id AND o.partition = l.partition AND o.whole
            ORDER BY o.epoch DESC, o.number DESC LIMIT 1
        )
        ORDER BY s.epoch, s.number
    ), array(
        SELECT k."offset" FROM streams.parked k WHERE k.group_id = l.group_id AND k.partition = l.partition
    )
FROM streams.groups g
JOIN streams.topics t USING (topic_id)
JOIN streams.leases l USING (group_id)
ORDER BY g.name, t.name, l.partition

-- name: dead
-- The dead letters that are meant, oldest first.
SELECT g.name, t.name, d.partition, d."offset", d.key, d.payload, d.headers, d.published_at, d.attempts, d.cause,
    d.error, d.traceback, d.died_at
FROM streams.dead d JOIN streams.groups g USING (group_id) JOIN streams.topics t USING (topic_id)
WHERE d.dead_id IN (SELECT streams.dead_like($1, $2, $3, $4, $5, $6, $7))
ORDER BY d.dead_id

-- name: remove_dead
-- Remove the dead letters that are meant; how many there were.
SELECT streams.remove_dead($1, $2, $3, $4, $5, $6, $7)
