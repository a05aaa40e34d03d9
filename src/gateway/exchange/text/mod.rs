//! Texts of requests and answers, whatever their API.

pub mod annotations;
pub mod asked_for_calls;
pub(super) mod citation_duty;
pub mod event_template;
pub mod other_readings;
pub mod place;
pub mod places;
pub(super) mod spelling;
