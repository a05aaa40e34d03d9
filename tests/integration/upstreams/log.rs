//! What the program says of probes and fallbacks, as an operator reads it.

use toolmark::testing::ScriptedUpstream;

use super::stage::{calls, says, with_tool};
use crate::{
    harness::post,
    program::{Running, command},
};

#[test]
fn the_log_says_who_calls_functions_and_who_answers_instead() {
    let directory = tempfile::tempdir().unwrap();
    let [cerebras, openai] = [ScriptedUpstream::start(|_| says("I am ready.")).unwrap(), ScriptedUpstream::start(calls).unwrap()];
    let settings = format!(
        "listen = \"127.0.0.1:0\"\n[log]\nformat = \"text\"\n[ledger]\nurl = \"memory:\"\n\
         [[upstreams]]\nname = \"cerebras\"\nbase_url = \"{}\"\napi_key_env = \"\"\nmodels = [\"llama-3.3-70b\"]\nprobe = \"startup\"\n\
         fallback = [\"openai\"]\nfallback_models = {{ \"llama-3.3-70b\" = \"gpt-4o\" }}\n\
         [[upstreams]]\nname = \"openai\"\nbase_url = \"{}\"\napi_key_env = \"\"\nmodels = [\"gpt-4o\"]\nprobe = \"startup\"\n",
        cerebras.base_url(),
        openai.base_url()
    );
    std::fs::write(directory.path().join("toolmark.toml"), settings).unwrap();
    let mut toolmark = Running::start(command(&["serve"], directory.path()));
    let no = toolmark.line_with("`llama-3.3-70b` of `cerebras` doesn't call functions");
    assert!(no.contains("WARN") && no.contains("it answers in words") && no.contains("they go to `openai`"), "{no}");
    let yes = toolmark.line_with("`gpt-4o` of `openai` calls functions");
    assert!(yes.contains("INFO"), "{yes}");
    let url = format!("http://{}/v1/chat/completions", toolmark.address());
    let answer = post(&url, &with_tool("llama-3.3-70b").to_string(), "Bearer x");
    assert_eq!((answer.status, answer.header("toolmark-upstream")), (200, "openai"), "{}", answer.body);
    let line = toolmark.line_with("exchange pass");
    assert!(line.contains("upstream=openai") || line.contains("upstream=\"openai\""), "{line}");
    drop(openai);
    // Nobody is left now: the documented error, and the line says so.
    let answer = post(&url, &with_tool("llama-3.3-70b").to_string(), "Bearer x");
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (502, Some("upstream_unreachable")), "{}", answer.body);
    assert!(answer.body.contains("others can't answer: `cerebras`") || answer.body.contains("`openai`"), "{}", answer.body);
    toolmark.line_with("exchange failed");
}
