//! Alerts in, alerts or a message out.

use super::*;
use crate::{CONFIG_FILE, Environment, Flags, Settings, load};

const UPSTREAM: &str = "[[upstreams]]\nname = \"a\"\nbase_url = \"http://a/v1\"\n";
const SET: [(&str, &str); 3] = [("HOOK", "https://hooks.example.org/T000/secret"), ("TOKEN", "s3cret"), ("BAD", "two words")];

fn read(alerts: &str) -> Result<Settings, String> {
    read_with(alerts, &SET)
}

fn read_with(alerts: &str, set: &[(&str, &str)]) -> Result<Settings, String> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(CONFIG_FILE), format!("{UPSTREAM}{alerts}")).unwrap();
    load(&Flags::default(), &Environment::of(set), directory.path()).map_err(|error| error.to_string())
}

#[test]
fn alerts_are_read() {
    let settings = read_with(
        "[[alerts]]\nname = 'invented executions'\ncode = 'unknown_execution'\nthreshold = 5\nwindow = '10m'\nurl_env = 'HOOK'\ntoken_env = 'TOKEN'\n\
         [[alerts]]\nname = 'weather is down'\nmetric = 'failed_executions'\ntool = 'get_weather'\nthreshold = 0\nwindow = '1m'\nurl_env = 'TOOLMARK_HOOK'\n",
        // A variable may have any name where it is named as the place of a secret.
        &[SET[0], SET[1], ("TOOLMARK_HOOK", "http://h/x")],
    )
    .unwrap();
    let [first, second] = &settings.alerts[..] else { panic!("{:?}", settings.alerts) };
    assert_eq!((&first.counts, first.threshold, first.window.as_secs()), (&Counts::Code(Code::UnknownExecution), 5, 600));
    assert_eq!((first.url.expose(), first.token.as_ref().map(Secret::expose)), (SET[0].1, Some("s3cret")));
    assert_eq!(second.counts, Counts::Metric(AlertMetric::FailedExecutions, Some("get_weather".into())));
    let shown = format!("{settings:?}");
    assert!(!shown.contains("hooks.example.org") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn what_is_refused_of_alerts() {
    let fine = "[[alerts]]\nname = 'a'\ncode = 'unknown_tool'\nthreshold = 1\nwindow = '1m'\nurl = 'http://h/x'\n";
    for (from, to, words) in [
        ("name = 'a'", "name = ' '", "needs a name"),
        ("'unknown_tool'", "'unknown_tols'", "did you mean `unknown_tool`?"),
        ("code = 'unknown_tool'\n", "", "`alerts[0].code`: an alert needs a `code` or a `metric`"),
        ("code = 'unknown_tool'\n", "code = 'unknown_tool'\nmetric = 'blocked'\n", "either a `code` or a `metric`"),
        ("code = 'unknown_tool'\n", "metric = 'blockd'\n", "none of the known values (did you mean `blocked`?)"),
        ("code = 'unknown_tool'\n", "metric = 'blocked'\ntool = 'x'\n", "isn't counted by tool"),
        ("code = 'unknown_tool'\n", "code = 'unknown_tool'\ntool = 'x'\n", "isn't counted by tool"),
        ("threshold", "treshold", "unknown key (did you mean `threshold`?)"),
        ("threshold = 1", "threshold = -1", "`alerts[0].threshold`"),
        ("'1m'", "'1s'", "expected 10s to 24h"),
        ("url = 'http://h/x'", "url = 'http://h/x'\nurl_env = 'HOOK'", "either `url` or `url_env`"),
        ("url = 'http://h/x'", "url_env = 'NONE'", "NONE isn't set"),
        ("url = 'http://h/x'", "url_env = 'BAD'", "no URL of a webhook"),
        ("url = 'http://h/x'", "url = 'ftp://h/x'", "no URL of a webhook"),
        ("url = 'http://h/x'", "url = '/x'", "no URL of a webhook"),
        ("url = 'http://h/x'", "url = 'http://me:s3cret@h/x'", "password in it"),
        ("url = 'http://h/x'", "url = 'http://h/x'\ntoken_env = 'NONE'", "NONE isn't set"),
        ("url = 'http://h/x'", "url = 'http://h/x'\ntoken_env = 'BAD'", "holds no bearer token"),
    ] {
        assert!(fine.contains(from));
        let error = read(&fine.replace(from, to)).expect_err(to);
        assert!(error.contains(words) && !error.contains("s3cret"), "{words:?} isn't in:\n{error}");
    }
    read(fine).unwrap();
    assert!(read(&format!("{fine}{fine}")).unwrap_err().contains("two alerts are named `a`"));
    assert!(read(&fine.repeat(101)).unwrap_err().contains("at most 100"));
}
