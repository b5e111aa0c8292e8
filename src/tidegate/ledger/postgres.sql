-- The statements of the Postgres ledger, each under its name. `tidegate.ledger.postgres` runs them.
--
-- As in SQLite a document's head is one row and what it was before lies in `history`. `keeps` says
-- whether the head goes to the history when the next version comes; `kept` counts the rows of history
-- that no pin holds, and `oldest_us` is not later than the oldest of them.

-- name: migration 1
CREATE TABLE document (
    key        TEXT COLLATE "C" PRIMARY KEY,
    version    BIGINT  NOT NULL,
    live       BOOLEAN NOT NULL,
    keeps      BOOLEAN NOT NULL,
    pinned     BOOLEAN NOT NULL,
    kept       BIGINT  NOT NULL,
    oldest_us  BIGINT  NOT NULL,
    created_us BIGINT  NOT NULL,
    size       BIGINT  NOT NULL,
    body       BYTEA   NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE TABLE history (
    key        TEXT COLLATE "C" NOT NULL,
    version    BIGINT  NOT NULL,
    live       BOOLEAN NOT NULL,
    pinned     BOOLEAN NOT NULL,
    created_us BIGINT  NOT NULL,
    size       BIGINT  NOT NULL,
    body       BYTEA   NOT NULL,
    PRIMARY KEY (key, version)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- One document in one round trip: the caller knows the version that the write will make, and has sealed
-- the body for it. TG001: the document is elsewhere, the message says where. TG002: it had been removed,
-- and its numbers go on: the caller looks first, and seals again.
CREATE FUNCTION ledger_put(
    k TEXT, expected BIGINT, is_live BOOLEAN, keeping BOOLEAN, bytes BIGINT, sealed BYTEA, most BIGINT, age_us BIGINT
) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    head RECORD;
    moment BIGINT := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    still BIGINT;
    since BIGINT;
BEGIN
    SELECT version, live, keeps, pinned, kept, oldest_us, created_us INTO head
    FROM document WHERE key = k FOR NO KEY UPDATE;
    IF NOT FOUND AND expected = 0 THEN
        INSERT INTO document (key, version, live, keeps, pinned, kept, oldest_us, created_us, size, body)
        VALUES (k, 1, TRUE, keeping, FALSE, 0, 0, moment, bytes, sealed);
        RETURN 1;
    ELSIF head.version IS NOT NULL AND NOT head.live AND expected = 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'TG002', MESSAGE = 'it was removed', DETAIL = k;
    ELSIF head.version IS NULL OR NOT head.live OR head.version <> expected THEN
        RAISE EXCEPTION USING ERRCODE = 'TG001', DETAIL = k,
            MESSAGE = CASE WHEN head.live THEN head.version::text ELSE 'absent' END;
    END IF;
    still := head.kept;
    since := head.oldest_us;
    IF head.keeps OR head.pinned THEN
        INSERT INTO history (key, version, live, pinned, created_us, size, body)
        SELECT key, version, live, pinned, created_us, size, body FROM document WHERE key = k;
        since := CASE WHEN still = 0 THEN head.created_us ELSE since END;
        still := still + CASE WHEN head.pinned THEN 0 ELSE 1 END;
        IF still - (most - 1) > most / 8 THEN
            DELETE FROM history WHERE key = k AND version IN (
                SELECT version FROM history WHERE key = k AND NOT pinned ORDER BY version LIMIT still - (most - 1)
            );
            still := most - 1;
        END IF;
        IF still > 0 AND since < moment - age_us THEN
            DELETE FROM history WHERE key = k AND NOT pinned AND created_us < moment - age_us;
            SELECT count(*), coalesce(min(created_us), 0) INTO still, since
            FROM history WHERE key = k AND NOT pinned;
        END IF;
    END IF;
    UPDATE document
    SET version = expected + 1, live = is_live, keeps = keeping, pinned = FALSE, kept = still, oldest_us = since,
        created_us = moment, size = bytes, body = sealed
    WHERE key = k;
    RETURN expected + 1;
END $$;
CREATE FUNCTION ledger_guard(k TEXT, expected BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    head RECORD;
BEGIN
    SELECT version, live INTO head FROM document WHERE key = k FOR NO KEY UPDATE;
    IF NOT FOUND AND expected = 0 THEN
        -- held by a row that goes with the transaction: nobody else makes it meanwhile
        INSERT INTO document (key, version, live, keeps, pinned, kept, oldest_us, created_us, size, body)
        VALUES (k, 0, FALSE, FALSE, FALSE, 0, 0, 0, 0, '');
        DELETE FROM document WHERE key = k;
    ELSIF coalesce(CASE WHEN head.live THEN head.version END, 0) <> expected THEN
        RAISE EXCEPTION USING ERRCODE = 'TG001', DETAIL = k,
            MESSAGE = CASE WHEN head.live THEN head.version::text ELSE 'absent' END;
    END IF;
    RETURN 0;
END $$;
CREATE FUNCTION ledger_forget(k TEXT, expected BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    head RECORD;
BEGIN
    SELECT version, live INTO head FROM document WHERE key = k FOR UPDATE;
    IF expected IS NOT NULL AND coalesce(CASE WHEN head.live THEN head.version END, 0) <> expected THEN
        RAISE EXCEPTION USING ERRCODE = 'TG001', DETAIL = k,
            MESSAGE = CASE WHEN head.live THEN head.version::text ELSE 'absent' END;
    END IF;
    DELETE FROM history WHERE key = k;
    DELETE FROM document WHERE key = k;
    RETURN CASE WHEN head.live THEN head.version + 1 ELSE 0 END;
END $$;

-- name: put_at_once
SELECT ledger_put(
    %(key)s, %(expected)s, %(live)s, %(keeps)s, %(size)s, %(body)b, %(most)s::bigint, %(age_us)s::bigint
);

-- name: guard_at_once
SELECT ledger_guard(%(key)s, %(expected)s);

-- name: forget_at_once
SELECT ledger_forget(%(key)s, %(expected)s);

-- name: backend_lives
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %(pid)s);

-- name: layout_exists
SELECT to_regclass('layout') IS NOT NULL;

-- name: layout
SELECT coalesce(max(version), 0) FROM layout;

-- name: make_layout
CREATE TABLE IF NOT EXISTS layout (version INTEGER PRIMARY KEY, made_at TIMESTAMPTZ NOT NULL DEFAULT now());

-- name: migrated
INSERT INTO layout (version) VALUES (%(version)s);

-- name: now
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: read_head
SELECT version, body, created_us FROM document WHERE key = %(key)s AND live;

-- name: read_version
SELECT version, body, created_us FROM document WHERE key = %(key)s AND version = %(version)s
UNION ALL
SELECT version, body, created_us FROM history WHERE key = %(key)s AND version = %(version)s
LIMIT 1;

-- name: keys
SELECT key FROM document WHERE key >= %(first)s AND key < %(end)s AND live ORDER BY key;

-- name: scan
SELECT key, version, body, created_us FROM document WHERE key >= %(first)s AND key < %(end)s AND live ORDER BY key;

-- name: versions
SELECT version, created_us, size, pinned, live FROM history WHERE key = %(key)s
UNION ALL
SELECT version, created_us, size, pinned, live FROM document WHERE key = %(key)s
ORDER BY version;

-- name: lock_heads
SELECT key, version, live, keeps, pinned, kept, oldest_us, created_us
FROM document WHERE key = ANY(%(keys)s) ORDER BY key FOR NO KEY UPDATE;

-- name: insert
INSERT INTO document (key, version, live, keeps, pinned, kept, oldest_us, created_us, size, body)
VALUES (%(key)s, %(version)s, %(live)s, %(keeps)s, FALSE, 0, 0, %(now_us)s, %(size)s, %(body)b);

-- name: update
UPDATE document
SET version = %(version)s, live = %(live)s, keeps = %(keeps)s, pinned = FALSE, kept = %(kept)s,
    oldest_us = %(oldest_us)s, created_us = %(now_us)s, size = %(size)s, body = %(body)b
WHERE key = %(key)s;

-- name: archive
INSERT INTO history (key, version, live, pinned, created_us, size, body)
SELECT key, version, live, pinned, created_us, size, body FROM document WHERE key = %(key)s;

-- name: trim_oldest
DELETE FROM history WHERE key = %(key)s AND version IN (
    SELECT version FROM history WHERE key = %(key)s AND NOT pinned ORDER BY version LIMIT %(excess)s
);

-- name: trim_older
DELETE FROM history WHERE key = %(key)s AND NOT pinned AND created_us < %(before_us)s;

-- name: recount
UPDATE document
SET kept = there.kept, oldest_us = there.oldest_us
FROM (
    SELECT count(*) AS kept, coalesce(min(created_us), 0) AS oldest_us
    FROM history WHERE key = %(key)s AND NOT pinned
) AS there
WHERE key = %(key)s;

-- name: hold_absence
INSERT INTO document (key, version, live, keeps, pinned, kept, oldest_us, created_us, size, body)
VALUES (%(key)s, 0, FALSE, FALSE, FALSE, 0, 0, 0, 0, '');

-- name: restore_history
INSERT INTO history (key, version, live, pinned, created_us, size, body)
VALUES (%(key)s, %(version)s, %(live)s, %(pinned)s, %(now_us)s, %(size)s, %(body)b);

-- name: forget_history
DELETE FROM history WHERE key = %(key)s;

-- name: forget
DELETE FROM document WHERE key = %(key)s;

-- name: pin_head
UPDATE document SET pinned = %(pinned)s WHERE key = %(key)s AND version = %(version)s;

-- name: pin_history
UPDATE history SET pinned = %(pinned)s WHERE key = %(key)s AND version = %(version)s;
