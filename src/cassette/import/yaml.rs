//! YAML as PyYAML writes it for vcrpy's cassettes: YAML 1.1 scalars, anchors, `!!binary`. Pure.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value, json};

/// Levels of nesting at most; a cassette has fewer.
const DEPTH_MAX: usize = 128;
/// Values at most; each repetition by an alias counts.
const NODES_MAX: usize = 4 << 20;
/// Bytes of text beyond four times the file, counting repetitions: a long text with many aliases is few values but much memory.
const REPEATED_BYTES_MAX: usize = 64 << 20;

/// A YAML value.
#[derive(Clone, Debug, PartialEq)]
pub enum YamlNode {
    /// A null, boolean, number or string.
    Plain(Value),
    /// `!!binary`
    Binary(Vec<u8>),
    /// A sequence.
    List(Vec<YamlNode>),
    /// A mapping, in order.
    Map(Vec<(String, YamlNode)>),
}

impl YamlNode {
    /// A member of a mapping.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(members) => members.iter().find(|(own, _)| own == name).map(|(_, node)| node),
            Self::Plain(_) | Self::Binary(_) | Self::List(_) => None,
        }
    }

    /// Removes a member from a mapping and returns it.
    pub fn take(&mut self, name: &str) -> Option<Self> {
        let Self::Map(members) = self else { return None };
        let at = members.iter().position(|(own, _)| own == name)?;
        Some(members.remove(at).1)
    }

    /// The text of a scalar; `None` for `null`, bytes, sequences and mappings.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Plain(Value::String(text)) => Some(text.clone()),
            Self::Plain(Value::Null) | Self::Binary(_) | Self::List(_) | Self::Map(_) => None,
            Self::Plain(other) => Some(other.to_string()),
        }
    }

    /// The value as JSON; bytes become `{"!!binary": "…"}`.
    pub fn json(&self) -> Value {
        match self {
            Self::Plain(value) => value.clone(),
            Self::Binary(bytes) => json!({ "!!binary": STANDARD.encode(bytes) }),
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Map(members) => members.iter().map(|(name, node)| (name.clone(), node.json())).collect::<Map<_, _>>().into(),
        }
    }
}

/// Reads the first document of a text.
///
/// # Errors
/// A message about the first error, with its place.
pub fn read(text: &str) -> Result<YamlNode, String> {
    let mut loader = Loader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        weight: NodeWeight::default(),
        bytes_max: text.len().saturating_mul(4).saturating_add(REPEATED_BYTES_MAX),
    };
    loop {
        match loader.event()? {
            Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
            Event::StreamEnd | Event::DocumentEnd => return Ok(YamlNode::Plain(Value::Null)),
            event => return loader.node(event, 0),
        }
    }
}

struct Loader<'t> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    anchors: HashMap<usize, (YamlNode, NodeWeight)>,
    weight: NodeWeight,
    bytes_max: usize,
}

/// The cost of a value, counted against the limits.
#[derive(Clone, Copy, Debug, Default)]
struct NodeWeight {
    nodes: usize,
    bytes: usize,
}

impl<'t> Loader<'t> {
    fn event(&mut self) -> Result<Event<'t>, String> {
        match self.parser.next_event() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => Err(error.to_string()),
            None => Ok(Event::StreamEnd),
        }
    }

    fn count(&mut self, more: NodeWeight) -> Result<(), String> {
        self.weight.nodes += more.nodes;
        self.weight.bytes = self.weight.bytes.saturating_add(more.bytes);
        match self.weight {
            NodeWeight { nodes, .. } if nodes > NODES_MAX => Err(format!("more than {NODES_MAX} values")),
            NodeWeight { bytes, .. } if bytes > self.bytes_max => {
                Err(format!("more than {} MiB of text, aliases written out", self.bytes_max >> 20))
            }
            NodeWeight { .. } => Ok(()),
        }
    }

    // INVARIANT: depth is at most DEPTH_MAX, so the recursion is bounded.
    fn node(&mut self, event: Event<'t>, depth: usize) -> Result<YamlNode, String> {
        if depth > DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX} levels"));
        }
        let before = self.weight;
        self.count(NodeWeight { nodes: 1, bytes: 0 })?;
        let (anchor, node) = match event {
            Event::Alias(anchor) => {
                let weight = self.anchors.get(&anchor).ok_or("an alias without its anchor")?.1;
                // Weighed before it is copied.
                self.count(weight)?;
                return self.anchors.get(&anchor).map(|(node, _)| node.clone()).ok_or_else(|| "an alias without its anchor".to_owned());
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.count(NodeWeight { nodes: 0, bytes: text.len() })?;
                let kind = tag.as_ref().map(|tag| tag.suffix.as_str());
                (anchor, scalar(text.into_owned(), style, kind)?)
            }
            Event::SequenceStart(anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match self.event()? {
                        Event::SequenceEnd => break,
                        event => items.push(self.node(event, depth + 1)?),
                    }
                }
                (anchor, YamlNode::List(items))
            }
            Event::MappingStart(anchor, _) => {
                let mut members = Vec::new();
                loop {
                    let name = match self.event()? {
                        Event::MappingEnd => break,
                        event => self.node(event, depth + 1)?,
                    };
                    let name = name.text().unwrap_or_else(|| name.json().to_string());
                    let event = self.event()?;
                    members.push((name, self.node(event, depth + 1)?));
                }
                (anchor, YamlNode::Map(members))
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return Err("it ends in the middle".to_owned()),
        };
        if anchor > 0 {
            let weight = NodeWeight { nodes: self.weight.nodes - before.nodes, bytes: self.weight.bytes - before.bytes };
            // The copy that aliases are made from.
            self.count(weight)?;
            self.anchors.insert(anchor, (node.clone(), weight));
        }
        Ok(node)
    }
}

fn scalar(text: String, style: ScalarStyle, tag: Option<&str>) -> Result<YamlNode, String> {
    match tag {
        Some("binary") => {
            let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            return STANDARD.decode(plain).map(YamlNode::Binary).map_err(|error| format!("!!binary: {error}"));
        }
        // As `!!python/unicode`, from long ago.
        Some(kind) if kind == "str" || kind.starts_with("python/") => return Ok(YamlNode::Plain(text.into())),
        _ => {}
    }
    if style != ScalarStyle::Plain {
        return Ok(YamlNode::Plain(text.into()));
    }
    let value = match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => true.into(),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => false.into(),
        other => number(other).map_or_else(|| other.into(), Value::Number),
    };
    Ok(YamlNode::Plain(value))
}

/// Parses a number as PyYAML does, except for octal, hexadecimal and sexagesimal numbers, which it never writes.
fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let zeros = digits.len() > 1 && digits.starts_with('0') && !digits.contains('.');
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || zeros || text.starts_with('+') {
        return None;
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text
            .parse::<i64>()
            .map(Number::from)
            .or_else(|_| text.parse::<u64>().map(Number::from))
            .ok()
            .or_else(|| Number::from_f64(text.parse().ok()?));
    }
    let float = digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte)) && digits.contains('.');
    float.then(|| text.parse().ok().and_then(Number::from_f64)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_pyyaml_writes() {
        let text = "interactions:\n- request: &id001\n    body: '{\"a\":\n\n      1}'\n    n: 1.0e-05\n    on: 'yes'\n    big: 12345678901234567890\n    none: null\n    no: false\n    date: 2024-01-01\n\
                    \x20   bytes: !!binary |\n      H4sIAAAA\n      /w==\n    empty: ''\n  again: *id001\n- - a\n  - \"\\u00e9\\ud83d\"\n";
        let text = text.replace("\\ud83d", "\\U0001F600");
        let node = read(&text).unwrap();
        let YamlNode::List(items) = node.get("interactions").unwrap() else { panic!("{node:?}") };
        let request = items[0].get("request").unwrap();
        let expected = json!({
            "body": "{\"a\":\n1}", "n": 1.0e-5, "true": "yes", "big": 12_345_678_901_234_567_890_u64, "none": null, "false": false,
            "date": "2024-01-01", "bytes": {"!!binary": "H4sIAAAA/w=="}, "empty": ""
        });
        assert_eq!(request.json(), expected);
        assert_eq!(items[0].get("again"), Some(request));
        assert_eq!(items[1].json(), json!(["a", "é😀"]));
    }

    #[test]
    fn what_is_none() {
        for text in ["a: [", "a: *x", "!!binary '?'", &"[".repeat(500), "a: b: c"] {
            assert!(read(text).is_err(), "{text}");
        }
        let laughs = (0..12)
            .map(|level| {
                format!(
                    "l{}: &l{level} [{}]\n",
                    level,
                    vec![if level == 0 { "x".to_owned() } else { format!("*l{}", level - 1) }; 10].join(",")
                )
            })
            .collect::<String>();
        assert!(read(&laughs).unwrap_err().contains("more than"));
        // Few values, each long.
        let long = format!("a: &a {}\nl: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 90].join(","));
        assert!(read(&long).unwrap_err().contains("of text"));
        assert_eq!(read("").unwrap(), YamlNode::Plain(Value::Null));
    }
}
