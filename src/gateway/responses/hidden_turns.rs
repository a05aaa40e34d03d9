//! Hidden turns as input items: appended to a request, and restored in later ones.
//!
//! As on chat, a hidden turn has the form in which an application would have sent it, with the marks as ids. If the
//! upstream stores the conversation, only the results of a partly visible turn are restored: the upstream has the rest.
//! Pure.

use std::{borrow::Cow, collections::HashSet};

use bytes::Bytes;

use super::{
    adapter::Responses,
    repair,
    request::{Head, Input},
};
use crate::{
    exchange::{
        call_ids::CallIdMinter,
        context::Context,
        conversation::{KnownCall, kept_arguments},
        hidden_turns::{Back, HistoryExtent, How, Kept, RoundForm, Speaker, Turn, released_choice},
        turn::{Said, SaidItem},
    },
    judge::{
        call::{CallKind, ValidCall},
        history::calls::call_digest,
    },
    marks::{CallMark, KeyRing, MarkTime, Scope},
    openai::{Api, content::text_of},
    responses::{
        call_name::tool_name,
        output_items::echoed_status,
        request::{
            input_items::{InputItem, Kind},
            prepare::{output_item, user_item},
        },
        response::write::rename,
    },
    tools::registry::Registry,
    wire::json::{Document, Value, splice::Splices, string::quote},
};

impl RoundForm for Responses {
    const API: Api = Api::Responses;

    fn turns(request: &Document) -> Vec<Turn<'_>> {
        let Ok(head) = Head::read(request) else { return Vec::new() };
        match &head.input {
            Input::Text(text) => {
                vec![Turn { items: 0..0, speaker: Speaker::Other, text: text.text().unwrap_or_default(), ids: Vec::new() }]
            }
            Input::Items(_, items) => turns_of(items),
            Input::Absent => Vec::new(),
        }
    }

    fn extent(request: &Document) -> HistoryExtent {
        let continues = ["previous_response_id", "conversation"].iter().any(|name| request.root().get_some(name).is_some());
        if continues { HistoryExtent::Continued } else { HistoryExtent::Whole }
    }

    fn put_back(request: &Document, turns: &[Turn<'_>], back: &[Back]) -> Option<Bytes> {
        let input = request.root().get("input").filter(|input| input.is_array())?;
        let items: Vec<Value<'_>> = input.items().collect();
        let ids: HashSet<&str> = turns.iter().flat_map(|turn| &turn.ids).map(|id| &**id).collect();
        let (mut edits, mut done, mut gone): (_, Vec<&Kept>, HashSet<usize>) = (Splices::default(), Vec::new(), HashSet::new());
        for Back { turn, how, kept } in back.iter().filter(|back| !back.kept.lost) {
            let Some(range) = turns.get(*turn).map(|turn| turn.items.clone()) else { continue };
            let (Some(first), Some(last)) = (items.get(range.start), range.end.checked_sub(1).and_then(|last| items.get(last))) else {
                continue;
            };
            // Two calls of one turn that the application sent apart: it is there already.
            let again = done.contains(&&**kept);
            done.push(kept);
            match how {
                How::Whole if again => gone.extend(range),
                How::Whole => {
                    let visible = items.get(range).unwrap_or_default().iter().map(|item| item.raw_str());
                    let visible = visible.filter(|_| kept.whole.is_empty());
                    let own = kept.whole.iter().filter(|item| !is_dropped(item, &kept.behind, &ids));
                    let own = own.map(String::as_str).chain(visible);
                    let parts = kept.before.iter().map(String::as_str).chain(own).chain(kept.behind.iter().map(String::as_str));
                    edits.replace(first.span().start..last.span().end, parts.collect::<Vec<_>>().join(","));
                }
                How::Results if again || kept.behind.is_empty() => {}
                How::Results => edits.insert(first.span().start, format!("{},", kept.behind.join(","))),
            }
        }
        edits.remove_items(input, |at| gone.contains(&at));
        (!edits.is_empty()).then(|| edits.apply(request.bytes()))
    }

    fn marks(said: &Said, calls: &[(ValidCall, MarkTime)], context: &Context) -> Vec<String> {
        let mut minter = CallIdMinter::default();
        let ids = said.calls.iter().map(|(call, _)| call.id.as_deref().unwrap_or_default());
        let mint = |((call, moment), id): (&(ValidCall, MarkTime), &str)| minter.mint(context, id, call.name(), call.arguments(), *moment);
        calls.iter().zip(ids).map(mint).collect()
    }

    fn said_again(said: &Said, calls: &[(&ValidCall, &str)], context: &Context) -> Vec<String> {
        let item = |item: &SaidItem| match item {
            SaidItem::Raw(json) => Some(json.clone()),
            SaidItem::Call(at, json) => {
                let (call, mark) = calls.get(*at)?;
                let kind = said.calls.get(*at).map(|(call, _)| call.kind).unwrap_or_default();
                call_again(call, mark, json, kind)
            }
        };
        repair::readable(said.items.iter().filter_map(item).collect(), &context.hidden)
    }

    fn result(mark: &str, text: &str) -> String {
        output_item(CallKind::Function, mark, text)
    }

    fn append(request: &Document, added: &[String]) -> Option<Bytes> {
        let root = request.root();
        let (mut edits, added) = (Splices::default(), added.join(","));
        match root.get_some("input") {
            Some(array) if array.is_array() => edits.append_items(array, &added),
            Some(text) if text.is_string() => edits.replace(text.span(), format!("[{},{added}]", user_item(text.raw_str()))),
            Some(_) => return None,
            None => edits.set_member(root, "input", &format!("[{added}]")),
        }
        let choice = root.get_some("tool_choice");
        if let Some((choice, released)) = choice.and_then(|choice| Some((choice, released_choice(choice)?))) {
            edits.replace(choice.span(), released);
        }
        Some(edits.apply(request.bytes()))
    }

    fn upstream(body: Bytes, results: usize, context: &Context) -> Bytes {
        if context.hidden.conversation.is_none() {
            return body;
        }
        // All but the results was appended to the conversation with the attempt before.
        let Ok(document) = Document::parse(body.clone()) else { return body };
        let mut edits = Splices::default();
        if let Some(input) = document.root().get("input").filter(|input| input.is_array()) {
            let known = input.items().count().saturating_sub(results);
            edits.remove_items(input, |at| at < known);
        }
        edits.apply(&body)
    }

    fn text_of(answer: &Bytes) -> Option<String> {
        let document = Document::parse(answer.clone()).ok()?;
        Some(text_of_output(document.root()))
    }

    fn tap(data: &Bytes, text: &mut String) {
        // The last event repeats everything.
        if ["response.completed", "response.incomplete"].iter().all(|kind| memchr::memmem::find(data, kind.as_bytes()).is_none()) {
            return;
        }
        let Ok(document) = Document::parse(data.clone()) else { return };
        let root = document.root();
        let last = root.get("type").is_some_and(|kind| kind.is_text("response.completed") || kind.is_text("response.incomplete"));
        if let Some(response) = root.get_some("response").filter(|_| last) {
            *text = text_of_output(response);
        }
    }
}

fn text_of_output(response: Value<'_>) -> String {
    let items = response.get("output").into_iter().flat_map(Value::items);
    let messages = items.filter(|item| item.get("type").is_some_and(|kind| kind.is_text("message")));
    messages.filter_map(|message| message.get("content").and_then(text_of)).collect()
}

/// The turns of an input. Consecutive messages and calls of the model are one turn.
fn turns_of<'d>(items: &[InputItem<'d>]) -> Vec<Turn<'d>> {
    let mut turns: Vec<Turn<'d>> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let text = item.content().or_else(|| item.output()).and_then(text_of).unwrap_or_default();
        let ids: Vec<_> = item.call_id().into_iter().collect();
        let speaker = match item.kind {
            Kind::Assistant | Kind::Call(_) => Speaker::Model,
            Kind::Other if is_models(item) => Speaker::Model,
            Kind::Instructions => Speaker::Instructions,
            Kind::Output(_) => Speaker::Result,
            Kind::User | Kind::Reference | Kind::Tools | Kind::Other => Speaker::Other,
        };
        match turns.last_mut().filter(|last| speaker == Speaker::Model && last.speaker == Speaker::Model) {
            Some(last) => {
                last.items.end = at + 1;
                last.ids.extend(ids);
                if !text.is_empty() {
                    last.text.to_mut().push_str(&text);
                }
            }
            None => turns.push(Turn { items: at..at + 1, speaker, text, ids }),
        }
    }
    turns
}

/// True for a call that the application was given but no longer has: no result would answer it.
fn is_dropped(item: &str, behind: &[String], ids: &HashSet<&str>) -> bool {
    let id_of = |json: &str| {
        let document = Document::parse(Bytes::copy_from_slice(json.as_bytes())).ok()?;
        // Of functions and custom tools only: others have ids of their own.
        InputItem::read(document.root()).ok()?.call_id().map(Cow::into_owned)
    };
    id_of(item).is_some_and(|id| !ids.contains(&*id) && !behind.iter().any(|result| id_of(result).as_ref() == Some(&id)))
}

/// True for reasoning, and for calls that the upstream ran.
fn is_models(item: &InputItem<'_>) -> bool {
    let kind = item.value.get("type").and_then(Value::text).unwrap_or_default();
    kind == "reasoning" || kind.ends_with("_call")
}

/// The item of a call in the form in which an application would send it back; `None` if it can't be written.
fn call_again(call: &ValidCall, mark: &str, json: &str, kind: CallKind) -> Option<String> {
    let document = Document::parse(Bytes::copy_from_slice(json.as_bytes())).ok()?;
    let (root, mut edits) = (document.root(), Splices::default());
    edits.set_member(root, "call_id", &quote(mark));
    rename(&mut edits, root, call, &[]);
    let member = if kind == CallKind::Custom { "input" } else { "arguments" };
    edits.set_member(root, member, &quote(call.arguments()));
    echoed_status(&mut edits, root, "completed");
    String::from_utf8(edits.apply(document.bytes()).to_vec()).ok()
}

/// The calls of a turn that the upstream stores and of which only the results are restored, by their marks.
pub fn known_calls(kept: &Kept, registry: &Registry, ring: &KeyRing, scope: &Scope) -> Vec<(String, KnownCall)> {
    let known = |json: &String| {
        let document = Document::parse(Bytes::copy_from_slice(json.as_bytes())).ok()?;
        let item = InputItem::read(document.root()).ok().filter(|item| item.kind.is_call())?;
        let text = |name: &str| item.value.get(name).and_then(Value::text).map(Cow::into_owned);
        let id = item.call_id()?.into_owned();
        let arguments = text(if item.kind == Kind::Call(CallKind::Custom) { "input" } else { "arguments" })?;
        let tool = tool_name(registry, text("namespace").as_deref(), &text("name")?);
        let mark = CallMark::parse(&id)?;
        let moment = ring.verify(&mark, scope, &tool, &arguments)?;
        let upstream_id = mark.upstream_id().unwrap_or(&id).into();
        let known = KnownCall {
            read_by_code: false,
            upstream_id,
            tool: tool.as_str().into(),
            moment,
            digest: call_digest(&tool, &arguments),
            arguments: kept_arguments(&arguments),
        };
        Some((id, known))
    };
    kept.whole.iter().filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value as Json, json};

    use super::*;

    fn document(request: &Json) -> Document {
        Document::parse(request.to_string().into()).unwrap()
    }

    fn input(body: &Bytes) -> Vec<Json> {
        serde_json::from_slice::<Json>(body).unwrap()["input"].as_array().cloned().unwrap()
    }

    fn call(id: &str) -> Json {
        json!({"type": "function_call", "call_id": id, "name": "t", "arguments": "{}"})
    }

    fn kept() -> Arc<Kept> {
        let whole = ["a", "h", "b"].map(|id| call(id).to_string()).to_vec();
        Arc::new(Kept {
            before: vec![json!({"role": "assistant", "content": "Hm."}).to_string()],
            whole,
            behind: vec![Responses::result("h", "ok")],
            lost: false,
        })
    }

    fn kinds(items: &[Json]) -> Vec<String> {
        let kind = |item: &Json| match (item["call_id"].as_str(), item["type"].as_str()) {
            (Some(id), Some(kind)) => format!("{} {id}", if kind.ends_with("output") { "output" } else { "call" }),
            _ => item["role"].as_str().unwrap_or("other").to_owned(),
        };
        items.iter().map(kind).collect()
    }

    #[test]
    fn a_mixed_turn_is_whole_again_wherever_its_calls_stand() {
        let (user, out) =
            (json!({"role": "user", "content": "x"}), |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "18"}));
        for visible in [vec![call("a"), call("b"), out("a"), out("b")], vec![call("a"), out("a"), call("b"), out("b")]] {
            let all: Vec<Json> = std::iter::once(user.clone()).chain(visible).collect();
            let request = document(&json!({"model": "m", "input": all}));
            let turns = Responses::turns(&request);
            let models = turns.iter().enumerate().filter(|(_, turn)| turn.speaker == Speaker::Model);
            let back: Vec<Back> = models.map(|(turn, _)| Back { turn, how: How::Whole, kept: kept() }).collect();
            let items = input(&Responses::put_back(&request, &turns, &back).unwrap());
            assert_eq!(kinds(&items), ["user", "assistant", "call a", "call h", "call b", "output h", "output a", "output b"]);
        }
    }

    #[test]
    fn a_call_that_the_application_dropped_stays_dropped() {
        let output = json!({"type": "function_call_output", "call_id": "b", "output": "18"});
        let request = document(&json!({"model": "m", "input": [{"role": "user", "content": "x"}, call("b"), output]}));
        let back = [Back { turn: 1, how: How::Whole, kept: kept() }];
        let items = input(&Responses::put_back(&request, &Responses::turns(&request), &back).unwrap());
        assert_eq!(kinds(&items), ["user", "assistant", "call h", "call b", "output h", "output b"]);
    }

    #[test]
    fn where_the_upstream_keeps_the_rest_only_results_are_put_back() {
        let outputs: Vec<Json> =
            ["a", "b"].iter().map(|id| json!({"type": "function_call_output", "call_id": id, "output": "18"})).collect();
        let request = document(&json!({"model": "m", "previous_response_id": "r", "input": outputs}));
        assert_eq!(Responses::extent(&request), HistoryExtent::Continued);
        let turns = Responses::turns(&request);
        let back: Vec<Back> = (0..2).map(|turn| Back { turn, how: How::Results, kept: kept() }).collect();
        assert_eq!(kinds(&input(&Responses::put_back(&request, &turns, &back).unwrap())), ["output h", "output a", "output b"]);
    }

    #[test]
    fn what_the_model_said_in_one_go_is_one_turn() {
        let message = |text: &str| json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
        let items = json!([{"role": "user", "content": "x"}, {"type": "reasoning", "summary": []}, message("Let me see."), message("\n\nDone."),
            {"type": "computer_call_output", "call_id": "c"}, {"role": "user", "content": "y"}]);
        let request = document(&json!({"model": "m", "input": items}));
        let turns = Responses::turns(&request);
        let seen: Vec<(usize, &str)> = turns.iter().map(|turn| (turn.items.len(), &*turn.text)).collect();
        assert_eq!(seen, [(1, "x"), (3, "Let me see.\n\nDone."), (1, ""), (1, "y")]);
        let answer = json!({"output": [message("Let me see."), call("c"), message("\n\nDone.")]}).to_string();
        assert_eq!(Responses::text_of(&answer.into()).as_deref(), Some("Let me see.\n\nDone."));
    }

    #[test]
    fn a_round_stands_behind_whatever_the_input_was() {
        let added = [call("a").to_string(), Responses::result("a", "ok")];
        for (request, count) in
            [(json!({"input": "x"}), 3), (json!({"input": [{"role": "user", "content": "x"}]}), 3), (json!({"prompt": {}}), 2)]
        {
            assert_eq!(input(&Responses::append(&document(&request), &added).unwrap()).len(), count, "{request}");
        }
    }
}
