//! Every file of `examples/` at work: the configurations served by the real program in front of a scripted model,
//! the applications in front of them, the systemd unit read by systemd.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use tempfile::TempDir;
use toolmark::testing::ScriptedUpstream;

use crate::clients::{
    model::model,
    runtimes::{self, repository},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolmark");
const WEATHER: &str = "It is 18 degrees in Paris.\n";
/// Longest that a start may take.
const START_TIME_MAX: Duration = Duration::from_secs(30);

/// The program serving one of the configurations, with only the place of the upstream changed.
struct Served {
    child: Child,
    url: String,
    upstream: ScriptedUpstream,
    directory: TempDir,
}

impl Served {
    fn start(configuration: &str, base_url: &str, environment: &[(&str, &str)]) -> Self {
        let (directory, upstream) = (tempfile::tempdir().unwrap(), ScriptedUpstream::start(model).unwrap());
        let text = fs::read_to_string(repository("examples").join(configuration)).unwrap();
        assert_eq!(text.matches(base_url).count(), 1, "{configuration}");
        let file = directory.path().join("toolmark.toml");
        fs::write(&file, text.replace(base_url, &upstream.base_url())).unwrap();
        let mut command = program(directory.path(), environment);
        command.arg("serve").arg("--config").arg(&file).args(["--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let url = listening(child.stdout.take().unwrap());
        Self { child, url, upstream, directory }
    }

    /// What an application has in its environment.
    fn environment<'e>(&'e self, model: &'e str) -> [(&'e str, &'e str); 3] {
        [("OPENAI_BASE_URL", &self.url), ("OPENAI_API_KEY", "sk-of-the-caller"), ("OPENAI_MODEL", model)]
    }

    /// Every request that came upstream was for this model and had this credential.
    fn check(&self, requests: usize, model: &str, authorization: &str) {
        let received = self.upstream.received();
        assert_eq!(received.len(), requests);
        for received in received {
            assert_eq!((&*received.line, received.json()["model"].as_str()), ("POST /v1/chat/completions", Some(model)));
            assert_eq!(received.headers["authorization"], authorization);
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Our own child; it may have ended by itself.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The program, in this directory and with nothing but this environment.
fn program(directory: &Path, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().envs(environment.iter().copied()).current_dir(directory);
    command
}

/// What to set as `OPENAI_BASE_URL`, as the log says it.
fn listening(log: std::process::ChildStdout) -> String {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut all = String::new();
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            if let Some((_, url)) = line.split_once("OPENAI_BASE_URL=") {
                let url = url.split_whitespace().next().unwrap_or_default().to_owned();
                let _test_is_over = send.send(Ok(url));
            }
            all.push_str(&line);
            all.push('\n');
        }
        let _test_is_over = send.send(Err(all));
    });
    receive.recv_timeout(START_TIME_MAX).unwrap().unwrap_or_else(|log| panic!("it doesn't listen: {log}"))
}

#[test]
fn configurations_are_explained() {
    let key = ("CEREBRAS_API_KEY", "csk-of-toolmark");
    for (configuration, environment, said) in [
        ("openai.toml", &[][..], ["openai: https://api.openai.com/v1, the caller's own key, all models", "bound to the caller"]),
        (
            "cerebras.toml",
            &[key],
            ["cerebras: https://api.cerebras.ai/v1, key from CEREBRAS_API_KEY, models llama*", "shared by all callers"],
        ),
        (
            "fallback.toml",
            &[key, ("OPENAI_API_KEY", "sk-of-toolmark")],
            ["cerebras: models are probed every 10m", "cerebras: falls back to openai: gpt-oss-120b as gpt-4o"],
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = repository("examples").join(configuration);
        let output = program(directory.path(), environment).arg("check").arg("--config").arg(&file).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{configuration}: {text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.iter().all(|said| text.contains(said)) && text.ends_with("All is well.\n"), "{configuration}: {text}");
        assert!(!text.contains(key.1), "{configuration}: {text}");
    }
}

#[test]
fn a_configuration_without_its_key_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = repository("examples/cerebras.toml");
    let output = program(directory.path(), &[]).arg("check").arg("--config").arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("CEREBRAS_API_KEY") && text.contains("cerebras.toml:"), "{text}");
}

#[test]
fn openai_python_in_front_of_openai() {
    if runtimes::skipped("examples::openai_python_in_front_of_openai") {
        return;
    }
    let served = Served::start("openai.toml", "https://api.openai.com/v1", &[]);
    let printed = runtimes::run_python(&repository("examples/openai-python/chat.py"), &served.environment("gpt-4o"));
    assert_eq!(printed, WEATHER);
    served.check(2, "gpt-4o", "Bearer sk-of-the-caller");
    assert!(served.directory.path().join("toolmark.key").exists(), "the key of the marks is made beside the ledger");
}

#[test]
fn openai_node_in_front_of_openai() {
    if runtimes::skipped("examples::openai_node_in_front_of_openai") {
        return;
    }
    let served = Served::start("openai.toml", "https://api.openai.com/v1", &[]);
    let printed = runtimes::run_node(&repository("examples/openai-node/chat.mjs"), &served.environment("gpt-4o"));
    assert_eq!(printed, format!("Let me look.\n{WEATHER}"));
    served.check(2, "gpt-4o", "Bearer sk-of-the-caller");
}

#[test]
fn langchain_in_front_of_cerebras() {
    if runtimes::skipped("examples::langchain_in_front_of_cerebras") {
        return;
    }
    let served = Served::start("cerebras.toml", "https://api.cerebras.ai/v1", &[("CEREBRAS_API_KEY", "csk-of-toolmark")]);
    let printed = runtimes::run_python(&repository("examples/langchain/chat.py"), &served.environment("gpt-oss-120b"));
    assert_eq!(printed, WEATHER);
    served.check(2, "gpt-oss-120b", "Bearer csk-of-toolmark");
}

/// Cerebras has no Messages API: it is translated.
#[test]
fn anthropic_python_in_front_of_cerebras() {
    if runtimes::skipped("examples::anthropic_python_in_front_of_cerebras") {
        return;
    }
    let served = Served::start("cerebras.toml", "https://api.cerebras.ai/v1", &[("CEREBRAS_API_KEY", "csk-of-toolmark")]);
    let environment = [
        ("ANTHROPIC_BASE_URL", served.url.strip_suffix("/v1").unwrap()),
        ("ANTHROPIC_API_KEY", "any"),
        ("ANTHROPIC_MODEL", "gpt-oss-120b"),
    ];
    let script = repository("examples/anthropic-python/chat.py");
    let printed = runtimes::run_python_of("messages", "tests/clients/messages.txt", &script, &environment);
    assert_eq!(printed, WEATHER);
    served.check(2, "gpt-oss-120b", "Bearer csk-of-toolmark");
}

/// The settings name nothing but toolmark's address and the models.
#[test]
fn claude_code_is_pointed_at_toolmark() {
    let text = fs::read_to_string(repository("examples/claude-code/settings.json")).unwrap();
    let settings: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(settings["env"]["ANTHROPIC_BASE_URL"], "http://127.0.0.1:8787");
    let configuration = fs::read_to_string(repository("examples/cerebras.toml")).unwrap();
    assert!(configuration.contains("listen = \"127.0.0.1:8787\"") && configuration.contains("gpt-oss*"), "{configuration}");
}

/// The tests of an agent on recorded traffic.
#[test]
fn pytest_on_a_cassette() {
    if runtimes::skipped("examples::pytest_on_a_cassette") {
        return;
    }
    let printed = runtimes::run_pytest(&repository("examples/pytest"), &[("TOOLMARK", PROGRAM)]);
    assert!(printed.contains("3 passed"), "{printed}");
}

#[test]
fn vitest_on_a_cassette() {
    if runtimes::skipped("examples::vitest_on_a_cassette") {
        return;
    }
    let cassette = repository("examples/cassettes/weather.jsonl");
    let environment = [("TOOLMARK", PROGRAM), ("CASSETTE", cassette.to_str().unwrap()), ("NO_COLOR", "1")];
    let printed = runtimes::run_vitest(&repository("examples/vitest"), &environment);
    assert!(printed.contains("3 passed"), "{printed}");
}

/// The unit's lines `name=value`, in order.
fn directives(unit: &str) -> Vec<(&str, &str)> {
    unit.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('=')).collect()
}

#[test]
fn the_unit_says_what_it_should() {
    let unit = fs::read_to_string(repository("examples/toolmark.service")).unwrap();
    let directives = directives(&unit);
    for expected in [
        ("ExecStart", "/usr/local/bin/toolmark serve --config /etc/toolmark/toolmark.toml"),
        ("ExecReload", "/bin/kill -HUP $MAINPID"),
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("CapabilityBoundingSet", ""),
        ("WorkingDirectory", "/var/lib/toolmark"),
        ("StateDirectory", "toolmark"),
        // Longer than the 30 s that running exchanges get.
        ("TimeoutStopSec", "45s"),
    ] {
        assert!(directives.contains(&expected), "{expected:?}");
    }
    let sections: Vec<&str> = unit.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(sections, ["[Unit]", "[Service]", "[Install]"]);
}

#[test]
fn systemd_understands_the_unit() {
    let directory = tempfile::tempdir().unwrap();
    let unit = fs::read_to_string(repository("examples/toolmark.service")).unwrap();
    // It wants the program to be where the unit says.
    let file = directory.path().join("toolmark.service");
    fs::write(&file, unit.replace("/usr/local/bin/toolmark", PROGRAM)).unwrap();
    let output = match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return writeln!(std::io::stderr(), "SKIPPED: examples::systemd_understands_the_unit (there is no systemd-analyze)").unwrap();
        }
        output => output.unwrap(),
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !text.contains("toolmark.service"), "{text}");
}
