//! Requests as tasks, by a service that is called by hand. The example `axum_server` has a test
//! with a server.

#![cfg(all(feature = "tower", not(feature = "off")))]

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_layer::Layer as _;
use tower_service::Service;
use vor::tower::{RequestLayer, RequestService};
use vor_fixtures::own_process;

use crate::adapter_capture::Contents;
use crate::futures::{pause, poll};

/// The route of a request, in its extensions.
#[derive(Clone)]
struct Route(&'static str);

/// Answers with the status in the path after some pauses; the path `/fail` is an error.
struct Answers;

type Answer = Pin<Box<dyn Future<Output = Result<Response<()>, &'static str>>>>;

impl Service<Request<u32>> for Answers {
    type Response = Response<()>;
    type Error = &'static str;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<u32>) -> Answer {
        Box::pin(async move {
            pause(*request.body()).await;
            match request.uri().path() {
                "/fail" => Err("no answer"),
                path => Ok(Response::builder().status(&path[1..]).body(()).unwrap()),
            }
        })
    }
}

fn request(method: &str, path: &str, pauses: u32, route: Option<&'static str>) -> Request<u32> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .body(pauses)
        .unwrap();
    if let Some(route) = route {
        request.extensions_mut().insert(Route(route));
    }
    request
}

fn service() -> RequestService<Answers> {
    let layer = RequestLayer::new().route(|extensions| Some(extensions.get::<Route>()?.0));
    layer.layer(Answers)
}

/// Polls a future until it is ready.
fn complete<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return output;
        }
    }
}

#[test]
fn each_request_is_a_task_that_says_how_it_ended() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.vor");
    vor::Config::new().capture(&path).enable();
    let mut service = service();
    let ok = complete(service.call(request("GET", "/200", 2, Some("/users/{id}"))));
    assert_eq!(ok.unwrap().status(), 200);
    let failed = complete(service.call(request("POST", "/fail", 0, Some("/users"))));
    assert_eq!(failed.unwrap_err(), "no answer");
    let unknown = complete(service.call(request("PURGE", "/404", 0, None)));
    assert_eq!(unknown.unwrap().status(), 404);
    let mut cancelled = Box::pin(service.call(request("PUT", "/200", 9, Some("/slow"))));
    assert!(poll(cancelled.as_mut()).is_pending());
    drop(cancelled);
    // One that was never polled has no beginning.
    drop(service.call(request("GET", "/200", 0, Some("/never"))));
    vor::close_capture();

    let contents = Contents::read(&path);
    let lives: Vec<_> = contents
        .tasks
        .iter()
        .map(|task| (task.name.as_str(), contents.life_of(task)))
        .collect();
    let expected = [
        ("GET /users/{id}", (vec!["200"], 3)),
        ("POST /users", (vec!["failed"], 1)),
        ("OTHER", (vec!["404"], 1)),
        ("PUT /slow", (vec!["cancelled"], 1)),
    ];
    assert_eq!(lives, expected);
    assert_eq!(contents.args_of("GET /users/{id}"), ["", "", "status=200"]);
    assert_eq!(contents.args_of("POST /users"), [""]);
    assert_eq!(contents.args_of("OTHER"), ["status=404"]);
}

#[test]
fn open_requests_are_a_metric() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.vor");
    let (mut first, mut second) = (service(), service());
    // It counts before recording is on.
    let early = first.call(request("GET", "/200", 0, None));
    vor::Config::new().capture(&path).enable();
    let open: Vec<_> = (0..3)
        .map(|_| second.call(request("GET", "/200", 0, None)))
        .collect();
    vor::frame_mark();
    drop(open);
    vor::frame_mark();
    assert_eq!(complete(early).unwrap().status(), 200);
    vor::frame_mark();
    drop((first, second));
    vor::frame_mark();
    vor::close_capture();
    let contents = Contents::read(&path);
    let expected = [Some(4.0), Some(1.0), Some(0.0), None];
    assert_eq!(contents.metric("open_requests"), expected);
    // The request from before has no task.
    assert_eq!(contents.tasks.len(), 0);
}

#[test]
fn a_layer_works_without_a_route_and_without_recording() {
    own_process!();
    let mut service = RequestLayer::default().layer(Answers);
    let answer: Result<_, &str> = complete(service.call(request("GET", "/204", 1, None)));
    assert_eq!(answer.unwrap().status(), 204);
    let ready: Poll<Result<(), _>> = complete(std::future::poll_fn(|context| {
        Poll::Ready(service.poll_ready(context))
    }));
    assert!(matches!(ready, Poll::Ready(Ok(()))));
}
