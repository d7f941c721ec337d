//! The destination: the client of an object storage and a prefix, from a URL and the environment.

use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Location;
use object_store::{BackoffConfig, ObjectStore, ObjectStoreScheme, RetryConfig};
use url::Url;
use vor_capture::Error;

use super::retry::reason;

/// What a URL may be.
const EXPECTED: &str =
    "use s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER";

/// An object storage, and the prefix of all objects.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) store: Arc<dyn ObjectStore>,
    prefix: Location,
    /// The URL without secrets, which identifies the target too.
    pub(super) shown: String,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A client may print its credentials.
        f.debug_tuple("Target").field(&self.shown).finish()
    }
}

impl Target {
    /// Makes the client for a URL.
    pub(super) fn open(text: &str) -> Result<Self, Error> {
        let Ok(url) = Url::parse(text) else {
            // It may hold anything, a password included.
            return Err(Error::config(format!(
                "the URL of the object storage cannot be read; {EXPECTED}"
            )));
        };
        // In `abfss://CONTAINER@ACCOUNT…` the name of the user is the container.
        let names_container = matches!(url.scheme(), "abfs" | "abfss");
        let has_user = !url.username().is_empty() && !names_container;
        let shown = shown(&url, names_container);
        let refused = |problem: &str| Error::config(format!("{shown}: {problem}"));
        if has_user || url.password().is_some() || url.query().is_some() {
            return Err(refused(
                "the URL has a user or a query; credentials come from the environment \
                 (AWS_…, GOOGLE_…, AZURE_…)",
            ));
        }
        let unknown = || refused(&format!("not an object storage; {EXPECTED}"));
        let (scheme, prefix) = ObjectStoreScheme::parse(&url).map_err(|_| unknown())?;
        install_tls();
        let store: Result<Arc<dyn ObjectStore>, object_store::Error> = match scheme {
            ObjectStoreScheme::Local => Ok(Arc::new(LocalFileSystem::new())),
            ObjectStoreScheme::AmazonS3 => AmazonS3Builder::from_env()
                .with_url(url.as_str())
                .with_retry(request_retries())
                .build()
                .map(|store| Arc::new(store) as _),
            ObjectStoreScheme::GoogleCloudStorage => GoogleCloudStorageBuilder::from_env()
                .with_url(url.as_str())
                .with_retry(request_retries())
                .build()
                .map(|store| Arc::new(store) as _),
            ObjectStoreScheme::MicrosoftAzure => MicrosoftAzureBuilder::from_env()
                .with_url(url.as_str())
                .with_retry(request_retries())
                .build()
                .map(|store| Arc::new(store) as _),
            _ => return Err(unknown()),
        };
        let store = store.map_err(|error| {
            refused(&format!(
                "the client cannot be made from the environment: {}",
                reason(&error)
            ))
        })?;
        Ok(Self {
            store,
            prefix,
            shown,
        })
    }

    /// Makes a target of a store, for tests.
    #[cfg(test)]
    pub(super) fn of_store(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self {
            store,
            prefix: Location::from(prefix),
            shown: format!("memory:///{prefix}"),
        }
    }

    /// Returns where an object lies. `name` is a path of parts that are escaped already.
    pub(super) fn location(&self, name: &str) -> Result<Location, Error> {
        // An empty prefix leaves a slash at the begin, which `parse` takes away.
        Location::parse(format!("{}/{name}", self.prefix))
            .map_err(|_| Error::config(format!("{}/{name}: no name of an object", self.shown)))
    }
}

/// Returns the URL without a password, a query or a user who is no container.
fn shown(url: &Url, names_container: bool) -> String {
    let user = match url.username() {
        user if names_container && !user.is_empty() => format!("{user}@"),
        _ => String::new(),
    };
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}"));
    let path = url.path().trim_end_matches('/');
    format!(
        "{}://{user}{host}{}{path}",
        url.scheme(),
        port.unwrap_or_default()
    )
}

/// How the client repeats single requests: one part of a large object fails more often than it
/// should cost the whole.
fn request_retries() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(5),
        base: 2.0,
    };
    RetryConfig {
        backoff,
        max_retries: 3,
        retry_timeout: Duration::from_secs(60),
    }
}

/// Chooses the cryptography of TLS, unless the program has chosen it.
fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error says that there is a choice already.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_repeated_3_times_within_a_minute() {
        let retries = request_retries();
        assert_eq!(retries.max_retries, 3);
        assert_eq!(retries.retry_timeout, Duration::from_secs(60));
        assert_eq!(retries.backoff.max_backoff, Duration::from_secs(5));
    }
}
