-- name: fence
-- Does the member still hold the lease under this epoch?
SELECT 1 FROM streams_leases WHERE group_id = ? AND partition = ? AND member = ? AND epoch = ?

-- name: append_progress
-- The settlement's own row; no row is written when it is already in, also where a later one has pruned it.
INSERT INTO streams_settlements (group_id, partition, epoch, number, position, settled, whole)
SELECT :group_id, :partition, :epoch, :number, :position, :settled, :whole
WHERE NOT EXISTS (
    SELECT 1 FROM streams_settlements
    WHERE group_id = :group_id AND partition = :partition AND (epoch, number) >= (:epoch, :number)
)

-- name: prune_progress
-- What a whole settlement replaces.
DELETE FROM streams_settlements
WHERE group_id = :group_id AND partition = :partition AND (epoch, number) < (:epoch, :number)

-- name: progress
-- Where a group is in a partition: the last position, and the ranges since the last whole settlement.
SELECT position, settled, whole FROM streams_settlements
WHERE group_id = ? AND partition = ? ORDER BY epoch, number

-- name: insert_dead
-- A record that its group gave up on, copied whole; it replaces the letter of an earlier time.
INSERT OR REPLACE INTO streams_dead
    (group_id, partition, offset, key, payload, headers, published_at, attempts, cause, error, traceback, died_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: park
-- An unsettled record out of the partition's way, or its next attempt.
INSERT OR REPLACE INTO streams_parked (group_id, partition, offset, key, attempts, due_at, since, error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: unpark
-- A parked record that is settled.
DELETE FROM streams_parked WHERE group_id = ? AND partition = ? AND offset = ?

-- name: groups
-- All groups with the lease and the end of each partition.
SELECT g.name, t.name, g.group_id, l.partition, l.epoch, p.last_offset,
    (SELECT member FROM streams_members m WHERE m.member = l.member AND NOT m.dead AND m.alive_until > :now)
FROM streams_groups g
JOIN streams_topics t USING (topic_id)
JOIN streams_leases l USING (group_id)
JOIN streams_partitions p ON p.topic_id = g.topic_id AND p.partition = l.partition
ORDER BY g.name, t.name, l.partition

-- name: parked
-- Parked records of a group's partition.
SELECT offset FROM streams_parked WHERE group_id = ? AND partition = ?

-- name: parked_rows
-- The rows of unsettled records.
SELECT offset, key, attempts, due_at, since, error FROM streams_parked
WHERE group_id = ? AND partition = ? ORDER BY offset

-- name: parked_everywhere
-- The rows of unsettled records of all groups.
SELECT g.name, t.name, k.partition, k.offset, k.key, k.attempts, k.due_at, k.since, k.error
FROM streams_parked k JOIN streams_groups g USING (group_id) JOIN streams_topics t USING (topic_id)
ORDER BY g.name, t.name, k.partition, k.offset

-- name: dead
-- The dead letters that are meant, oldest first.
SELECT g.name, t.name, d.partition, d.offset, d.key, d.payload, d.headers, d.published_at, d.attempts, d.cause,
    d.error, d.traceback, d.died_at
FROM streams_dead d JOIN streams_groups g USING (group_id) JOIN streams_topics t USING (topic_id)
WHERE (:group IS NULL OR g.name = :group) AND (:topic IS NULL OR t.name = :topic)
    AND (:partition IS NULL OR d.partition = :partition) AND (:offset IS NULL OR d.offset = :offset)
    AND (:key IS NULL OR d.key = :key) AND (:error IS NULL OR instr(d.error, :error) > 0)
    AND (:since IS NULL OR d.died_at >= :since)
ORDER BY d.dead_id

-- name: remove_dead
-- Remove the dead letters that are meant.
DELETE FROM streams_dead WHERE dead_id IN (
    SELECT d.dead_id
    FROM streams_dead d JOIN streams_groups g USING (group_id) JOIN streams_topics t USING (topic_id)
    WHERE (:group IS NULL OR g.name = :group) AND (:topic IS NULL OR t.name = :topic)
        AND (:partition IS NULL OR d.partition = :partition) AND (:offset IS NULL OR d.offset = :offset)
        AND (:key IS NULL OR d.key = :key) AND (:error IS NULL OR instr(d.error, :error) > 0)
        AND (:since IS NULL OR d.died_at >= :since)
)
