//! Items and responses with toolmark's own text. Pure.
//!
//! Source: OpenAI API reference, "The response object".

use bytes::Bytes;

use crate::{
    exchange::context::WordsMember,
    exchange::{adapter::Made, context::Context},
    judge::call::ValidCall,
    wire::json::string::quote,
};

/// A complete response with toolmark's own text, if the upstream never gave one.
pub fn words(made: &Made<'_>, context: &Context) -> Bytes {
    let item = message_item(made.words, &item_id(context), context.words_member());
    response_object("completed", &format!("[{item}]"), made, context).into()
}

/// Id of the message made in an exchange; there is at most one.
pub fn item_id(context: &Context) -> String {
    format!("msg_toolmark_{}", context.id.simple())
}

/// Id of a response that the upstream never gave. No request can refer to it, as nobody stores it.
pub fn response_id(context: &Context) -> String {
    format!("resp_toolmark_{}", context.id.simple())
}

/// Id of the call made in an exchange; there is at most one.
pub fn call_item_id(context: &Context) -> String {
    format!("fc_toolmark_{}", context.id.simple())
}

/// The item of a call that carries toolmark's text instead of a message, JSON.
pub fn call_item(call: &ValidCall, arguments: &str, mark: &str, status: &str, context: &Context) -> String {
    let (id, name, arguments) = (call_item_id(context), quote(call.name()), quote(arguments));
    format!(r#"{{"type":"function_call","id":"{id}","call_id":{},"name":{name},"arguments":{arguments},"status":"{status}"}}"#, quote(mark))
}

/// A message item with `words`, JSON.
pub fn message_item(words: &str, item_id: &str, member: WordsMember) -> String {
    let (id, part) = (quote(item_id), message_part(words, member));
    format!(r#"{{"type":"message","id":{id},"status":"completed","role":"assistant","content":[{part}]}}"#)
}

/// The only part of that message, JSON.
pub fn message_part(words: &str, member: WordsMember) -> String {
    let words = quote(words);
    if member == WordsMember::Refusal {
        format!(r#"{{"type":"refusal","refusal":{words}}}"#)
    } else {
        format!(r#"{{"type":"output_text","text":{words},"annotations":[],"logprobs":[]}}"#)
    }
}

/// A response that the upstream never gave, JSON. `output`: an array of items, JSON. An empty verdict is left out.
pub fn response_object(status: &str, output: &str, made: &Made<'_>, context: &Context) -> String {
    let (id, created, status, model) = (response_id(context), made.created, quote(status), quote(made.model));
    let verdict = if made.verdict.is_empty() { String::new() } else { format!(r#","toolmark":{}"#, made.verdict) };
    let head = format!(r#"{{"id":"{id}","object":"response","created_at":{created},"status":{status}"#);
    let middle = format!(r#""error":null,"incomplete_details":null,"instructions":null,"model":{model},"output":{output}"#);
    let echo = r#""parallel_tool_calls":true,"tool_choice":"auto","tools":[],"temperature":null,"top_p":null,"metadata":{}"#;
    format!(r#"{head},{middle},{echo},"usage":null{verdict}}}"#)
}
