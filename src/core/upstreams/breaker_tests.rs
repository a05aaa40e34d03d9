//! The breaker with simulated time.

use super::*;

/// Sends one request at `now_ms` to an upstream that is `up` or not; what came of it, `None` where none was sent.
fn send(breaker: &mut Breaker, now_ms: u64, up: bool) -> Option<bool> {
    let role = match breaker.admit(now_ms) {
        Admission::Refuse(wait) => {
            assert!((1..=PAUSE_MS_MAX).contains(&wait));
            return None;
        }
        Admission::Pass => RequestRole::Regular,
        Admission::Trial => RequestRole::Trial,
    };
    breaker.report(role, if up { RequestOutcome::Answered } else { RequestOutcome::Failed }, now_ms);
    Some(up)
}

#[test]
fn it_opens_tries_and_closes() {
    let mut breaker = Breaker::default();
    for number in 0..FAILURES_MIN {
        assert_eq!((breaker.condition(10), send(&mut breaker, 10, false)), (BreakerState::Closed, Some(false)), "{number}");
    }
    assert_eq!((breaker.condition(10), breaker.admit(10)), (BreakerState::Open, Admission::Refuse(PAUSE_MS_MIN)));
    let back = 10 + PAUSE_MS_MIN;
    assert_eq!(breaker.admit(back), Admission::Trial);
    assert!(matches!(breaker.admit(back), Admission::Refuse(_)), "one trial at a time");
    // What was sent before it opened comes back now, and counts for nothing.
    assert!(!breaker.report(RequestRole::Regular, RequestOutcome::Answered, back) && breaker.condition(back) == BreakerState::HalfOpen);
    assert!(!breaker.report(RequestRole::Trial, RequestOutcome::Answered, back));
    for number in 1..TRIALS {
        assert_eq!((breaker.condition(back), send(&mut breaker, back, true)), (BreakerState::HalfOpen, Some(true)), "{number}");
    }
    assert_eq!(breaker.condition(back), BreakerState::Closed);
    assert!(breaker.is_untroubled());
}

#[test]
fn a_failed_trial_doubles_the_pause_up_to_a_bound() {
    let mut breaker = Breaker::default();
    (0..FAILURES_MIN).for_each(|_| assert!(send(&mut breaker, 0, false).is_some()));
    let (mut now, mut pause) = (0, PAUSE_MS_MIN);
    for _ in 0..12 {
        assert_eq!(breaker.admit(now + pause - 1), Admission::Refuse(1));
        now += pause;
        assert_eq!(send(&mut breaker, now, false), Some(false));
        pause = (pause * 2).min(PAUSE_MS_MAX);
    }
    assert_eq!(pause, PAUSE_MS_MAX);
}

#[test]
fn trials_that_nobody_waits_for_block_nobody() {
    let mut breaker = Breaker::default();
    (0..FAILURES_MIN).for_each(|_| assert!(send(&mut breaker, 0, false).is_some()));
    assert_eq!(breaker.admit(PAUSE_MS_MIN), Admission::Trial);
    breaker.report(RequestRole::Trial, RequestOutcome::Abandoned, PAUSE_MS_MIN);
    assert_eq!(breaker.admit(PAUSE_MS_MIN), Admission::Trial);
    // One that is never reported at all.
    assert_eq!(breaker.admit(PAUSE_MS_MIN + TRIAL_MS_MAX), Admission::Trial);
}

#[test]
fn few_failures_among_many_answers_open_nothing() {
    let mut breaker = Breaker::default();
    for number in 0..1_000 {
        // One in eight fails.
        assert!(send(&mut breaker, number * 40, number % 8 != 7).is_some(), "{number}");
    }
    assert!(!breaker.is_untroubled());
    // Old failures are forgotten.
    for number in 0..FAILURES_MIN - 1 {
        assert_eq!(send(&mut breaker, 1_000_000 + u64::from(number) * WINDOW_MS, false), Some(false));
    }
    assert_eq!(breaker.condition(2_000_000), BreakerState::Closed);
}

/// Ten requests a second for ten minutes; the upstream is up for `up_ms`, down for `down_ms`, and again. Where it is not
/// asked, or fails, another answers. How often what answers changes, and how many failures anyone waited for.
fn flap(up_ms: u64, down_ms: u64) -> (u32, u32) {
    let (mut breaker, mut before, mut changes, mut waited) = (Breaker::default(), true, 0, 0);
    for now in (0..600_000).step_by(100) {
        let sent = send(&mut breaker, now, now % (up_ms + down_ms) < up_ms);
        waited += u32::from(sent == Some(false));
        let own = sent == Some(true);
        changes += u32::from(own != before);
        before = own;
    }
    (changes, waited)
}

#[test]
fn a_flapping_upstream_flaps_no_answers() {
    for (up_ms, down_ms) in [(100, 100), (200, 200), (500, 500), (1_000, 1_000), (1_000, 300), (2_000, 1_000), (5_000, 5_000)] {
        let (changes, waited) = flap(up_ms, down_ms);
        let without = 2 * 600_000 / (up_ms + down_ms);
        assert!(changes <= 60 && u64::from(changes) * 4 <= without.max(240), "{up_ms} up, {down_ms} down: {changes} changes of {without}");
        assert!(waited <= 80, "{up_ms} up, {down_ms} down: {waited} failures waited for, of 6000 requests");
    }
}

#[test]
fn what_another_replica_found_opens_it_unless_its_own_trials_say_otherwise() {
    let mut breaker = Breaker::default();
    assert!(breaker.open_as_heard(PAUSE_MS_MIN, 10) && !breaker.open_as_heard(PAUSE_MS_MAX, 11), "it is open already");
    assert_eq!((breaker.condition(10), breaker.open_ms(10), breaker.is_untroubled()), (BreakerState::Open, PAUSE_MS_MIN, false));
    let mut now = 10 + PAUSE_MS_MIN;
    assert!(!breaker.open_as_heard(PAUSE_MS_MAX, now), "its own trials are due");
    (0..TRIALS).for_each(|_| assert_eq!(send(&mut breaker, now, true), Some(true)));
    // It works from here, whatever others find.
    assert!(!breaker.open_as_heard(PAUSE_MS_MAX, now) && !breaker.open_as_heard(PAUSE_MS_MAX, now + CALM_MS - 1));
    now += CALM_MS;
    assert!(breaker.open_as_heard(u64::MAX, now));
    assert_eq!(breaker.open_ms(now), PAUSE_MS_MAX, "for no longer than it would itself");
    // A first failure of its own is none of its relapses.
    now += PAUSE_MS_MAX;
    assert_eq!(send(&mut breaker, now, false), Some(false));
    assert_eq!(breaker.open_ms(now), PAUSE_MS_MIN);
}
