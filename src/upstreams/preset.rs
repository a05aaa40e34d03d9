//! What well-known providers refuse and need, so that nobody has to find it out again. FACTS §3. Pure.
//!
//! A preset is nothing but settings that needn't be written: `drop`, `map`, `defaults`, `put_back` and so on, each of
//! which `[[upstreams]]` can say itself. It is chosen by `preset = "…"`, else by the host of the base URL.

use serde::Deserialize;

use super::fit::{Default, Fitting, Mapping, PutBack};

/// A provider whose ways are known.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// None: requests go as they are.
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
}

impl Preset {
    /// The provider that says who it is in the header `server`. vLLM's is uvicorn's, which many have.
    pub fn of_server(server: &str) -> Option<Self> {
        server.trim().eq_ignore_ascii_case("llama.cpp").then_some(Self::LlamaCpp)
    }

    /// Its name in settings.
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
        }
    }

    /// The provider at this host, where the host tells. Servers that people run themselves listen anywhere: of those
    /// only Ollama's port is its own; vLLM's 8000 and llama.cpp's 8080 are everybody's.
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
            () if port == Some(OLLAMA_PORT) => Self::Ollama,
            () => Self::None,
        }
    }

    /// Has it no Responses API of its own?
    pub fn lacks_responses(self) -> bool {
        match self {
            Self::Cerebras | Self::Mistral | Self::LlamaCpp | Self::Gemini => true,
            Self::None | Self::OpenAi | Self::Groq | Self::Ollama | Self::Vllm | Self::DeepSeek | Self::OpenRouter => false,
        }
    }

    /// What its requests are changed in.
    pub fn fitting(self) -> Fitting {
        let custom_tools = matches!(self, Self::None | Self::OpenAi | Self::OpenRouter);
        let wrap_errors = matches!(self, Self::Cerebras | Self::Mistral | Self::Vllm | Self::Gemini);
        let own = Fitting { custom_tools, wrap_errors, ..Fitting::default() };
        match self {
            Self::None | Self::OpenAi | Self::OpenRouter | Self::Vllm => own,
            // Mixed values of `strict` are a 422; `parallel_tool_calls: false` was a 400 for some models.
            Self::Cerebras => Fitting { uniform_strict: true, drop: drops(&["parallel_tool_calls"]), ..own },
            // A 400 each; and nulls in assistant messages upset it.
            Self::Groq => Fitting { drop: drops(&["logprobs", "top_logprobs", "logit_bias", "messages.name"]), drop_nulls: true, ..own },
            // Ids of nine alphanumerics, `any` for `required`, and nothing but a word for `tool_choice`.
            Self::Mistral => Fitting {
                short_ids: true,
                map: vec![Mapping::new("tool_choice", "required", "any"), Mapping::new("tool_choice", "named", "any")],
                drop: drops(&["tools.function.strict", "logprobs", "top_logprobs", "logit_bias", "stream_options.include_obfuscation"]),
                ..own
            },
            // Not understood there, and so enforced here alone.
            Self::Ollama => Fitting { drop: drops(&["tool_choice", "logit_bias"]), ..own },
            // One call at a time unless it is told otherwise.
            Self::LlamaCpp => Fitting { defaults: vec![Default::new("parallel_tool_calls", "true")], ..own },
            // Signatures must come back with the calls they came with; else the next request is a 400.
            Self::Gemini => {
                Fitting { put_back: PutBack { signatures: true, reasoning: false }, drop_nulls: true, drop: drops(&["logit_bias"]), ..own }
            }
            // What was thought before a call must come back with it; else the next request is a 400.
            Self::DeepSeek => Fitting { put_back: PutBack { signatures: false, reasoning: true }, drop: drops(&["logit_bias"]), ..own },
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
