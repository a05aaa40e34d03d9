//! Alerts, as a webhook receives them.

use serde_json::json;
use toolmark::testing::{ScriptedReply, ScriptedUpstream};

use super::{
    feed::Follower,
    stage::{Stage, get},
};
use crate::program::until;

#[test]
fn a_webhook_hears_of_it_even_where_it_fails_at_first() {
    let webhook = ScriptedUpstream::start(|request| ScriptedReply::json(if request.number == 0 { 503 } else { 200 }, "")).unwrap();
    let url = webhook.base_url().replace("/v1", "/hook");
    let alerts = "[[alerts]]\nname = \"invented tools\"\ncode = \"unknown_tool\"\nthreshold = 1\nwindow = \"1h\"\nurl_env = \"HOOK\"\ntoken_env = \"TOKEN\"\n\
                  [[alerts]]\nname = \"other\"\nmetric = \"failed_executions\"\ntool = \"get_weather\"\nthreshold = 0\nwindow = \"1h\"\nurl_env = \"HOOK\"\n";
    let stage = Stage::with_environment("default", alerts, &[("HOOK", &*url), ("TOKEN", "s3cret")]);
    let mut follower = Follower::start(&stage);
    stage.repaired("s");
    stage.repaired("s");
    let event = follower.next("alert");
    assert_eq!((&event["alert"], &event["state"], &event["code"]), (&json!("invented tools"), &json!("firing"), &json!("unknown_tool")));
    assert!(webhook.wait(2, 0), "the webhook wasn't tried again");
    let tries = webhook.received();
    assert_eq!((&*tries[1].line, &tries[0].body), ("POST /hook", &tries[1].body));
    assert_eq!(tries[1].headers["authorization"], "Bearer s3cret");
    let message = tries[1].json();
    assert_eq!((&message["count"], &message["threshold"], &message["window_s"]), (&json!(2), &json!(1), &json!(3600)));
    assert!(message["text"].as_str().unwrap().contains("invented tools is firing: 2 × unknown_tool within 1h"), "{message}");
    let metrics = until("the message's end", || {
        let metrics = get(&stage.url("/metrics")).body;
        metrics.contains("toolmark_alert_messages_total{alert=\"invented tools\",outcome=\"sent\"} 1.0").then_some(metrics)
    });
    for line in ["toolmark_alert_firing{alert=\"invented tools\"} 1.0", "toolmark_alert_firing{alert=\"other\"} 0.0"] {
        assert!(metrics.lines().any(|own| own == line), "{line}\n{metrics}");
    }
    assert!(!metrics.contains("/hook"));
}
