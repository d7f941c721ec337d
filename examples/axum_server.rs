//! A web server with axum: each request is a task with its route and its status.
//!
//! ```text
//! cargo run --release --example axum_server --features axum
//! ```
//!
//! The layer of `vor::tower` is the only line of vor in the server. The same program sends the
//! requests: most of them find a user, some find nothing, some fail, and some give up waiting.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Path};
use axum::http::StatusCode;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use vor_examples::Outcome;

/// Requests of each kind.
const REQUESTS: u64 = 100;
/// The time of a query.
const QUERY: Duration = Duration::from_millis(2);
/// How long an impatient client waits.
const PATIENCE: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    vor_examples::run(serve)
}

fn router() -> Router {
    let layer = vor::tower::RequestLayer::new()
        .route(|extensions| Some(extensions.get::<MatchedPath>()?.as_str()));
    Router::new()
        .route("/users/{id}", get(user))
        .route("/report", get(report))
        .route("/slow", get(std::future::pending::<()>))
        .layer(layer)
}

async fn user(Path(id): Path<u64>) -> String {
    tokio::time::sleep(QUERY).await;
    vor::profile_scope!("render", user = id);
    format!("user {id}")
}

async fn report() -> StatusCode {
    StatusCode::INTERNAL_SERVER_ERROR
}

fn serve(out: &mut dyn Write) -> Outcome {
    vor_examples::config("axum-server").spans(true).enable();
    let statuses = exchange()?;
    vor::frame_mark();
    vor::flush();
    writeln!(out, "{} requests were answered.", statuses.len())?;
    // None if `VOR_RECORD` names a path that cannot be written, which vor has reported.
    if let Some(capture) = vor::capture_path() {
        vor_examples::print_how_to_open(out, &capture)?;
    }
    Ok(())
}

/// Serves all requests on loopback, and returns the statuses of the answers.
fn exchange() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move { axum::serve(listener, router()).await });
        let mut statuses = Vec::new();
        for id in 0..REQUESTS {
            for path in [format!("/users/{id}"), "/nothing".into(), "/report".into()] {
                let mut client = TcpStream::connect(address).await?;
                statuses.push(get_status(&mut client, &path).await?);
            }
            if id % 10 == 0 {
                let mut client = TcpStream::connect(address).await?;
                // The server drops the future of its answer when the connection closes.
                let answer = get_status(&mut client, "/slow");
                if tokio::time::timeout(PATIENCE, answer).await.is_ok() {
                    return Err("the slow request was answered".into());
                }
            }
        }
        // The last connection needs a moment.
        tokio::time::sleep(PATIENCE).await;
        Ok(statuses)
    })
}

/// Sends a request, and returns the status of the answer.
async fn get_status(client: &mut TcpStream, path: &str) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await?;
    Ok(answer.split(' ').nth(1).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vor::capture::{Event, Reader, TaskEventKind};

    use super::*;

    #[test]
    fn each_request_is_one_task_with_its_route_and_its_status() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        vor::Config::new().capture(&path).enable();
        let answered = exchange().unwrap();
        vor::frame_mark();
        vor::close_capture();

        let (mut names, mut outcomes) = (BTreeMap::new(), BTreeMap::new());
        let mut statuses = Vec::new();
        let mut reader = Reader::open(&path).unwrap();
        while let Some(event) = reader.next_event().unwrap() {
            let Event::Batch(batch) = event else { continue };
            for thread in &batch.threads {
                assert_eq!(thread.dropped_spans, 0);
                let name = |site| batch.catalog.site_name(site).to_owned();
                for task in &thread.async_spans {
                    assert!(names.insert(task.id, name(task.site)).is_none());
                }
                for event in &thread.task_events {
                    if matches!(event.kind, TaskEventKind::Step) {
                        assert!(outcomes.insert(event.task, name(event.site)).is_none());
                    }
                }
                for args in &thread.args {
                    let site = batch
                        .catalog
                        .site(thread.sites[args.span as usize])
                        .unwrap();
                    if &*site.category == "http" {
                        statuses.push(format!("{} {}", site.name, args.values[0]));
                    }
                }
            }
        }
        let mut lives: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (task, name) in &names {
            *lives.entry((name, &outcomes[task])).or_default() += 1;
        }
        let expected = [
            (("GET", "404"), REQUESTS),
            (("GET /report", "500"), REQUESTS),
            (("GET /slow", "cancelled"), REQUESTS / 10),
            (("GET /users/{id}", "200"), REQUESTS),
        ];
        assert_eq!(lives, BTreeMap::from(expected));
        assert_eq!(answered.len() as u64, 3 * REQUESTS);
        // The last poll of each answer has the status as its argument.
        for (line, count) in [
            ("GET 404", REQUESTS),
            ("GET /report 500", REQUESTS),
            ("GET /users/{id} 200", REQUESTS),
        ] {
            let same = statuses.iter().filter(|status| *status == line);
            assert_eq!(same.count() as u64, count, "{line}");
        }
        assert_eq!(statuses.len() as u64, 3 * REQUESTS);
    }
}
