//! Cassettes of this process: the one that is recorded, those that answer in place of upstreams, and faults that are injected.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    cassette::{
        faults::{self, FaultKind},
        player::CassettePlayer,
        recorder::{CaptureSink, CaptureSinks, CassetteRecorder, RecordingHandle},
    },
    marks::{KeyRing, RecordedMarks},
    proxy::error::Error,
    settings::Settings,
    sys::clock::Began,
};

/// Recorder, players and fault rules of a process.
#[derive(Default)]
pub struct Cassettes {
    /// Recorder; `None` if nothing is recorded.
    pub recorder: Option<CassetteRecorder>,
    /// Others that take captured exchanges.
    sinks: CaptureSinks,
    /// Player that answers in place of each upstream, by its index.
    players: Vec<Option<Arc<CassettePlayer>>>,
    faults: Vec<faults::FaultRule>,
    /// Number of upstream requests so far, from which faults are drawn.
    requests: AtomicU64,
}

impl Cassettes {
    /// Opens the cassettes that the settings name. Returns the marks recorded in those that are played.
    ///
    /// # Errors
    /// [`Error`] if a cassette can't be read.
    pub fn open(settings: &Settings) -> Result<(Self, Option<RecordedMarks>), Error> {
        let own = &settings.cassettes;
        let mut marks: Option<RecordedMarks> = None;
        let mut open = |path: &std::path::Path| -> Result<Arc<CassettePlayer>, Error> {
            let (player, found) = CassettePlayer::open(path, own.playing.clone())?;
            for notice in &player.notices {
                tracing::warn!("{notice}");
            }
            let mode = own.playing.mode;
            tracing::warn!(cassette = %path.display(), exchanges = player.len(), ?mode, "REPLAY: a cassette answers in place of the upstream");
            marks.get_or_insert_default().extend(found);
            Ok(Arc::new(player))
        };
        let all = own.replay.as_deref().map(&mut open).transpose()?;
        let mut players = Vec::new();
        for upstream in &settings.upstreams {
            players.push(match (&upstream.cassette, &all) {
                (Some(path), _) if own.replay.as_ref() != Some(path) => Some(open(path)?),
                (_, all) => all.clone(),
            });
        }
        for rule in &own.faults {
            let (kind, probability, seed) = (rule.kind.as_str(), rule.probability, rule.seed);
            tracing::warn!(kind, probability, seed, "FAULTS ARE ON: `{kind}` is put into answers on purpose; never in production");
        }
        Ok((Self { recorder: None, sinks: Arc::default(), players, faults: own.faults.clone(), requests: AtomicU64::new(0) }, marks))
    }

    /// Starts recording, if the settings ask for it.
    ///
    /// # Errors
    /// [`Error`] if the cassette can't be written.
    pub fn record(&mut self, settings: &Settings, ring: Arc<KeyRing>) -> Result<(), Error> {
        if let Some(recording) = &settings.cassettes.record {
            self.recorder = Some(CassetteRecorder::start(recording.clone(), ring)?);
        }
        Ok(())
    }

    /// Sets the sinks of captured exchanges.
    pub fn capture_for(&mut self, sinks: Vec<Arc<dyn CaptureSink>>) {
        self.sinks = sinks.into();
    }

    /// Starts capturing an exchange, if anything takes it. Waits while the recorder's queue is full.
    pub async fn capture(&self, uri: &http::Uri, headers: &http::HeaderMap, body: &bytes::Bytes, began: Began) -> Option<RecordingHandle> {
        let sinks = || self.sinks.clone();
        let url = || match (uri.scheme(), uri.path_and_query()) {
            (None, Some(own)) if uri.authority().is_none() => own.as_str().to_owned(),
            _ => uri.to_string(),
        };
        match &self.recorder {
            Some(recorder) => {
                let handle = recorder.begin("POST", url(), headers.clone(), body.clone(), began).await;
                handle.map(|handle| handle.with_sinks(sinks()))
            }
            None if self.sinks.is_empty() => None,
            None => Some(RecordingHandle::for_sinks("POST", url(), headers.clone(), body.clone(), began, sinks())),
        }
    }

    /// Player that answers in place of this upstream, if any.
    pub fn player(&self, upstream: usize) -> Option<&Arc<CassettePlayer>> {
        self.players.get(upstream)?.as_ref()
    }

    /// Fault to inject into the next upstream request of an exchange with this many repairs so far, if any.
    pub fn fault(&self, repairs: u32) -> Option<FaultKind> {
        if self.faults.is_empty() {
            return None;
        }
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        faults::pick(&self.faults, request, repairs)
    }
}
