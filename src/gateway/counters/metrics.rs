//! Health and metrics of the shared counters: for `/readyz` and the metrics endpoint.

use std::sync::Arc;

use super::{SharedCounters, news::News};
use crate::telemetry::{Telemetry, metrics::sources::MetricFamily, readiness::PartState};

/// Registers the counters, and the channel beside them, for health and metrics.
pub fn register(counters: &Arc<SharedCounters>, news: Option<&Arc<News>>, observed: &Telemetry) {
    let (own, channel) = (counters.clone(), news.cloned());
    observed.readiness.register("counters", move || match (own.status().away(), channel.as_ref().and_then(|news| news.status().away())) {
        (Some(why), _) => PartState::Degraded(format!("each replica counts for itself: {why}")),
        (None, Some(why)) => PartState::Degraded(format!("replicas don't hear what others find: {why}")),
        (None, None) => PartState::Ready,
    });
    let (own, channel) = (counters.clone(), news.cloned());
    observed.samples.register(move || {
        let [asked, local, lapses] = own.status().figures();
        let is_up = |away: Option<String>| if away.is_none() { 1.0 } else { 0.0 };
        let mut all = vec![
            MetricFamily::gauge("toolmark_counters_up", "Do the shared counters answer", is_up(own.status().away())),
            MetricFamily::counter("toolmark_counters_asked", "Questions to the shared counters", asked),
            MetricFamily::counter("toolmark_counters_local", "Questions that this process's own counts decided alone", local),
            MetricFamily::counter("toolmark_counters_lapses", "How often the shared counters were away", lapses),
        ];
        if let Some(news) = &channel {
            let [beats, heard, refused] = news.figures();
            all.push(MetricFamily::counter("toolmark_news_beats", "Own messages that came back over the channel", beats));
            all.push(MetricFamily::gauge("toolmark_news_up", "Does the channel between replicas work", is_up(news.status().away())));
            all.push(MetricFamily::counter("toolmark_news_heard", "What other replicas found", heard));
            all.push(MetricFamily::counter("toolmark_news_refused", "Messages on the channel that weren't taken", refused));
        }
        all
    });
}
