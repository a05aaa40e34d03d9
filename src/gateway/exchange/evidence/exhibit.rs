//! A call and its result in a request, found by the call's id for the record. Pure.

/// A call and its result, as they stand in a request.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Exhibit {
    /// The call's arguments (JSON text) or a custom tool's input; `None` if the call isn't in the request.
    pub arguments: Option<String>,
    /// Text of the result; `None` if it isn't in the request.
    pub result: Option<String>,
}
