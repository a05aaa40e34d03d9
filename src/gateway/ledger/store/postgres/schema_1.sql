-- The records themselves: one chain per writer. `body` is JSON; `mac` is over it, its place and the MAC before.
CREATE TABLE toolmark_records (
    writer integer NOT NULL,
    sequence bigint NOT NULL,
    exchange bytea NOT NULL,
    ended_ms bigint NOT NULL,
    body bytea NOT NULL,
    mac bytea NOT NULL,
    PRIMARY KEY (writer, sequence)
);
CREATE UNIQUE INDEX toolmark_records_by_exchange ON toolmark_records (exchange);
CREATE INDEX toolmark_records_by_time ON toolmark_records (ended_ms);

-- Where executions are recorded. `started_ms` and `tail` are the numbers in an execution ID.
CREATE TABLE toolmark_executions (
    started_ms bigint NOT NULL,
    tail bigint NOT NULL,
    writer integer NOT NULL,
    sequence bigint NOT NULL,
    place integer NOT NULL,
    tool text NOT NULL,
    session text,
    result bytea NOT NULL,
    PRIMARY KEY (started_ms, tail)
);

-- Results that were seen first and aren't recorded yet: by which process, and when.
CREATE TABLE toolmark_claims (
    started_ms bigint NOT NULL,
    tail bigint NOT NULL,
    result bytea NOT NULL,
    session text,
    claimant bigint NOT NULL,
    claimed_ms bigint NOT NULL,
    PRIMARY KEY (started_ms, tail)
);

-- Where violations are recorded.
CREATE TABLE toolmark_violations (
    ended_ms bigint NOT NULL,
    writer integer NOT NULL,
    sequence bigint NOT NULL,
    place integer NOT NULL,
    code text NOT NULL,
    tool text,
    model text NOT NULL,
    PRIMARY KEY (ended_ms, writer, sequence, place)
);

-- Sums by the hour, for the statistics.
CREATE TABLE toolmark_hours (
    writer integer NOT NULL,
    hour bigint NOT NULL,
    name text NOT NULL,
    sums bytea NOT NULL,
    PRIMARY KEY (writer, hour, name)
);

-- Up to where a chain was removed for its age.
CREATE TABLE toolmark_anchors (
    writer integer PRIMARY KEY,
    sequence bigint NOT NULL,
    mac bytea NOT NULL,
    pruned_ms bigint NOT NULL,
    seal bytea NOT NULL
);

-- The chains that there are; who writes one holds an advisory lock on its number.
CREATE TABLE toolmark_writers (writer integer PRIMARY KEY);
