-- Whole exchanges, with `[ledger] store = "bodies"`: redacted, compressed and sealed. Not part of the chain.
CREATE TABLE bodies (
    id BLOB PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX bodies_by_time ON bodies (at_ms, bytes);
