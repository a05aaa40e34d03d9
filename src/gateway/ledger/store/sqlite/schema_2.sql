-- What must be had back word for word: rounds of calls that applications never saw, and which calls were begun. `body` is sealed:
-- without the key it can be neither read nor made. Not part of the chain.
CREATE TABLE kept (
    id BLOB PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX kept_by_time ON kept (at_ms, bytes);
