//! The command line's grammar, and what `check` says.

use std::fs;

use clap::CommandFactory as _;

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split(' '))
}

#[test]
fn the_grammar_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn the_contracts_commands() {
    for line in [
        "toolmark serve",
        "toolmark serve --config f --listen a --upstream u --policy p --record r --replay s",
        "toolmark --config f serve",
        "toolmark demo",
        "toolmark demo --keep",
        "toolmark check --config f",
        "toolmark judge --request a --response b --policy p --config f",
        "toolmark replay c.jsonl --policy p --against q --json --junit x.xml --strict",
        "toolmark import vcr a.yaml b.yaml -o c.jsonl",
        "toolmark import har a.har -o c.jsonl --redact /user",
        "toolmark import exchanges a.jsonl -o c.jsonl --keep-credentials",
        "toolmark export vcr c.jsonl -o a.yaml",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
    for line in ["toolmark", "toolmark sevre", "toolmark serve --lisen x", "toolmark judge --request a", "toolmark serve x"] {
        assert!(parse(line).is_err_and(|error| error.exit_code() == 2), "{line}");
    }
}

#[test]
fn help_has_examples() {
    for command in [
        "serve",
        "demo",
        "check",
        "judge",
        "replay",
        "import",
        "export",
        "verify",
        "ledger verify",
        "ledger export",
        "ledger anchor",
        "stats",
    ] {
        let help = parse(&format!("toolmark {command} --help")).unwrap_err();
        assert_eq!(help.exit_code(), 0);
        assert!(help.to_string().contains("EXAMPLE\n  toolmark "), "{help}");
    }
}

#[test]
fn generate_writes_a_page_for_each_command_and_completions_for_each_shell() {
    let directory = tempfile::tempdir().unwrap();
    let generate = super::generate::Generate { directory: directory.path().join("made") };
    super::generate::run(&generate).unwrap();
    let read = |path: &str| fs::read_to_string(generate.directory.join(path)).unwrap();
    assert!(read("man/toolmark.1").contains(".TH toolmark 1"));
    assert!(read("man/toolmark-serve.1").contains("OPENAI_BASE_URL") && read("man/toolmark-ledger-verify.1").contains("anchor"));
    for completion in ["toolmark.bash", "_toolmark", "toolmark.fish"] {
        assert!(read(&format!("completions/{completion}")).contains("upstream"), "{completion}");
    }
    // It is for packagers.
    assert!(!read("man/toolmark.1").contains("generate"));
}

#[test]
fn the_help_names_every_command() {
    let help = parse("toolmark --help").unwrap_err().to_string();
    for command in ["serve", "demo", "check", "judge", "verify", "ledger", "stats", "replay", "import", "export"] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
    }
}

#[test]
fn check_explains_without_secrets() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("toolmark.toml"),
        "[[upstreams]]\nname = 'main'\nbase_url = 'https://x/v1'\napi_key_env = 'MAIN_KEY'\nmodels = ['gpt-*']\n\
         [[clients]]\nname = 'bot'\nkey_sha256 = '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f'\npolicy = 'strict'\n",
    )
    .unwrap();
    let environment = Environment::of(&[("MAIN_KEY", "sk-secret")]);
    let prepared = prepare_in(&Flags::default(), &environment, directory.path()).unwrap();
    let text = check::explain(&prepared);
    for words in [
        "http://127.0.0.1:8787",
        "main: https://x/v1, key from MAIN_KEY, models gpt-*",
        "made on the first start",
        "default (built in)",
        "bot: strict (built in)",
        "enforce",
        "block       unknown_tool, ",
        "off         missing_citation",
        "sqlite, ",
    ] {
        assert!(text.contains(words), "{words:?} isn't in:\n{text}");
    }
    assert!(!text.contains("sk-secret"), "{text}");
    fs::write(directory.path().join("bad.toml"), "[checks]\nx = 'warn'").unwrap();
    let flags = Flags { policy: Some("bad.toml".into()), ..Flags::default() };
    let error = prepare_in(&flags, &environment, directory.path()).unwrap_err().to_string();
    assert!(error.contains("bad.toml:2: `checks.x`"), "{error}");
}
