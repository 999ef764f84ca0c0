//! A Kubernetes API server that answers the requests which the daemon makes, and records them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::objects::Objects;

/// A request as it was made.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// Its method and path, such as `GET /api/v1/namespaces/default/pods?labelSelector=…`.
    pub line: String,
    pub body: Value,
}

/// The fate of a request that is not carried out and answered as usual.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It is answered with this code, reason and message.
    Answer(u16, &'static str, &'static str),
    /// The connection is lost before it is carried out.
    Lost,
    /// The connection is lost when it has been carried out.
    LostAnswer,
}

/// The requests whose line contains `of`, in the order in which they are made.
#[derive(Debug)]
struct Planned {
    of: &'static str,
    fault: Fault,
    times: usize,
}

#[derive(Default)]
struct State {
    objects: Objects,
    requests: Vec<Recorded>,
    planned: Vec<Planned>,
}

/// A handle to the server.
#[derive(Clone)]
pub(crate) struct Api {
    state: Arc<Mutex<State>>,
    pub address: SocketAddr,
}

impl Api {
    pub(crate) async fn start() -> Api {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let api = Api { state: Arc::default(), address };
        tokio::spawn(api.clone().serve(listener));
        api
    }

    async fn serve(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let api = self.clone();
            let service = service_fn(move |request| api.clone().answer(request));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    }

    /// Lets the next `times` requests whose line contains `of` fail.
    pub(crate) fn plan(&self, of: &'static str, fault: Fault, times: usize) {
        self.state().planned.push(Planned { of, fault, times });
    }

    /// Whether all planned faults have happened.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().planned.is_empty()
    }

    /// The requests so far whose line contains `of`.
    pub(crate) fn requests(&self, of: &str) -> Vec<Recorded> {
        let state = self.state();
        state.requests.iter().filter(|request| request.line.contains(of)).cloned().collect()
    }

    /// Reads or changes the objects as the cluster's controllers do.
    pub(crate) fn objects<T>(&self, act: impl FnOnce(&mut Objects) -> T) -> T {
        act(&mut self.state().objects)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(self, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let line = format!("{} {}", request.method(), request.uri());
        let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let lost = || io::Error::from(io::ErrorKind::ConnectionReset);
        // Some versions of `kubectl` ask for the server's first.
        if line.contains("/version") {
            return Ok(response(
                200,
                &json!({"major": "1", "minor": "32", "gitVersion": "v1.32.0"}),
            )
            .unwrap());
        }
        let mut state = self.state();
        state.requests.push(Recorded { line: line.clone(), body: body.clone() });
        let (code, answer) = match state.next_fault(&line) {
            Some(Fault::Lost) => return Err(lost()),
            Some(Fault::LostAnswer) => {
                state.objects.carry_out(&line, body);
                return Err(lost());
            }
            Some(Fault::Answer(code, reason, message)) => (code, status(code, reason, message)),
            None => state.objects.carry_out(&line, body),
        };
        Ok(response(code, &answer).unwrap())
    }
}

impl State {
    fn next_fault(&mut self, line: &str) -> Option<Fault> {
        let place = self.planned.iter().position(|planned| line.contains(planned.of))?;
        let planned = &mut self.planned[place];
        planned.times -= 1;
        let fault = planned.fault;
        if planned.times == 0 {
            self.planned.remove(place);
        }
        Some(fault)
    }
}

/// The object that explains a request's failure.
pub(super) fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

fn response(code: u16, body: &Value) -> Result<Response<Full<Bytes>>, Infallible> {
    let response = Response::builder().status(code).header("Content-Type", "application/json");
    Ok(response.body(Full::new(Bytes::from(body.to_string()))).unwrap())
}
