//! A store that fails as a test tells it to.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use super::crash_point;

/// A request that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Put,
    Begin,
    /// A part, by its number.
    Part(u64),
    Complete,
    Abort,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// It fails, and has no effect.
    Fails,
    /// It has its effect, and the answer is lost.
    AnswerLost,
    /// It is never answered.
    Hangs,
    /// It is refused for good.
    Refused,
}

type Plan = dyn FnMut(Request, &str) -> Fault + Send;

#[derive(Clone)]
pub(super) struct Faulty(Arc<Shared>);

struct Shared {
    inner: Arc<dyn ObjectStore>,
    plan: Mutex<Box<Plan>>,
    requests: Mutex<Vec<Request>>,
}

impl Faulty {
    pub(super) fn new(
        inner: Arc<dyn ObjectStore>,
        plan: impl FnMut(Request, &str) -> Fault + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self(Arc::new(Shared {
            inner,
            plan: Mutex::new(Box::new(plan)),
            requests: Mutex::default(),
        })))
    }

    /// Returns all requests so far.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.0.requests.lock().unwrap().clone()
    }
}

impl Shared {
    /// Makes a request, with what the plan says.
    async fn with_fault<T>(
        &self,
        request: Request,
        location: &Path,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.requests.lock().unwrap().push(request);
        let fault = (self.plan.lock().unwrap())(request, location.as_ref());
        crash_point();
        let error = |text: &str| object_store::Error::Generic {
            store: "faulty",
            source: text.into(),
        };
        let answer = match fault {
            Fault::None => work.await,
            Fault::Fails => Err(error("it fails")),
            Fault::AnswerLost => work.await.and(Err(error("the answer is lost"))),
            Fault::Hangs => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                Err(error("too late"))
            }
            Fault::Refused => Err(object_store::Error::PermissionDenied {
                path: location.to_string(),
                source: "not for you".into(),
            }),
        };
        crash_point();
        answer
    }
}

struct Upload {
    shared: Arc<Shared>,
    location: Path,
    inner: Box<dyn MultipartUpload>,
    parts: u64,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upload")
    }
}

#[async_trait::async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let part = self.inner.put_part(data);
        let (shared, location) = (Arc::clone(&self.shared), self.location.clone());
        let request = Request::Part(self.parts);
        self.parts += 1;
        Box::pin(async move { shared.with_fault(request, &location, part).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let work = self.inner.complete();
        let request = Request::Complete;
        self.shared.with_fault(request, &self.location, work).await
    }

    async fn abort(&mut self) -> Result<()> {
        let work = self.inner.abort();
        let request = Request::Abort;
        self.shared.with_fault(request, &self.location, work).await
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let work = self.0.inner.put_opts(location, payload, options);
        self.0.with_fault(Request::Put, location, work).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let work = self.0.inner.put_multipart_opts(location, options);
        let inner = self.0.with_fault(Request::Begin, location, work).await?;
        Ok(Box::new(Upload {
            shared: Arc::clone(&self.0),
            location: location.clone(),
            inner,
            parts: 0,
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.0.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.inner.copy_opts(from, to, options).await
    }
}
