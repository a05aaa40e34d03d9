//! Every target over `fuzz/cases`, in `cargo test`: what was found stays mended, and what the targets hold is held on each change.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{TARGETS, input::Cuts, run, words};

/// How long each target tries changed cases, in seconds; `.ci/run` says more by this variable.
const SECONDS: (&str, f64) = ("FUZZ_SECONDS", 0.3);

/// The committed cases of a target, and its corpus where `TOOLMARK_FUZZ_CORPUS` is set; none where the crate was published
/// without them.
fn cases(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let of = |kind: &str| std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(kind).join(target));
    let corpus = std::env::var_os("TOOLMARK_FUZZ_CORPUS").map(|_| of("corpus"));
    let mut cases: Vec<_> = [Some(of("cases")), corpus]
        .into_iter()
        .flatten()
        .flatten()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    cases.sort();
    cases
}

/// Runs a target, and names the input where it fails.
fn held(target: &str, shown: &str, input: &[u8]) {
    if let Err(panic) = std::panic::catch_unwind(|| run(target, input)) {
        eprintln!("{target}: {shown}: b\"{}\"", input.escape_ascii());
        std::panic::resume_unwind(panic);
    }
}

fn all_of(target: &str) {
    let cases = cases(target);
    for (path, case) in &cases {
        held(target, &path.display().to_string(), case);
    }
    let seconds = std::env::var(SECONDS.0).map_or(SECONDS.1, |said| said.parse().unwrap());
    let start: u64 = std::env::var("TOOLMARK_FUZZ_SEED").map_or(1, |said| said.parse().unwrap());
    let (until, mut cuts) = (Instant::now() + Duration::from_secs_f64(seconds), Cuts(0x9e37_79b9 ^ start << 32));
    let mut count = 0;
    while !cases.is_empty() && Instant::now() < until {
        count += 1;
        let (path, case) = &cases[cuts.next() as usize % cases.len()];
        held(target, &format!("{}, changed", path.display()), &changed(case, &cases, &mut cuts));
    }
    println!("{target}: {} cases, {count} changed ones", cases.len());
}

/// A case with a few bytes left out, said twice, overwritten, or taken from another case.
fn changed(case: &[u8], cases: &[(PathBuf, Vec<u8>)], cuts: &mut Cuts) -> Vec<u8> {
    let mut changed = case.to_vec();
    for _ in 0..1 + cuts.next() % 3 {
        let at = cuts.next() as usize % (changed.len() + 1);
        let end = (at + cuts.next() as usize % 24).min(changed.len());
        let with = match cuts.next() % 4 {
            0 => Vec::new(),
            1 => changed[at..end].repeat(2),
            2 => vec![b"\0\"{}[]:,\\\n 0azT\xc3"[cuts.next() as usize % 16]],
            _ => {
                let other = &cases[cuts.next() as usize % cases.len()].1;
                let from = cuts.next() as usize % (other.len() + 1);
                other[from..(from + 40).min(other.len())].to_vec()
            }
        };
        changed.splice(at..end, with);
    }
    changed
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test] fn $name() { all_of(stringify!($name)); })*

        #[test]
        fn all_targets_are_run() {
            let listed: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(listed, [$(stringify!($name)),*]);
            let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
            let script = std::fs::read_to_string(fuzz.join("run")).unwrap_or_else(|_| listed.join(" "));
            for name in listed {
                assert!(script.split_whitespace().any(|word| word.trim_matches(['(', ')']).ends_with(name)), "fuzz/run doesn't know {name}");
                assert!(!fuzz.is_dir() || !cases(name).is_empty(), "{name} has no case in fuzz/cases");
            }
        }
    };
}

targets! {
    sse json request chat_stream responses_stream messages_stream translated_stream chat_whole responses_whole messages_whole chat_forms responses_forms
    messages_forms apis
    corrections text schema import cassette settings policy
}

/// The dictionary has the ids that only the targets' keys make.
#[test]
fn the_dictionary_has_the_ids() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/toolmark.dict");
    let Ok(dictionary) = std::fs::read_to_string(path) else { return };
    let entries: BTreeMap<&str, ()> = dictionary.lines().map(|line| (line, ())).collect();
    for word in words() {
        assert!(entries.contains_key(&*format!("{:?}", word)), "fuzz/toolmark.dict lacks {word:?}");
    }
}
