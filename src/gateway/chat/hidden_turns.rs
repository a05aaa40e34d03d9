//! Hidden turns as messages of a conversation: appended to a request, and restored in later ones.
//!
//! A hidden turn has the form in which an application would have sent it, with the marks as ids. From there on it is
//! handled like calls that applications run, so that the upstream sees the same in this exchange and in the next. Pure.

use std::collections::HashSet;

use bytes::Bytes;

use super::adapter::Chat;
use crate::{
    exchange::{
        context::Context,
        hidden_turns::{Back, HistoryExtent, How, RoundForm, Speaker, Turn, released_choice},
        turn::Said,
    },
    judge::call::{Call, CallKind, ValidCall},
    marks::MarkTime,
    openai::{Api, content::text_of},
    wire::json::{Document, Value, splice::Splices, string::quote},
};

impl RoundForm for Chat {
    const API: Api = Api::Chat;

    fn turns(request: &Document) -> Vec<Turn<'_>> {
        let messages = request.root().get("messages").into_iter().flat_map(Value::items);
        messages.enumerate().map(|(at, message)| turn(at, message)).collect()
    }

    fn extent(_: &Document) -> HistoryExtent {
        HistoryExtent::Whole
    }

    fn put_back(request: &Document, turns: &[Turn<'_>], back: &[Back]) -> Option<Bytes> {
        let messages: Vec<Value<'_>> = request.root().get("messages")?.items().collect();
        let mut edits = Splices::default();
        for Back { turn, how, kept } in back {
            let Some(message) = messages.get(*turn).filter(|_| *how == How::Whole && !kept.lost) else { continue };
            let visible = kept.whole.is_empty().then(|| message.raw_str().to_owned());
            let ids: HashSet<&str> = turns.get(*turn).into_iter().flat_map(|turn| &turn.ids).map(|id| &**id).collect();
            let own = kept.whole.iter().map(|message| without_dropped(message, &kept.behind, &ids)).chain(visible);
            let parts: Vec<String> = kept.before.iter().cloned().chain(own).chain(kept.behind.iter().cloned()).collect();
            edits.replace(message.span(), parts.join(","));
        }
        (!edits.is_empty()).then(|| edits.apply(request.bytes()))
    }

    fn marks(_: &Said, calls: &[(ValidCall, MarkTime)], context: &Context) -> Vec<String> {
        calls.iter().map(|(call, moment)| context.mint(call.name(), call.arguments(), *moment)).collect()
    }

    fn said_again(said: &Said, calls: &[(&ValidCall, &str)], _: &Context) -> Vec<String> {
        let content = if said.text.is_empty() { "null".to_owned() } else { quote(&said.text) };
        let mut out = format!(r#"{{"role":"assistant","content":{content}"#);
        if !said.reasoning.is_empty() {
            // Some upstreams demand it back with calls.
            out.push_str(&format!(r#","reasoning_content":{}"#, quote(&said.reasoning)));
        }
        let calls: Vec<String> = calls.iter().zip(&said.calls).map(|(own, came)| call_again(own, came)).collect();
        if !calls.is_empty() {
            out.push_str(&format!(r#","tool_calls":[{}]"#, calls.join(",")));
        }
        out.push('}');
        vec![out]
    }

    fn result(mark: &str, text: &str) -> String {
        format!(r#"{{"role":"tool","tool_call_id":{},"content":{}}}"#, quote(mark), quote(text))
    }

    fn append(request: &Document, added: &[String]) -> Option<Bytes> {
        let root = request.root();
        let mut edits = Splices::default();
        edits.append_items(root.get("messages").filter(|own| own.is_array())?, &added.join(","));
        let choice = root.get_some("tool_choice");
        if let Some((choice, released)) = choice.and_then(|choice| Some((choice, released_choice(choice)?))) {
            edits.replace(choice.span(), released);
        }
        Some(edits.apply(request.bytes()))
    }

    fn upstream(body: Bytes, _: usize, _: &Context) -> Bytes {
        body
    }

    fn text_of(answer: &Bytes) -> Option<String> {
        let document = Document::parse(answer.clone()).ok()?;
        let message = document.root().get("choices")?.items().next()?.get("message")?;
        Some(message.get("content").and_then(Value::text).unwrap_or_default().into_owned())
    }

    fn tap(data: &Bytes, text: &mut String) {
        let Ok(document) = Document::parse(data.clone()) else { return };
        let delta = || document.root().get("choices")?.items().next()?.get("delta")?.get("content")?.text();
        if let Some(delta) = delta() {
            text.push_str(&delta);
        }
    }
}

fn turn(at: usize, message: Value<'_>) -> Turn<'_> {
    let role = message.get("role").and_then(Value::text).unwrap_or_default();
    let text = message.get("content").and_then(text_of).unwrap_or_default();
    let calls = message.get("tool_calls").into_iter().flat_map(Value::items);
    let (speaker, ids) = match &*role {
        "system" | "developer" => (Speaker::Instructions, Vec::new()),
        "assistant" => (Speaker::Model, calls.filter_map(|call| call.get("id")?.text()).collect()),
        "tool" => (Speaker::Result, message.get("tool_call_id").and_then(Value::text).into_iter().collect()),
        _ => (Speaker::Other, Vec::new()),
    };
    Turn { items: at..at + 1, speaker, text, ids }
}

fn call_again((call, mark): &(&ValidCall, &str), (own, extras): &(Call, Vec<String>)) -> String {
    let (kind, inner) = if own.kind == CallKind::Custom { ("custom", "input") } else { ("function", "arguments") };
    let extras: String = extras.iter().map(|extra| format!(",{extra}")).collect();
    let body = format!(r#"{{"name":{},"{inner}":{}}}"#, quote(call.name()), quote(call.arguments()));
    format!(r#"{{"id":{},"type":"{kind}","{kind}":{body}{extras}}}"#, quote(mark))
}

/// A turn without the calls that the application was given but no longer has: no result would answer them.
fn without_dropped(message: &str, behind: &[String], ids: &HashSet<&str>) -> String {
    let parse = |json: &str| Document::parse(Bytes::copy_from_slice(json.as_bytes())).ok();
    let Some(document) = parse(message) else { return message.to_owned() };
    let Some(calls) = document.root().get("tool_calls") else { return message.to_owned() };
    let results: Vec<Document> = behind.iter().filter_map(|result| parse(result)).collect();
    let run: HashSet<_> = results.iter().filter_map(|result| result.root().get("tool_call_id")?.text()).collect();
    let id = |call: Value<'_>| call.get("id").and_then(Value::text).unwrap_or_default().into_owned();
    let gone: HashSet<usize> =
        calls.items().map(id).enumerate().filter(|(_, id)| !ids.contains(&**id) && !run.contains(&**id)).map(|(at, _)| at).collect();
    let mut edits = Splices::default();
    if gone.len() == calls.items().count() {
        edits.remove_members(document.root(), |name| name == "tool_calls");
    } else {
        edits.remove_items(calls, |at| gone.contains(&at));
    }
    String::from_utf8_lossy(&edits.apply(document.bytes())).into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::exchange::hidden_turns::Kept;

    fn document(messages: &str) -> Document {
        Document::parse(Bytes::from(format!(r#"{{"model":"m","messages":[{messages}],"tool_choice":"required"}}"#))).unwrap()
    }

    fn messages(body: &Bytes) -> Vec<serde_json::Value> {
        serde_json::from_slice::<serde_json::Value>(body).unwrap()["messages"].as_array().cloned().unwrap()
    }

    const USER: &str = r#"{"role":"user","content":"Add milk."}"#;

    #[test]
    fn a_round_stands_behind_the_request_and_nothing_is_demanded_any_more() {
        let body = Chat::append(&document(USER), &[r#"{"role":"assistant","content":null}"#.into(), Chat::result("call_1", "ok")]).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((messages(&body).len(), value["tool_choice"].as_str()), (3, Some("auto")));
    }

    #[test]
    fn what_was_hidden_is_put_back_where_it_was() {
        let answer = r#"{"role":"assistant","content":[{"type":"text","text":"Done."}]}"#;
        let request = document(&format!("{USER},{answer},{USER}"));
        let turns = Chat::turns(&request);
        assert!(turns[1].speaker == Speaker::Model && turns[1].text == "Done.");
        let before = vec![r#"{"role":"assistant","tool_calls":[]}"#.into(), Chat::result("call_1", "ok")];
        let back = |kept| Chat::put_back(&request, &turns, &[Back { turn: 1, how: How::Whole, kept: Arc::new(kept) }]);
        let body = back(Kept { before: before.clone(), ..Kept::default() }).unwrap();
        let roles: Vec<String> = messages(&body).iter().map(|own| own["role"].as_str().unwrap_or_default().to_owned()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
        let body = back(Kept { before, whole: vec![r#"{"role":"assistant","content":"All."}"#.into()], ..Kept::default() }).unwrap();
        assert_eq!(messages(&body)[3]["content"], "All.");
        assert!(back(Kept { lost: true, ..Kept::default() }).is_none());
    }

    #[test]
    fn a_mixed_turn_is_whole_again() {
        let whole = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_a"},{"id":"call_b"}]}"#;
        let kept = Arc::new(Kept { whole: vec![whole.into()], behind: vec![Chat::result("call_b", "ok")], ..Kept::default() });
        let visible = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_a"}]}"#;
        let request = document(&format!("{USER},{visible},{}", Chat::result("call_a", "x")));
        let body = Chat::put_back(&request, &Chat::turns(&request), &[Back { turn: 1, how: How::Whole, kept }]);
        let ids: Vec<String> = messages(&body.unwrap()).iter().filter_map(|own| own["tool_call_id"].as_str().map(str::to_owned)).collect();
        assert_eq!(ids, ["call_b", "call_a"]);
    }

    #[test]
    fn a_call_that_the_application_dropped_stays_dropped() {
        let call = |id: &str| format!(r#"{{"id":"{id}"}}"#);
        let whole = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{},{},{}]}}"#, call("a"), call("h"), call("b"));
        let kept = Arc::new(Kept { whole: vec![whole], behind: vec![Chat::result("h", "ok")], ..Kept::default() });
        for (visible, expected) in [(&["a", "b"][..], &["a", "h", "b"][..]), (&["b"], &["h", "b"]), (&["a"], &["a", "h"])] {
            let calls: Vec<String> = visible.iter().map(|id| call(id)).collect();
            let request = document(&format!(r#"{USER},{{"role":"assistant","tool_calls":[{}]}}"#, calls.join(",")));
            let back = [Back { turn: 1, how: How::Whole, kept: kept.clone() }];
            let messages = messages(&Chat::put_back(&request, &Chat::turns(&request), &back).unwrap());
            let ids: Vec<&str> = messages[1]["tool_calls"].as_array().unwrap().iter().filter_map(|call| call["id"].as_str()).collect();
            assert_eq!(ids, expected);
        }
    }
}
