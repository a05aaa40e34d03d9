//! Model servers that `toolmark init` knows: hosted providers by their key's variable, local servers by their usual port. Pure.
//!
//! Sources: docs/wire-facts.md#providers, and the servers' own documentation for ports and `owned_by`.

use crate::upstreams::quirks::presets::Preset;

/// A model server that can be named by `--provider`.
#[derive(Debug, Eq, PartialEq)]
pub struct Provider {
    /// Name for `--provider`, and of the upstream.
    pub name: &'static str,
    /// Name as its makers write it.
    pub title: &'static str,
    /// Base URL, unless `--url` gives another.
    pub base_url: &'static str,
    /// Variable that usually holds its key; `None`: local servers need none.
    pub key_env: Option<&'static str>,
    /// Preset of its quirks.
    pub preset: Preset,
}

/// All known model servers: hosted ones in the order in which their keys are preferred, then local ones.
pub const PROVIDERS: &[Provider] = &[
    hosted("openai", "OpenAI", "https://api.openai.com/v1", "OPENAI_API_KEY", Preset::OpenAi),
    hosted("anthropic", "Anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", Preset::Anthropic),
    hosted("cerebras", "Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", Preset::Cerebras),
    hosted("groq", "Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", Preset::Groq),
    hosted("mistral", "Mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", Preset::Mistral),
    hosted("gemini", "Gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", Preset::Gemini),
    hosted("deepseek", "DeepSeek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", Preset::DeepSeek),
    hosted("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", Preset::OpenRouter),
    local("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1", Preset::LlamaCpp),
    local("vllm", "vLLM", "http://127.0.0.1:8000/v1", Preset::Vllm),
    local("ollama", "Ollama", "http://127.0.0.1:11434/v1", Preset::Ollama),
    local("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", Preset::None),
];

const fn hosted(name: &'static str, title: &'static str, base_url: &'static str, key_env: &'static str, preset: Preset) -> Provider {
    Provider { name, title, base_url, key_env: Some(key_env), preset }
}

const fn local(name: &'static str, title: &'static str, base_url: &'static str, preset: Preset) -> Provider {
    Provider { name, title, base_url, key_env: None, preset }
}

/// The provider of this name; `llama.cpp` and `lm-studio` are spellings of theirs.
pub fn named(name: &str) -> Option<&'static Provider> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    PROVIDERS.iter().find(|provider| provider.name == plain)
}

/// The local server that answered a list of models. `server`: its `server` header; `models`: the list, as JSON.
///
/// `None`: it is none of those that are known.
pub fn of_answer(server: Option<&str>, models: &serde_json::Value) -> Option<&'static Provider> {
    if server.and_then(Preset::of_server).is_some() {
        return named("llamacpp");
    }
    let owner = models["data"][0]["owned_by"].as_str().unwrap_or_default();
    let name = match owner {
        "llamacpp" => "llamacpp",
        "vllm" => "vllm",
        // Ollama names the namespace of the model, which is mostly this one.
        "library" => "ollama",
        "organization_owner" => "lmstudio",
        _ => return None,
    };
    named(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_that_tell_who_they_are() {
        for (server, owner, name) in [
            (Some("llama.cpp"), "x", Some("llamacpp")),
            (None, "llamacpp", Some("llamacpp")),
            (Some("uvicorn"), "vllm", Some("vllm")),
            (None, "library", Some("ollama")),
            (None, "organization_owner", Some("lmstudio")),
            (Some("cloudflare"), "openai", None),
        ] {
            let models = json!({"object": "list", "data": [{"id": "m", "owned_by": owner}]});
            assert_eq!(of_answer(server, &models).map(|provider| provider.name), name, "{server:?} {owner}");
        }
        assert_eq!(of_answer(None, &json!([])), None);
    }

    #[test]
    fn hosts_have_the_presets_of_their_table() {
        for provider in PROVIDERS.iter().filter(|provider| provider.key_env.is_some()) {
            let url: http::Uri = provider.base_url.parse().unwrap();
            assert_eq!(Preset::of(url.host().unwrap(), url.port_u16()), provider.preset, "{}", provider.name);
        }
        assert_eq!(named("llama.cpp").map(|provider| provider.name), Some("llamacpp"));
        assert_eq!(named("LM-Studio").map(|provider| provider.title), Some("LM Studio"));
        assert_eq!(named("nobody"), None);
    }
}
