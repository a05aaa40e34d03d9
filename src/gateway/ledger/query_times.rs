//! Times of exchanges' queries to the ledger, by what is asked.

use std::time::Duration;

use crate::sys::histogram::{Histogram, HistogramSnapshot, LEDGER_US};

/// Kind of a query that an exchange sends to the ledger.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QueryKind {
    /// First results of calls, which become the first where none is known.
    FirstResults,
    /// Sessions of executions that an answer cites.
    Sessions,
    /// Reading the state of a conversation that another replica stored.
    Conversation,
    /// Storing what another replica must know of a conversation.
    StoreConversation,
}

impl QueryKind {
    /// All kinds, in the order of the histograms.
    pub const ALL: [Self; 4] = [Self::FirstResults, Self::Sessions, Self::Conversation, Self::StoreConversation];

    /// Name of the kind, as metrics have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FirstResults => "first_results",
            Self::Sessions => "sessions",
            Self::Conversation => "conversation",
            Self::StoreConversation => "store_conversation",
        }
    }
}

/// A histogram for each kind of query, from asking to the answer.
#[derive(Debug)]
pub struct QueryTimes([Histogram; 4]);

impl Default for QueryTimes {
    fn default() -> Self {
        Self([const { Histogram::new(&LEDGER_US) }; 4])
    }
}

impl QueryTimes {
    /// Counts one query.
    pub fn observe(&self, kind: QueryKind, time: Duration) {
        let histograms = QueryKind::ALL.iter().zip(&self.0);
        histograms.filter(|(own, _)| **own == kind).for_each(|(_, histogram)| histogram.observe(time));
    }

    /// Snapshots of all histograms, each with the name of its kind.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, HistogramSnapshot)> + '_ {
        QueryKind::ALL.iter().zip(&self.0).map(|(kind, histogram)| {
            let mut counted = HistogramSnapshot::default();
            histogram.add_to(&mut counted);
            (kind.as_str(), counted)
        })
    }
}
