//! Cases of one process, run again with two replicas that share a PostgreSQL and are asked in turn.

use std::cell::Cell;

thread_local! {
    static IN_TURNS: Cell<bool> = const { Cell::new(false) };
}

/// Runs cases of one proxy with two replicas.
pub fn in_turns(cases: &[fn()]) {
    IN_TURNS.set(true);
    cases.iter().for_each(|case| case());
    IN_TURNS.set(false);
}

/// True within [`in_turns`].
pub fn has_replicas() -> bool {
    IN_TURNS.get()
}
