-- What the verbs of the store are made of. Each verb is one call, so that a client that stands still holds nothing;
-- in READ COMMITTED each statement inside a function sees what was committed before *it* began.
--
-- The verbs that run all the time name `plan_cache_mode`: for arrays the server would rather plan at each call, which
-- takes as long as a publish does.

-- Microseconds since the epoch, at this moment; `given` is a clock of the tests.
CREATE FUNCTION streams.now(given bigint DEFAULT NULL) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- What our own transactions commit is durable; whoever asks for more than that keeps it.
CREATE FUNCTION streams.durable() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

-- How our own transactions run: nobody waits long for a row, and what is committed is durable.
CREATE FUNCTION streams.bound() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM set_config('lock_timeout', '250ms', true), streams.durable();
END
$$;

-- The advisory lock of a slot of a topic; of the records without a key of a partition, slot is 4096 + partition.
CREATE FUNCTION streams.slot_lock(topic_id integer, slot integer) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT ('streams'::regnamespace::oid::bigint << 32) | (topic_id::bigint << 13) | slot
$$;

-- The slot of a key, or of a record without one.
CREATE FUNCTION streams.slot_of(key text) RETURNS integer LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT (get_byte(hash, 2) & 15) << 8 | get_byte(hash, 3) FROM sha256(convert_to(key, 'UTF8')) AS hash
$$;

-- Wait for slots, all in one order, in a transaction of the caller's. Locks live in the server's own table, so one
-- transaction may have a thousand.
CREATE FUNCTION streams.take_slots(topic_ids integer[], slots integer[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    counted integer := coalesce(nullif(current_setting('ordered_streams.slots', true), ''), '0')::integer;
    wanted record;
BEGIN
    FOR wanted IN
        SELECT DISTINCT streams.slot_lock(topic_id, slot) AS lock, slot >= 4096 AS shared
        FROM unnest(topic_ids, slots) AS u(topic_id, slot) ORDER BY 1
    LOOP
        IF wanted.shared THEN
            PERFORM pg_advisory_xact_lock_shared(wanted.lock);
        ELSE
            PERFORM pg_advisory_xact_lock(wanted.lock);
        END IF;
        counted := counted + 1;
        IF counted > 1000 THEN
            counted := streams.slots_held() + 1;
            IF counted > 1001 THEN
                RAISE EXCEPTION 'this transaction publishes under more than 1,000 slots of keys'
                    USING ERRCODE = 'program_limit_exceeded',
                    HINT = 'Publish fewer keys in one transaction, or publish outside of one.';
            END IF;
        END IF;
    END LOOP;
    PERFORM set_config('ordered_streams.slots', counted::text, true);
END
$$;

-- How many slots this transaction holds.
CREATE FUNCTION streams.slots_held() RETURNS integer LANGUAGE sql VOLATILE AS $$
    SELECT count(*)::integer FROM pg_locks
    WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND granted AND objsubid = 1
        AND classid = 'streams'::regnamespace::oid
$$;

-- Try for slots; those that another transaction holds. One that comes twice is taken twice, which costs less than to
-- find out.
CREATE FUNCTION streams.try_slots(topic_ids integer[], slots integer[]) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN array(
        SELECT lock FROM (
            SELECT streams.slot_lock(topic_id, slot) AS lock, slot >= 4096 AS shared
            FROM unnest(topic_ids, slots) AS u(topic_id, slot)
        ) AS wanted
        WHERE NOT CASE WHEN shared THEN pg_try_advisory_xact_lock_shared(lock) ELSE pg_try_advisory_xact_lock(lock) END
    );
END
$$;

-- Write records whose slots this transaction holds, all but those under the slots it has `missed`; their offsets in the
-- order given, NULL where it was missed. Where all are of one topic, as nearly always, its sequences are looked up once
-- and not for every record.
CREATE FUNCTION streams.write(
    topic_ids integer[], partitions integer[], slots integer[], keys text[], payloads bytea[], headers bytea[],
    missed bigint[], ring boolean, now bigint
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    moment bigint := streams.now(now);
    everything boolean := cardinality(missed) = 0;
    sequences regclass[];
    offsets bigint[];
    unknown integer;
BEGIN
    IF topic_ids[1] = ALL (topic_ids) THEN
        sequences := array(
            SELECT p.sequence FROM streams.partitions p WHERE p.topic_id = topic_ids[1] ORDER BY p.partition
        );
        IF NOT (0 <= ALL (partitions) AND cardinality(sequences) > ALL (partitions)) THEN
            unknown := topic_ids[1];
        END IF;
    ELSE
        SELECT u.topic_id INTO unknown
        FROM (SELECT DISTINCT * FROM unnest(topic_ids, partitions) AS u(topic_id, partition)) AS u
        WHERE NOT EXISTS (SELECT FROM streams.partitions p WHERE p.topic_id = u.topic_id AND p.partition = u.partition);
    END IF;
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'there is no topic % with such a partition', unknown USING ERRCODE = 'no_data_found';
    END IF;
    WITH numbered AS MATERIALIZED (
        SELECT u.*, CASE WHEN everything OR streams.slot_lock(u.topic_id, u.slot) <> ALL (missed) THEN nextval(
            CASE WHEN sequences IS NOT NULL THEN sequences[u.partition + 1] ELSE (
                SELECT p.sequence FROM streams.partitions p WHERE p.topic_id = u.topic_id AND p.partition = u.partition
            ) END
        ) END AS "offset"
        FROM unnest(topic_ids, partitions, slots, keys, payloads, headers)
            AS u(topic_id, partition, slot, key, payload, headers)
    ), written AS (
        INSERT INTO streams.records (topic_id, partition, "offset", key, payload, headers, published_at)
        SELECT n.topic_id, n.partition, n."offset", n.key, n.payload, n.headers, moment
        FROM numbered n WHERE n."offset" IS NOT NULL
    )
    SELECT array_agg(n."offset") INTO offsets FROM numbered n;
    IF ring THEN
        PERFORM streams.ring(topic_ids, partitions, now);
    END IF;
    RETURN offsets;
END
$$;

-- Wake the members that sleep on these partitions, after the commit. A transaction with a snapshot of its own may not
-- see who has lain down since, and rings in any case.
CREATE FUNCTION streams.ring(topic_ids integer[], partitions integer[], now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM pg_notify(streams.channel(), t::text) FROM (SELECT DISTINCT unnest(topic_ids)) AS d(t);
    ELSIF EXISTS (SELECT FROM streams.sleepers s WHERE s.topic_id = ANY (topic_ids)) THEN
        PERFORM pg_notify(streams.channel(), d.topic_id::text)
        FROM (SELECT DISTINCT * FROM unnest(topic_ids, partitions) AS u(topic_id, partition)) AS d
        WHERE EXISTS (
            SELECT FROM streams.sleepers s JOIN streams.members m USING (member)
            WHERE s.topic_id = d.topic_id AND s.awaited @> d.partition
                AND NOT m.dead AND m.alive_until > streams.now(now)
        );
    END IF;
END
$$;

-- A member has little to do: publishers are to ring for what it waits for.
CREATE FUNCTION streams.lie_down(me text, topic_ids integer[], awaited text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' AS $$
BEGIN
    PERFORM streams.bound();
    DELETE FROM streams.sleepers s WHERE s.member = me AND s.topic_id <> ALL (topic_ids);
    INSERT INTO streams.sleepers (member, topic_id, awaited)
    SELECT me, w.topic_id, w.awaited::int4multirange FROM unnest(topic_ids, lie_down.awaited) AS w(topic_id, awaited)
    ON CONFLICT (topic_id, member) DO UPDATE SET awaited = excluded.awaited;
END
$$;

-- Where rings are heard. The name is made of a number, since channels are cut at 63 bytes.
CREATE FUNCTION streams.channel() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT 'streams_' || 'streams'::regnamespace::oid
$$;

-- Publish in a transaction of its own: what is under slots that others hold is left out, and NULL.
CREATE FUNCTION streams.append(
    topic_ids integer[], partitions integer[], slots integer[], keys text[], payloads bytea[], headers bytea[],
    now bigint DEFAULT NULL
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' AS $$
BEGIN
    PERFORM streams.bound();
    RETURN streams.write(topic_ids, partitions, slots, keys, payloads, headers,
        streams.try_slots(topic_ids, slots), true, now);
END
$$;

-- Publish in the caller's transaction, which waits for slots.
CREATE FUNCTION streams.append_within(
    topic_ids integer[], partitions integer[], slots integer[], keys text[], payloads bytea[], headers bytea[],
    ring boolean, now bigint DEFAULT NULL
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' AS $$
BEGIN
    PERFORM streams.take_slots(topic_ids, slots);
    RETURN streams.write(topic_ids, partitions, slots, keys, payloads, headers, '{}', ring, now);
END
$$;

-- A topic, its partitions and their sequences; one made meanwhile by another stays as it is.
CREATE FUNCTION streams.ensure_topic(name text, partitions integer, codec text, now bigint DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    made integer;
    sequence text;
BEGIN
    INSERT INTO streams.topics AS t (name, partitions, codec, created_at)
    VALUES (ensure_topic.name, ensure_topic.partitions, ensure_topic.codec, streams.now(ensure_topic.now))
    ON CONFLICT ON CONSTRAINT topics_name_key DO NOTHING RETURNING t.topic_id INTO made;
    IF made IS NULL THEN
        RETURN;
    END IF;
    FOR partition IN 0 .. ensure_topic.partitions - 1 LOOP
        sequence := format('%s.%I', 'streams'::regnamespace, format('offsets_%s_%s', made, partition));
        EXECUTE format('CREATE SEQUENCE %s CACHE 1', sequence);
        INSERT INTO streams.partitions (topic_id, partition, sequence) VALUES (made, partition, sequence::regclass);
    END LOOP;
END
$$;

-- Who may hold what has changed: the last thing that a transaction does, since all that do so meet in this row.
CREATE FUNCTION streams.changed() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE streams.coordination SET generation = generation + 1;
    PERFORM pg_notify(streams.channel(), '');
END
$$;

-- A group of a topic with free leases and all positions at once; false: there is no such topic.
CREATE FUNCTION streams.ensure_group(group_name text, topic text, start text, now bigint DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    topic_key integer := (SELECT t.topic_id FROM streams.topics t WHERE t.name = ensure_group.topic);
    made integer;
BEGIN
    PERFORM streams.bound();
    IF topic_key IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO streams.groups AS g (name, topic_id, start, created_at)
    VALUES (group_name, topic_key, ensure_group.start, streams.now(ensure_group.now))
    ON CONFLICT ON CONSTRAINT groups_name_topic_id_key DO NOTHING RETURNING g.group_id INTO made;
    IF made IS NOT NULL THEN
        INSERT INTO streams.leases (group_id, partition)
        SELECT made, p.partition FROM streams.partitions p WHERE p.topic_id = topic_key;
        INSERT INTO streams.settlements (group_id, partition, epoch, number, position, settled, whole)
        SELECT made, p.partition, 0, 0,
            CASE ensure_group.start WHEN 'latest' THEN coalesce(pg_sequence_last_value(p.sequence), 0) ELSE 0 END,
            '{}', true
        FROM streams.partitions p WHERE p.topic_id = topic_key;
        PERFORM streams.changed();
    END IF;
    RETURN true;
END
$$;

-- A new member, alive from now; the one that it replaces is dead. Rows of the dead that no lease names go.
CREATE FUNCTION streams.register(
    member text, host text, pid integer, serves text, lease_micros bigint, turned boolean, stopping boolean,
    replaces text, now bigint DEFAULT NULL
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM streams.bound();
    INSERT INTO streams.incarnation (token) VALUES (gen_random_uuid()) ON CONFLICT DO NOTHING;
    UPDATE streams.members m SET dead = true WHERE m.member = replaces;
    INSERT INTO streams.members
        (member, host, pid, serves, lease_micros, alive_until, turned, stopping, incarnation)
    VALUES (register.member, register.host, register.pid, register.serves, register.lease_micros,
        streams.now(register.now) + register.lease_micros, register.turned, register.stopping,
        (SELECT token FROM streams.incarnation));
    DELETE FROM streams.members m
    WHERE m.dead AND NOT EXISTS (SELECT FROM streams.leases l WHERE l.member = m.member);
    DELETE FROM streams.sleepers s
    WHERE NOT EXISTS (SELECT FROM streams.members m WHERE m.member = s.member AND NOT m.dead);
    PERFORM streams.changed();
END
$$;

-- Prolong a life that has not ended, by the clock at the moment at which the row is ours; false is final.
CREATE FUNCTION streams.beat(me text, turned boolean, stopping boolean, now bigint DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' AS $$
DECLARE
    row streams.members%ROWTYPE;
BEGIN
    PERFORM set_config('lock_timeout', '250ms', true);
    PERFORM set_config('synchronous_commit', 'off', true); -- A beat that a crash loses is a beat of a dead member.
    SELECT * INTO row FROM streams.members m WHERE m.member = me FOR NO KEY UPDATE;
    IF NOT FOUND OR row.dead THEN
        RETURN false;
    END IF;
    -- Whoever asks hears of the crash before others may take over from it: its row is left to expire, or to be replaced.
    IF row.incarnation IS DISTINCT FROM (SELECT token FROM streams.incarnation) THEN
        RETURN false;
    END IF;
    IF row.alive_until <= streams.now(beat.now) THEN
        UPDATE streams.members m SET dead = true WHERE m.member = me;
        PERFORM streams.changed();
        RETURN false;
    END IF;
    UPDATE streams.members m
    SET alive_until = streams.now(beat.now) + m.lease_micros, turned = beat.turned, stopping = beat.stopping
    WHERE m.member = me;
    IF (row.turned, row.stopping) <> (beat.turned, beat.stopping) THEN
        PERFORM streams.changed();
    END IF;
    RETURN true;
END
$$;

-- Release what the member still holds, and remove its row.
CREATE FUNCTION streams.leave(me text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM streams.bound();
    PERFORM FROM streams.leases l WHERE l.member = me ORDER BY l.group_id, l.partition FOR NO KEY UPDATE;
    UPDATE streams.leases l SET member = NULL WHERE l.member = me;
    DELETE FROM streams.members m WHERE m.member = me;
    DELETE FROM streams.sleepers s WHERE s.member = me;
    PERFORM streams.changed();
END
$$;

-- Declare the dead, then take what is free. What the last owner settled is read by a later statement than the one that
-- raised the epoch: one with the same snapshot would not see what was committed while it waited for the row.
CREATE FUNCTION streams.acquire(
    me text, group_ids integer[], wanted integer[], suspects text[], seen bigint[], now bigint DEFAULT NULL
) RETURNS TABLE (group_id integer, partition integer, epoch bigint) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' AS $$
DECLARE
    buried boolean;
    free streams.leases[];
    taken boolean := false;
BEGIN
    PERFORM streams.bound();
    UPDATE streams.members m SET dead = true
    FROM unnest(suspects, seen) AS s(member, alive_until)
    WHERE m.member = s.member AND NOT m.dead AND m.alive_until = s.alive_until
        AND (m.alive_until <= streams.now(acquire.now) OR m.alive_until > streams.now(acquire.now) + m.lease_micros);
    buried := FOUND;
    IF buried THEN
        DELETE FROM streams.sleepers s USING streams.members m WHERE m.member = s.member AND m.dead;
    END IF;
    -- Not to be ended while it takes leases: whoever declares it dead waits for this row, or has been here first.
    PERFORM FROM streams.members m
    WHERE m.member = me AND NOT m.dead AND m.alive_until > streams.now(acquire.now)
        AND m.incarnation = (SELECT token FROM streams.incarnation)
    FOR SHARE;
    IF FOUND THEN
        BEGIN
            free := array(
                SELECT l FROM streams.leases l JOIN unnest(group_ids, wanted) AS w(group_id, partition)
                    ON l.group_id = w.group_id AND l.partition = w.partition
                ORDER BY l.group_id, l.partition FOR NO KEY UPDATE OF l
            );
        EXCEPTION WHEN lock_not_available THEN -- Somebody has a row in hand for long: the others do not wait for it.
            free := array(
                SELECT l FROM streams.leases l JOIN unnest(group_ids, wanted) AS w(group_id, partition)
                    ON l.group_id = w.group_id AND l.partition = w.partition
                ORDER BY l.group_id, l.partition FOR NO KEY UPDATE OF l SKIP LOCKED
            );
        END;
        FOR acquire.group_id, acquire.partition, acquire.epoch IN
            UPDATE streams.leases l SET member = me, epoch = l.epoch + 1
            FROM unnest(free) AS w
            WHERE l.group_id = w.group_id AND l.partition = w.partition AND (
                l.member IS NULL
                OR NOT EXISTS (SELECT FROM streams.members m WHERE m.member = l.member AND NOT m.dead)
            )
            RETURNING l.group_id, l.partition, l.epoch
        LOOP
            taken := true;
            RETURN NEXT;
        END LOOP;
    END IF;
    IF buried OR taken THEN
        PERFORM streams.changed();
    END IF;
END
$$;

-- Give leases back that are still held under their member and epoch.
CREATE FUNCTION streams.release(group_ids integer[], partitions integer[], members text[], epochs bigint[])
RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' AS $$
BEGIN
    PERFORM streams.bound();
    PERFORM FROM streams.leases l JOIN unnest(group_ids, partitions) AS r(group_id, partition)
        ON l.group_id = r.group_id AND l.partition = r.partition
    ORDER BY l.group_id, l.partition FOR NO KEY UPDATE OF l;
    UPDATE streams.leases l SET member = NULL
    FROM unnest(group_ids, partitions, members, epochs) AS r(group_id, partition, member, epoch)
    WHERE l.group_id = r.group_id AND l.partition = r.partition AND l.member = r.member AND l.epoch = r.epoch;
    PERFORM streams.changed();
END
$$;

-- Apply settlements, each once: it is numbered, and what is in already is left. One that is not fenced is refused; one
-- whose lease passes on while this runs ends the whole call, to be made again without it. A record whose output finds
-- its slot taken stays unsettled: it is `withheld`. The fence is last, so that a takeover waits for nothing but the
-- commit.
CREATE FUNCTION streams.settle(
    group_ids integer[], partitions integer[], members text[], epochs bigint[], numbers bigint[],
    positions bigint[], settled text[], wholes boolean[], whole_every integer,
    causes integer[], sources bigint[],
    topic_ids integer[], targets integer[], slots integer[], keys text[], payloads bytea[], headers bytea[],
    dead jsonb, parked jsonb, unparked jsonb, now bigint DEFAULT NULL
) RETURNS TABLE (settlement integer, withheld bigint[]) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' AS $$
DECLARE
    moment bigint := streams.now(now);
    token uuid;
    missed bigint[] := '{}';
    fenced integer[];
    fresh integer[];
    held integer;
BEGIN
    PERFORM streams.bound();
    IF cardinality(causes) > 0 THEN
        missed := streams.try_slots(topic_ids, slots);
        IF EXISTS (
            SELECT FROM unnest(sources, topic_ids, slots) AS c(source, topic_id, slot)
            WHERE cardinality(missed) > 0 AND c.source = 0 AND streams.slot_lock(c.topic_id, c.slot) = ANY (missed)
        ) THEN
            RAISE EXCEPTION 'a slot is taken' USING ERRCODE = 'lock_not_available';
        END IF;
    END IF;
    token := (SELECT i.token FROM streams.incarnation i);
    fenced := array(
        SELECT g.i FROM unnest(group_ids, partitions, members, epochs)
            WITH ORDINALITY AS g(group_id, partition, member, epoch, i)
        JOIN streams.leases l ON l.group_id = g.group_id AND l.partition = g.partition
        JOIN streams.members m ON m.member = l.member
        WHERE l.member = g.member AND l.epoch = g.epoch AND m.incarnation = token
    );
    WITH given AS (
        SELECT g.*, array(
            SELECT DISTINCT c.source FROM unnest(causes, sources, topic_ids, slots) AS c(i, source, topic_id, slot)
            WHERE cardinality(missed) > 0 AND c.i = g.i AND streams.slot_lock(c.topic_id, c.slot) = ANY (missed)
            ORDER BY 1
        ) AS withheld
        FROM unnest(group_ids, partitions, epochs, numbers, positions, settled, wholes)
            WITH ORDINALITY AS g(group_id, partition, epoch, number, position, settled, whole, i)
        WHERE g.i = ANY (fenced)
    ), written AS (
        INSERT INTO streams.settlements AS s
            (group_id, partition, epoch, number, position, settled, whole, withheld)
        SELECT g.group_id, g.partition, g.epoch, g.number,
            least(g.position, g.withheld[1] - 1),
            CASE WHEN cardinality(g.withheld) = 0 THEN g.settled::int8multirange ELSE
                g.settled::int8multirange
                + int8multirange(int8range(g.withheld[1], greatest(g.position, g.withheld[1]), '[]'))
                - (SELECT range_agg(int8range(w, w, '[]')) FROM unnest(g.withheld) AS w)
            END,
            g.whole,
            g.withheld
        FROM given g
        WHERE NOT EXISTS (
            SELECT FROM streams.settlements o
            WHERE o.group_id = g.group_id AND o.partition = g.partition AND (o.epoch, o.number) >= (g.epoch, g.number)
        )
        ON CONFLICT DO NOTHING
        RETURNING s.group_id, s.partition, s.epoch, s.number
    )
    SELECT array_agg(g.i) INTO fresh FROM given g JOIN written USING (group_id, partition, epoch, number);
    IF fresh IS NOT NULL THEN
        IF true = ANY (wholes) THEN
            DELETE FROM streams.settlements s
            USING unnest(group_ids, partitions, epochs, numbers, wholes)
                WITH ORDINALITY AS g(group_id, partition, epoch, number, whole, i)
            WHERE g.whole AND g.i = ANY (fresh) AND s.group_id = g.group_id AND s.partition = g.partition
                AND s.epoch = g.epoch AND s.number >= g.number - whole_every AND s.number < g.number;
            IF 1 = ANY (numbers) THEN
                DELETE FROM streams.settlements s
                USING unnest(group_ids, partitions, epochs, numbers, wholes)
                    WITH ORDINALITY AS g(group_id, partition, epoch, number, whole, i)
                WHERE g.number = 1 AND g.whole AND g.i = ANY (fresh)
                    AND s.group_id = g.group_id AND s.partition = g.partition AND s.epoch < g.epoch;
            END IF;
        END IF;
        IF cardinality(causes) > 0 THEN
            PERFORM streams.write(
                array_agg(p.topic_id), array_agg(p.target), array_agg(p.slot),
                array_agg(p.key), array_agg(p.payload), array_agg(p.headers), '{}', true, now
            )
            FROM unnest(causes, sources, topic_ids, targets, slots, keys, payloads, headers)
                AS p(i, source, topic_id, target, slot, key, payload, headers)
            WHERE p.i = ANY (fresh) AND (cardinality(missed) = 0 OR NOT EXISTS (
                SELECT FROM unnest(causes, sources, topic_ids, slots) AS c(i, source, topic_id, slot)
                WHERE c.i = p.i AND c.source = p.source AND streams.slot_lock(c.topic_id, c.slot) = ANY (missed)
            ))
            HAVING count(*) > 0;
        END IF;
        INSERT INTO streams.dead AS d (group_id, partition, "offset", key, payload, headers, published_at, attempts,
            cause, error, traceback, died_at)
        SELECT group_ids[r.i], partitions[r.i], r."offset", r.key, decode(r.payload, 'base64'),
            decode(r.headers, 'base64'), r.published_at, r.attempts, r.cause, r.error, r.traceback, moment
        FROM jsonb_to_recordset(dead) AS r(i integer, "offset" bigint, key text, payload text, headers text,
            published_at bigint, attempts integer, cause text, error text, traceback text)
        WHERE r.i = ANY (fresh)
        ON CONFLICT (group_id, partition, "offset") DO UPDATE SET
            (dead_id, key, payload, headers, published_at, attempts, cause, error, traceback, died_at)
            = (DEFAULT, excluded.key, excluded.payload, excluded.headers, excluded.published_at, excluded.attempts,
            excluded.cause, excluded.error, excluded.traceback, excluded.died_at);
        DELETE FROM streams.parked k
        USING jsonb_to_recordset(unparked) AS r(i integer, "offset" bigint)
        WHERE r.i = ANY (fresh) AND k.group_id = group_ids[r.i] AND k.partition = partitions[r.i]
            AND k."offset" = r."offset";
        INSERT INTO streams.parked AS k (group_id, partition, "offset", key, attempts, due_at, since, error)
        SELECT group_ids[r.i], partitions[r.i], r."offset", r.key, r.attempts, r.due_at, r.since, r.error
        FROM jsonb_to_recordset(parked) AS r(i integer, "offset" bigint, key text, attempts integer, due_at bigint,
            since bigint, error text)
        WHERE r.i = ANY (fresh)
        ON CONFLICT (group_id, partition, "offset") DO UPDATE SET
            (key, attempts, due_at, since, error)
            = (excluded.key, excluded.attempts, excluded.due_at, excluded.since, excluded.error);
    END IF;
    SELECT count(*) INTO held FROM (
        SELECT FROM streams.leases l
        JOIN unnest(group_ids, partitions, members, epochs) WITH ORDINALITY AS g(group_id, partition, member, epoch, i)
            ON l.group_id = g.group_id AND l.partition = g.partition AND l.member = g.member AND l.epoch = g.epoch
        WHERE g.i = ANY (fenced)
        ORDER BY l.group_id, l.partition FOR SHARE OF l
    ) AS fence;
    IF held <> cardinality(fenced) THEN
        RAISE EXCEPTION 'a lease has passed on' USING ERRCODE = 'ST001';
    END IF;
    RETURN QUERY SELECT f.i, coalesce((
        SELECT s.withheld FROM streams.settlements s
        WHERE s.group_id = group_ids[f.i] AND s.partition = partitions[f.i]
            AND s.epoch = epochs[f.i] AND s.number = numbers[f.i]
    ), '{}') FROM unnest(fenced) AS f(i);
END
$$;

-- The dead letters to which all applies that is not NULL: `error` is a part of theirs, `since` when they died.
CREATE FUNCTION streams.dead_like(
    group_name text, topic text, partition integer, "offset" bigint, key text, error text, since bigint
) RETURNS SETOF bigint LANGUAGE sql STABLE AS $$
    SELECT d.dead_id
    FROM streams.dead d JOIN streams.groups g USING (group_id) JOIN streams.topics t USING (topic_id)
    WHERE (dead_like.group_name IS NULL OR g.name = dead_like.group_name)
        AND (dead_like.topic IS NULL OR t.name = dead_like.topic)
        AND (dead_like.partition IS NULL OR d.partition = dead_like.partition)
        AND (dead_like."offset" IS NULL OR d."offset" = dead_like."offset")
        AND (dead_like.key IS NULL OR d.key = dead_like.key)
        AND (dead_like.error IS NULL OR position(dead_like.error IN d.error) > 0)
        AND (dead_like.since IS NULL OR d.died_at >= dead_like.since)
$$;

-- Remove dead letters; how many there were.
CREATE FUNCTION streams.remove_dead(
    group_name text, topic text, partition integer, "offset" bigint, key text, error text, since bigint
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    removed bigint;
BEGIN
    PERFORM streams.bound();
    DELETE FROM streams.dead WHERE dead_id IN (
        SELECT streams.dead_like(remove_dead.group_name, remove_dead.topic, remove_dead.partition,
            remove_dead."offset", remove_dead.key, remove_dead.error, remove_dead.since)
    );
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$$;

-- Headers as they are stored: at most 64 strings under names that are not ours, at most 16 KiB.
CREATE FUNCTION streams.header_bytes(headers jsonb) RETURNS bytea LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    encoded bytea := convert_to(headers::text, 'UTF8');
BEGIN
    IF jsonb_typeof(headers) <> 'object' OR octet_length(encoded) > 16384
        OR (SELECT count(*) FROM jsonb_each(headers)) > 64
        OR EXISTS (SELECT FROM jsonb_each(headers) h WHERE jsonb_typeof(h.value) <> 'string' OR h.key LIKE 'streams-%')
    THEN
        RAISE EXCEPTION 'headers are an object of at most 64 strings and 16 KiB, none of them named streams-…'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN encoded;
END
$$;

-- Publish records of one topic in the caller's transaction, from SQL: `SELECT streams.publish_many('orders', …)`. Their
-- offsets, in the order given. A key of NULL asks for no order. `ring`: false in a transaction that will be prepared.
CREATE FUNCTION streams.publish_many(
    topic text, keys text[], payloads bytea[], headers jsonb[] DEFAULT NULL, ring boolean DEFAULT true
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' AS $$
DECLARE
    found_topic streams.topics;
    count integer := coalesce(cardinality(keys), 0);
    parts integer[];
    slots integer[];
    encoded bytea[];
BEGIN
    SELECT * INTO found_topic FROM streams.topics t WHERE t.name = publish_many.topic;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no topic %', quote_literal(publish_many.topic) USING ERRCODE = 'undefined_object',
            HINT = 'It is made when a program that declares it first publishes or works.';
    END IF;
    IF coalesce(cardinality(payloads), 0) <> count OR cardinality(headers) <> count THEN
        RAISE EXCEPTION 'there are % keys, % payloads and % headers', count, coalesce(cardinality(payloads), 0),
            coalesce(cardinality(headers), count) USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF array_position(payloads, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'a payload is NULL' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF EXISTS (SELECT FROM unnest(keys) AS k WHERE octet_length(convert_to(k, 'UTF8')) > 1024) THEN
        RAISE EXCEPTION 'a key has more than 1,024 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF count = 0 THEN
        RETURN '{}';
    END IF;
    SELECT array_agg(p.part), array_agg(coalesce(p.slot, 4096 + p.part)) INTO parts, slots FROM (
        SELECT k.slot, coalesce(k.slot * found_topic.partitions / 4096,
            floor(random() * found_topic.partitions)::integer) AS part
        FROM (SELECT streams.slot_of(u) AS slot FROM unnest(keys) AS u) AS k
    ) AS p;
    SELECT array_agg(streams.header_bytes(h)) INTO encoded
    FROM unnest(coalesce(headers, array_fill(NULL::jsonb, ARRAY[count]))) AS h;
    RETURN streams.append_within(array_fill(found_topic.topic_id, ARRAY[count]), parts, slots, keys, payloads, encoded,
        ring);
END
$$;

-- Publish one record whose payload is bytes; its offset.
CREATE FUNCTION streams.publish_bytes(
    topic text, key text, payload bytea, headers jsonb DEFAULT NULL, ring boolean DEFAULT true
) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (streams.publish_many(topic, ARRAY[key], ARRAY[payload], ARRAY[headers], ring))[1]
$$;

-- Publish one record of a topic whose codec is JSON; its offset: `SELECT streams.publish('orders', 'customer-7', '{…}')`.
CREATE FUNCTION streams.publish(
    topic text, key text, payload jsonb, headers jsonb DEFAULT NULL, ring boolean DEFAULT true
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF EXISTS (SELECT FROM streams.topics t WHERE t.name = publish.topic AND t.codec <> 'json') THEN
        RAISE EXCEPTION 'the payloads of topic % are no JSON', quote_literal(publish.topic)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Use streams.publish_bytes.';
    END IF;
    RETURN streams.publish_bytes(topic, key, convert_to(payload::text, 'UTF8'), headers, ring);
END
$$;
