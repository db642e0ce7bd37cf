-- A table whose changes are an ordered topic: of each account, every change once, in the order of the commits.
--
-- The trigger runs once for
-- each statement and publishes all its rows together: one for each row would take the locks of their keys one by one,
-- in the order of the rows, and two statements over the same keys in different orders would wait for each other.

CREATE TABLE accounts (
    id integer PRIMARY KEY,
    balance integer NOT NULL
);

SELECT streams.ensure_topic('account-changes', 4, 'json');

CREATE FUNCTION publish_account_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM streams.publish_many(
        'account-changes',
        array_agg(changed.id::text ORDER BY changed.id),
        array_agg(convert_to(to_jsonb(changed)::text, 'UTF8') ORDER BY changed.id)
    ) FROM changed HAVING count(*) > 0;
    RETURN NULL;
END
$$;

CREATE TRIGGER publish_inserts AFTER INSERT ON accounts REFERENCING NEW TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION publish_account_changes();

CREATE TRIGGER publish_updates AFTER UPDATE ON accounts REFERENCING NEW TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION publish_account_changes();
