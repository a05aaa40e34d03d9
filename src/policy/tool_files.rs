//! The policy's tool files: arrays of OpenAI tools, found by glob. Each element keeps its original bytes.
//!
//! Names and shapes are checked here; schemas are compiled later, with the registry.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use globset::{GlobBuilder, GlobMatcher};

use super::load::Error;
use toolmark_base::wire::json::{Document, JsonError, Value};
use toolmark_config::{
    error::{ConfigError, line_of},
    layers::Layers,
};

/// A tool of the policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyTool {
    /// Original JSON of the element.
    pub raw: Box<str>,
    /// Name of the function.
    pub name: Box<str>,
    /// File that contains the tool.
    pub file: PathBuf,
}

/// All tool files of a policy.
#[derive(Debug, Default)]
pub(super) struct ToolFiles {
    pub tools: Vec<PolicyTool>,
    /// Contents of the files, for the digest.
    pub texts: Vec<String>,
    /// Paths of the files, in the same order.
    pub paths: Vec<PathBuf>,
    /// The files, and the directories in which new ones would appear.
    pub watched: Vec<PathBuf>,
}

/// Reads the files that the globs match, relative to `directory`, that of the policy file.
pub(super) fn read(layers: &Layers, directory: &Path, globs: &[String]) -> Result<ToolFiles, Error> {
    let mut files = ToolFiles::default();
    let mut paths = Vec::new();
    for (index, glob) in globs.iter().enumerate() {
        let key = format!("tools.files.{index}");
        let (base, found) = expand(directory, glob).map_err(|why| layers.fault(&key, why))?;
        if found.is_empty() && glob != USUAL_GLOB {
            let message = format!("`{glob}` matches no file under {}: mend or remove it", shown(&base));
            return Err(layers.fault(&key, message).into());
        }
        files.watched.push(base);
        paths.extend(found);
    }
    paths.sort();
    paths.dedup();
    let read = |path: PathBuf| match fs::read_to_string(&path) {
        Ok(text) => Ok((path, text)),
        Err(source) => Err(Error::Read { path, hint: String::new(), source }),
    };
    let texts = paths.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    files.watched.extend(texts.iter().map(|(path, _)| path.clone()));
    files.watched.sort();
    files.watched.dedup();
    files.take(texts)?;
    Ok(files)
}

/// The tools of these files, which were read elsewhere.
pub(super) fn of_texts(texts: Vec<(PathBuf, String)>) -> Result<ToolFiles, Error> {
    let mut files = ToolFiles::default();
    files.take(texts)?;
    Ok(files)
}

impl ToolFiles {
    fn take(&mut self, texts: Vec<(PathBuf, String)>) -> Result<(), Error> {
        let mut places = HashMap::new();
        for (path, text) in texts {
            for (tool, line) in parse(&path, &text)? {
                let place = format!("{}:{line}", path.display());
                if let Some(other) = places.insert(tool.name.clone(), place) {
                    let message = format!("a tool of this name is already in {other}: rename or remove one");
                    return Err(fault(&path, Some(line), &tool.name, message).into());
                }
                self.tools.push(tool);
            }
            self.texts.push(text);
            self.paths.push(path);
        }
        Ok(())
    }
}

fn parse(path: &Path, text: &str) -> Result<Vec<(PolicyTool, usize)>, ConfigError> {
    let document = Document::parse(bytes::Bytes::copy_from_slice(text.as_bytes())).map_err(|error| {
        let line = match error {
            JsonError::Syntax(at) | JsonError::Utf8(at) => Some(line_of(text, at)),
            JsonError::TooDeep | JsonError::TooMany | JsonError::TooLong => None,
        };
        fault(path, line, "", error.to_string())
    })?;
    let root = document.root();
    if !root.is_array() {
        return Err(fault(path, Some(line_of(text, root.span().start)), "", SHAPE.into()));
    }
    let mut tools = Vec::new();
    for (index, element) in root.items().enumerate() {
        let line = line_of(text, element.span().start);
        let name = name(element).map_err(|why| fault(path, Some(line), &format!("[{index}]"), why))?;
        tools.push((PolicyTool { raw: element.raw_str().into(), name: name.into(), file: path.into() }, line));
    }
    Ok(tools)
}

/// The name of an element that is an OpenAI function tool.
fn name(element: Value<'_>) -> Result<String, String> {
    if !element.is_object() {
        return Err(format!("not an object; {SHAPE}"));
    }
    if !element.get("type").is_some_and(|kind| kind.is_text("function")) {
        return Err(format!("`type` isn't \"function\"; {SHAPE}"));
    }
    let function = match element.get("function") {
        Some(function) if function.is_object() => function,
        None if element.get("name").is_some() => return Err(format!("the Responses API's flat form; {SHAPE}")),
        _ => return Err(format!("`function` is missing or no object; {SHAPE}")),
    };
    for object in [element, function] {
        if let Some(twice) = object.duplicate_name() {
            return Err(format!("`{twice}` is there twice in one object: which one counts depends on the reader"));
        }
    }
    let name = function.get("name").and_then(Value::text).ok_or_else(|| format!("`function.name` is missing or no string; {SHAPE}"))?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(legal) {
        return Err(format!("`{name}` is no name for a tool: 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 _ -"));
    }
    if function.get_some("parameters").is_some_and(|parameters| !parameters.is_object()) {
        return Err(format!("`parameters` of `{name}` is no object: a JSON Schema belongs there"));
    }
    Ok(name.into_owned())
}

/// Splits a glob into its base directory and the files it matches.
fn expand(directory: &Path, glob: &str) -> Result<(PathBuf, Vec<PathBuf>), String> {
    let parts: Vec<&str> = glob.split('/').collect();
    let plain = parts.iter().take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).count();
    if plain == parts.len() {
        let path = directory.join(glob);
        let found = if path.is_file() { vec![path.clone()] } else { Vec::new() };
        return Ok((path.parent().unwrap_or(Path::new("")).to_owned(), found));
    }
    let (base, rest) = parts.split_at(plain);
    let base = match base {
        [""] => PathBuf::from("/"),
        _ => directory.join(base.join("/")),
    };
    let matcher = GlobBuilder::new(&rest.join("/"))
        .literal_separator(true)
        .build()
        .map_err(|error| format!("`{glob}` is no glob: {}; write it like \"tools/*.json\"", error.kind()))?
        .compile_matcher();
    let depth = if rest.contains(&"**") { DEPTH_MAX } else { rest.len() };
    let mut found = Vec::new();
    let mut seen = 0;
    walk(&base, Path::new(""), depth, &matcher, &mut found, &mut seen).map_err(|why| format!("`{glob}`: {why}"))?;
    Ok((base, found))
}

// INVARIANT: `depth` falls with each level, so the recursion is bounded, links in circles included.
fn walk(base: &Path, below: &Path, depth: usize, glob: &GlobMatcher, found: &mut Vec<PathBuf>, seen: &mut usize) -> Result<(), String> {
    let here = base.join(below);
    let entries = match fs::read_dir(if here.as_os_str().is_empty() { Path::new(".") } else { &here }) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("{} can't be read: {error}", shown(&here))),
    };
    for entry in entries {
        *seen += 1;
        if *seen > ENTRIES_MAX {
            return Err(format!("more than {ENTRIES_MAX} files to look at: name a narrower directory"));
        }
        let name = entry.map_err(|error| format!("{} can't be read: {error}", shown(&here)))?.file_name();
        let below = below.join(name);
        let path = base.join(&below);
        if path.is_dir() {
            if depth > 1 {
                walk(base, &below, depth - 1, glob, found, seen)?;
            }
        } else if glob.is_match(&below) {
            found.push(path);
        }
    }
    Ok(())
}

fn fault(path: &Path, line: Option<usize>, key: &str, message: String) -> ConfigError {
    ConfigError { place: path.display().to_string(), line, key: key.into(), message }
}

fn shown(directory: &Path) -> String {
    if directory.as_os_str().is_empty() { "the working directory".into() } else { directory.display().to_string() }
}

/// Glob of the default policy: may match no files.
const USUAL_GLOB: &str = "tools/*.json";
const SHAPE: &str = "a tool file is an array of {\"type\":\"function\",\"function\":{\"name\":…,\"parameters\":…}}";
/// Longest name of a tool in an execution ID. Source: docs/contract.md#ids.
const NAME_BYTES_MAX: usize = 128;
const DEPTH_MAX: usize = 8;
const ENTRIES_MAX: usize = 20_000;
