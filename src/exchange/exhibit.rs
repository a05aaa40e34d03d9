//! A call and its result as they stand in a request, found again by the call's id: for what is recorded of them. Pure.

/// What a request shows of one call.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Exhibit {
    /// Its arguments: JSON text, or a custom tool's input; `None` where the call isn't in the request.
    pub arguments: Option<String>,
    /// Its result's text; `None` likewise.
    pub result: Option<String>,
}
