//! Presets: what well-known providers refuse and need. Source: docs/wire-facts.md#providers. Pure.
//!
//! A preset is a set of defaults for `drop`, `map`, `defaults`, `put_back` and so on, each of which `[[upstreams]]` can set itself. It is
//! chosen by `preset = "…"`, else by the host of the base URL.

use serde::Deserialize;

use crate::upstreams::quirks::{ExtrasToRestore, ParameterDefault, ParameterMapping, Quirks};

/// A provider with known quirks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// No known provider: requests are sent unchanged.
    None,
    /// OpenAI.
    OpenAi,
    /// Cerebras.
    Cerebras,
    /// Groq.
    Groq,
    /// Mistral's own platform.
    Mistral,
    /// Ollama.
    Ollama,
    /// vLLM.
    Vllm,
    /// llama.cpp's server.
    #[serde(alias = "llama.cpp")]
    LlamaCpp,
    /// Gemini's OpenAI-compatible endpoint.
    Gemini,
    /// DeepSeek.
    DeepSeek,
    /// OpenRouter.
    OpenRouter,
    /// Anthropic.
    Anthropic,
}

impl Preset {
    /// The provider that the response header `server` identifies. vLLM can't be identified: it sends uvicorn's, which many servers do.
    pub fn of_server(server: &str) -> Option<Self> {
        server.trim().eq_ignore_ascii_case("llama.cpp").then_some(Self::LlamaCpp)
    }

    /// Name of the preset in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::OpenAi => "openai",
            Self::Cerebras => "cerebras",
            Self::Groq => "groq",
            Self::Mistral => "mistral",
            Self::Ollama => "ollama",
            Self::Vllm => "vllm",
            Self::LlamaCpp => "llamacpp",
            Self::Gemini => "gemini",
            Self::DeepSeek => "deepseek",
            Self::OpenRouter => "openrouter",
            Self::Anthropic => "anthropic",
        }
    }

    /// The provider that the host or port identifies. Self-hosted servers may listen anywhere: only Ollama's port is specific; vLLM's 8000
    /// and llama.cpp's 8080 are used by many others.
    pub fn of(host: &str, port: Option<u16>) -> Self {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let at = |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
        match () {
            () if at("api.openai.com") => Self::OpenAi,
            () if at("cerebras.ai") => Self::Cerebras,
            () if at("groq.com") => Self::Groq,
            () if at("mistral.ai") => Self::Mistral,
            () if at("openrouter.ai") => Self::OpenRouter,
            () if at("generativelanguage.googleapis.com") => Self::Gemini,
            () if at("deepseek.com") => Self::DeepSeek,
            () if at("anthropic.com") => Self::Anthropic,
            () if port == Some(OLLAMA_PORT) => Self::Ollama,
            () => Self::None,
        }
    }

    /// Returns whether the provider has no Responses API of its own.
    pub fn lacks_responses(self) -> bool {
        match self {
            Self::Cerebras | Self::Mistral | Self::LlamaCpp | Self::Gemini | Self::Anthropic => true,
            Self::None | Self::OpenAi | Self::Groq | Self::Ollama | Self::Vllm | Self::DeepSeek | Self::OpenRouter => false,
        }
    }

    /// Returns whether the provider has no Messages API of its own below the same base URL. vLLM and llama.cpp have one that loses
    /// `is_error` and more, so that their chat completions are used.
    pub fn lacks_messages(self) -> bool {
        match self {
            Self::Cerebras | Self::Groq | Self::Mistral | Self::LlamaCpp | Self::Vllm | Self::Gemini | Self::OpenAi | Self::DeepSeek => {
                true
            }
            Self::None | Self::Ollama | Self::OpenRouter | Self::Anthropic => false,
        }
    }

    /// Returns whether chat completions are translated: Anthropic's own leave `strict` and more out.
    pub fn lacks_chat(self) -> bool {
        self == Self::Anthropic
    }

    /// Quirks of the provider, applied to its requests.
    pub fn fitting(self) -> Quirks {
        let custom_tools = matches!(self, Self::None | Self::OpenAi | Self::OpenRouter);
        let wrap_errors = matches!(self, Self::Cerebras | Self::Mistral | Self::Vllm | Self::Gemini);
        let own = Quirks { custom_tools, wrap_errors, ..Quirks::default() };
        match self {
            Self::None | Self::OpenAi | Self::OpenRouter | Self::Vllm | Self::Anthropic => own,
            // Mixed values of `strict` are a 422; `parallel_tool_calls: false` was a 400 for some models.
            Self::Cerebras => Quirks { uniform_strict: true, drop: drops(&["parallel_tool_calls"]), ..own },
            // 400 for each of these; nulls in assistant messages are refused, too.
            Self::Groq => Quirks { drop: drops(&["logprobs", "top_logprobs", "logit_bias", "messages.name"]), drop_nulls: true, ..own },
            // Ids of nine alphanumerics, `any` for `required`, and only strings for `tool_choice`.
            Self::Mistral => Quirks {
                short_ids: true,
                map: vec![ParameterMapping::new("tool_choice", "required", "any"), ParameterMapping::new("tool_choice", "named", "any")],
                drop: drops(&["tools.function.strict", "logprobs", "top_logprobs", "logit_bias", "stream_options.include_obfuscation"]),
                ..own
            },
            // Not supported there, so only toolmark enforces it.
            Self::Ollama => Quirks { drop: drops(&["tool_choice", "logit_bias"]), ..own },
            // It makes one call at a time by default.
            Self::LlamaCpp => Quirks { defaults: vec![ParameterDefault::new("parallel_tool_calls", "true")], ..own },
            // Signatures must be sent back with their calls, else the next request is a 400.
            Self::Gemini => Quirks {
                put_back: ExtrasToRestore { signatures: true, reasoning: false },
                drop_nulls: true,
                drop: drops(&["logit_bias"]),
                ..own
            },
            // The reasoning before a call must be sent back with it, else the next request is a 400.
            Self::DeepSeek => {
                Quirks { put_back: ExtrasToRestore { signatures: false, reasoning: true }, drop: drops(&["logit_bias"]), ..own }
            }
        }
    }
}

fn drops(paths: &[&str]) -> Vec<Box<str>> {
    paths.iter().map(|path| Box::from(*path)).collect()
}

const OLLAMA_PORT: u16 = 11434;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (host, port, preset) in [
            ("api.openai.com", None, Preset::OpenAi),
            ("API.CEREBRAS.AI", None, Preset::Cerebras),
            ("api.groq.com", None, Preset::Groq),
            ("codestral.mistral.ai", None, Preset::Mistral),
            ("openrouter.ai", None, Preset::OpenRouter),
            ("generativelanguage.googleapis.com", None, Preset::Gemini),
            ("api.deepseek.com.", None, Preset::DeepSeek),
            ("api.anthropic.com", None, Preset::Anthropic),
            ("localhost", Some(11434), Preset::Ollama),
            ("localhost", Some(8000), Preset::None),
            ("notgroq.com", None, Preset::None),
            ("api.openai.com.example.org", None, Preset::None),
            ("eu.api.openai.com", None, Preset::OpenAi),
        ] {
            assert_eq!(Preset::of(host, port), preset, "{host}");
        }
    }
}
