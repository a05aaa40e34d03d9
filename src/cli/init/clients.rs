//! Clients of OpenAI's and Anthropic's APIs that are found beside the settings, each with the one line that points it at toolmark.

use std::{io::Read as _, path::Path};

/// Files that name a project's dependencies.
const MANIFESTS: [&str; 4] = ["requirements.txt", "pyproject.toml", "Pipfile", "package.json"];
/// Bytes of a manifest that are read.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// A client, the word in a manifest by which it is found, and the line for it; `{url}` stands for toolmark's base URL, `{root}` for it without `/v1`.
const CLIENTS: [(&str, &str, &str); 13] = [
    ("LangChain", "langchain", "export OPENAI_BASE_URL={url}"),
    ("OpenAI Agents SDK", "openai-agents", "export OPENAI_BASE_URL={url}"),
    ("Pydantic AI", "pydantic-ai", "export OPENAI_BASE_URL={url}"),
    ("LiteLLM", "litellm", "litellm.completion(model=\"openai/…\", api_base=\"{url}\", …)"),
    ("LlamaIndex", "llama-index", "OpenAILike(api_base=\"{url}\", is_function_calling_model=True, …)"),
    ("AI SDK", "@ai-sdk/openai", "createOpenAI({ baseURL: \"{url}\" })"),
    ("Aider", "aider-chat", "export OPENAI_API_BASE={url}"),
    ("instructor", "instructor", "export OPENAI_BASE_URL={url}"),
    ("openai", "openai", "export OPENAI_BASE_URL={url}"),
    ("AI SDK (Anthropic)", "@ai-sdk/anthropic", "createAnthropic({ baseURL: \"{url}\" })"),
    ("Claude Agent SDK", "claude-agent-sdk", "export ANTHROPIC_BASE_URL={root}"),
    ("anthropic", "anthropic", "export ANTHROPIC_BASE_URL={root}"),
    ("@anthropic-ai/sdk", "@anthropic-ai/sdk", "export ANTHROPIC_BASE_URL={root}"),
];

/// The lines for the clients whose names are in the manifests of a directory: client, where it was found, and what to set.
pub fn found(directory: &Path, url: &str) -> Vec<(&'static str, &'static str, String)> {
    let root = url.strip_suffix("/v1").unwrap_or(url);
    let mut lines: Vec<(&str, &str, String)> = Vec::new();
    for file in MANIFESTS {
        let mut text = String::new();
        let read = std::fs::File::open(directory.join(file)).map(|file| file.take(MANIFEST_BYTES_MAX).read_to_string(&mut text));
        if read.is_err() {
            continue;
        }
        for (client, word, line) in CLIENTS {
            if names(&text, word) && !lines.iter().any(|(other, ..)| *other == client) {
                lines.push((client, file, line.replace("{url}", url).replace("{root}", root)));
            }
        }
    }
    lines
}

/// True if the text has the word, and not as part of a longer name; `langchain` also stands for `langchain-openai`.
fn names(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/' | '@');
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back()).is_some_and(part);
        let after = text.get(at + word.len()..).and_then(|text| text.chars().next()).is_some_and(part);
        !before && (!after || word == "langchain")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_manifests() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("requirements.txt"), "langchain-openai==1.0\nopenai>=2\nnot-litellm\n").unwrap();
        std::fs::write(directory.path().join("package.json"), r#"{"dependencies": {"@ai-sdk/openai": "2"}}"#).unwrap();
        let lines = found(directory.path(), "http://a/v1");
        let names: Vec<&str> = lines.iter().map(|(client, ..)| *client).collect();
        assert_eq!(names, ["LangChain", "openai", "AI SDK"]);
        assert_eq!(lines[1].2, "export OPENAI_BASE_URL=http://a/v1");
        assert_eq!(lines[2].2, "createOpenAI({ baseURL: \"http://a/v1\" })");
        assert!(found(&directory.path().join("none"), "x").is_empty());
    }
}
