//! Encoding of records, stored and in the queue: CBOR (RFC 8949), as arrays by the numbers of [`super::record`]'s fields. It takes less
//! than half the bytes of JSON, which earlier versions stored: both can be read.

use minicbor::{
    Decode, Decoder, Encoder,
    decode::Error as DecodeError,
    encode::{Error as EncodeError, Write},
};
use uuid::Uuid;

use super::{
    record::{Digest, ExchangeRecord},
    store::StoreError,
};

/// First byte of a record in JSON; CBOR arrays never begin with it.
const JSON: u8 = b'{';

/// Appends a record to `bytes`.
pub fn write(record: &ExchangeRecord, bytes: &mut Vec<u8>) {
    // INVARIANT: writing into memory doesn't fail, and a record has nothing that CBOR hasn't.
    let _written = minicbor::encode(record, bytes);
}

/// Decodes a record.
///
/// # Errors
/// [`StoreError::Corrupt`]: not a record, or it has values that this version doesn't know.
pub fn read(bytes: &[u8]) -> Result<ExchangeRecord, StoreError> {
    match bytes.first() {
        Some(&JSON) => serde_json::from_slice(bytes).map_err(|error| corrupt(&error)),
        _ => minicbor::decode(bytes).map_err(|error| corrupt(&error)),
    }
}

/// The fields that a record's index rows need: the first ones of its encoding.
pub(super) struct IndexFields<'b> {
    pub id: Uuid,
    pub at_ms: u64,
    pub total_us: u64,
    pub model: &'b str,
    pub session: Option<&'b str>,
    pub executions: Vec<ExecutionIndexFields<'b>>,
    pub violations: Vec<ViolationIndexFields<'b>>,
}

impl<'b, C> Decode<'b, C> for IndexFields<'b> {
    /// Reads only these fields.
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, DecodeError> {
        if decoder.array()?.is_none_or(|fields| fields < 7) {
            return Err(DecodeError::message("too few fields"));
        }
        Ok(Self {
            id: id::decode(decoder, context)?,
            at_ms: decoder.u64()?,
            total_us: decoder.u64()?,
            model: decoder.str()?,
            session: decoder.decode_with(context)?,
            executions: decoder.decode_with(context)?,
            violations: decoder.decode_with(context)?,
        })
    }
}

/// Index fields of one execution.
#[derive(Decode)]
pub(super) struct ExecutionIndexFields<'b> {
    #[b(0)]
    pub id: &'b str,
    #[b(1)]
    pub tool: &'b str,
    #[n(4)]
    pub result: Digest,
}

/// Index fields of one violation.
#[derive(Decode)]
pub(super) struct ViolationIndexFields<'b> {
    #[b(0)]
    pub code: &'b str,
    #[b(3)]
    pub tool: Option<&'b str>,
}

/// Decodes the index fields of a record that [`write()`] encoded.
pub(super) fn beside(bytes: &[u8]) -> Result<IndexFields<'_>, StoreError> {
    minicbor::decode(bytes).map_err(|error| corrupt(&error))
}

fn corrupt(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt(format!("a record that can't be read: {error}"))
}

/// A UUID, as its 16 bytes.
pub(super) mod id {
    use super::*;

    pub fn encode<C, W: Write>(id: &Uuid, encoder: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        encoder.bytes(id.as_bytes())?.ok()
    }

    pub fn decode<C>(decoder: &mut Decoder<'_>, _: &mut C) -> Result<Uuid, DecodeError> {
        Uuid::from_slice(decoder.bytes()?).map_err(DecodeError::message)
    }
}

/// An optional UUID.
pub(super) mod other_id {
    use super::*;

    pub fn is_nil(id: &Option<Uuid>) -> bool {
        id.is_none()
    }

    pub fn nil() -> Option<Option<Uuid>> {
        Some(None)
    }

    pub fn encode<C, W: Write>(id: &Option<Uuid>, encoder: &mut Encoder<W>, context: &mut C) -> Result<(), EncodeError<W::Error>> {
        match id {
            Some(id) => super::id::encode(id, encoder, context),
            None => encoder.null()?.ok(),
        }
    }

    pub fn decode<C>(decoder: &mut Decoder<'_>, context: &mut C) -> Result<Option<Uuid>, DecodeError> {
        if decoder.datatype()? == minicbor::data::Type::Null {
            decoder.skip()?;
            return Ok(None);
        }
        super::id::decode(decoder, context).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ledger::{fixtures::RecordGenerator, index::IndexRows, record::StoredText};
    use crate::violation::Code;

    fn written(record: &ExchangeRecord) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(record, &mut bytes);
        bytes
    }

    /// One that has everything that a record can have.
    fn full() -> ExchangeRecord {
        let mut record = RecordGenerator::record(4);
        record.amends = Some(Uuid::now_v7());
        record.client = Some("support-bot".into());
        record.status = None;
        record.observed = true;
        record.calls[0].mark = Some("call_1".into());
        record.calls[0].violations = Code::ALL.to_vec();
        record.calls[0].arguments_body = Some(StoredText::of("{}", 1));
        record.executions[0].tool = "nul\0".into();
        record.executions[0].result_body = Some(StoredText::of("long", 2));
        record.claims[0].execution = Some("x".into());
        record.claims[0].code = Some(Code::UngroundedValue);
        record.violations[0].message = Some("what was wrong".into());
        record
    }

    #[test]
    fn what_is_written_is_read_and_so_is_what_earlier_versions_wrote() {
        for record in [RecordGenerator::record(1), RecordGenerator::record(2), full()] {
            let (bytes, json) = (written(&record), serde_json::to_vec(&record).unwrap());
            assert_eq!(read(&bytes).unwrap(), record);
            assert_eq!(read(&json).unwrap(), record);
            assert!(bytes.len() < json.len(), "{} of {}", bytes.len(), json.len());
            assert_eq!(IndexRows::of_stored(&bytes, 3, 7).unwrap(), IndexRows::of(&record, 3, 7));
        }
    }

    #[test]
    fn a_later_versions_fields_are_passed_over() {
        let record = full();
        let mut bytes = written(&record);
        // One field more, of a kind that nobody knows yet.
        assert_eq!(bytes[0], 0x95, "21 fields");
        bytes[0] = 0x96;
        bytes.extend_from_slice(&[0xa1, 0x61, b'x', 0x82, 1, 2]);
        assert_eq!(read(&bytes).unwrap(), record);
        assert_eq!(IndexRows::of_stored(&bytes, 1, 1).unwrap(), IndexRows::of(&record, 1, 1));
    }

    proptest! {
        #[test]
        fn anything_may_stand_there(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0..300_usize, byte: u8) {
            let _read = (read(&bytes).is_ok(), beside(&bytes).is_ok());
            bytes = written(&full());
            if let Some(own) = bytes.get_mut(at) {
                *own = byte;
            }
            let _read = (read(&bytes).is_ok(), beside(&bytes).is_ok());
            bytes.truncate(at);
            prop_assert!(read(&bytes).is_err() || at >= written(&full()).len());
        }
    }
}
