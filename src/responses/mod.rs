//! Responses: the adapter between `POST /v1/responses` and the judging core.

pub mod translate;
