-- name: group_id
-- The row of a group of a topic.
SELECT g.group_id FROM streams_groups g JOIN streams_topics t USING (topic_id) WHERE g.name = ? AND t.name = ?

-- name: insert_group
-- Make a group of a topic.
INSERT INTO streams_groups (name, topic_id, start, created_at) VALUES (?, ?, ?, ?) RETURNING group_id

-- name: insert_leases
-- A free lease for each partition of a new group.
INSERT INTO streams_leases (group_id, partition)
SELECT :group_id, partition FROM streams_partitions WHERE topic_id = :topic_id

-- name: insert_positions
-- All positions of a new group at once: the log's start, or its end at this moment.
INSERT INTO streams_settlements (group_id, partition, epoch, number, position, settled, whole)
SELECT :group_id, partition, 0, 0, CASE :start WHEN 'latest' THEN last_offset ELSE 0 END, '[]', 1
FROM streams_partitions WHERE topic_id = :topic_id

-- name: generation
-- Has who may hold what changed?
SELECT generation FROM streams_coordination

-- name: bump_generation
-- Who may hold what has changed.
UPDATE streams_coordination SET generation = generation + 1

-- name: insert_member
-- A new member, alive from now.
INSERT INTO streams_members (member, host, pid, serves, lease_micros, alive_until, turned, stopping)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: delete_spent_members
-- Rows of the dead that no lease names any more.
DELETE FROM streams_members
WHERE dead AND member NOT IN (SELECT member FROM streams_leases WHERE member IS NOT NULL)

-- name: member
-- One member's row, as far as a beat needs it.
SELECT alive_until, lease_micros, turned, stopping, dead FROM streams_members WHERE member = ?

-- name: beat
-- Prolong a member's life.
UPDATE streams_members SET alive_until = ?, turned = ?, stopping = ? WHERE member = ?

-- name: declare_dead
-- End a member for good.
UPDATE streams_members SET dead = 1 WHERE member = ?

-- name: delete_member
-- A member that leaves.
DELETE FROM streams_members WHERE member = ?

-- name: release_all
-- Free what a leaving member still holds.
UPDATE streams_leases SET member = NULL WHERE member = ?

-- name: members
-- All members that were not declared dead.
SELECT member, host, pid, serves, lease_micros, alive_until, turned, stopping, dead
FROM streams_members WHERE NOT dead ORDER BY member

-- name: leases
-- The leases of a group of a topic.
SELECT partition, member, epoch FROM streams_leases WHERE group_id = ?

-- name: acquire
-- Take a lease that is free: it names nobody, or a member that is gone or declared dead.
UPDATE streams_leases SET member = :member, epoch = epoch + 1
WHERE group_id = :group_id AND partition = :partition
  AND (member IS NULL OR member NOT IN (SELECT member FROM streams_members WHERE NOT dead))
RETURNING epoch

-- name: release
-- Give a lease back, unless it was passed on.
UPDATE streams_leases SET member = NULL
WHERE group_id = ? AND partition = ? AND member = ? AND epoch = ?

-- name: last_offset
-- The highest offset a partition of a group's topic has ever numbered.
SELECT p.last_offset FROM streams_partitions p JOIN streams_groups g USING (topic_id)
WHERE g.group_id = ? AND p.partition = ?
