-- Whole exchanges, with `[ledger] store = "bodies"`: redacted, compressed and sealed. Not part of the chains.
CREATE TABLE toolmark_bodies (
    id bytea PRIMARY KEY,
    at_ms bigint NOT NULL,
    bytes bigint NOT NULL,
    body bytea NOT NULL
);
CREATE INDEX toolmark_bodies_by_time ON toolmark_bodies (at_ms, bytes);
