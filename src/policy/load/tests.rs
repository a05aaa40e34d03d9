//! Policies in, rules or a message out.

use std::{fs, time::Duration};

use super::*;
use crate::compiled::is_internal;
use toolmark_base::violation::{Checks, Code, Severity};

const TOOL: &str = r#"{"type": "function", "function": {"name": "add", "parameters": {"type":"object"}}}"#;

fn read(files: &[(&str, &str)]) -> Result<CompiledPolicy, String> {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let rules = PolicySource::File(directory.path().join("p.toml")).load();
    rules.map_err(|error| error.to_string().replace(&format!("{}/", directory.path().display()), ""))
}

#[track_caller]
fn refused(files: &[(&str, &str)], words: &[&str]) {
    let error = read(files).expect_err(files[0].1);
    for word in words {
        assert!(error.contains(word), "{word:?} isn't in:\n{error}");
    }
}

#[test]
fn the_default_policy_is_the_default() {
    let rules = PolicySource::Default.load().unwrap();
    let mut written = rules.policy.clone();
    let listed = std::mem::take(&mut written.checks);
    // The file says what it comes to.
    assert_eq!((written.protocol.inject.take(), rules.policy.protocol_text()), (Some(false), None));
    assert_eq!(format!("{written:?}"), format!("{:?}", Policy::default()));
    assert_eq!(rules.checks, Checks::default());
    assert_eq!(listed.len(), Code::ALL.iter().filter(|code| !is_internal(**code)).count());
    assert!(!rules.hold_all() && rules.notices.is_empty() && rules.watched().is_empty());
}

#[test]
fn the_strict_policy_is_the_contracts() {
    let rules = PolicySource::Strict.load().unwrap();
    for code in Code::ALL.iter().copied().filter(|code| !is_internal(*code)) {
        let expected = match code {
            // The strict column of docs/contract.md#policy says `block` for all three of their row.
            Code::InvalidToolSchema | Code::SchemaDrift | Code::MissingTool => Severity::Block,
            code => code.strict_severity(),
        };
        assert_eq!(rules.checks.severity(code), expected, "{code}");
        assert!(rules.policy.checks.contains_key(code.as_str()), "{code} isn't listed");
    }
    let Policy { calls, results, citations, loops, .. } = &rules.policy;
    assert_eq!(results.window, Some(Duration::from_secs(300)));
    assert_eq!(loops.consecutive_failures, 3);
    assert_eq!((loops.same_tool.calls, loops.same_tool.window), (5, Duration::from_secs(10)));
    assert_eq!((loops.all_tools.calls, loops.all_tools.window), (10, Duration::from_secs(5)));
    assert_eq!((calls.max_per_turn, calls.corrections.len()), (5, 0));
    assert!(citations.show && citations.require && rules.hold_all());
    // All else is as by default.
    let mut rest = rules.policy.clone();
    let usual = Policy::default();
    rest.checks.clear();
    rest.results.window = None;
    assert_eq!(rest.protocol.inject.take(), Some(true));
    (rest.loops, rest.citations) = (usual.loops.clone(), usual.citations.clone());
    (rest.calls.max_per_turn, rest.calls.corrections) = (128, usual.calls.corrections.clone());
    assert_eq!(format!("{rest:?}"), format!("{usual:?}"));
}

#[test]
fn what_the_model_is_told() {
    use crate::protocol::{ANNOUNCE_TEXT, CITE_TEXT};
    let both = format!("{ANNOUNCE_TEXT} {CITE_TEXT}");
    for (policy, told) in [
        ("", None),
        ("[protocol]\ninject = true", Some(CITE_TEXT)),
        ("[protocol]\nannounce = true", Some(ANNOUNCE_TEXT)),
        ("[protocol]\ninject = true\nannounce = true", Some(&*both)),
        ("[protocol]\ntext = 'x'", Some("x")),
        ("[protocol]\ntext = 'x'\ninject = false", None),
        ("[citations]\nrequire = true", Some(CITE_TEXT)),
        ("[citations]\nrequire = true\n[protocol]\ninject = false", None),
        ("[protocol]\ninject = true\n[results]\nstamp = 'off'", None),
    ] {
        assert_eq!(read(&[("p.toml", policy)]).unwrap().policy.protocol_text().as_deref(), told, "{policy}");
    }
    let notices = |policy: &str| read(&[("p.toml", policy)]).unwrap().notices;
    assert!(notices("[citations]\nrequire = true\n[protocol]\ninject = false")[0].contains("protocol.inject is false"));
    assert!(notices("[protocol]\ntext = 'x'\ninject = false")[0].contains("protocol.text is not used"));
    assert!(PolicySource::Strict.load().unwrap().policy.protocol_text().as_deref() == Some(CITE_TEXT));
    assert!(CITE_TEXT.len() < 100 && ANNOUNCE_TEXT.len() < 80);
}

#[test]
fn the_observing_policy_records_all() {
    let rules = PolicySource::Observe.load().unwrap();
    assert_eq!(rules.policy.mode, crate::PolicyMode::Observe);
    assert!(Code::ALL.iter().all(|code| rules.checks.severity(*code) > Severity::Off));
}

#[test]
fn choosing() {
    let directory = tempfile::tempdir().unwrap();
    let choose = |said| PolicySource::choose(said, directory.path());
    assert_eq!(choose(None), PolicySource::Default);
    assert_eq!(choose(Some("strict")), PolicySource::Strict);
    let file = PolicySource::File(directory.path().join(DEFAULT_FILE));
    assert_eq!(choose(Some(DEFAULT_FILE)), file);
    let error = file.load().unwrap_err().to_string();
    assert!(error.contains(DEFAULT_FILE) && error.contains("built in are `default`"), "{error}");
    fs::create_dir(directory.path().join("policies")).unwrap();
    fs::write(directory.path().join(DEFAULT_FILE), "").unwrap();
    assert_eq!(choose(None), file);
}

#[test]
fn tool_files() {
    let policy = "[tools]\nfiles = ['tools/*.json', 'more/**/x*.json', 'one.json']";
    let other = |name: &str| format!("[\n  {}\n]", TOOL.replace("add", name));
    let files = [
        ("p.toml", policy),
        ("tools/b.json", &other("b")),
        ("tools/a.json", &format!("[{TOOL}, {}]", TOOL.replace("add", "a"))),
        ("tools/not.txt", "not json"),
        ("tools/deep/not.json", "not json"),
        ("more/x/y/x1.json", &other("x1")),
        ("one.json", "[]"),
    ];
    let rules = read(&files).unwrap();
    let names: Vec<&str> = rules.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["x1", "add", "a", "b"]);
    assert_eq!(&*rules.tools[1].raw, TOOL, "byte for byte");
    assert_eq!(rules.watched().iter().filter(|path| path.extension().is_some()).count(), 5, "{:?}", rules.watched());
    let digest = read(&[files[0], files[1], files[2], files[5], ("one.json", "[ ]")]).unwrap().digest;
    assert_ne!(digest, rules.digest, "a tool file's change is the policy's");
    assert_eq!(digest.len(), 64);
    assert!(read(&[("p.toml", "[tools]\nfiles = ['tools/*.json']")]).unwrap().tools.is_empty());
}

#[test]
fn tool_files_that_are_wrong() {
    let policy = ("p.toml", "[tools]\nfiles = ['t/*.json']");
    for (text, words) in [
        ("[\n{,]", &["t/t.json:2:", "not valid JSON"][..]),
        (r#"{"tools": []}"#, &["t/t.json:1:", "an array of"]),
        ("[\n 1]", &["t/t.json:2: `[0]`: not an object"]),
        (r#"[{"function": {"name": "x"}}]"#, &["`type` isn't \"function\""]),
        (r#"[{"type": "function", "name": "x"}]"#, &["flat form"]),
        (r#"[{"type": "function", "function": {}}]"#, &["`function.name` is missing"]),
        (r#"[{"type": "function", "function": {"name": "a b"}}]"#, &["`a b` is no name"]),
        (r#"[{"type": "function", "function": {"name": "a", "name": "b"}}]"#, &["`name` is there twice"]),
        (r#"[{"type": "function", "function": {"name": "a", "parameters": []}}]"#, &["`parameters` of `a` is no object"]),
        (&format!("[{TOOL},\n{TOOL}]"), &["t/t.json:2: `add`", "already in", "t/t.json:1"]),
    ] {
        refused(&[policy, ("t/t.json", text)], words);
    }
    refused(&[policy], &["p.toml:2: `tools.files[0]`: `t/*.json` matches no file"]);
    refused(&[("p.toml", "[tools]\nfiles = ['t/[']")], &["`tools.files[0]`", "is no glob"]);
}

#[test]
fn the_listed_keys_are_those_of_a_policy() {
    let error = read(&[("p.toml", "zzz = 1")]).unwrap_err();
    let known: Vec<&str> = error.split_once("known here: ").unwrap().1.split(", ").map(|key| key.trim_matches('`')).collect();
    assert_eq!(known, toolmark_config::sections::POLICY);
}

#[test]
fn a_call_that_cannot_be_passed_on_is_blocked_whatever_the_policy_says() {
    let severities = |mode: &str| {
        let text = format!("mode = '{mode}'\n[checks]\nunknown_tool = 'warn'\ntruncated_call = 'off'\nmissing_required = 'warn'\n");
        let rules = read(&[("p.toml", &text)]).unwrap();
        let codes = [Code::UnknownTool, Code::TruncatedCall, Code::MalformedArguments, Code::MissingRequired];
        (codes.map(|code| rules.checks.severity(code)), rules.notices.iter().filter(|notice| notice.contains("can't be passed on")).count())
    };
    use Severity::{Block, Off, Warn};
    assert_eq!(severities("enforce"), ([Block, Block, Block, Warn], 2));
    assert_eq!(severities("observe"), ([Warn, Off, Block, Warn], 0));
}

#[test]
fn a_misspelt_name_of_a_policy() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |name: &str| PolicySource::choose(Some(name), directory.path()).load().map(|_| ()).unwrap_err().to_string();
    assert!(refused("strickt").contains("did you mean `strict`?"), "{}", refused("strickt"));
    assert!(!refused("policies/own.toml").contains("did you mean"), "{}", refused("policies/own.toml"));
}

#[test]
fn what_is_refused_and_how() {
    for (text, words) in [
        ("mode = enforce", &["p.toml:1:", "not valid TOML"][..]),
        ("mode = 'strict'", &["p.toml:1: `mode`: `strict`", "known: `enforce`, `observe`"]),
        ("[call]\nmax_repairs = 1", &["p.toml:1: `call`: unknown key (did you mean `calls`?"]),
        ("[limits]\nconnections = 1", &["p.toml:1: `limits`: unknown key: it belongs in toolmark.toml"]),
        ("listen = '127.0.0.1:1'", &["p.toml:1: `listen`: unknown key: it belongs in toolmark.toml"]),
        ("[calls]\nmax_repair = 1", &["p.toml:2: `calls.max_repair`", "`max_repairs`"]),
        ("[calls]\nmax_repairs = 11", &["p.toml:2: `calls.max_repairs`: 11 is out of range: 0 to 10"]),
        ("[calls]\nmax_repairs = '1'", &["`calls.max_repairs`", "expected a whole number"]),
        ("[calls]\nmax_attempts = 0", &["`calls.max_attempts`", "1 to 50"]),
        ("[loops]\nidentical_calls = '5'", &["`loops.identical_calls`", "in_a_row"]),
        ("[loops]\nidentical_calls = -1", &["`loops.identical_calls`", "out of range"]),
        ("[loops]\nidentical_calls = { calls = 5, every = '1s' }", &["loops.identical_calls", "every"]),
        ("[loops]\nidentical_calls = { calls = 5, within = '2h' }", &["`loops.identical_calls.within`", "at most 1h"]),
        ("[loops.tools.a]\nidentical_calls = { in_a_row = 2000000 }", &["`loops.tools.a.identical_calls`", "out of range"]),
        ("[calls]\nmax_per_turn = 0", &["`calls.max_per_turn`"]),
        ("[calls]\nrepair_deadline = 30", &["`calls.repair_deadline`", "expected a string"]),
        ("[calls]\nrepair_deadline = '2h'", &["`calls.repair_deadline`", "at most 1h"]),
        ("[calls]\nplaceholders = ['ok', '(']", &["`calls.placeholders[1]`: `(`", "unclosed group"]),
        ("[calls]\nplaceholders = ['(a{1000}){1000}']", &["`calls.placeholders[0]`", "too big"]),
        ("[calls]\ncorrections = ['null_optional', 'names']", &["`calls.corrections[1]`", "`names`", "`name`"]),
        ("[results]\nwindow = 'never'", &["`results.window`: `never` is no duration", "\"off\""]),
        ("[results]\nlarge = 'big'", &["`results.large`: `big` is no size"]),
        ("[results]\nerror_patterns = ['[']", &["`results.error_patterns[0]`"]),
        ("[responses]\nstateful = 'keep'", &["`responses.stateful`: `keep`", "`track`, `stateless`, `refuse`"]),
        ("[responses]\nstatefull = 'track'", &["`responses.statefull`", "`stateful`"]),
        ("[citations]\nextra_patterns = ['ref (\\d+)']", &["`citations.extra_patterns[0]`", "no group `id`"]),
        ("[loops]\nsame_tool = { calls = 3 }", &["`loops.same_tool`", "`window` is missing"]),
        ("[loops]\nsame_tool = { calls = 3, window = '0s' }", &["`loops.same_tool.window`"]),
        ("[loops]\nidentical = 3", &["`loops.identical`", "unknown key"]),
        ("[loops.tools.poll]\nidentical_call = 3", &["`loops.tools.poll.identical_call`", "`identical_calls`"]),
        ("[loops.tools.poll]\ncooldown = '0s'", &["`loops.tools.poll.cooldown`", "out of range"]),
        ("[loops.tools.poll]\nsame_tool = { calls = 2, window = '2h' }", &["`loops.tools.poll.same_tool.window`", "at most 1h"]),
        ("[protocol]\ntext = ' '", &["`protocol.text`", "inject = false"]),
        ("[tools]\nexpect = ['']", &["`tools.expect[0]`"]),
        ("[checks]\nunknown_tol = 'warn'", &["p.toml:2: `checks.unknown_tol`: unknown code (did you mean `unknown_tool`?"]),
        ("[checks]\nunknown_tool = 'fatal'", &["`checks.unknown_tool`: `fatal`", "`off`, `info`, `warn`, `block`"]),
        ("[checks]\nnot_judged = 'off'", &["`checks.not_judged`", "can't be set"]),
        ("[[claims]]\nname = 'x'\npattern = 'y'", &["`claims[0]`", "`requires` is missing"]),
        ("[[claims]]\nname = 'x'\npattern = 'y'\nrequires = []", &["p.toml:4: `claims[0].requires`"]),
        ("[[claims]]\nname = 'x'\npattern = 'y*'\nrequires = ['t']", &["p.toml:3: `claims[0].pattern`", "empty text"]),
        ("[[claims]]\nname = 'x'\npattern = '(?<'\nrequires = ['t']", &["`claims[0].pattern`"]),
    ] {
        refused(&[("p.toml", text)], words);
    }
    let twice = "[[claims]]\nname = 'x'\npattern = 'y'\nrequires = ['t']\n";
    refused(&[("p.toml", &format!("{twice}{twice}"))], &["p.toml:6: `claims[1].name`", "must differ"]);
}

#[test]
fn what_is_compiled() {
    let rules = read(&[(
        "p.toml",
        "[citations]\nrequire = true\nextra_patterns = ['ref (?<id>\\S+)']\n[checks]\nunverified_call = 'block'\n\
         [[claims]]\nname = 'players'\npattern = '^approved'\nrequires = ['a', 'b']\n[calls]\nmax_repairs = 0\n",
    )])
    .unwrap();
    assert!(rules.hold_all(), "`require` needs the whole answer");
    assert_eq!(rules.checks.severity(Code::MissingCitation), Severity::Block, "what is required isn't off");
    assert_eq!(rules.checks.severity(Code::UnverifiedCall), Severity::Block);
    assert_eq!(&*rules.claims[0].message, "`players` may be said only after one of these tools succeeded: a, b");
    assert!(rules.claims[0].regex.is_match("so:\napproved"));
    assert!(rules.placeholders.is_match("todo") && !rules.placeholders.is_match("todo: x"));
    assert!(rules.error_patterns.is_match("Error: x") && !rules.error_patterns.is_match("no error\nerror"));
    let milder = "[citations]\nrequire = true\n[checks]\nmissing_citation = 'warn'";
    assert_eq!(read(&[("p.toml", milder)]).unwrap().checks.severity(Code::MissingCitation), Severity::Warn);
}
