-- name: topic
-- One topic by its name. As a blob the codec passes by whatever a caller's own connection makes of text.
SELECT topic_id, partitions, CAST(codec AS BLOB) FROM streams_topics WHERE name = :name

-- name: insert_topic
-- Make a topic; one made meanwhile by another process stays as it is.
INSERT INTO streams_topics (name, partitions, codec, created_at)
VALUES (:name, :partitions, :codec, :now) ON CONFLICT (name) DO NOTHING

-- name: insert_partition
-- Make an empty partition.
INSERT INTO streams_partitions (topic_id, partition) VALUES (?, ?)

-- name: topics
-- All topics with the number of records in their logs.
SELECT t.name, t.partitions, t.codec, sum(p.records)
FROM streams_topics t JOIN streams_partitions p USING (topic_id)
GROUP BY t.topic_id ORDER BY t.name

-- name: take_offsets
-- Hand out the next offsets of a partition; its answer is the last of them.
UPDATE streams_partitions SET last_offset = last_offset + :count, records = records + :count
WHERE topic_id = :topic_id AND partition = :partition RETURNING last_offset

-- name: append
-- Write one record at its offset.
INSERT INTO streams_records (topic_id, partition, offset, key, payload, headers, published_at)
VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: ends
-- The highest offset of each partition of a topic.
SELECT partition, last_offset FROM streams_partitions WHERE topic_id = ?

-- name: fetch
-- Records of a partition between two offsets, lowest first.
SELECT offset, key, payload, headers, published_at FROM streams_records
WHERE topic_id = ? AND partition = ? AND offset > ? AND offset < ?
ORDER BY offset LIMIT ?
