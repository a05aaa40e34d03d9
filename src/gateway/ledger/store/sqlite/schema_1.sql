-- The records themselves, in the order of the chain. `body` is JSON; `mac` is over it, its place and the MAC before.
CREATE TABLE records (
    sequence INTEGER PRIMARY KEY,
    exchange BLOB NOT NULL,
    ended_ms INTEGER NOT NULL,
    body BLOB NOT NULL,
    mac BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX records_by_exchange ON records (exchange);

-- Where executions are recorded. `started_ms` and `tail` are the numbers in an execution ID.
CREATE TABLE executions (
    started_ms INTEGER NOT NULL,
    tail INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    place INTEGER NOT NULL,
    tool TEXT NOT NULL,
    session TEXT,
    result BLOB NOT NULL,
    PRIMARY KEY (started_ms, tail)
) STRICT, WITHOUT ROWID;

-- Where violations are recorded.
CREATE TABLE violations (
    ended_ms INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    place INTEGER NOT NULL,
    code TEXT NOT NULL,
    tool TEXT,
    model TEXT NOT NULL,
    PRIMARY KEY (ended_ms, sequence, place)
) STRICT, WITHOUT ROWID;

-- Sums by the hour, for the statistics.
CREATE TABLE hours (
    hour INTEGER NOT NULL,
    name TEXT NOT NULL,
    sums BLOB NOT NULL,
    PRIMARY KEY (hour, name)
) STRICT, WITHOUT ROWID;

-- Up to where the chain was removed for its age; one row at most.
CREATE TABLE anchors (
    writer INTEGER PRIMARY KEY,
    sequence INTEGER NOT NULL,
    mac BLOB NOT NULL,
    pruned_ms INTEGER NOT NULL,
    seal BLOB NOT NULL
) STRICT;
