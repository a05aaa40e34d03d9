//! Texts of the beginning of a conversation, for later exchanges that begin with it; and what was computed of all of them together.
//!
//! It changes no result, only what results cost, so this counts as pure.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use foldhash::fast::RandomState;

use super::{ResultReading, number};
use crate::language::request::UserRequest;

/// Texts of the beginning of a conversation.
#[derive(Debug, Default)]
pub struct KnownTexts {
    /// Its results that answer a call, in order.
    pub results: Vec<Arc<ResultReading>>,
    /// Texts of users, instructions, answers and calls.
    pub said: Vec<Arc<str>>,
    /// Texts of answers; they are in `said` too.
    pub answers: Vec<Arc<str>>,
    /// The last user message; what was read of it is kept with it.
    pub asked: UserRequest,
    /// Since that message the model has seen what can't be read here.
    pub unseen: bool,
    said_numbers: OnceLock<Arc<[f64]>>,
    earlier: Option<EarlierNumbers>,
}

/// Numbers of the first texts of a beginning.
#[derive(Debug)]
struct EarlierNumbers {
    results: usize,
    said: usize,
    numbers: Arc<[f64]>,
}

impl KnownTexts {
    /// These texts. `earlier`: those of a beginning that this one begins with.
    pub fn new(
        results: Vec<Arc<ResultReading>>,
        said: Vec<Arc<str>>,
        answers: Vec<Arc<str>>,
        asked: UserRequest,
        earlier: Option<&Self>,
    ) -> Self {
        let numbers = |earlier: &Self| {
            let numbers = earlier.said_numbers.get()?.clone();
            Some(EarlierNumbers { results: earlier.results.len(), said: earlier.said.len(), numbers })
        };
        Self { results, said, answers, asked, unseen: false, said_numbers: OnceLock::new(), earlier: earlier.and_then(numbers) }
    }

    /// Every number that anybody said or called a tool with, sorted.
    pub(super) fn said_numbers(&self) -> &[f64] {
        self.said_numbers.get_or_init(|| {
            let (results, said, numbers) =
                self.earlier.as_ref().map_or((0, 0, &[][..]), |earlier| (earlier.results, earlier.said, &earlier.numbers));
            let results = self.results.get(results..).unwrap_or_default();
            said_numbers(numbers, results, self.said.get(said..).unwrap_or_default()).into()
        })
    }

    /// Bytes of memory that it takes, without the texts, which are shared.
    pub fn bytes(&self) -> usize {
        let texts = (self.results.len() + self.said.len() + self.answers.len()) * size_of::<Arc<str>>();
        let numbers = self.earlier.iter().map(|earlier| &earlier.numbers).chain(self.said_numbers.get());
        size_of::<Self>() + self.asked.bytes() + texts + numbers.map(|numbers| size_of_val(&**numbers)).sum::<usize>()
    }
}

/// Adds the numbers in these texts, and in the arguments of the calls that these results answer, to `known`; sorted.
pub(super) fn said_numbers(known: &[f64], results: &[impl Deref<Target = ResultReading>], said: &[Arc<str>]) -> Vec<f64> {
    // What was said is mostly calls, whose arguments the results have too: read once, with the result.
    let mut by_place: HashMap<*const u8, &ResultReading, RandomState> =
        HashMap::with_capacity_and_hasher(results.len(), RandomState::default());
    by_place.extend(results.iter().map(|source| (source.arguments.as_ptr(), &**source)));
    let mut found: Vec<f64> = known.to_vec();
    found.extend(results.iter().flat_map(|source| source.argument_numbers()).copied());
    for said in said {
        match by_place.get(&said.as_ptr()).filter(|source| Arc::ptr_eq(&source.arguments, said)) {
            Some(source) => found.extend_from_slice(source.argument_numbers()),
            None => found.extend(number::values(said)),
        }
    }
    found.sort_by(f64::total_cmp);
    found
}
