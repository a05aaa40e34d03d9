//! Several attempts in one stream downstream: what leaves is one response in order, whatever ids the upstream gives.

use super::*;
use crate::exchange::conversation::{Fate, Memo};

/// Runs attempts until one passes or there are no more.
fn attempts(streams: &[String]) -> (Option<Memo>, String) {
    let (mut judge, mut out) = (ResponseStream::new(CONTEXT.clone(), None), BytesMut::new());
    let mut usage = None;
    for (at, stream) in streams.iter().enumerate() {
        let mut parser = SseParser::default();
        parser.handle(Bytes::copy_from_slice(stream.as_bytes()), |event| assert!(judge.handle(event, &mut out).is_ok())).unwrap();
        let judged = judge.conclude(CONTEXT.first_attempt()).unwrap();
        if judged[0].blocks() && at + 1 < streams.len() {
            if let Some(own) = judge.usage() {
                crate::openai::usage::add(&mut usage, own);
            }
            judge = ResponseStream::new(CONTEXT.clone(), Some(&judge));
            continue;
        }
        let memo = judge.end(End { finals: finals(judged), earlier: usage.take(), verdict: "{}", as_member: true }, &mut out);
        return (memo, String::from_utf8_lossy(&out).into_owned());
    }
    panic!("no attempt")
}

fn bad_call() -> Say {
    Say::Call("delete_all", r#"{"a":"s3cret"}"#, 3)
}

fn text(text: &str) -> Say {
    Say::Text(text.to_owned())
}

#[test]
fn attempts_follow_each_other() {
    let first: [&[Say]; 5] = [
        &[text("One moment. "), Say::Message, bad_call()],
        &[Say::Reason, text("One moment. "), bad_call()],
        &[bad_call(), text("One moment. ")],
        &[text("One moment. "), Say::Message, text("And another. "), Say::Reason, bad_call(), Say::Reason],
        &[text("x")],
    ];
    let second: [&[Say]; 4] = [
        &[text("It is 90.")],
        &[Say::Reason, Say::Call("check_net", "{}", 1)],
        &[text("Now. "), Say::Message, Say::Call("run_speed_test", r#"{"server":"x"}"#, 1), Say::Reason],
        &[text("Bad again."), bad_call()],
    ];
    for first in first {
        for second in second {
            let usage = r#""usage":{"total_tokens":2},"status":"completed""#;
            let with_usage = |said: &[Say]| both(said).0.replace("\"status\":\"completed\"}}", &format!("{usage}}}}}"));
            let (_, out) = attempts(&[with_usage(first), with_usage(second)]);
            consistent(&out);
            assert!(!out.contains("s3cret"), "{out}");
        }
    }
}

/// What was begun and not done when the attempt was rejected.
#[test]
fn what_was_begun_is_done() {
    let (events, _) = both(&[Say::Reason, bad_call()]);
    let without: String = events.split_inclusive("\n\n").enumerate().filter(|(at, _)| *at != 2).map(|(_, event)| event).collect();
    assert!(!without.contains("\"type\":\"response.output_item.done\",\"sequence_number\":2"), "{without}");
    let (_, out) = attempts(&[without.clone(), both(&[text("Fine.")]).0]);
    consistent(&out);
    // The same where it ends in words.
    let (_, out) = attempts(&[without]);
    consistent(&out);
}

/// Upstreams that number their items give those of the next attempt the same ids.
#[test]
fn ids_that_come_again_are_those_of_the_attempt_that_passed() {
    let (memo, out) = attempts(&[both(&[Say::Reason, text("One moment. "), bad_call()]).0, both(&[Say::Reason, text("It is 90.")]).0]);
    consistent(&out);
    let gone: Vec<(String, Fate)> = memo.unwrap().items;
    assert!(gone.is_empty(), "{gone:?}\n{out}");
}

/// An attempt that is refused by the upstream itself, in mid-stream: the words end what was begun.
#[test]
fn words_end_what_was_begun() {
    let (events, _) = both(&[Say::Reason, text("One moment, I look it up for you. "), text("More of it follows here. ")]);
    let pieces: Vec<&str> = events.split_inclusive("\n\n").collect();
    for upto in 0..pieces.len() - 1 {
        let (mut judge, mut parser, mut out) = (ResponseStream::new(CONTEXT.clone(), None), SseParser::default(), BytesMut::new());
        parser.handle(Bytes::from(pieces[..upto].concat()), |event| assert!(judge.handle(event, &mut out).is_ok())).unwrap();
        let mut failed = out.clone();
        let made = crate::exchange::adapter::Made { words: "I could not.", model: "m", created: 1, verdict: "{}" };
        judge.explain(&made, &mut out);
        consistent(&String::from_utf8_lossy(&out));
        let mut judge = ResponseStream::new(CONTEXT.clone(), None);
        let mut again = BytesMut::new();
        parser = SseParser::default();
        parser.handle(Bytes::from(pieces[..upto].concat()), |event| assert!(judge.handle(event, &mut again).is_ok())).unwrap();
        judge.fail(r#"{"error":{"message":"m","code":"c"}}"#, &mut failed);
        let failed = String::from_utf8_lossy(&failed).into_owned();
        let last: Value = serde_json::from_str(&failed.lines().rfind(|line| line.starts_with("data: ")).unwrap()[6..]).unwrap();
        assert_eq!(last["type"], "response.failed", "{failed}");
    }
}
