//! The benchmark of claims, both halves, against the thresholds that are promised; no times.

#[path = "../../benches/claims/cases.rs"]
mod cases;
#[path = "../../benches/claims/score.rs"]
mod score;
#[path = "../../benches/claims/world.rs"]
mod world;

/// Of the cases of each half every so manieth is judged, so that it takes no time to speak of.
const EVERY: usize = 3;

#[test]
fn what_is_promised_of_claims() {
    let world = world::World::new();
    let all = cases::cases(&world);
    assert!(all.len() >= 1200, "{} cases", all.len());
    for held_out in [false, true] {
        let half: Vec<&cases::Case> = all.iter().filter(|case| case.held_out == held_out).step_by(EVERY).collect();
        let tally = score::tally(&world, &half);
        assert!(tally.torn.is_empty(), "in pieces it comes out otherwise: {:?}", tally.torn);
        let recall =
            |category: &str| tally.categories.get(category).map_or(0.0, |count| count.found as f64 / count.fabricated.max(1) as f64);
        assert!(recall("reference") == 1.0, "forged ids: {}", recall("reference"));
        for category in ["count", "absence", "url"] {
            assert!(recall(category) >= 0.95, "{category}: {} of the held-out half: {held_out}", recall(category));
        }
        let sum = tally.all();
        assert!(sum.alarms * 100 < sum.honest, "{} of {} honest answers: held out: {held_out}", sum.alarms, sum.honest);
    }
}
