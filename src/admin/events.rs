//! `GET /api/events`: the live feed, as server-sent events. A slow reader delays nothing else.

use std::{sync::Arc, time::Duration};

use bytes::BytesMut;
use http::{HeaderValue, Response, StatusCode, header};

use super::{AdminState, query::Parameters};
use crate::{
    proxy::http::{
        body::{Body, Outlet},
        failure::Failure,
    },
    telemetry::events::{LiveEvent, READERS_MAX, Subscription},
};

/// Interval of keep-alive comments.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Starts a feed.
pub fn events(state: &Arc<AdminState>, query: &str) -> Result<Response<Body>, Failure> {
    Parameters::read(query, &[])?;
    let reader = state.app.observed.events.read().ok_or_else(|| {
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
                Some(event) => write(&mut out, &event),
                None => return,
            },
            () = tokio::time::sleep(KEEP_ALIVE) => out.extend_from_slice(b": keep-alive\n\n"),
            () = state.stop.cancelled() => return,
        }
        outlet.write(&mut out);
        outlet.room().await;
    }
}

fn write(out: &mut BytesMut, event: &LiveEvent) {
    for part in ["event: ", event.kind, "\ndata: ", &event.data, "\n\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}
