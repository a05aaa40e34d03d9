//! The command line: its grammar, and what each command's end means. docs/contract.md#commands.
//!
//! The outermost shell. Exit codes: 0 success, 1 a check failed, 2 wrong arguments or settings.

pub mod check;
pub mod demo;
pub mod doctor;
pub mod generate;
pub mod health;
mod http;
pub mod import;
pub mod init;
pub mod judge;
pub mod ledger;
pub mod mcp;
pub mod policy;
#[cfg(feature = "cassette-import")]
mod recordings;
pub mod replay;
pub mod serve;
pub mod stats;
pub mod tail;
pub mod verify;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand};

use crate::{
    policy::{compiled::CompiledPolicy, load},
    settings::{self, Environment, Flags, Settings},
};

/// `toolmark …`
#[derive(Debug, Parser)]
#[command(name = "toolmark", version, about = ABOUT, after_help = EXAMPLE, arg_required_else_help = true)]
pub struct Cli {
    /// The settings file, instead of toolmark.toml in the working directory
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of `toolmark`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write toolmark.toml for a model server: one that is named, or found by its key or on its port
    #[command(after_help = INIT_EXAMPLE)]
    Init(init::InitArgs),
    /// Try it end to end: keys, models, functions, streams, ledger, ports; a table says what to do
    #[command(after_help = DOCTOR_EXAMPLE)]
    Doctor(doctor::DoctorArgs),
    /// Run the proxy
    #[command(after_help = SERVE_EXAMPLE)]
    Serve(ServeArgs),
    /// Ask a running toolmark whether it lives, as a container's health check does; exit 1 if it doesn't answer
    #[command(after_help = HEALTH_EXAMPLE)]
    Health(health::HealthArgs),
    /// See it work: a scripted upstream plays the failures, toolmark catches them, a table says so
    #[command(after_help = DEMO_EXAMPLE)]
    Demo(DemoArgs),
    /// Read and explain settings, policy and schemas; exit 2 and the place of the fault if something is wrong
    #[command(after_help = CHECK_EXAMPLE)]
    Check(CheckArgs),
    /// Judge one exchange offline; exit 1 if it would be blocked
    #[command(after_help = JUDGE_EXAMPLE)]
    Judge(JudgeArgs),
    /// Tools of MCP servers: list, call, pin and compare them
    #[command(after_help = MCP_EXAMPLE)]
    Mcp(mcp::McpArgs),
    /// Say whether an execution ID is one of ours, and what the ledger knows of it; exit 1 if it isn't
    #[command(after_help = VERIFY_EXAMPLE)]
    Verify(verify::VerifyArgs),
    /// Check the ledger, export it, or print its newest MAC
    Ledger(ledger::LedgerArgs),
    /// Policies that replicas share in their ledger: put one there, list the versions, print one
    Policy(policy::PolicyArgs),
    /// Show the statistics of the ledger as a table
    #[command(after_help = STATS_EXAMPLE)]
    Stats(stats::StatsArgs),
    /// Follow the exchanges of a running toolmark, a line each
    #[command(after_help = TAIL_EXAMPLE)]
    Tail(tail::TailArgs),
    /// Show one exchange of a running toolmark: what came, what was wrong, what the model was told, what left
    #[command(after_help = SHOW_EXAMPLE)]
    Show(tail::ShowArgs),
    /// Judge recorded traffic again; exit 1 where a verdict differs from the recorded one
    #[command(after_help = REPLAY_EXAMPLE)]
    Replay(replay::ReplayArgs),
    /// Make a cassette (a file of recorded exchanges) from other tools' recordings
    #[command(after_help = IMPORT_EXAMPLE)]
    Import(import::ImportArgs),
    /// Write a cassette in another tool's form
    #[command(after_help = EXPORT_EXAMPLE)]
    Export(import::ExportArgs),
    /// Write man pages and shell completions into a directory, for packages
    #[command(hide = true)]
    Generate(generate::Generate),
}

/// `toolmark serve`
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// The model server, instead of the upstreams in the settings. Where it has no path, /v1 is added
    #[arg(long, value_name = "URL")]
    pub upstream: Option<String>,
    /// The policy: a file, or one of `default`, `strict`, `observe`
    #[arg(long, value_name = "FILE")]
    pub policy: Option<String>,
    /// Record exchanges in a cassette: a file, or a directory of files
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Answer from a cassette instead of a model: no network, and no upstream is needed
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}

/// `toolmark demo`
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Keep serving afterwards, to try it by hand
    #[arg(long)]
    pub keep: bool,
}

/// `toolmark check`
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// The model server, instead of the upstreams in the settings, as for `serve`
    #[arg(long, value_name = "URL")]
    pub upstream: Option<String>,
    /// The policy: a file, or one of `default`, `strict`, `observe`. Without an upstream it alone is checked
    #[arg(long, value_name = "FILE")]
    pub policy: Option<String>,
}

/// `toolmark judge`
#[derive(Args, Clone, Debug)]
pub struct JudgeArgs {
    /// The request's body, as JSON
    #[arg(long, value_name = "FILE", required_unless_present = "conversation", conflicts_with = "conversation", requires = "response")]
    pub request: Option<PathBuf>,
    /// The response's body: JSON, or the events of a stream
    #[arg(long, value_name = "FILE", conflicts_with = "answer", requires = "request")]
    pub response: Option<PathBuf>,
    /// The conversation before the answer: a request's body, or its messages alone, as JSON
    #[arg(long, value_name = "FILE", requires = "answer")]
    pub conversation: Option<PathBuf>,
    /// The answer's text, as it is
    #[arg(long, value_name = "FILE", requires = "conversation")]
    pub answer: Option<PathBuf>,
    /// The policy: a file, or one of `default`, `strict`, `observe`
    #[arg(long, value_name = "FILE")]
    pub policy: Option<String>,
}

/// Error of a command; the exit code is 2.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] settings::Error),
    /// The policy is wrong.
    #[error(transparent)]
    Policy(#[from] load::Error),
    /// Any other error, as a message.
    #[error("{0}")]
    Failed(String),
}

/// Runs one command.
///
/// # Errors
/// [`Error`], for exit code 2.
pub fn run(cli: Cli) -> Result<ExitCode, Error> {
    let config = cli.config;
    let flags = Flags { config, ..Flags::default() };
    match cli.command {
        Command::Serve(ServeArgs { listen, upstream, policy, record, replay }) => {
            serve::run(Flags { listen, upstream, policy, record, replay, ..flags })
        }
        Command::Init(init) => init::run(&init, &flags),
        Command::Doctor(doctor) => doctor::run(&doctor, &flags),
        Command::Health(health) => health::run(&health, &flags),
        Command::Demo(demo) => demo::run(&demo, flags),
        Command::Check(CheckArgs { upstream, policy }) => check::run(&Flags { upstream, policy, ..flags }),
        Command::Judge(judge) => judge::run(&judge, flags),
        Command::Mcp(args) => mcp::run(&args, &flags),
        Command::Verify(verify) => verify::run(&verify, &flags),
        Command::Ledger(ledger) => ledger::run(&ledger, &flags),
        Command::Policy(policy) => policy::run(&policy, &flags),
        Command::Stats(arguments) => stats::run(&arguments, &flags),
        Command::Tail(arguments) => tail::tail(&arguments, &flags),
        Command::Show(arguments) => tail::show(&arguments, &flags),
        Command::Replay(replay) => replay::run(&replay, flags),
        Command::Import(import) => import::import(&import),
        Command::Export(export) => import::export(&export),
        Command::Generate(generate) => generate::run(&generate),
    }
}

/// The settings and all policies they name, compiled.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The settings.
    pub settings: Settings,
    /// The policy in force.
    pub rules: CompiledPolicy,
    /// The clients' own policies, in the clients' order; `None` means the policy in force.
    pub client_rules: Vec<Option<CompiledPolicy>>,
}

/// Reads settings and policies from the process's environment and working directory.
///
/// # Errors
/// The first error found.
pub fn prepare(flags: &Flags) -> Result<LoadedConfig, Error> {
    prepare_in(flags, &Environment::of_process(), Path::new(""))
}

/// Reads settings and policies from the given environment and directory.
///
/// # Errors
/// The first error found.
pub fn prepare_in(flags: &Flags, environment: &Environment, directory: &Path) -> Result<LoadedConfig, Error> {
    let settings = settings::load(flags, environment, directory)?;
    let rules = settings.policy.load()?;
    let load = |client: &settings::ClientSettings| client.policy.as_ref().map(load::PolicySource::load).transpose();
    let client_rules = settings.clients.iter().map(load).collect::<Result<_, _>>()?;
    Ok(LoadedConfig { settings, rules, client_rules })
}

const ABOUT: &str = "A reverse proxy for the APIs of OpenAI and Anthropic. It refuses tool calls that break their schema, and answers \
                     that report tool runs which never happened; the model is asked again.";

const EXAMPLE: &str = "\
EXAMPLE
  toolmark serve --upstream https://api.openai.com/v1
  OPENAI_BASE_URL=http://127.0.0.1:8787/v1 python my_agent.py

Exit codes: 0 success, 1 a check failed, 2 wrong arguments or settings.";

const INIT_EXAMPLE: &str = "\
EXAMPLE
  toolmark init                              # looks for keys in the environment, and for llama.cpp, vLLM, Ollama, LM Studio
  toolmark init --provider cerebras          # CEREBRAS_API_KEY, if it is set, becomes toolmark's own key
  toolmark init --url http://127.0.0.1:9000/v1

Then: toolmark doctor, toolmark serve";

const DOCTOR_EXAMPLE: &str = "\
EXAMPLE
  toolmark doctor
  toolmark doctor --upstream http://127.0.0.1:8080/v1 --model qwen3

Sends some fourteen small requests to each upstream. Exit 0 if it works, 1 if something needs fixing, 2 for wrong settings.";

const SERVE_EXAMPLE: &str = "\
EXAMPLE
  toolmark serve --upstream http://localhost:11434/v1
  toolmark serve --config /etc/toolmark.toml --listen 127.0.0.1:9000 --policy strict
  toolmark serve --upstream https://api.openai.com/v1 --record session.jsonl
  toolmark serve --replay session.jsonl

Settings: defaults, then toolmark.toml, then the environment (TOOLMARK_LIMITS__CONNECTIONS=500), then flags.
Opens port 8787 (API) and 8788 (dashboard, /readyz, /metrics; loopback). Writes toolmark.db and toolmark.key to the working directory.
Then point the application at it: OPENAI_BASE_URL=http://127.0.0.1:8787/v1";

const HEALTH_EXAMPLE: &str = "\
EXAMPLE
  toolmark health
  toolmark health --listen 127.0.0.1:9000

Asks GET /healthz, for five seconds at most. Exit 0 if it answers, 1 if not, 2 for wrong settings.";

const DEMO_EXAMPLE: &str = "\
EXAMPLE
  toolmark demo
  toolmark demo --keep      # and then send requests of your own

Needs no network, key or settings. Exit 0 if every failure was caught, else 1.";

const CHECK_EXAMPLE: &str = "\
EXAMPLE
  toolmark check
  toolmark check --config /etc/toolmark.toml
  toolmark check --policy my-policy.toml

Exit 0 if all is well, else 2 with file, line and key of the fault.";

const MCP_EXAMPLE: &str = "\
EXAMPLE
  toolmark mcp list
  toolmark mcp call todo__add_task '{\"title\": \"Buy milk\"}'
  toolmark mcp pin

Exit 0 if all is well, 1 if a server is down, a call fails or a tool changed, 2 if it can't be looked at.";

const JUDGE_EXAMPLE: &str = "\
EXAMPLE
  toolmark judge --request request.json --response response.json
  toolmark judge --request request.json --response stream.sse --policy strict
  toolmark judge --conversation messages.json --answer answer.txt

Exit 0 if it would pass, 1 if it would be blocked, 2 if a file can't be read.";

const VERIFY_EXAMPLE: &str = "\
EXAMPLE
  toolmark verify get_weather_1763760000123_abc0000000000001
  export CALLER='Bearer sk-…'
  toolmark verify --credential-env CALLER ping_1763760000123_abc0000000000001

Exit 0 if it is ours, 1 if not.";

const STATS_EXAMPLE: &str = "\
EXAMPLE
  toolmark stats
  toolmark stats --window 24h --json

Reads the ledger that the settings name, while `toolmark serve` may be writing it.";

const TAIL_EXAMPLE: &str = "\
EXAMPLE
  toolmark tail
  toolmark tail --filter 'verdict=blocked tool=get_weather'
  toolmark tail --json | jq .id

Asks the admin listener of a running toolmark. Ends with Ctrl-C; where the listener goes away, it connects again.";

const SHOW_EXAMPLE: &str = "\
EXAMPLE
  export TOOLMARK_ADMIN_TOKEN=…
  toolmark show 0199c2a4-5b3e-7c10-8a55-3f1c2d4e5f60

Bodies are shown with TOOLMARK_ADMIN_TOKEN, or where the settings have `[admin] bodies = \"everyone\"`. Exit 0, or 2 if there is no such exchange.";

const REPLAY_EXAMPLE: &str = "\
EXAMPLE
  toolmark replay session.jsonl
  toolmark replay cassettes/ --policy default --against strict
  toolmark replay session.jsonl --policy my.toml --junit replay.xml --json

Compares with the verdicts that were recorded, or one policy with another. Exit 0 if nothing differs, 1 if something does
(with --strict also where something is blocked and no verdict was recorded), 2 if a file can't be read.";

const IMPORT_EXAMPLE: &str = "\
EXAMPLE
  toolmark import vcr tests/cassettes/*.yaml -o session.jsonl
  toolmark import har capture.har -o session.jsonl --redact /metadata/email

Credentials are taken out while writing. Then: toolmark replay session.jsonl --strict";

const EXPORT_EXAMPLE: &str = "\
EXAMPLE
  toolmark export vcr session.jsonl -o session.yaml
  toolmark export har cassettes/ -o session.har

Importing the file gives the same cassette again.";

/// Prints to standard output; unlike `println!`, it doesn't panic if the pipe is closed.
fn print(text: &str) {
    let _closed = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
}

#[cfg(test)]
mod tests;
