-- What must be had back word for word: rounds of calls that applications never saw, and which calls were begun. `body` is sealed:
-- without the key it can be neither read nor made. Not part of the chains.
CREATE TABLE toolmark_kept (
    id bytea PRIMARY KEY,
    at_ms bigint NOT NULL,
    bytes bigint NOT NULL,
    body bytea NOT NULL
);
CREATE INDEX toolmark_kept_by_time ON toolmark_kept (at_ms, bytes);
