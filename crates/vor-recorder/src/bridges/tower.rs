//! Requests of a server as tasks, by a layer of the crate `tower`.
//!
//! The future of a response is a task with the name `METHOD ROUTE`. Each poll is a scope of that
//! name. The scope of the last poll has the argument `status`, and the task ends with a step that
//! says how: the status, `failed` or `cancelled`.
//!
//! ```text
//! call ─ name, open + 1 ─ poll: scope ─ … ─ poll: scope(status), step "200" ─ task, open − 1
//!                                  └─ dropped: step "cancelled" ─ task, open − 1
//! ```
//!
//! A route comes from the router, by a function of the program, because each router has a type of
//! its own for it. A path would be a name for each user, and names are kept for ever.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use http::{Extensions, Method, Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::hot::args::UNSIGNED;
use crate::hot::future::Task;
use crate::hot::named_site::Shape;
use crate::hot::scope::{NameIds, Scope, cached_id, name_id, open_registered};
use crate::hot::{record_state, task};
use crate::metrics::{self, Gauge, GaugeRegistration};
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// A function that finds the route of a request, such as `/users/{id}`.
type RouteOf = fn(&Extensions) -> Option<&str>;

/// A layer that makes each request a task.
///
/// The name of a task is the method and the route: `GET /users/{id}`. Without a route it is the
/// method alone, and `OTHER` for methods outside the standard. Every poll is a scope of the same
/// name. The last one has the argument `status`, and the task has a last step: the status, or
/// `failed` if the service returns an error, or `cancelled` if the future of the response is
/// dropped. A task ends when the response is ready; its body may follow.
///
/// The metric `open_requests` holds the number of requests that wait for their response at a mark,
/// in all layers together. It counts also while recording is off.
///
/// # Examples
///
/// With axum the router knows the route:
///
/// ```
/// # mod axum { pub mod extract { pub struct MatchedPath(String);
/// #     impl MatchedPath { pub fn as_str(&self) -> &str { &self.0 } } } }
/// # mod vor { pub mod tower { pub use vor_recorder::bridges::tower::RequestLayer; } }
/// use axum::extract::MatchedPath;
///
/// let layer = vor::tower::RequestLayer::new()
///     .route(|extensions| Some(extensions.get::<MatchedPath>()?.as_str()));
/// // let app = Router::new().route("/users/{id}", get(user)).layer(layer);
/// ```
#[derive(Clone)]
pub struct RequestLayer {
    route_of: Option<RouteOf>,
    open: Arc<OpenRequests>,
}

/// A service whose requests are tasks, made by [`RequestLayer`].
#[derive(Clone)]
pub struct RequestService<S> {
    inner: S,
    layer: RequestLayer,
}

/// The number of requests without a response.
struct OpenRequests {
    /// Relaxed: a mark reads the latest value.
    count: AtomicU64,
    _registration: Option<GaugeRegistration>,
}

impl Gauge for OpenRequests {
    fn name(&self) -> String {
        "open_requests".to_owned()
    }

    fn unit(&self) -> &'static str {
        ""
    }

    fn read(&self) -> f64 {
        self.count.load(Ordering::Relaxed) as f64
    }
}

impl RequestLayer {
    /// Makes a layer that names tasks after their method.
    #[must_use]
    pub fn new() -> Self {
        let open = Arc::new_cyclic(|open: &Weak<OpenRequests>| OpenRequests {
            count: AtomicU64::new(0),
            _registration: (!cfg!(feature = "off")).then(|| metrics::register(open.clone())),
        });
        Self {
            route_of: None,
            open,
        }
    }

    /// Names tasks after their route as well, which `route_of` finds among the extensions that the
    /// router has added to a request. It must return routes, not paths: names are kept for ever.
    #[must_use]
    pub fn route(mut self, route_of: fn(&Extensions) -> Option<&str>) -> Self {
        self.route_of = Some(route_of);
        self
    }

    fn sites<B>(&self, request: &Request<B>) -> Sites {
        let method = method_name(request.method());
        match self.route_of.and_then(|of| of(request.extensions())) {
            Some(route) => Sites::of(&format!("{method} {route}")),
            None => Sites::of(method),
        }
    }
}

impl Default for RequestLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RequestLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestLayer").finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for RequestService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestService").finish_non_exhaustive()
    }
}

/// Returns the name of a standard method. A client may send any other.
fn method_name(method: &Method) -> &'static str {
    const STANDARD: [(Method, &str); 9] = [
        (Method::GET, "GET"),
        (Method::POST, "POST"),
        (Method::PUT, "PUT"),
        (Method::DELETE, "DELETE"),
        (Method::HEAD, "HEAD"),
        (Method::OPTIONS, "OPTIONS"),
        (Method::CONNECT, "CONNECT"),
        (Method::PATCH, "PATCH"),
        (Method::TRACE, "TRACE"),
    ];
    let standard = STANDARD.iter().find(|(known, _)| known == method);
    standard.map_or("OTHER", |(_, name)| name)
}

impl<S> Layer<S> for RequestLayer {
    type Service = RequestService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RequestService {
            inner,
            layer: self.clone(),
        }
    }
}

impl<S, B, R> Service<Request<B>> for RequestService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = RequestFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_recorded = !cfg!(feature = "off") && record_state::is_on();
        let open = OpenRequest::new(&self.layer.open);
        let sites = is_recorded.then(|| self.layer.sites(&request));
        RequestFuture {
            inner: self.inner.call(request),
            recorded: sites.map(RequestTask::new),
            open,
        }
    }
}

/// The scopes of all requests with one name.
#[derive(Clone, Copy, Debug)]
struct Sites {
    plain: u32,
    with_status: u32,
}

thread_local! {
    /// Ids of the names of scopes with a status.
    static WITH_STATUS: RefCell<NameIds> = const { RefCell::new(NameIds::new()) };
}

impl Sites {
    fn of(name: &str) -> Self {
        const SHAPE: Shape = Shape {
            prefix: "",
            suffix: "",
            category: "http",
            arg_names: &["status"],
            kinds: UNSIGNED,
        };
        Self {
            plain: name_id(name),
            with_status: cached_id(&WITH_STATUS, name, |measures| {
                SHAPE.register(name, ("", 0), measures)
            }),
        }
    }
}

/// A request that is counted as open.
struct OpenRequest(Arc<OpenRequests>);

impl OpenRequest {
    fn new(open: &Arc<OpenRequests>) -> Self {
        open.count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The task of a request.
struct RequestTask {
    task: Task,
    sites: Sites,
}

impl RequestTask {
    fn new(sites: Sites) -> Self {
        Self {
            task: Task::of_name_id(sites.plain),
            sites,
        }
    }

    fn poll<R, E>(
        &mut self,
        poll: impl FnOnce() -> Poll<Result<Response<R>, E>>,
    ) -> Poll<Result<Response<R>, E>> {
        let Sites { plain, with_status } = self.sites;
        let poll = |task: Option<u64>| {
            let polled = poll();
            if let (Some(task), Poll::Ready(result)) = (task, &polled) {
                match result {
                    Ok(response) => task::push_step(task, response.status().as_str()),
                    Err(_) => task::push_step(task, "failed"),
                }
            }
            polled
        };
        let close = |scope: Scope, polled: &Poll<Result<Response<R>, E>>| match polled {
            Poll::Ready(Ok(response)) if scope.is_recorded() => {
                let status = u64::from(response.status().as_u16());
                Scope::resume(scope.leave_open(), with_status, [status]).close()
            }
            _ => scope.close(),
        };
        self.task.poll_in(open_registered(plain, []), poll, close)
    }
}

impl Drop for RequestTask {
    fn drop(&mut self) {
        // A task that has its response has ended.
        if let Some(task) = self.task.id() {
            task::push_step(task, "cancelled");
        }
    }
}

pin_project! {
    /// The future of a response, whose polls are scopes.
    #[must_use = "futures do nothing unless polled"]
    pub struct RequestFuture<F> {
        #[pin]
        inner: F,
        // Dropped after the inner future: dropping its values is part of the task's time.
        recorded: Option<RequestTask>,
        open: OpenRequest,
    }
}

impl<F> fmt::Debug for RequestFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestFuture").finish_non_exhaustive()
    }
}

impl<F, R, E> Future for RequestFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        match this.recorded {
            Some(recorded) => recorded.poll(|| this.inner.poll(context)),
            None => this.inner.poll(context),
        }
    }
}
