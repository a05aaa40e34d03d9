//! A call and its result in a request, found by the call's id for the record. Pure.

use std::collections::HashMap;

use crate::wire::json::Value;

/// A call and its result, as they stand in a request.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Exhibit {
    /// The call's arguments (JSON text) or a custom tool's input; `None` if the call isn't in the request.
    pub arguments: Option<String>,
    /// Text of the result; `None` if it isn't in the request.
    pub result: Option<String>,
}

/// Search for calls and their results by id, from the request's end on: what is asked for is mostly the newest. Of two with one id the
/// last counts.
#[derive(Debug)]
pub struct ExhibitSearch<'i> {
    found: HashMap<&'i str, PartialExhibit>,
    /// Number of calls and results that weren't found yet.
    open: usize,
}

#[derive(Debug, Default)]
struct PartialExhibit {
    exhibit: Exhibit,
    has_call: bool,
    has_result: bool,
}

impl<'i> ExhibitSearch<'i> {
    /// Search for the calls with these ids.
    pub fn new(ids: &[&'i str]) -> Self {
        let found: HashMap<&str, PartialExhibit> = ids.iter().map(|id| (*id, PartialExhibit::default())).collect();
        let open = 2 * found.len();
        Self { found, open }
    }

    /// Shows `read` the items, last first, until all is found.
    pub fn through<'d>(mut self, items: impl Iterator<Item = Value<'d>>, read: impl Fn(&mut Self, Value<'d>)) -> HashMap<&'i str, Exhibit> {
        for item in last_first(items) {
            if self.open == 0 {
                break;
            }
            read(&mut self, item);
        }
        self.found.into_iter().map(|(id, found)| (id, found.exhibit)).collect()
    }

    /// The call with this id; `arguments` are read if they are wanted.
    pub fn call(&mut self, id: &str, arguments: impl FnOnce() -> Option<String>) {
        if let Some(found) = self.found.get_mut(id).filter(|found| !found.has_call) {
            (found.exhibit.arguments, found.has_call) = (arguments(), true);
            self.open -= 1;
        }
    }

    /// The result for the call with this id, whose `text` is read if it is wanted.
    pub fn result(&mut self, id: &str, text: impl FnOnce() -> Option<String>) {
        if let Some(found) = self.found.get_mut(id).filter(|found| !found.has_result) {
            (found.exhibit.result, found.has_result) = (text(), true);
            self.open -= 1;
        }
    }
}

/// The items from the last one on.
pub fn last_first<'d>(items: impl Iterator<Item = Value<'d>>) -> impl Iterator<Item = Value<'d>> {
    items.collect::<Vec<_>>().into_iter().rev()
}
