//! What the tools of an exchange can do, by their names and descriptions, and which of them ran. Pure.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use crate::language::{
    fold::{fold, name_words, stands_in},
    lexicon::{self, all},
    request::UserRequest,
    tool_names::{ACTS, tool_nouns},
    word_list::WordList,
};

/// Words in a tool's name by which it may do anything.
static ANYTHING: WordList = WordList::new(&[
    "manage", "handle", "agent", "sql", "shell", "bash", "command", "code", "python", "api", "request", "http", "browser", "computer",
    "invoke", "process", "submit", "action", "control", "exec", "terminal", "execute", "run", "script", "call", "do",
]);

/// One tool.
#[derive(Clone, Debug, Default)]
pub struct ToolCapability {
    /// Its name.
    pub tool: String,
    /// The acts that its name, or else its description, says that it does.
    pub does: Vec<String>,
    /// The acts that its description names besides.
    pub may: Vec<String>,
    /// It may do anything, as far as its name says.
    pub anything: bool,
    /// The things that it does that with.
    pub nouns: Vec<String>,
    /// Its description's words.
    pub about: Vec<String>,
    /// The words of its name.
    pub words: Vec<String>,
    /// Its name, folded.
    pub folded: String,
    effect: OnceLock<Effect>,
}

/// The effect of a tool on the world, as far as its name and description say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// It only reads.
    Reads,
    /// It does more than read.
    Acts,
    /// Neither can be told.
    Unknown,
}

/// Words of a tool's name or description by which it only reads.
static READS: WordList = WordList::new(&[
    "get",
    "list",
    "search",
    "find",
    "read",
    "fetch",
    "query",
    "check",
    "lookup",
    "look",
    "show",
    "view",
    "describe",
    "track",
    "status",
    "count",
    "calculate",
    "compute",
    "convert",
    "estimate",
    "forecast",
    "info",
    "audit",
    "analyze",
    "analyse",
    "inspect",
    "ping",
    "trace",
    "traceroute",
    "resolve",
    "measure",
    "translate",
    "summarize",
    "recommend",
    "compare",
    "validate",
    "verify",
    "test",
    "preview",
    "quote",
    "history",
    "latest",
    "news",
    "browse",
    "scan",
    "monitor",
    "returns",
    "lists",
    "shows",
    "gets",
    "searches",
    "reads",
    "finds",
    "load",
    "retrieve",
    "weather",
    "current",
    "is",
    "has",
    "details",
    "report",
    "suggest",
]);
/// Last words of a tool's name by which it only reads.
static READ_NOUNS: WordList = WordList::new(&[
    "log",
    "logs",
    "status",
    "stats",
    "statistics",
    "info",
    "history",
    "calendar",
    "hours",
    "levels",
    "level",
    "readings",
    "reading",
    "conditions",
    "output",
    "tariff",
    "tariffs",
    "rates",
    "rate",
    "report",
    "list",
    "summary",
    "details",
    "prices",
    "price",
    "balance",
    "balances",
    "timetable",
    "catalog",
    "catalogue",
    "availability",
    "forecast",
    "metrics",
    "usage",
    "data",
    "records",
    "results",
    "stock",
    "weather",
    "schedule",
    "overview",
    "prognosis",
    "scores",
    "standings",
    "departures",
    "arrivals",
    "entries",
    "events",
    "orders",
    "inventory",
    "profile",
    "score",
    "quotes",
    "quote",
    "directory",
    "menu",
    "slots",
    "sailings",
    "transcript",
    "state",
    "position",
]);

/// Words of a tool's name, in other languages than English, by which it only reads, and by which it does more. Folded.
const FOREIGN_READS: &str = " leggi cerca trova mostra elenca ottieni controlla verifica consulta visualizza stato leer ler buscar busca consultar obtener obter listar mostrar comprobar verificar revisar pesquisar procurar encontrar estado lire chercher rechercher recherche obtenir lister consulter afficher voir verifier trouver etat lese lies lesen suche suchen finde finden zeige zeigen hole holen prufe prufen abfragen abrufen bestand lagerbestand fahrplan haal lees zoek toon vind controleer bekijk opvragen pobierz odczytaj szukaj wyszukaj znajdz sprawdz pokaz getir listele oku sorgula goster bul durum dekho khojo lista liste lijst ";
const FOREIGN_ACTS: &str = " crea aggiungi elimina annulla invia prenota imposta aggiorna sposta spegni accendi apri chiudi salva pubblica ordina paga crear criar anadir agregar adicionar eliminar borrar excluir enviar reservar marcar agendar programar actualizar atualizar cambiar alterar mudar mover cancelar anular pagar comprar guardar salvar publicar encender ligar desligar abrir cerrar fechar creer ajouter supprimer effacer envoyer reserver mettre modifier changer deplacer annuler payer acheter enregistrer publier allumer eteindre ouvrir fermer demander faire programmer erstelle erstellen anlegen hinzufugen losche loschen sende senden buche buchen reserviere reservieren andern aktualisieren verschieben storniere stornieren bezahlen kaufen speichern veroffentlichen einschalten ausschalten schalten setze setzen offnen schliessen bestellen uberweisen maak voeg verwijder stuur verstuur boek reserveer wijzig zet plaats annuleer betaal koop bewaar toewijzen utworz dodaj usun wyslij zarezerwuj zmien ustaw anuluj zaplac zapisz opublikuj wlacz wylacz olustur ekle sil gonder degistir guncelle iptal kaydet yayinla kapat ayarla ";

/// The outcomes of a tool's calls.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ToolRunState {
    /// It returned a result that is no failure.
    pub succeeded: bool,
    /// It returned a failure.
    pub failed: bool,
    /// Each result of it lists records, and none says that something was done.
    pub lists: bool,
}

/// The tools of an exchange.
#[derive(Clone, Debug, Default)]
pub struct ToolCapabilities {
    /// Those that could be called.
    pub tools: Arc<[ToolCapability]>,
    /// Those that were, by name.
    pub ran: BTreeMap<String, ToolRunState>,
    /// There are tools besides of which toolmark sees no results: what the upstream runs itself, a part of the
    /// conversation that isn't there.
    pub unseen: bool,
    /// The user's last message.
    pub asked: UserRequest,
    /// The last thing in the conversation is no result: nothing ran since the user spoke.
    pub idle: bool,
    /// The outcomes of the calls since the user spoke, by tool.
    pub recent: BTreeMap<String, ToolRunState>,
    /// A tool that may do more than read succeeded before the user spoke last.
    pub acted_before: bool,
    /// What was read from the others.
    pub memo: CapabilitiesMemo,
}

/// What follows from the capabilities of an exchange's tools, found when it is first asked for.
#[derive(Clone, Debug, Default)]
pub struct CapabilitiesMemo {
    acted: OnceLock<bool>,
    may_have_acted: OnceLock<bool>,
    done: OnceLock<Vec<usize>>,
    by_name: OnceLock<HashMap<String, usize>>,
    /// The request is about a tool that does more than read; see `acts::is_about_tool`.
    pub about_tool: OnceLock<bool>,
    /// The user brings a text to work on; see `acts::readings`.
    pub brings_text: OnceLock<bool>,
    /// The user ordered something, and nothing that could have done it ran; see `acts::orders`.
    pub open_order: OnceLock<bool>,
    /// The part of the order that no call covers; see `acts::open_part`.
    pub open_part: OnceLock<Option<Arc<OpenOrder>>>,
}

/// The part of an order that no call covers.
#[derive(Clone, Debug)]
pub struct OpenOrder {
    /// The exchange as it would be if the user had ordered that alone.
    pub exchange: ToolCapabilities,
    /// The words that name something in it, folded.
    pub things: Vec<String>,
}

impl ToolCapability {
    /// Of a tool's name and what it says of itself.
    pub fn new(tool: &str, description: &str) -> Self {
        let words = name_words(tool);
        let about: Vec<String> = name_words(description.get(..description.floor_char_boundary(400)).unwrap_or(description));
        let does = meanings(&words, &STEM);
        let may = meanings(&about, &INFLECTED);
        let anything = words.iter().any(|word| ANYTHING.has(word));
        let first = || meanings(about.get(..about.len().min(2)).unwrap_or_default(), &INFLECTED);
        let does = if does.is_empty() { first() } else { does };
        let english = lexicon::english();
        let nouns = tool_nouns(tool, english);
        Self { tool: tool.to_owned(), does, may, anything, nouns, about, words, folded: fold(tool), effect: OnceLock::new() }
    }

    /// The effect of a tool of which only the name is known.
    pub fn effect_of(tool: &str) -> Effect {
        Self { words: name_words(tool), ..Self::default() }.read_effect()
    }

    /// Its effect on the world. The first word of its name that tells decides, else the first words of its description.
    pub fn effect(&self) -> Effect {
        *self.effect.get_or_init(|| self.read_effect())
    }

    fn read_effect(&self) -> Effect {
        let told = |words: &[String]| {
            words.iter().find_map(|word| {
                let acts = |word: &str| ACTS.has(word) || word.strip_suffix('s').is_some_and(|stem| ACTS.has(stem));
                match word.as_str() {
                    word if READS.has(word) => Some(Effect::Reads),
                    word if acts(word) => Some(Effect::Acts),
                    _ => None,
                }
            })
        };
        let name = &self.words;
        if let Some(effect) = by_first_words(name) {
            return effect;
        }
        // `get_run`, `list_commands`: whatever the noun.
        static LOOKS: WordList =
            WordList::new(&["get", "list", "read", "fetch", "show", "find", "search", "view", "describe", "count", "lookup"]);
        // `get_or_create_customer` does more.
        let joins = name.iter().any(|word| matches!(word.as_str(), "or" | "and"));
        if !joins && name.first().is_some_and(|first| LOOKS.has(first)) {
            return Effect::Reads;
        }
        if name.iter().any(|word| ANYTHING.has(word) && !READS.has(word) && word != "control" && word != "submit" && word != "request") {
            return Effect::Unknown;
        }
        // `queue_track`, "Queue a track": a verb that no list knows begins the name, and its noun tells nothing.
        let own_verb = |first: &String| {
            // `Queue a track`; `Queue status of a host` begins with a noun.
            let object = || self.about.get(1).is_some_and(|word| ["a", "an", "the", "this", "one", "your", "new"].contains(&word.as_str()));
            let begins = self.about.first().is_some_and(|word| word == first && object() || word.strip_suffix('s') == Some(first));
            begins && name.len() > 1 && !READS.has(first) && !READ_NOUNS.has(first)
        };
        let own_verb = name.first().is_some_and(own_verb);
        // `fridge_log`, `stock_levels`: something that is read, unless a verb begins the name.
        let verb = own_verb || name.first().is_some_and(|first| ACTS.has(first));
        if !verb && name.last().is_some_and(|last| READ_NOUNS.has(last)) {
            return Effect::Reads;
        }
        // The first word that any language knows.
        let foreign = |words: &[String]| {
            words.iter().find_map(|word| {
                let has = |list: &str| stands_in(list, word);
                if has(FOREIGN_READS) { Some(Effect::Reads) } else { has(FOREIGN_ACTS).then_some(Effect::Acts) }
            })
        };
        let about = self.about.get(..self.about.len().min(3)).unwrap_or_default();
        let (name, about) = if own_verb { (name.get(..1).unwrap_or_default(), &[][..]) } else { (&name[..], about) };
        told(name).or_else(|| told(about)).or_else(|| foreign(name)).unwrap_or(Effect::Unknown)
    }

    /// May it do anything, as its name says: run a command, a query, a program?
    pub fn may_do_anything(&self) -> bool {
        static ANY: WordList = WordList::new(&[
            "sql", "shell", "bash", "command", "code", "python", "browser", "computer", "terminal", "agent", "http", "script",
        ]);
        self.words.iter().any(|word| ANY.has(word))
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

/// No ending: `add`.
const STEM: [&str; 1] = [""];
/// Endings as in `Adds` and `Creates`, too.
const INFLECTED: [&str; 3] = ["", "s", "es"];

/// The acts that these words name, in any language. `endings`: those that a verb may have.
fn meanings(words: &[String], endings: &[&str]) -> Vec<String> {
    static NAMED: OnceLock<HashMap<&'static str, Vec<&'static str>>> = OnceLock::new();
    let known = NAMED.get_or_init(|| {
        let mut known: HashMap<&'static str, Vec<&'static str>> = HashMap::new();
        for verb in all().iter().flat_map(|lexicon| &lexicon.verbs) {
            verb.named.iter().for_each(|name| known.entry(name).or_default().push(&verb.means));
        }
        known
    });
    let stems =
        |word: &str| endings.iter().filter_map(|ending| known.get(word.strip_suffix(ending)?)).flatten().copied().collect::<Vec<_>>();
    let mut found: Vec<String> = Vec::new();
    for means in words.iter().flat_map(|word| stems(word)) {
        if !found.iter().any(|own| own == means) {
            found.push(means.to_owned());
        }
    }
    found
}

/// The effect that the first two words of a name tell where the first alone would mislead: `report_absence`, `run_tests`, `check_in_guest`.
fn by_first_words(name: &[String]) -> Option<Effect> {
    static RUNS: WordList = WordList::new(&[
        "test",
        "tests",
        "check",
        "checks",
        "scan",
        "benchmark",
        "lint",
        "linter",
        "diagnostic",
        "diagnostics",
        "speed",
        "analysis",
        "report",
        "search",
        "forecast",
        "simulation",
        "audit",
        "speedtest",
        "ping",
        "traceroute",
    ]);
    static LOOKED_UP: WordList =
        WordList::new(&["dns", "host", "hostname", "name", "domain", "address", "url", "ip", "user", "id", "location", "alias", "link"]);
    // `open_doc`, `load_page`; `open_ticket` makes one.
    static READ_THINGS: WordList = WordList::new(&[
        "doc",
        "docs",
        "document",
        "page",
        "file",
        "url",
        "link",
        "note",
        "article",
        "mail",
        "email",
        "message",
        "pdf",
        "report",
        "runbook",
        "wiki",
        "website",
        "site",
        "folder",
        "attachment",
    ]);
    // `order_status`, `mail_queue`: what is a verb elsewhere is a thing here.
    static THINGS: WordList = WordList::new(&[
        "order", "mail", "email", "message", "file", "record", "book", "charge", "credit", "transfer", "release", "request", "label",
        "tag", "post", "print", "water", "text", "import", "sync", "ship", "log", "commit", "merge", "deposit", "refund", "pay", "lock",
        "share", "switch", "ticket", "backup", "deploy", "push",
    ]);
    static THEIR_STATES: WordList =
        WordList::new(&["status", "queue", "history", "stats", "statistics", "state", "balance", "availability", "position", "progress"]);
    let (first, second) = (name.first()?.as_str(), name.get(1)?.as_str());
    if name.len() == 2 && THINGS.has(first) && THEIR_STATES.has(second) {
        return Some(Effect::Reads);
    }
    match first {
        "open" | "load" | "browse" | "visit" if name.len() == 2 && READ_THINGS.has(second) => Some(Effect::Reads),
        "run" | "execute" if RUNS.has(second) => Some(Effect::Reads),
        "check" if matches!(second, "in" | "out") => Some(Effect::Acts),
        "report" if !READ_NOUNS.has(second) => Some(Effect::Acts),
        "resolve" if !LOOKED_UP.has(second) => Some(Effect::Acts),
        _ => None,
    }
}

impl ToolCapabilities {
    /// Places of the results of acts since the user spoke, which `find` finds the first time.
    pub fn done(&self, find: impl FnOnce() -> Vec<usize>) -> &[usize] {
        self.memo.done.get_or_init(find)
    }

    /// The tool of this name, if it could be called.
    pub fn tool(&self, name: &str) -> Option<&ToolCapability> {
        let by_name = || self.tools.iter().enumerate().rev().map(|(at, ability)| (ability.tool.clone(), at)).collect();
        self.memo.by_name.get_or_init(by_name).get(name).and_then(|at| self.tools.get(*at))
    }

    /// The outcomes of a tool's calls.
    pub fn ran(&self, tool: &str) -> ToolRunState {
        self.ran.get(tool).copied().unwrap_or_default()
    }

    /// Has a tool that may do more than read succeeded since the user spoke?
    pub fn may_have_acted(&self) -> bool {
        *self.memo.may_have_acted.get_or_init(|| self.recent.iter().any(|(tool, ran)| ran.succeeded && self.effect(tool) != Effect::Reads))
    }

    /// Did one succeed that does more than read? Where its name doesn't tell, its results do, if the user did no more than order something
    /// that another tool may do.
    pub fn has_acted(&self) -> bool {
        let idle = |ability: &ToolCapability| ability.effect() != Effect::Reads && !self.recent.contains_key(&ability.tool);
        let by_result = || self.asked.is_order() && self.tools.iter().any(idle);
        let acts = |tool: &str, ran: &ToolRunState| match self.effect(tool) {
            Effect::Reads => false,
            Effect::Acts => true,
            Effect::Unknown => !(ran.lists && self.tool(tool).is_some_and(|ability| !ability.anything) && by_result()),
        };
        let acted = || self.recent.iter().any(|(tool, ran)| ran.succeeded && acts(tool, ran));
        self.may_have_acted() && *self.memo.acted.get_or_init(acted)
    }

    /// Has a tool returned a result since the user spoke?
    pub fn looked(&self) -> bool {
        self.recent.values().any(|ran| ran.succeeded)
    }

    /// The effect of this tool on the world.
    pub fn effect(&self, tool: &str) -> Effect {
        self.tool(tool).map_or_else(|| ToolCapability::effect_of(tool), ToolCapability::effect)
    }

    /// The words of a tool's name.
    pub fn words_of(&self, tool: &str) -> Cow<'_, [String]> {
        self.tool(tool).map_or_else(|| Cow::Owned(name_words(tool)), |ability| Cow::Borrowed(ability.words.as_slice()))
    }

    /// Has anything returned a result?
    pub fn any_ran(&self) -> bool {
        !self.ran.is_empty()
    }

    /// May a tool that succeeded have done this? What isn't among the tools any more may have done anything.
    pub fn backs(&self, means: &str) -> bool {
        self.ran.iter().filter(|(_, ran)| ran.succeeded).any(|(tool, _)| {
            let own = self.tools.iter().find(|ability| ability.tool == *tool);
            own.map_or_else(|| ToolCapability::new(tool, "").may_do(means), |ability| ability.may_do(means))
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
            let ability = ToolCapability::new(tool, description);
            assert!(ability.would(does) && !ability.would(not), "{ability:?}");
        }
        assert!(ToolCapability::new("run_sql", "").may_do("delete") && ToolCapability::new("frobnicate", "").may_do("delete"));
        assert!(!ToolCapability::new("get_weather", "Weather of a city").may_do("delete"));
        assert_eq!(["open_doc", "load_page", "open_ticket"].map(ToolCapability::effect_of), [Effect::Reads, Effect::Reads, Effect::Acts]);
        let things = ["order_status", "mail_queue", "update_status", "order_item"].map(ToolCapability::effect_of);
        assert_eq!(things, [Effect::Reads, Effect::Reads, Effect::Acts, Effect::Acts]);
        // A noun that is a verb elsewhere, behind a verb that no list knows.
        let effects = [
            ("queue_track", "Queue a track on air", Effect::Unknown),
            ("expire_quote", "Expires a quote", Effect::Unknown),
            ("accept_quote", "Accept a quote", Effect::Unknown),
            ("fridge_log", "Temperature log of a fridge", Effect::Reads),
            ("queue_status", "Queue status of a host", Effect::Reads),
            ("track_parcel", "Track a parcel", Effect::Reads),
        ];
        for (tool, description, effect) in effects {
            assert_eq!(ToolCapability::new(tool, description).effect(), effect, "{tool}");
        }
    }
}
