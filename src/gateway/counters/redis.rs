//! Counters in Valkey or Redis: each step is a script, which the server runs as a whole and by its own clock.
//!
//! Keys are `toolmark:` and a keyed digest; every key expires.

use std::time::Duration;

use redis::{Client, Connection, ConnectionLike as _, FromRedisValue as _, Pipeline, RedisError, Value};

use super::{Adjust, Append, CounterError, CounterKey, CounterStore, ENTRIES_MAX, ENTRY_BYTES_MAX, Entry, Take, Taken, news::CALLED_EVERY};

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(2);
/// Timeout for one answer.
const ANSWER: Duration = Duration::from_secs(1);

/// Takes from a bucket: the time at which it is full again moves on. Returns 0, or the microseconds until there is enough.
const TAKE: &str = "\
local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] \
local cost, span = tonumber(ARGV[1]), tonumber(ARGV[2]) \
local full = math.min(math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now), now + 2 * span) \
local left = now + span - full \
if left <= 0 or cost > left then return math.max(cost - left, 1) end \
full = full + cost \
if full > now then redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000)) end \
return 0";
/// Corrects a bucket.
const ADJUST: &str = "\
local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] \
local delta, span = tonumber(ARGV[1]), tonumber(ARGV[2]) \
local full = math.min(math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + delta, now + 2 * span) \
if full > now then redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000)) \
else redis.call('DEL', KEYS[1]) end \
return 0";
/// Adds entries to a session: milliseconds to keep them, how many, then age and content of each.
const APPEND: &str = "\
local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) \
local keep, most = tonumber(ARGV[1]), tonumber(ARGV[2]) \
for at = 3, #ARGV, 2 do redis.call('ZADD', KEYS[1], 'NX', string.format('%.0f', now - tonumber(ARGV[at])), ARGV[at + 1]) end \
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - keep)) \
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -(most + 1)) \
redis.call('PEXPIRE', KEYS[1], math.max(keep, redis.call('PTTL', KEYS[1]))) \
return 0";
/// The server's time in milliseconds, then content and time of each entry.
const ENTRIES: &str = "\
local t = redis.call('TIME') \
local all = redis.call('ZREVRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1, 'WITHSCORES') \
return { string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)), all }";

/// A connection to Valkey or Redis.
pub struct RedisCounters {
    connection: Connection,
}

impl RedisCounters {
    /// Connects.
    ///
    /// # Errors
    /// [`CounterError`]; it never quotes the URL, which may hold a password.
    pub fn open(url: &str) -> Result<Self, CounterError> {
        let connection = connect(url)?;
        connection.set_read_timeout(Some(ANSWER)).map_err(|error| unavailable(&error))?;
        connection.set_write_timeout(Some(ANSWER)).map_err(|error| unavailable(&error))?;
        Ok(Self { connection })
    }

    fn query(&mut self, pipeline: &Pipeline, count: usize) -> Result<Vec<Value>, CounterError> {
        let values: Vec<Value> = pipeline.query(&mut self.connection).map_err(|error| unavailable(&error))?;
        if values.len() == count { Ok(values) } else { Err(CounterError::Answer(format!("{} answers to {count}", values.len()))) }
    }
}

impl CounterStore for RedisCounters {
    fn take(&mut self, takes: &[Take]) -> Result<Vec<Taken>, CounterError> {
        let mut pipeline = redis::pipe();
        for take in takes {
            pipeline.cmd("EVAL").arg(TAKE).arg(1).arg(name(&take.key)).arg(take.cost_us).arg(take.span_us);
        }
        let taken = |value| match u64::from_redis_value(value) {
            Ok(0) => Ok(Taken::Granted),
            Ok(wait_us) => Ok(Taken::Refused(wait_us)),
            Err(error) => Err(CounterError::Answer(error.to_string())),
        };
        self.query(&pipeline, takes.len())?.into_iter().map(taken).collect()
    }

    fn adjust(&mut self, adjusts: &[Adjust]) -> Result<(), CounterError> {
        let mut pipeline = redis::pipe();
        for adjust in adjusts {
            pipeline.cmd("EVAL").arg(ADJUST).arg(1).arg(name(&adjust.key)).arg(adjust.delta_us).arg(adjust.span_us);
        }
        self.query(&pipeline, adjusts.len()).map(drop)
    }

    fn append(&mut self, appends: &[Append]) -> Result<(), CounterError> {
        let mut pipeline = redis::pipe();
        for append in appends {
            let keep_ms = u64::try_from(append.keep.as_millis()).unwrap_or(u64::MAX).clamp(1, KEEP_MS_MAX);
            pipeline.cmd("EVAL").arg(APPEND).arg(1).arg(name(&append.key)).arg(keep_ms).arg(ENTRIES_MAX);
            let entries = append.entries.iter().filter(|entry| entry.body.len() <= ENTRY_BYTES_MAX);
            for entry in entries.rev().take(ENTRIES_MAX) {
                pipeline.arg(entry.age_ms.min(KEEP_MS_MAX)).arg(&entry.body[..]);
            }
        }
        self.query(&pipeline, appends.len()).map(drop)
    }

    fn entries(&mut self, keys: &[CounterKey]) -> Result<Vec<Vec<Entry>>, CounterError> {
        let mut pipeline = redis::pipe();
        for key in keys {
            pipeline.cmd("EVAL").arg(ENTRIES).arg(1).arg(name(key)).arg(ENTRIES_MAX);
        }
        let wrong = |error: &dyn std::fmt::Display| CounterError::Answer(error.to_string());
        let session = |value| {
            let (now_ms, all) = <(u64, Vec<(Vec<u8>, f64)>)>::from_redis_value(value).map_err(|error| wrong(&error))?;
            let entry = |(body, at_ms): (Vec<u8>, f64)| Entry { age_ms: now_ms.saturating_sub(at_ms as u64), body };
            Ok(all.into_iter().filter(|(body, _)| body.len() <= ENTRY_BYTES_MAX).map(entry).collect())
        };
        self.query(&pipeline, keys.len())?.into_iter().map(session).collect()
    }

    fn publish(&mut self, channel: &str, messages: &[Vec<u8>]) -> Result<(), CounterError> {
        let mut pipeline = redis::pipe();
        for message in messages {
            pipeline.cmd("PUBLISH").arg(channel).arg(&message[..]);
        }
        self.query(&pipeline, messages.len()).map(drop)
    }

    fn tend(&mut self) -> Result<(), CounterError> {
        if self.connection.check_connection() { Ok(()) } else { Err(CounterError::Unavailable("the connection broke".into())) }
    }
}

fn connect(url: &str) -> Result<Connection, CounterError> {
    let client = Client::open(url).map_err(|error| unavailable(&error))?;
    client.get_connection_with_timeout(CONNECT).map_err(|error| unavailable(&error))
}

/// Listens on a channel until `ear` returns false: it gets each message, and nothing once the channel is open and now and then.
///
/// # Errors
/// [`CounterError`]: the channel can't be opened, or broke.
pub fn listen(url: &str, channel: &str, ear: &mut dyn FnMut(Option<&[u8]>) -> bool) -> Result<(), CounterError> {
    let mut connection = connect(url)?;
    let mut channels = connection.as_pubsub();
    channels.subscribe(channel).map_err(|error| unavailable(&error))?;
    channels.set_read_timeout(Some(CALLED_EVERY)).map_err(|error| unavailable(&error))?;
    let mut goes_on = ear(None);
    while goes_on {
        goes_on = match channels.get_message() {
            Ok(message) => ear(Some(message.get_payload_bytes())),
            Err(error) if error.is_timeout() => ear(None),
            Err(error) => return Err(unavailable(&error)),
        };
    }
    Ok(())
}

/// Longest time for which a session is kept: a week.
const KEEP_MS_MAX: u64 = 7 * 24 * 3_600 * 1_000;

/// The server's key.
fn name(key: &CounterKey) -> String {
    let mut name = String::from("toolmark:");
    key.iter().for_each(|byte| {
        // Writing to a string can't fail.
        let _written = std::fmt::Write::write_fmt(&mut name, format_args!("{byte:02x}"));
    });
    name
}

fn unavailable(error: &RedisError) -> CounterError {
    CounterError::Unavailable(error.to_string())
}
