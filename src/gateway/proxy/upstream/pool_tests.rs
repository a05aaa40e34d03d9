//! Connections that close, break, are shared and are used again.

use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::service::service_fn;
use hyper_util::{rt::TokioIo, server::conn::auto};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::*;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn client(address: std::net::SocketAddr) -> UpstreamPool {
    let base = format!("http://{address}/v1").parse().unwrap();
    UpstreamPool::new(&base, Duration::from_secs(5), &crate::sys::tls::client_config(crate::sys::tls::TrustedRoots::None).unwrap()).unwrap()
}

/// An upstream that listens, and a client of it.
async fn listening() -> (TcpListener, UpstreamPool) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(listener.local_addr().unwrap());
    (listener, client)
}

async fn ask(client: &UpstreamPool) -> Result<Answer, SendError> {
    client.send(Method::POST, "/v1/x".parse().unwrap(), HeaderMap::new(), Bytes::from("{}").into()).await
}

async fn read(mut answer: Answer) -> Vec<u8> {
    let mut read = Vec::new();
    while let Some(chunk) = answer.body_mut().chunk().await.unwrap() {
        read.extend_from_slice(&chunk);
    }
    read
}

/// Reads one request; false where the client closed instead.
async fn request(stream: &mut TcpStream) -> bool {
    let mut read = Vec::new();
    while !read.ends_with(b"{}") {
        match stream.read_buf(&mut read).await {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
    }
    true
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let (listener, client) = listening().await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            assert!(request(&mut stream).await, "all come on one connection");
            stream.write_all(ANSWER).await.unwrap();
        }
    };
    let asking = async {
        for _ in 0..3 {
            assert_eq!(read(ask(&client).await.unwrap()).await, b"ok");
        }
    };
    tokio::join!(serve, asking);
}

#[tokio::test]
async fn one_that_the_upstream_closed_is_replaced() {
    let (listener, client) = listening().await;
    let serve = async {
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(request(&mut stream).await);
            // Closed without a word: the client believes that it stays open.
            stream.write_all(ANSWER).await.unwrap();
        }
    };
    let asking = async {
        for _ in 0..3 {
            assert_eq!(read(ask(&client).await.unwrap()).await, b"ok");
        }
    };
    tokio::join!(serve, asking);
}

#[tokio::test]
async fn nothing_is_sent_twice() {
    let (listener, client) = listening().await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(request(&mut stream).await);
        stream.write_all(ANSWER).await.unwrap();
        // It takes the next request, and breaks off: whether it acted upon it nobody knows.
        assert!(request(&mut stream).await);
        drop(stream);
    };
    let asking = async {
        assert_eq!(read(ask(&client).await.unwrap()).await, b"ok");
        assert!(matches!(ask(&client).await, Err(SendError::Broken(_))));
    };
    tokio::join!(serve, asking);
    // Nobody knocked again.
    assert!(tokio::time::timeout(Duration::from_millis(1), listener.accept()).await.is_err());
}

#[tokio::test]
async fn one_that_rests_is_seen_to_close() {
    let (listener, client) = listening().await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(request(&mut stream).await);
        stream.write_all(ANSWER).await.unwrap();
        stream
    };
    let asking = async { assert_eq!(read(ask(&client).await.unwrap()).await, b"ok") };
    let (stream, ()) = tokio::join!(serve, asking);
    client.sweep();
    assert_eq!(client.open().idle.len(), 1);
    drop(stream);
    let gone = async {
        while !client.open().idle.is_empty() {
            client.sweep();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
}

#[tokio::test]
async fn a_long_answer_comes_whole_and_leaves_time_for_others() {
    const PIECE: usize = 10_000;
    const PIECES: usize = 2_000;
    let (listener, client) = listening().await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(request(&mut stream).await);
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        let piece = format!("{PIECE:x}\r\n{}\r\n", "x".repeat(PIECE));
        for _ in 0..PIECES {
            stream.write_all(piece.as_bytes()).await.unwrap();
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        assert!(request(&mut stream).await, "the connection is used again");
        stream.write_all(ANSWER).await.unwrap();
    };
    let asking = async {
        assert_eq!(read(ask(&client).await.unwrap()).await.len(), PIECE * PIECES);
        assert_eq!(read(ask(&client).await.unwrap()).await, b"ok");
    };
    // On one thread: they take turns, or nothing ends.
    tokio::join!(serve, asking);
}

#[tokio::test]
async fn a_long_request_goes_on_while_nobody_asks_for_the_answer() {
    const BYTES: usize = 8 << 20;
    let (listener, client) = listening().await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        // It answers before it has read what it was asked.
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n").await.unwrap();
        let (mut read, mut last) = (0, Vec::new());
        while !last.ends_with(b"end") {
            last.clear();
            assert_ne!(stream.read_buf(&mut last).await.unwrap(), 0);
            read += last.len();
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        read
    };
    let asking = async {
        let body = Bytes::from([vec![b'x'; BYTES], b"end".to_vec()].concat());
        let mut answer = client.send(Method::POST, "/v1/x".parse().unwrap(), HeaderMap::new(), body.into()).await.unwrap();
        assert_eq!(answer.body_mut().chunk().await.unwrap().unwrap(), "ok");
        answer
    };
    let both = async { tokio::join!(serve, asking) };
    let (read, mut answer) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("the upload goes on");
    assert!(read > BYTES);
    assert!(answer.body_mut().chunk().await.unwrap().is_none());
}

#[tokio::test]
async fn pieces_that_came_together_need_no_waking() {
    let (listener, client) = listening().await;
    let (mut answer, mut stream) = {
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(request(&mut stream).await);
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n";
            stream.write_all(head).await.unwrap();
            stream
        };
        let (answer, stream) = tokio::join!(ask(&client), serve);
        (answer.unwrap(), stream)
    };
    let mut pieces = Vec::new();
    while pieces.len() < 3 {
        let polled = std::future::poll_fn(|cx| Poll::Ready(std::pin::pin!(answer.body_mut().chunk()).poll(cx))).await;
        match polled {
            Poll::Ready(piece) => pieces.push(piece.unwrap().unwrap()),
            Poll::Pending => {
                assert!(pieces.is_empty(), "what came with {pieces:?} is there at once");
                tokio::task::yield_now().await;
            }
        }
    }
    assert_eq!(pieces.concat(), b"abc");
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    assert!(answer.body_mut().chunk().await.unwrap().is_none());
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_given_up() {
    let (listener, client) = listening().await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(request(&mut stream).await);
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n").await.unwrap();
        assert!(!request(&mut stream).await, "the client closes");
    };
    let asking = async { assert_eq!(ask(&client).await.unwrap().into_body().chunk().await.unwrap().unwrap(), "ok") };
    tokio::join!(serve, asking);
    client.sweep();
    assert!(client.kept().is_none());
}

#[tokio::test]
async fn nobody_there() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert!(matches!(ask(&client(address)).await, Err(SendError::Connect(_))));
}

#[test]
fn a_connection_that_takes_too_long_is_told_apart() {
    #[derive(Debug, thiserror::Error)]
    #[error("tcp connect error")]
    struct Wrapped(#[source] std::io::Error);
    let wrapped = |kind: std::io::ErrorKind| SendError::connect(Box::new(Wrapped(kind.into())));
    assert!(matches!(wrapped(std::io::ErrorKind::TimedOut), SendError::ConnectTimeout));
    assert!(matches!(wrapped(std::io::ErrorKind::ConnectionRefused), SendError::Connect(_)));
    assert!(matches!(SendError::connect("refused".into()), SendError::Connect(_)));
}

#[tokio::test]
async fn http2_is_shared() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    server.alpn_protocols = vec![b"h2".to_vec()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = tls.with_root_certificates(roots).with_no_client_auth();
    let client = UpstreamPool::new(&format!("https://localhost:{port}/v1").parse().unwrap(), Duration::from_secs(5), &tls).unwrap();

    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let answer = |request: Request<Incoming>| async move {
                let said = format!("{:?} {}", request.version(), request.uri());
                Ok::<_, std::convert::Infallible>(Response::new(http_body_util::Full::new(Bytes::from(said))))
            };
            tokio::spawn(async move {
                auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service_fn(answer)).await.unwrap();
            });
        }
    });
    let expected = format!("HTTP/2.0 https://localhost:{port}/v1/x");
    assert_eq!(read(ask(&client).await.unwrap()).await, expected.as_bytes());
    let (one, other) = tokio::join!(ask(&client), ask(&client));
    assert_eq!((read(one.unwrap()).await, read(other.unwrap()).await), (expected.clone().into_bytes(), expected.into_bytes()));
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}
