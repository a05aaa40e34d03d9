//! What applications never saw is known after a restart and to every replica, and to nobody else.

use serde_json::Value;
use toolmark::{
    ledger::{
        sealed_kv::cipher::SealedRow,
        store::{ChainStore as _, postgres::PostgresStore},
    },
    testing::Proxy,
};

use super::world::{Api, Application, ROUNDS, STEP_BY_STEP, World, legal, prefixes};
use crate::postgres::Database;

const SQLITE: &str = "sqlite:toolmark.db";
const CHAT: [Api; 1] = [Api::Chat];
const RESPONSES: [Api; 4] = [Api::Items, Api::Unstored, Api::Previous, Api::Conversation];

/// Ten mixed turns, an answer, and two more questions, each round at another proxy.
fn ten_rounds(world: &World, api: Api, stream: bool, mut proxy: impl FnMut(&World, &mut dyn FnMut(&Proxy))) {
    let mut application = Application::new(api, stream);
    let mut ask = |application: &mut Application| {
        let mut got = None;
        proxy(world, &mut |proxy| got = Some(application.ask(proxy)));
        let got = got.unwrap();
        assert_eq!(got.status, 200, "{api:?} {stream}: {}", got.body);
        assert!(!got.codes.contains("history_incomplete") && !got.codes.contains("orphan"), "{api:?} {stream}: {got:?}");
        got
    };
    for round in 0..ROUNDS {
        let got = ask(&mut application);
        let names: Vec<&str> = got.calls.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, got.text.as_str()), (vec!["get_weather"], "One more."), "{api:?} {stream} {round}: {got:?}");
    }
    assert_eq!(ask(&mut application).text, "All done.");
    for (question, seen) in [("What is there?", 31), ("And now?", 32)] {
        application.says(question);
        // Text between rounds flows where the answer streams.
        let before = if stream { "Let me see.\n\n" } else { "" };
        assert_eq!(ask(&mut application).text, format!("{before}Seen {seen}."), "{api:?} {stream}");
    }
    let mut titles = world.todo.titles();
    titles.sort();
    assert_eq!(titles, (0..ROUNDS).map(|title| title.to_string()).collect::<Vec<_>>());
    let asked = world.asked();
    let received =
        || world.upstream.received().iter().map(|own| format!("{} {:?}", own.line, own.headers.get("authorization"))).collect::<Vec<_>>();
    assert_eq!(asked.len(), ROUNDS + 1 + 4, "{:#?}", received());
    match api {
        Api::Chat => {
            asked.iter().for_each(|request| legal(&request["messages"]));
            prefixes(&asked, "messages");
        }
        // Whether it is legal the model itself says.
        Api::Items | Api::Unstored => prefixes(&asked, "input"),
        Api::Previous | Api::Conversation => {}
    }
}

fn restarting(apis: &[Api]) {
    for api in apis {
        for stream in [false, true] {
            ten_rounds(&World::new(), *api, stream, |world, act| act(&world.proxy(SQLITE)));
        }
    }
}

fn two_replicas(apis: &[Api]) {
    for api in apis {
        for stream in [false, true] {
            let (world, database) = (World::new(), Database::new());
            let replicas = [world.proxy(&database.url()), world.proxy(&database.url())];
            let mut turn = 0;
            ten_rounds(&world, *api, stream, |_, act| {
                turn += 1;
                act(&replicas[turn % 2]);
            });
        }
    }
}

#[test]
fn mixed_turns_hold_over_restarts_on_chat() {
    restarting(&CHAT);
}

#[test]
fn mixed_turns_hold_over_restarts_on_responses() {
    restarting(&RESPONSES);
}

#[test]
fn mixed_turns_hold_over_two_replicas_on_chat() {
    two_replicas(&CHAT);
}

#[test]
fn mixed_turns_hold_over_two_replicas_on_responses() {
    two_replicas(&RESPONSES);
}

#[test]
fn mixed_turns_hold_in_one_process_without_a_lasting_ledger() {
    for api in CHAT.iter().chain(&RESPONSES) {
        for stream in [false, true] {
            let world = World::new();
            let proxy = world.proxy("memory:");
            ten_rounds(&world, *api, stream, |_, act| act(&proxy));
        }
    }
}

#[test]
fn mixed_turns_hold_where_the_upstream_speaks_chat_only() {
    for stream in [false, true] {
        let world = World::new();
        let settings =
            world.settings("[ledger]\nurl = \"sqlite:toolmark.db\"\n").replacen("[[mcp]]", "responses = \"translate\"\n[[mcp]]", 1);
        let start = || Proxy::start(&settings, &[("TOOLMARK_KEY", &"00".repeat(32))], world.directory()).unwrap();
        let mut application = Application::new(Api::Items, stream);
        for round in 0..ROUNDS {
            let got = application.ask(&start());
            assert_eq!((got.status, got.calls.len()), (200, 1), "{stream} {round}: {got:?}");
            assert!(!got.codes.contains("history_incomplete"), "{stream} {round}: {got:?}");
        }
        assert_eq!(application.ask(&start()).text, "All done.");
        assert_eq!((world.asked().len(), world.todo.titles().len()), (ROUNDS + 1, ROUNDS));
        world.asked().iter().for_each(|request| legal(&request["messages"]));
    }
}

#[test]
fn rounds_before_a_call_of_the_applications_come_back_with_its_result() {
    for api in CHAT.iter().chain(&RESPONSES) {
        for stream in [false, true] {
            let world = World::new();
            let mut application = Application::new(*api, stream);
            application.items = vec![serde_json::json!({"role": "user", "content": STEP_BY_STEP})];
            let got = application.ask(&world.proxy(SQLITE));
            assert_eq!((got.calls.len(), got.calls[0].0.as_str()), (1, "get_weather"), "{api:?} {stream}: {got:?}");
            let got = application.ask(&world.proxy(SQLITE));
            assert_eq!((got.status, got.text.as_str()), (200, "All done."), "{api:?} {stream}: {got:?}");
            assert!(!got.codes.contains("history_incomplete"), "{api:?} {stream}: {got:?}");
            assert_eq!((world.asked().len(), world.todo.titles().len()), (3, 1));
            match api {
                Api::Chat => {
                    legal(&world.asked()[2]["messages"]);
                    prefixes(&world.asked(), "messages");
                }
                Api::Items | Api::Unstored => prefixes(&world.asked(), "input"),
                Api::Previous | Api::Conversation => {}
            }
        }
    }
}

#[test]
fn what_is_kept_goes_by_age_and_by_size_on_postgres_too() {
    let database = Database::new();
    let store = PostgresStore::open(&database.url()).unwrap();
    store.begin(0).unwrap();
    let row = |number: u8, at_ms: u64| SealedRow { id: [number; 32], at_ms, body: vec![number; 100] };
    store.put_kept(&(0..10).map(|number| row(number, 1000 + u64::from(number))).collect::<Vec<_>>()).unwrap();
    store.put_kept(&[row(3, 2000)]).unwrap();
    let mut found = store.kept(&[[3; 32], [77; 32], [4; 32]]).unwrap();
    found.sort_by_key(|row| row.id);
    assert_eq!(found, [row(3, 2000), row(4, 1004)]);
    assert!(!store.prune_kept(1005, u64::MAX).unwrap());
    let left = || -> Vec<u8> { (0..10).filter(|number| store.kept(&[[*number; 32]]).unwrap().len() == 1).collect() };
    assert_eq!(left(), [3, 5, 6, 7, 8, 9]);
    assert!(!store.prune_kept(0, 600).unwrap());
    assert_eq!(left().len(), 6);
    store.prune_kept(0, 599).unwrap();
    assert!(left().is_empty());
}

/// The messages of the last request, but for instructions: their roles.
fn roles(world: &World) -> Vec<String> {
    let asked = world.asked();
    let messages = asked.last().unwrap()["messages"].as_array().unwrap().clone();
    messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn without_them_the_history_is_legal_and_the_verdict_says_so() {
    for stream in [false, true] {
        let world = World::new();
        let mut application = Application::new(Api::Chat, stream);
        let got = application.ask(&world.proxy("memory:"));
        assert!(!got.codes.contains("history_incomplete"), "{got:?}");
        let got = application.ask(&world.proxy("memory:"));
        assert!(got.status == 200 && got.codes.contains("history_incomplete"), "{got:?}");
        legal(&world.asked()[1]["messages"]);
        assert_eq!(roles(&world), ["user", "assistant", "tool"]);
    }
    let strict = "[checks]\nhistory_incomplete = \"block\"\n";
    let world = World::new();
    std::fs::write(world.directory().join("policy.toml"), strict).unwrap();
    let mut application = Application::new(Api::Chat, false);
    application.ask(&world.proxy("memory:"));
    let settings = world.settings("[ledger]\nurl = \"memory:\"\n");
    let proxy =
        Proxy::start(&format!("policy = \"policy.toml\"\n{settings}"), &[("TOOLMARK_KEY", &"00".repeat(32))], world.directory()).unwrap();
    let got = application.ask(&proxy);
    assert!(got.status == 400 && got.body.contains("history_incomplete"), "{got:?}");
}

#[test]
fn nobody_gets_what_is_anothers() {
    let world = World::new();
    let proxy = world.proxy(SQLITE);
    let mut application = Application::new(Api::Chat, false);
    application.ask(&proxy);
    let got = application.stolen().ask(&proxy);
    let foreign = ["unverified_call", "altered_call"].iter().any(|code| got.codes.contains(code));
    assert!(got.codes.contains("history_incomplete") && foreign, "{got:?}");
    assert_eq!(roles(&world), ["user", "assistant", "tool"]);
    assert!(!application.ask(&proxy).codes.contains("history_incomplete"));
    assert_eq!(roles(&world), ["user", "assistant", "tool", "tool", "tool"]);
}

#[test]
fn what_was_changed_in_the_database_never_reaches_the_model() {
    for change in [
        "UPDATE kept SET body = substr(body, 2)",
        "UPDATE kept SET body = substr(body, 1, length(body) - 1)",
        "UPDATE kept SET body = zeroblob(100)",
        "UPDATE kept SET at_ms = at_ms + 1",
        "CREATE TEMP TABLE old AS SELECT * FROM kept;
         UPDATE kept SET body = (SELECT body FROM old WHERE old.id <> kept.id ORDER BY bytes DESC LIMIT 1)",
        "DELETE FROM kept",
    ] {
        let world = World::new();
        let mut application = Application::new(Api::Chat, false);
        for _ in 0..2 {
            application.ask(&world.proxy(SQLITE));
        }
        let database = rusqlite::Connection::open(world.database()).unwrap();
        let body: Vec<u8> = database.query_row("SELECT body FROM kept ORDER BY bytes DESC", [], |row| row.get(0)).unwrap();
        for readable in ["todo__add_task", "title", "role"] {
            assert!(!String::from_utf8_lossy(&body).contains(readable), "{readable} can be read");
        }
        database.execute_batch(change).unwrap();
        assert!(database.changes() > 1, "{change}");
        drop(database);
        let got = application.ask(&world.proxy(SQLITE));
        assert!(got.codes.contains("history_incomplete"), "{change}: {got:?}");
        assert_eq!(roles(&world), ["user", "assistant", "tool", "assistant", "tool"], "{change}");
        legal(&world.asked().last().unwrap()["messages"]);
    }
}

#[test]
fn a_ledger_that_is_gone_is_said_and_stops_nothing() {
    let (world, database) = (World::new(), Database::new());
    let line = database.line();
    let proxy = world.proxy_with(&format!("[ledger]\nurl = \"{}\"\nlookup = \"200ms\"\n", line.url()));
    let mut application = Application::new(Api::Chat, false);
    assert!(!application.ask(&proxy).codes.contains("ledger_unavailable"));
    line.cut();
    let got = application.ask(&proxy);
    // What this process knows it knows; what is new might not outlive it.
    assert!(got.status == 200 && got.codes.contains("ledger_unavailable") && !got.codes.contains("history_incomplete"), "{got:?}");
    let settings: Value = world.asked().pop().unwrap();
    legal(&settings["messages"]);
    line.mend();
}
