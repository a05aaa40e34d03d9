//! The demo's checks can fail: where toolmark is away or only watches, no scene passes.

use super::*;

fn outcomes(stage: &DemoSetup, base_url: &str) -> Vec<(String, SceneOutcome)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = DemoClient::new(base_url).unwrap();
    let modes = [AnswerForm::Whole, AnswerForm::Streamed];
    let play = |scene: &DemoScene, mode| {
        (format!("{}, {}", scene.name, AnswerForm::as_str(mode)), runtime.block_on(stage.play(&client, scene, mode)))
    };
    SCENES.iter().flat_map(|scene| modes.map(|mode| play(scene, mode))).collect()
}

#[test]
fn without_toolmark_every_scene_fails() {
    let stage = DemoSetup::build("default").unwrap();
    for (name, outcome) in outcomes(&stage, &stage.upstream.base_url()) {
        assert!(outcome.failed.len() > 1, "{name}: {:?}", outcome.failed);
    }
}

#[test]
fn where_toolmark_only_watches_every_scene_fails() {
    let stage = DemoSetup::build("observe").unwrap();
    for (name, outcome) in outcomes(&stage, &stage.proxy.base_url()) {
        assert!(!outcome.failed.is_empty(), "{name}");
    }
}

#[test]
fn the_to_do_scenes_fail_without_toolmark_and_not_with_it() {
    let stage = todo::TodoSetup::build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (base_url, caught) in [(stage.upstream.base_url(), false), (stage.proxy.base_url(), true)] {
        let client = DemoClient::new(&base_url).unwrap();
        for (scene, mode) in stage.scenes().iter().flat_map(|scene| [(scene, AnswerForm::Whole), (scene, AnswerForm::Streamed)]) {
            let outcome = runtime.block_on(stage.play(&client, scene, mode));
            assert_eq!(outcome.failed.is_empty(), caught, "{}, {}: {:?}", scene.name, mode.as_str(), outcome.failed);
        }
    }
}

#[test]
fn with_toolmark_none_does() {
    let stage = DemoSetup::build("default").unwrap();
    for (name, outcome) in outcomes(&stage, &stage.proxy.base_url()) {
        assert_eq!(outcome.failed, Vec::<String>::new(), "{name}");
    }
}
