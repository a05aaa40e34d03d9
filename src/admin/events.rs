//! `GET /api/events`: the live feed, as server-sent events. A slow reader delays nothing else.

use std::{sync::Arc, time::Duration};

use bytes::BytesMut;
use http::{HeaderValue, Response, StatusCode, header};

use super::{AdminState, query::Parameters, responses::invalid};
use crate::{
    proxy::http::{
        body::{Body, Outlet},
        failure::Failure,
    },
    telemetry::events::{EventKinds, LiveEvent, READERS_MAX, Subscription},
};

/// Pause after a write: what happens meanwhile is written together, since each write costs more than the events in it.
const PACE: Duration = Duration::from_millis(400);
/// Interval of keep-alive comments.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Starts a feed.
pub fn events(state: &Arc<AdminState>, query: &str) -> Result<Response<Body>, Failure> {
    let parameters = Parameters::read(query, &["kinds"])?;
    let kinds = match parameters.text("kinds").as_deref() {
        None | Some("all") => EventKinds::All,
        Some("exchange") => EventKinds::Exchanges,
        Some(other) => return Err(invalid("kinds", format!("`{other}` is no choice of events: `all` or `exchange`"))),
    };
    let reader = state.app.observed.events.read(kinds).ok_or_else(|| {
        let message = format!("{READERS_MAX} readers follow the events already: close one");
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
    })?;
    let outlet = Outlet::default();
    let mut response = Response::new(Body::running(outlet.clone(), follow(reader, outlet, state.clone())));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // nginx would hold events back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

async fn follow(mut reader: Subscription, outlet: Outlet, state: Arc<AdminState>) {
    let mut out = BytesMut::from(&b": toolmark events\n\n"[..]);
    outlet.write(&mut out);
    loop {
        tokio::select! {
            event = reader.next() => match event {
                Some(event) => {
                    write(&mut out, &event);
                    while let Some(event) = reader.next_now() {
                        write(&mut out, &event);
                    }
                }
                None => return,
            },
            () = tokio::time::sleep(KEEP_ALIVE) => out.extend_from_slice(b": keep-alive\n\n"),
            () = state.stop.cancelled() => return,
        }
        outlet.write(&mut out);
        outlet.room().await;
        tokio::select! {
            () = tokio::time::sleep(PACE) => {}
            () = state.stop.cancelled() => return,
        }
    }
}

fn write(out: &mut BytesMut, event: &LiveEvent) {
    for part in ["event: ", event.kind, "\ndata: ", &event.data.json(), "\n\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}
