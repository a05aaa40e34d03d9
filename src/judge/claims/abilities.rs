//! What the tools of an exchange can do, by their names and descriptions, and which of them ran. Pure.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use super::{fold::name_words, lexicon::all, scene::tool_nouns};

/// Words in a tool's name by which it may do anything.
const ANYTHING: [&str; 26] = [
    "manage", "handle", "agent", "sql", "shell", "bash", "command", "code", "python", "api", "request", "http", "browser", "computer",
    "invoke", "process", "submit", "action", "control", "exec", "terminal", "execute", "run", "script", "call", "do",
];

/// One tool.
#[derive(Clone, Debug, Default)]
pub struct Ability {
    /// Its name.
    pub tool: String,
    /// What its name, or else its description, says that it does.
    pub does: Vec<String>,
    /// What its description says besides.
    pub may: Vec<String>,
    /// It may do anything, as far as its name says.
    pub anything: bool,
    /// What it does that with.
    pub nouns: Vec<String>,
    /// Its description's words.
    pub about: Vec<String>,
}

/// How a tool did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ran {
    /// It returned a result that is no failure.
    pub succeeded: bool,
    /// It returned a failure.
    pub failed: bool,
}

/// The tools of an exchange.
#[derive(Clone, Debug, Default)]
pub struct Abilities {
    /// Those that could be called.
    pub tools: Arc<[Ability]>,
    /// Those that were, by name.
    pub ran: BTreeMap<String, Ran>,
    /// There are tools besides of which toolmark sees no results: what the upstream runs itself, a part of the
    /// conversation that isn't there.
    pub unseen: bool,
    /// What the user said last.
    pub asked: String,
    /// The last thing in the conversation is no result: nothing ran since the user spoke.
    pub idle: bool,
}

impl Ability {
    /// Of a tool's name and what it says of itself.
    pub fn new(tool: &str, description: &str) -> Self {
        let words = name_words(tool);
        let about: Vec<String> = name_words(description.get(..description.floor_char_boundary(400)).unwrap_or(description));
        let does = meanings(&words, false);
        let may = meanings(&about, true);
        let anything = words.iter().any(|word| ANYTHING.contains(&word.as_str()));
        let first = || meanings(about.get(..about.len().min(2)).unwrap_or_default(), true);
        let does = if does.is_empty() { first() } else { does };
        let english = super::lexicon::english();
        Self { tool: tool.to_owned(), does, may, anything, nouns: tool_nouns(tool, english), about }
    }

    /// Would it have done this, as its name says?
    pub fn would(&self, means: &str) -> bool {
        self.does.iter().any(|own| own == means)
    }

    /// May it have done this?
    pub fn may_do(&self, means: &str) -> bool {
        let unknown = self.does.is_empty() && self.may.is_empty();
        unknown || self.anything || self.would(means) || self.may.iter().any(|own| own == means)
    }
}

/// What these words say that is done, in any language. `inflected`: `Adds`, `Creates` too.
fn meanings(words: &[String], inflected: bool) -> Vec<String> {
    static NAMED: OnceLock<HashMap<&'static str, Vec<&'static str>>> = OnceLock::new();
    let known = NAMED.get_or_init(|| {
        let mut known: HashMap<&'static str, Vec<&'static str>> = HashMap::new();
        for verb in all().iter().flat_map(|lexicon| &lexicon.verbs) {
            verb.named.iter().for_each(|name| known.entry(name).or_default().push(&verb.means));
        }
        known
    });
    let stems = |word: &str| {
        let endings = ["", "s", "es"].into_iter().take(if inflected { 3 } else { 1 });
        endings.filter_map(|ending| known.get(word.strip_suffix(ending)?)).flatten().copied().collect::<Vec<_>>()
    };
    let mut found: Vec<String> = Vec::new();
    for means in words.iter().flat_map(|word| stems(word)) {
        if !found.iter().any(|own| own == means) {
            found.push(means.to_owned());
        }
    }
    found
}

impl Abilities {
    /// How a tool did.
    pub fn ran(&self, tool: &str) -> Ran {
        self.ran.get(tool).copied().unwrap_or_default()
    }

    /// Has anything returned a result?
    pub fn any_ran(&self) -> bool {
        !self.ran.is_empty()
    }

    /// May a tool that succeeded have done this? What isn't among the tools any more may have done anything.
    pub fn backs(&self, means: &str) -> bool {
        self.ran.iter().filter(|(_, ran)| ran.succeeded).any(|(tool, _)| {
            let own = self.tools.iter().find(|ability| ability.tool == *tool);
            own.map_or_else(|| Ability::new(tool, "").may_do(means), |ability| ability.may_do(means))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tools_do() {
        for (tool, description, does, not) in [
            ("add_task", "Adds a task.", "create", "delete"),
            ("get_tasks", "Returns the tasks that were created.", "read", "delete"),
            ("deleteTask", "", "delete", "create"),
            ("tasks", "Deletes a task by id", "delete", "send"),
            ("send_email", "Send an e-mail", "send", "delete"),
        ] {
            let ability = Ability::new(tool, description);
            assert!(ability.would(does) && !ability.would(not), "{ability:?}");
        }
        assert!(Ability::new("run_sql", "").may_do("delete") && Ability::new("frobnicate", "").may_do("delete"));
        assert!(!Ability::new("get_weather", "Weather of a city").may_do("delete"));
    }
}
