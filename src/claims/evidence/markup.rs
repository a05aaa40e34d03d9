//! Results in XML, as the JSON that says the same. Pure.
//!
//! An element with attributes or elements inside is an object; elements of one name beside each other are a list of that name; any other
//! is its text. What isn't well-formed is no XML, nor is HTML: its tags tell how a text looks, not what its values are.

use std::fmt::Write;

use roxmltree::{Document, Node, ParsingOptions};

use super::facts::{Scalar, scalar};
use toolmark_base::wire::json::string::quote_into;

/// Elements and texts of a result.
const NODES_MAX: u32 = 20_000;
/// Elements around one another.
const DEPTH_MAX: usize = 24;
/// Elements of different names beside each other that are compared by their names.
const NAMES_MAX: usize = 200;

/// Elements of HTML: what begins with one is a text.
const TEXT_TAGS: &[&str] = &[
    "p",
    "div",
    "span",
    "ul",
    "ol",
    "li",
    "table",
    "tr",
    "td",
    "b",
    "i",
    "em",
    "strong",
    "a",
    "br",
    "h1",
    "h2",
    "h3",
    "h4",
    "body",
    "head",
    "pre",
    "code",
    "section",
    "article",
    "blockquote",
];

/// The JSON that says what this XML does, with or without one element around all; `None` if it is no XML, or says nothing.
pub fn as_json(text: &str) -> Option<String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let page = |start: &str| text.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start));
    if !text.starts_with('<') || !text.ends_with('>') || page("<!doctype") || page("<html") {
        return None;
    }
    let options = || ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let wrapped;
    let document = match Document::parse_with_options(text, options()) {
        Ok(document) => document,
        Err(_) => {
            wrapped = format!("<_>{text}</_>");
            Document::parse_with_options(&wrapped, options()).ok()?
        }
    };
    let mut out = String::with_capacity(text.len());
    let root = document.root_element();
    let outer = if root.tag_name().name() == "_" { root.first_element_child().unwrap_or(root) } else { root };
    if TEXT_TAGS.contains(&outer.tag_name().name()) {
        return None;
    }
    value(root, &mut out, 0);
    (root.has_children() || root.attributes().next().is_some()).then_some(out)
}

/// Appends what an element holds.
fn value(element: Node<'_, '_>, out: &mut String, depth: usize) {
    let plain = element.attributes().next().is_none() && !element.children().any(|child| child.is_element());
    if plain || depth > DEPTH_MAX {
        return written(text_of(element).trim(), out);
    }
    out.push('{');
    let mut first = true;
    let mut member = |name: &str, out: &mut String| {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        quote_into(out, name);
        out.push(':');
    };
    for attribute in element.attributes() {
        member(attribute.name(), out);
        written(attribute.value().trim(), out);
    }
    let text = text_of(element);
    if !text.trim().is_empty() {
        member(element.tag_name().name(), out);
        written(text.trim(), out);
    }
    let mut seen: Vec<&str> = Vec::new();
    for child in element.children().filter(Node::is_element) {
        let name = child.tag_name().name();
        if seen.len() >= NAMES_MAX || seen.contains(&name) {
            continue;
        }
        seen.push(name);
        member(name, out);
        let alike = element.children().filter(|other| other.is_element() && other.tag_name().name() == name);
        if alike.clone().nth(1).is_none() {
            value(child, out, depth + 1);
            continue;
        }
        out.push('[');
        for (at, one) in alike.enumerate() {
            if at > 0 {
                out.push(',');
            }
            value(one, out, depth + 1);
        }
        out.push(']');
    }
    out.push('}');
}

/// The texts that stand right in an element.
fn text_of(element: Node<'_, '_>) -> String {
    element.children().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

/// Appends a value as it is written: a number, or else a string.
fn written(text: &str, out: &mut String) {
    let digits = text.trim_start_matches('-');
    // `0042` is a name.
    let named = digits.starts_with('0') && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit) || text.starts_with('+');
    match scalar(text) {
        // `NaN` and `1e999` were told apart there.
        Scalar::Number(number) if !named => {
            let _infallible = write!(out, "{number}");
        }
        Scalar::Flag(flag) => {
            let _infallible = write!(out, "{flag}");
        }
        _ if text.is_empty() => out.push_str("null"),
        _ => quote_into(out, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_objects_lists_and_values() {
        for (xml, json) in [
            (
                r#"<?xml version="1.0"?><loans card="2041" name="Ada"><loan nr="1"><title>A &amp; B</title><due>2025-03-14</due></loan><loan nr="2"><title>C</title><due/></loan><fee currency="EUR">1.50</fee></loans>"#,
                r#"{"card":2041,"name":"Ada","loan":[{"nr":1,"title":"A & B","due":"2025-03-14"},{"nr":2,"title":"C","due":null}],"fee":{"currency":"EUR","fee":1.5}}"#,
            ),
            ("<n>1</n>\n<n>x</n>", r#"{"n":[1,"x"]}"#),
            ("<ok>true</ok>", "true"),
            ("<id>0042</id>", r#""0042""#),
        ] {
            assert_eq!(as_json(xml).as_deref(), Some(json), "{xml}");
        }
        for other in ["", "<", "<p>open", "<p>a</p>", "<!DOCTYPE html><p>a</p>", "<html><p>a</p></html>", "< 5 °C, > 3", "<a/>"] {
            assert_eq!(as_json(other), None, "{other}");
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let deep = format!("{}x{}", "<a b='1'>".repeat(19_000), "</a>".repeat(19_000));
        assert!(as_json(&deep).is_none_or(|json| json.len() < deep.len()));
        let wide = format!("<r>{}</r>", "<a/>".repeat(30_000));
        assert_eq!(as_json(&wide), None);
        // Entities that grow are of a document type, which isn't read.
        assert_eq!(as_json(r#"<!DOCTYPE r [<!ENTITY a "aaaa">]><r>&a;</r>"#), None);
    }
}
