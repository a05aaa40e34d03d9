//! What this replica tells the others of upstreams. What it hears of them: [`super::heard`].

use std::time::Duration;

use crate::{
    counters::news::{Finding, brief},
    proxy::app::App,
    upstreams::{breaker::BreakerState, capability_probe::ToolCalling},
};

/// Tells the replicas that an upstream's breaker opened.
pub fn tell_opened(app: &App, upstream: usize, condition: BreakerState) {
    let (Some(news), BreakerState::Open) = (&app.news, condition) else { return };
    if let (Some(settings), Some(standing)) = (app.settings.upstreams.get(upstream), app.standings.get(upstream)) {
        let pause_ms = standing.gauge.open_ms(app.uptime_ms());
        news.tell(&Finding::BreakerOpened { upstream: brief(&settings.name), pause_ms, failure: standing.gauge.trouble() });
    }
}

/// Tells the replicas that an upstream asked for a pause.
pub fn tell_paused(app: &App, upstream: usize, pause: Duration) {
    let (Some(news), Some(settings)) = (&app.news, app.settings.upstreams.get(upstream)) else { return };
    news.tell(&Finding::Paused { upstream: brief(&settings.name), pause_ms: pause.as_millis() as u64 });
}

/// Tells the replicas whether a model calls functions.
pub fn tell_calls(app: &App, upstream: usize, model: &str, calls: ToolCalling, reason: &str) {
    let (Some(news), Some(settings)) = (&app.news, app.settings.upstreams.get(upstream)) else { return };
    news.tell(&Finding::Calls { upstream: brief(&settings.name), model: brief(model), calls, reason: brief(reason) });
}

/// Tells the replicas that a model refuses a parameter.
pub fn tell_refused(app: &App, upstream: usize, model: &str, parameter: &str) {
    let (Some(news), Some(settings)) = (&app.news, app.settings.upstreams.get(upstream)) else { return };
    news.tell(&Finding::Refuses { upstream: brief(&settings.name), model: brief(model), parameter: brief(parameter) });
}
