// SPDX-License-Identifier: Apache-2.0
// The site of lab/harness/http/site.hpp, by hyper on one thread of Tokio: server PORT FILE; with a
// third word, `http2`, by HTTP/2 in clear text, where /upload only reads what it gets.
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{HeaderValue, CONTENT_TYPE};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::task::{spawn_local, LocalSet};

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<Either<Full<Bytes>, FileBody>>;

const PIECE_BYTES: u64 = 64 * 1024;

/// A body that is read from a file in pieces, on the thread of the server, as the file is in
/// memory. hyper has no sendfile(2).
struct FileBody {
    file: File,
    position: u64,
    end: u64,
}

impl FileBody {
    fn open(path: &str) -> io::Result<Self> {
        let file = File::open(path)?;
        let end = file.metadata()?.len();
        Ok(Self {
            file,
            position: 0,
            end,
        })
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let size = PIECE_BYTES.min(self.end - self.position);
        if size == 0 {
            return Poll::Ready(None);
        }
        let mut piece = vec![0; size as usize];
        if let Err(error) = self.file.read_exact_at(&mut piece, self.position) {
            return Poll::Ready(Some(Err(error)));
        }
        self.position += size;
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.position == self.end
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.end - self.position)
    }
}

/// The text of lab::http::make_json(), made in the same way.
fn make_json() -> String {
    let id = 4711;
    let mut text = String::with_capacity(96);
    text.push_str("{\"id\":");
    let _ = write!(text, "{id}");
    text.push_str(",\"name\":\"gyre\",\"tags\":[");
    for tag in ["epoll", "io_uring", "http"] {
        if !text.ends_with('[') {
            text.push(',');
        }
        text.push('"');
        text.push_str(tag);
        text.push('"');
    }
    text.push_str("],\"ready\":true}");
    text
}

fn answer(content_type: &'static str, body: Either<Full<Bytes>, FileBody>) -> Answer {
    let mut answer = Response::new(body);
    let content_type = HeaderValue::from_static(content_type);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

async fn respond(request: Request<Incoming>, file_path: Rc<str>) -> Result<Answer, Failure> {
    if request.uri().path() == "/upload" {
        let mut body = request.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        return Ok(answer("text/plain", Either::Left("Hello, World!".into())));
    }
    if request.method() == Method::POST {
        let body = request.into_body().collect().await?.to_bytes();
        return Ok(answer(
            "application/octet-stream",
            Either::Left(body.into()),
        ));
    }
    Ok(match request.uri().path() {
        "/json" => answer("application/json", Either::Left(make_json().into())),
        "/file" => answer(
            "application/octet-stream",
            Either::Right(FileBody::open(&file_path)?),
        ),
        _ => answer("text/plain", Either::Left("Hello, World!".into())),
    })
}

async fn serve(stream: TcpStream, file_path: Rc<str>) {
    let service = service_fn(move |request| respond(request, file_path.clone()));
    // An error is about one connection, which ends with it.
    let _ = http1::Builder::new()
        .pipeline_flush(true)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Runs the tasks of HTTP/2 on the thread of the server.
#[derive(Clone)]
struct LocalExecutor;

impl<F> hyper::rt::Executor<F> for LocalExecutor
where
    F: std::future::Future + 'static,
{
    fn execute(&self, task: F) {
        spawn_local(task);
    }
}

async fn serve_http2(stream: TcpStream, file_path: Rc<str>) {
    let service = service_fn(move |request| respond(request, file_path.clone()));
    // An error is about one connection, which ends with it.
    let _ = http2::Builder::new(LocalExecutor)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn accept(port: u16, file_path: Rc<str>, speaks_http2: bool) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        if speaks_http2 {
            spawn_local(serve_http2(stream, file_path.clone()));
        } else {
            spawn_local(serve(stream, file_path.clone()));
        }
    }
}

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let (Some(port), Some(file_path)) = (words.next(), words.next()) else {
        return Err("arguments: PORT FILE [http2]".into());
    };
    let speaks_http2 = words.next().as_deref() == Some("http2");
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    LocalSet::new().block_on(&runtime, accept(port.parse()?, file_path.into(), speaks_http2))?;
    Ok(())
}
