//! Properties: whatever is asked is prepared or refused; what is prepared is JSON, and prepared again the same.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use proptest::{collection::vec, prelude::*, sample::select};

use crate::{
    exchange::{
        conversation::{Fate, Owed, Thread},
        turn::{EchoedTurn, SaidItem},
    },
    policy::{PolicyMode, Undeclared},
    responses::request::{
        Recalled, Stateful,
        tests::support::{Bench, known},
    },
    wire::json::Document,
};

static BENCHES: LazyLock<Vec<Bench>> = LazyLock::new(|| {
    let with = |mode, stateful, undeclared| {
        Bench::new(move |policy| {
            (policy.mode, policy.responses.stateful, policy.tools.undeclared) = (mode, stateful, undeclared);
            policy.protocol.inject = Some(true);
        })
    };
    vec![
        with(PolicyMode::Enforce, Stateful::Track, Undeclared::Allow),
        with(PolicyMode::Enforce, Stateful::Stateless, Undeclared::Reject),
        with(PolicyMode::Observe, Stateful::Refuse, Undeclared::Allow),
    ]
});

static MARKS: LazyLock<[String; 2]> = LazyLock::new(|| [BENCHES[0].mark("call_1"), BENCHES[0].chat_mark()]);

fn recalled() -> Recalled {
    let owed = Owed { call_id: "call_5".into(), custom: false, output: "not run".into() };
    let thread = Thread { owed: vec![owed], upstream_id: Some("resp_own".into()), ..Thread::default() };
    let instead = Fate::Instead(r#"{"role":"assistant","content":"instead"}"#.into());
    Recalled {
        thread: Some(Arc::new(thread)),
        calls: vec![known(&MARKS[0], "call_1"), known(&MARKS[1], "call_9")],
        items: vec![("d".into(), Fate::Dropped), ("i".into(), instead)],
    }
}

/// `B`: the mark behind an upstream's id, `C`: one of chat's form.
fn filled(scraps: &[&str], end: &str) -> String {
    format!("{}{end}", scraps.concat()).replace("$B", &MARKS[0]).replace("$C", &MARKS[1])
}

fn check(text: &str, recalled: &Recalled) -> Result<(), TestCaseError> {
    for bench in BENCHES.iter() {
        let Ok(begun) = bench.begin(text.as_bytes(), recalled) else { continue };
        let body = begun.body.joined();
        prop_assert!(Document::parse(body.clone()).is_ok(), "{} of {text}", String::from_utf8_lossy(&body));
        prop_assert_eq!(&bench.begin(text.as_bytes(), recalled).unwrap().body.joined(), &body);
        if begun.context.observes() {
            prop_assert_eq!(&body[..], text.as_bytes());
        }
        match bench.begin(&body, recalled) {
            Ok(again) => prop_assert_eq!(again.body.joined(), body.clone(), "{}", text),
            Err(refusal) => prop_assert!(false, "{refusal}: {} of {text}", String::from_utf8_lossy(&body)),
        }
        let turn = EchoedTurn { text: "said".into(), items: vec![SaidItem::Raw("{}".into())], ..EchoedTurn::default() };
        for turn in [EchoedTurn::default(), turn] {
            let next = crate::responses::repair::next_request(&body, &turn, 1, &begun.context).unwrap();
            prop_assert!(Document::parse(next).is_ok());
        }
        let _data = begun.context.data();
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn items_are_prepared_or_refused(items in vec(select(ITEMS.to_vec()), 0..8), members in vec(select(MEMBERS.to_vec()), 0..4), known in any::<bool>()) {
        let mut members = members;
        members.sort_unstable();
        members.dedup_by_key(|member| member.split(':').next());
        let recalled = if known { recalled() } else { Recalled::default() };
        check(&filled(&["{\"input\":[", &items.join(" , "), "]", &members.concat()], "}"), &recalled)?;
        check(&filled(&["{\"input\":\"x\"", &members.concat()], "}"), &recalled)?;
    }

    #[test]
    fn scraps_are_prepared_or_refused(scraps in vec(select(SCRAPS.to_vec()), 0..16)) {
        check(&filled(&scraps, ""), &recalled())?;
        check(&filled(&["{\"input\":[", &scraps.concat()], "]}"), &recalled())?;
        check(&filled(&["{\"input\":[{", &scraps.concat()], "}]}"), &recalled())?;
    }

    #[test]
    fn bytes_are_prepared_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let _refused = BENCHES[0].begin(&bytes, &Recalled::default());
        let body = Bytes::from(bytes);
        if let Ok(begun) = BENCHES[0].begin(br#"{"input":"x"}"#, &Recalled::default()) {
            let items = vec![SaidItem::Raw(String::from_utf8_lossy(&body).into_owned()), SaidItem::Call(0, String::new())];
            let _error = crate::responses::repair::next_request(&body, &EchoedTurn { items, ..EchoedTurn::default() }, 1, &begun.context);
        }
    }
}

const ITEMS: [&str; 30] = [
    r#"{"role":"user","content":"x"}"#,
    r#"{"role":"user","content":[{"type":"input_text","text":"x"}]}"#,
    r#"{"role":"developer","content":"told"}"#,
    r#"{"role":"system","content":[]}"#,
    r#"{"role":"system","content":null}"#,
    r#"{"role":"system","id":"d","content":"x"}"#,
    r#"{"type":"message","role":"assistant","content":[],"id":"i"}"#,
    r#"{"role":"tool"}"#,
    r#"{"type":"function_call","call_id":"$B","name":"run_speed_test","arguments":"{}"}"#,
    r#"{"type":"function_call","call_id":"$C","name":"run_speed_test","arguments":"{}","id":"i"}"#,
    r#"{"type":"function_call","call_id":"call_1","name":"run_speed_test","arguments":"{}"}"#,
    r#"{"type":"function_call","name":"x","namespace":"crm","arguments":{}}"#,
    r#"{"type":"custom_tool_call","call_id":"$B","name":"run_speed_test","input":"{}"}"#,
    r#"{"type":"function_call_output","call_id":"$B","output":"r"}"#,
    r#"{"type":"function_call_output","call_id":"$B","output":"{\"a\":1}","id":"d"}"#,
    r#"{"type":"function_call_output","call_id":"$C","output":[{"type":"input_text","text":"r"}]}"#,
    r#"{"type":"function_call_output","call_id":"$C","output":[]}"#,
    r#"{"type":"function_call_output","call_id":"$B","output":{"execution_id":1}}"#,
    r#"{"type":"function_call_output","call_id":"$B","output":"{\"execution_id\":1}"}"#,
    r#"{"type":"custom_tool_call_output","call_id":"call_5","output":null}"#,
    r#"{"type":"function_call_output"}"#,
    r#"{"type":"item_reference","id":"d"}"#,
    r#"{"id":"i"}"#,
    r#"{"id":7}"#,
    r#"{"type":"reasoning","id":"d","summary":[]}"#,
    r#"{"type":"tool_search_output","tools":[{"type":"function","name":"late"}]}"#,
    r#"{"type":"additional_tools","tools":null}"#,
    r#"{"type":"mcp_call","output":["x"],"id":"i"}"#,
    r#"{}"#,
    r#"{"type":"unheard_of","call_id":"$B"}"#,
];

const MEMBERS: [&str; 22] = [
    r#","previous_response_id":"resp_seen""#,
    r#","conversation":{"id":"c"}"#,
    r#","store":null"#,
    r#","store":true"#,
    r#","include":[]"#,
    r#","include":null"#,
    r#","reasoning":{}"#,
    r#","model":"gpt-5""#,
    r#","instructions":"""#,
    r#","instructions":null"#,
    r#","instructions":"told\n""#,
    r#","prompt":{"id":"p"}"#,
    r#","text":{"format":{"type":"json_schema"}}"#,
    r#","tools":[]"#,
    r#","tools":[{"type":"function","name":"run_speed_test"}]"#,
    r#","tools":[{"type":"namespace","name":"crm","tools":[{"type":"custom","name":"x"}]},{"type":"mcp"}]"#,
    r#","tools":null"#,
    r#","tool_choice":{"type":"function","name":"run_speed_test"}"#,
    r#","tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"x"}]}"#,
    r#","tool_choice":"required""#,
    r#","parallel_tool_calls":false"#,
    r#","background":false"#,
];

const SCRAPS: [&str; 20] = [
    "{\"input\":[",
    "{\"role\":\"user\",",
    "\"type\":\"function_call_output\",",
    "\"type\":\"item_reference\",",
    "\"type\":\"function_call\",",
    "\"call_id\":\"$B\",",
    "\"output\":",
    "\"content\":",
    "\"id\":\"d\"",
    "[{\"text\":1}]",
    "\"x\"",
    "{",
    "}",
    "}",
    "]",
    "[",
    ",",
    ",",
    "null",
    ",\"tools\":[{\"type\":\"function\",\"name\":\"t\"}]",
];
