-- The statements of the SQLite ledger, each under its name. `tidegate.ledger.sqlite` runs them.
--
-- A document's head is one row; what it was before lies in `history`, so that reading a head is one
-- lookup and writing a document without history is one row. `keeps` says whether the head goes to the
-- history when the next version comes. `kept` counts the rows of history that no pin holds, and
-- `oldest_us` is not later than the oldest of them: they make trimming cost what it removes.

-- name: schema
CREATE TABLE document (
    id         INTEGER PRIMARY KEY,
    key        TEXT    NOT NULL UNIQUE,
    version    INTEGER NOT NULL,
    live       INTEGER NOT NULL,
    keeps      INTEGER NOT NULL,
    pinned     INTEGER NOT NULL,
    kept       INTEGER NOT NULL,
    oldest_us  INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    body       BLOB    NOT NULL
);
CREATE TABLE history (
    id         INTEGER PRIMARY KEY,
    document   INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    live       INTEGER NOT NULL,
    pinned     INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    body       BLOB    NOT NULL
);
CREATE UNIQUE INDEX history_version ON history (document, version);

-- name: read_head
SELECT version, body, created_us FROM document WHERE key = :key AND live = 1;

-- name: read_version
SELECT version, body, created_us FROM document WHERE key = :key AND version = :version
UNION ALL
SELECT h.version, h.body, h.created_us
FROM document d JOIN history h ON h.document = d.id WHERE d.key = :key AND h.version = :version
LIMIT 1;

-- name: keys
SELECT key FROM document WHERE key >= ? AND key < ? AND live = 1 ORDER BY key;

-- name: scan
SELECT key, version, body, created_us FROM document WHERE key >= ? AND key < ? AND live = 1 ORDER BY key;

-- name: versions
SELECT version, created_us, size, pinned, live FROM (
    SELECT h.version, h.created_us, h.size, h.pinned, h.live
    FROM document d JOIN history h ON h.document = d.id WHERE d.key = :key
    UNION ALL
    SELECT version, created_us, size, pinned, live FROM document WHERE key = :key
)
ORDER BY version;

-- name: head
SELECT id, version, live, keeps, pinned, kept, oldest_us, created_us FROM document WHERE key = ?;

-- name: insert
INSERT INTO document (key, version, live, keeps, pinned, kept, oldest_us, created_us, size, body)
VALUES (?, 1, 1, ?, 0, 0, 0, ?, ?, ?);

-- name: restore_head
INSERT INTO document (key, version, live, keeps, pinned, kept, oldest_us, created_us, size, body)
VALUES (?, ?, ?, 1, ?, 0, 0, ?, ?, ?);

-- name: restore_history
INSERT INTO history (document, version, live, pinned, created_us, size, body) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: update
UPDATE document
SET version = ?, live = ?, keeps = ?, pinned = 0, kept = ?, oldest_us = ?, created_us = ?, size = ?, body = ?
WHERE id = ?;

-- name: archive
INSERT INTO history (document, version, live, pinned, created_us, size, body)
SELECT id, version, live, pinned, created_us, size, body FROM document WHERE id = ?;

-- name: trim_oldest
DELETE FROM history WHERE id IN (
    SELECT id FROM history WHERE document = ? AND pinned = 0 ORDER BY version LIMIT ?
);

-- name: trim_older
DELETE FROM history WHERE document = ? AND pinned = 0 AND created_us < ?;

-- name: count_kept
SELECT count(*), coalesce(min(created_us), 0) FROM history WHERE document = ? AND pinned = 0;

-- name: recount
UPDATE document SET kept = ?, oldest_us = ? WHERE id = ?;

-- name: forget_history
DELETE FROM history WHERE document = ?;

-- name: forget
DELETE FROM document WHERE id = ?;

-- name: pin_head
UPDATE document SET pinned = ? WHERE id = ? AND version = ?;

-- name: pin_history
UPDATE history SET pinned = ? WHERE document = ? AND version = ?;
