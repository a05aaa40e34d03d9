//! The settings file that `toolmark init` writes. Pure.

use std::fmt::Write as _;

use url::Url;

use super::ChosenServer;
use crate::upstreams::quirks::presets::Preset;

/// Text of a settings file for the chosen server; the others that were found are in it as comments.
pub fn text(chosen: &ChosenServer, others: &[ChosenServer], listen: &str, policy: &str) -> String {
    let mut out = format!(
        "# toolmark in front of {}. Written by `toolmark init`; change what you like.\n\
         #     toolmark check      what is in force, in words\n\
         #     toolmark doctor     whether it works, end to end\n\
         #     toolmark serve\n\
         # All settings: docs/settings.md.\n\n\
         # Where applications reach it: OPENAI_BASE_URL=http://{listen}/v1. Beyond loopback, put TLS in front.\n\
         listen = {}\n\n\
         # What is checked and how strictly: \"default\", \"strict\", \"observe\" (changes nothing, records all), or a file of yours.\n\
         policy = {}\n\n",
        chosen.title,
        quoted(listen),
        quoted(policy),
    );
    out.push_str(&upstream(chosen));
    out.push_str(if chosen.key_env.is_some() {
        "\n# Callers share the key above, so they aren't told apart.\n[marks]\nscope = \"shared\"\n"
    } else {
        "\n# Execution IDs are bound to the caller. Where a caller's key changes during a conversation: \"shared\".\n[marks]\nscope = \"caller\"\n"
    });
    out.push_str(
        "\n# The record of exchanges. The key that signs call ids is made beside it on the first start: keep both.\n\
         [ledger]\nurl = \"sqlite:toolmark.db\"\n",
    );
    for other in others {
        let _infallible = writeln!(out, "\n# Also found: {}. Models go to the first upstream that has them in its `models`.", other.title);
        for line in upstream(other).lines() {
            let _infallible = writeln!(out, "# {line}");
        }
    }
    out
}

fn upstream(server: &ChosenServer) -> String {
    let mut out = format!("[[upstreams]]\nname = {}\nbase_url = {}\n", quoted(&server.name), quoted(&server.base_url));
    // What the host says needs no line.
    if server.preset != Preset::None && preset_of(&server.base_url) != server.preset {
        let _infallible = writeln!(out, "# What this server refuses and needs is known.\npreset = {}", quoted(server.preset.as_str()));
    }
    match &server.key_env {
        Some(name) => {
            let _infallible = writeln!(
                out,
                "# The environment variable that holds the key; the key itself is in no file. Whoever reaches toolmark spends it.\n\
                 api_key_env = {}",
                quoted(name)
            );
        }
        None => out.push_str("# No `api_key_env`: the caller's own key is passed on, and goes nowhere else.\n"),
    }
    if server.preset == Preset::None && preset_of(&server.base_url) == Preset::None {
        out.push_str(
            "# Where this server has chat completions only, toolmark makes the Responses API and Anthropic's Messages API of them:\n\
             # responses = \"translate\"\n# messages = \"translate\"\n",
        );
    }
    out
}

fn preset_of(base_url: &str) -> Preset {
    let url = Url::parse(base_url).ok();
    url.as_ref().and_then(|url| Some(Preset::of(url.host_str()?, url.port()))).unwrap_or(Preset::None)
}

/// A TOML string: JSON's strings are all of them TOML's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
