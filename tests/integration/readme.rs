//! The README keeps its word: every command in it runs here, or is one that another test runs.

use std::path::{Path, PathBuf};

use toolmark::settings::{self, Environment, Flags};

use crate::program::{Running, command, finish};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The blocks of this language, in their order.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut parts = text.split("\n```").collect::<Vec<_>>().into_iter();
    parts.next();
    let (mut found, mut inside) = (Vec::new(), false);
    for part in parts {
        inside = !inside;
        let (named, body) = part.split_once('\n').unwrap_or((part, ""));
        if inside && named == language {
            found.push(body.to_owned());
        }
    }
    found
}

/// The commands of all `sh` blocks, and the exit code that a comment behind one promises.
fn commands() -> Vec<(String, i32)> {
    let lines = blocks(&read("README.md"), "sh").into_iter().flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>());
    let lines = lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let split = |line: String| match line.split_once(" # exit ") {
        Some((command, code)) => (command.trim().to_owned(), code.trim().parse().unwrap()),
        None => (line.trim().to_owned(), 0),
    };
    lines.map(split).collect()
}

/// Serves as the README says, but on a free port.
fn serve(arguments: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [arguments, &["--listen", "127.0.0.1:0"]].concat();
    let mut serving = Running::start(command(&arguments, directory.path()));
    let health = format!("http://{}/healthz", serving.address());
    let get = async { crate::harness::http_client().get(health).send().await.unwrap().status() };
    assert_eq!(crate::harness::run(get), 200);
    serving.signal("TERM");
    assert_eq!(serving.end().code, Some(0), "{arguments:?}");
}

/// `.ci/package` makes a file of such a name, and its `--test`, which takes too long here, installs it.
fn packaged(kind: &str, file: &str) {
    let (makes, tests) = (read(".ci/package.d/packages.py"), read(".ci/package.d/installed.py"));
    assert!(makes.contains(&format!("\"{kind}\": make_{kind},")) && tests.contains(&format!("\"{kind}\": test_{kind},")), "{kind}");
    let (_, end) = file.rsplit_once('*').unwrap();
    // The ending as the packager writes it, where the architecture is filled in.
    let end = end.trim_start_matches("_amd64").trim_start_matches("-linux-x64").trim_start_matches("-amd64");
    assert!(makes.contains(&format!("}}{end}\"")), "{file}");
}

#[test]
fn every_command_runs() {
    let commands = commands();
    for (line, code) in &commands {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            ["cargo", "run", "--release", "--", "serve", ..] => serve(&words[4..]),
            // The debug build, which is at hand: what is asked for is the same.
            ["cargo", "run", "--release", "--", arguments @ ..] => {
                let finished = finish(arguments, &repository(""));
                assert_eq!(finished.code, Some(*code), "{line}: {finished:?}");
            }
            // It is what runs here.
            ["cargo", "test"] => {
                assert!(read(".ci/run").lines().any(|step| step == "step cargo test"), ".ci/run has other tests than the README")
            }
            ["dpkg", "-i", file, ..] => packaged("deb", file),
            ["pip", "install", file, ..] => packaged("wheel", file),
            ["npm", "install", "--global", file, ..] => packaged("npm", file),
            ["podman", "load", "-i", file, ..] => packaged("container", file),
            _ => panic!("no test runs `{line}`"),
        }
    }
    for line in ["cargo run --release -- demo", "cargo test"] {
        assert!(commands.iter().any(|(command, _)| command == line), "the README lacks `{line}`");
    }
    assert!(commands.iter().any(|(command, _)| command.starts_with("cargo run --release -- serve")));
}

#[test]
fn its_settings_are_settings() {
    let directory = tempfile::tempdir().unwrap();
    let of_file = |file: &str| blocks(&read(file), "toml");
    assert!(!of_file("README.md").is_empty() && !of_file("docs/upstreams.md").is_empty());
    // The contract's second block is a policy.
    let [of_settings, of_policy] = of_file("docs/contract.md").try_into().unwrap();
    let policy = directory.path().join("policy.toml");
    std::fs::write(&policy, &of_policy).unwrap();
    toolmark::policy::load::PolicySource::File(policy).load().unwrap_or_else(|error| panic!("{error}:\n{of_policy}"));
    for block in ["README.md", "docs/upstreams.md", "docs/mcp.md", "docs/verifier.md"].into_iter().flat_map(of_file).chain([of_settings]) {
        std::fs::write(directory.path().join("toolmark.toml"), &block).unwrap();
        let environment = Environment::of(&[
            ("CEREBRAS_API_KEY", "sk-cerebras"),
            ("OPENAI_API_KEY", "sk-openai"),
            ("TODO_AUTH", "x"),
            ("TODO_TOKEN", "x"),
        ]);
        settings::load(&Flags::default(), &environment, directory.path()).unwrap_or_else(|error| panic!("{error}:\n{block}"));
    }
}

/// Keys that a table of the policy knows, by the message for one that it doesn't know.
fn known_keys(text: &str, load: impl Fn(&str) -> String) -> Vec<String> {
    let message = load(text);
    let (_, known) = message.split_once("known here: ").unwrap_or_else(|| panic!("{text}: {message}"));
    known.split([',', ' ']).map(|key| key.trim_matches(['`', '\n']).to_owned()).filter(|key| !key.is_empty() && key != "and").collect()
}

#[test]
fn every_key_of_a_policy_is_documented() {
    let directory = tempfile::tempdir().unwrap();
    let pages: String = std::fs::read_dir(repository("docs"))
        .unwrap()
        .map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap_or_default())
        .collect();
    let documented = |key: &str| {
        [
            format!("\n{key} = "),
            format!("`{key}`"),
            format!("`{key} = "),
            format!("[{key}]"),
            format!(".{key}`"),
            format!(", {key} = "),
            format!("{{ {key} = "),
            format!("] {key}`"),
            format!("] {key} = "),
        ]
        .iter()
        .any(|form| pages.contains(form))
    };
    let policy = |text: &str| {
        let file = directory.path().join("policy.toml");
        std::fs::write(&file, text).unwrap();
        toolmark::policy::load::PolicySource::File(file).load().unwrap_err().to_string()
    };
    let mut missing = Vec::new();
    for section in [
        "",
        "[tools]",
        "[protocol]",
        "[calls]",
        "[loops]",
        "[results]",
        "[stream]",
        "[citations]",
        "[responses]",
        "[[claims]]",
        "[[state]]",
    ] {
        missing.extend(
            known_keys(&format!("{section}\nno_such_key = 1\n"), policy)
                .into_iter()
                .filter(|key| !documented(key))
                .map(|key| format!("policy {section} {key}")),
        );
    }
    assert!(missing.is_empty(), "no page of docs/ has: {missing:?}");
}

#[test]
fn table_of_codes_matches_the_policies() {
    use toolmark::violation::Code;
    let (codes, policy) = (read("docs/codes.md"), read("policies/default.toml"));
    let meaning =
        |name: &str| policy.lines().find(|line| line.starts_with(&format!("{name} ="))).and_then(|line| Some(line.split_once("# ")?.1));
    let mut listed = Vec::new();
    for row in codes.lines().filter(|line| ["| call |", "| text |", "| request |"].iter().any(|start| line.starts_with(start))) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[2].trim_matches('`');
        let code = Code::parse(name).unwrap_or_else(|| panic!("{name} is no code"));
        let severity = |severity| format!("{severity:?}").to_lowercase();
        let own = [format!("{:?}", code.place()).to_lowercase(), severity(code.default_severity()), severity(code.strict_severity())];
        assert_eq!(own, [cells[1], cells[4], cells[5]], "{name}");
        assert_eq!(meaning(name), Some(cells[3]), "{name}: the policy's comment says something else");
        listed.push(name);
    }
    for code in Code::ALL.iter().filter(|code| !toolmark::policy::compiled::is_internal(**code)) {
        assert!(listed.contains(&code.as_str()), "docs/codes.md doesn't list {code}");
    }
}

#[test]
fn pages_are_short_and_links_lead_somewhere() {
    assert!(read("README.md").lines().count() <= 160);
    let pages = std::fs::read_dir(repository("docs")).unwrap().map(|page| format!("docs/{}", page.unwrap().file_name().to_string_lossy()));
    for page in pages.filter(|page| page.ends_with(".md")).chain(["README.md".into(), "CONTRIBUTING.md".into()]) {
        let (text, folder) = (read(&page), if page.starts_with("docs/") { "docs/" } else { "" });
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|link| !link.starts_with("http")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { page.clone() } else { format!("{folder}{file}") };
            assert!(repository(&file).exists(), "{page}: {link}");
            let heading = |line: &str| {
                let title = line.trim_start_matches('#').trim().to_lowercase();
                title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect::<String>().replace(' ', "-")
            };
            let leads = || read(&file).lines().filter(|line| line.starts_with('#')).any(|line| heading(line) == anchor);
            assert!(anchor.is_empty() || leads(), "{page}: {link}: no such heading");
        }
    }
    for path in ["examples", "LICENSE", ".ci/run"] {
        assert!(repository(path).exists(), "{path}");
    }
    assert!(read("LICENSE").contains("Apache License") && read("CHANGELOG.md").contains("## [Unreleased]"));
}

#[test]
fn what_ci_installs_is_what_the_readme_names() {
    let (readme, ci) = (read("README.md"), read(".ci/run"));
    for package in ["build-essential", "python3-venv", "nodejs", "npm", "prometheus", "postgresql", "valkey-server", "util-linux"] {
        assert!(ci.contains(&format!("packages+=({package})")) && readme.contains(package), "{package}");
    }
    for step in ["cargo fmt --check", "cargo clippy --all-targets -- -D warnings", "cargo doc --no-deps"] {
        assert!(ci.contains(&format!("step {step}\n")), "{step}");
    }
}
