//! The choice of a server, and what is written for it.

use serde_json::json;

use super::*;
use crate::{
    settings::{self, Credential},
    testing::{Script, ScriptedReply, ScriptedUpstream},
};

fn arguments() -> InitArgs {
    InitArgs { provider: None, url: None, key_env: None, policy: "default".into(), listen: "127.0.0.1:8787".into(), force: false }
}

fn chosen(
    arguments: &InitArgs,
    environment: &[(&str, &str)],
    known: &'static [Provider],
) -> Result<(ChosenServer, Vec<ChosenServer>), Error> {
    http::runtime().unwrap().block_on(choose(arguments, &Environment::of(environment), known))
}

fn local(server: &'static str, owner: &'static str) -> ScriptedUpstream {
    let models = json!({"object": "list", "data": [{"id": "m", "object": "model", "owned_by": owner}]});
    ScriptedUpstream::start(move |_| ScriptedReply::json(200, models.to_string()).header("server", server)).unwrap()
}

/// A table of one local server at this address.
fn table(base_url: String) -> &'static [Provider] {
    let base_url: &'static str = base_url.leak();
    vec![Provider { name: "vllm", title: "vLLM", base_url, key_env: None, preset: Preset::Vllm }].leak()
}

#[test]
fn keys_and_servers_are_found() {
    let key = [("GROQ_API_KEY", "k"), ("CEREBRAS_API_KEY", "k"), ("OPENAI_API_KEY", " ")];
    let (first, others) = chosen(&arguments(), &key, &PROVIDERS[..8]).unwrap();
    assert_eq!((first.name.as_str(), first.key_env.as_deref()), ("cerebras", Some("CEREBRAS_API_KEY")));
    assert_eq!(others.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), ["groq"]);

    // Who answers on a port is what it says, whatever usually listens there.
    let server = local("llama.cpp", "llamacpp");
    let (first, others) = chosen(&arguments(), &[], table(server.base_url())).unwrap();
    assert_eq!((first.name.as_str(), first.preset, first.key_env, others.len()), ("llamacpp", Preset::LlamaCpp, None, 0));

    let nothing = Script::new().start().unwrap();
    let error = chosen(&arguments(), &[], table(nothing.base_url())).unwrap_err().to_string();
    assert!(error.contains("no model server found") && error.contains("toolmark init --provider openai"), "{error}");
}

#[test]
fn flags_name_the_server() {
    let named =
        |provider: &str, url: Option<&str>| InitArgs { provider: Some(provider.into()), url: url.map(str::to_owned), ..arguments() };
    let (server, _) = chosen(&named("mistral", Some("http://127.0.0.1:1")), &[], PROVIDERS).unwrap();
    assert_eq!((server.base_url.as_str(), server.preset, server.key_env), ("http://127.0.0.1:1/v1", Preset::Mistral, None));
    for (arguments, says) in [
        (named("nobody", None), "no such provider"),
        (named("openai", Some("localhost")), "no base URL"),
        (named("openai", Some("ftp://a/v1")), "no base URL"),
        (InitArgs { key_env: Some("NONE".into()), ..named("openai", None) }, "isn't set here"),
    ] {
        let error = chosen(&arguments, &[], PROVIDERS).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    // It needn't run yet.
    let (server, _) = chosen(&InitArgs { url: Some("http://127.0.0.1:9/v1".into()), ..arguments() }, &[], PROVIDERS).unwrap();
    assert_eq!((server.name.as_str(), server.preset), ("upstream", Preset::None));
}

#[test]
fn what_is_written_are_settings() {
    let directory = tempfile::tempdir().unwrap();
    let cerebras =
        ChosenServer::of(providers::named("cerebras").unwrap(), Some("http://127.0.0.1:9/v1".into()), Some("CEREBRAS_API_KEY".into()));
    let openai = ChosenServer::of(providers::named("openai").unwrap(), None, None);
    for (chosen, others, preset) in [(&cerebras, vec![openai.clone()], Preset::Cerebras), (&openai, vec![cerebras.clone()], Preset::OpenAi)]
    {
        let text = file::text(chosen, &others, "127.0.0.1:8787", "default");
        std::fs::write(directory.path().join(CONFIG_FILE), &text).unwrap();
        let environment = Environment::of(&[("CEREBRAS_API_KEY", "k")]);
        let read = settings::load(&Flags::default(), &environment, directory.path()).unwrap();
        assert_eq!(read.upstreams.len(), 1, "{text}");
        assert_eq!((&*read.upstreams[0].base_url, read.upstreams[0].preset), (chosen.base_url.as_str(), preset), "{text}");
        assert_eq!(matches!(read.upstreams[0].credential, Credential::Own { .. }), chosen.key_env.is_some(), "{text}");
        assert!(text.contains("# Also found: "), "{text}");
    }
}

/// Of a server that nobody knows, the file has what makes the other APIs of chat completions, as a comment that is right as it stands.
#[test]
fn an_unknown_server_gets_its_translation_named() {
    let directory = tempfile::tempdir().unwrap();
    let base_url = "http://127.0.0.1:9/v1".to_owned();
    let unknown = ChosenServer {
        name: "upstream".into(),
        title: "an OpenAI-compatible server".into(),
        base_url,
        key_env: None,
        preset: Preset::None,
    };
    let text = file::text(&unknown, &[], "127.0.0.1:8787", "default");
    let used = text.replace("# responses = ", "responses = ").replace("# messages = ", "messages = ");
    assert_ne!(used, text);
    std::fs::write(directory.path().join(CONFIG_FILE), &used).unwrap();
    let read = settings::load(&Flags::default(), &Environment::of(&[]), directory.path()).unwrap();
    let upstream = format!("{:?}", read.upstreams[0]);
    assert!(upstream.contains("responses: Translate") && upstream.contains("messages: Translate"), "{upstream}");
    let known = ChosenServer::of(providers::named("cerebras").unwrap(), None, None);
    assert!(!file::text(&known, &[], "127.0.0.1:8787", "default").contains("translate"));
}
