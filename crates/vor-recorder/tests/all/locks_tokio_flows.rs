//! The flows of messages in channels of tokio: arrows from the scope that sends to the scope that
//! receives, through the wait that the message ends.

#![cfg(not(feature = "off"))]

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::yield_now;
use vor_capture::model::batch::FlowStage;
use vor_fixtures::own_process;
use vor_recorder::bridges::tokio::named;
use vor_recorder::hot::scope::scope;
use vor_recorder::locks::tokio::mpsc::error::{SendTimeoutError, TrySendError};
use vor_recorder::locks::tokio::{broadcast, mpsc, oneshot, watch};
use vor_recorder::setup::Config;
use vor_recorder::{__vor_channel as channel, profile_scope};

use crate::locks_support::{
    Point, RecordedTask, Recording, arrows, arrows_to, let_others_wait, read, start,
};

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().unwrap()
}

/// Checks the arrows between scopes `sent 0`, `sent 1` … and `received 0`, `received 1` …
fn check(recording: &Recording, arrows_of: usize) {
    let arrow = |at| arrow(&format!("sent {at}"), &format!("received {at}"));
    let expected: Vec<_> = (0..arrows_of).map(arrow).collect();
    assert_eq!(arrows(recording), expected);
}

/// Returns the waits through which a flow passes on its way, by their begin.
fn waits_passed(recording: &Recording) -> Vec<String> {
    let points = recording.flows.values().flatten();
    let steps = points.filter(|(_, point)| point.stage == FlowStage::Step);
    let steps: Vec<u64> = steps.map(|(_, point)| point.ticks).collect();
    let mut tasks = recording.ended_tasks();
    tasks.retain(|task| {
        let range = task.start_ticks..=task.end_ticks;
        task.name.starts_with("wait: ") && steps.iter().any(|ticks| range.contains(ticks))
    });
    assert_eq!(tasks.len(), steps.len());
    tasks.iter().map(|task| task.name.clone()).collect()
}

#[test]
fn every_way_to_send_begins_an_arrow() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let (sender, mut receiver) = mpsc::named_with_flows("jobs", 1);
    let runtime = runtime();
    for way in 0..7 {
        let sender = sender.clone();
        let sent = scope(&format!("sent {way}"));
        match way {
            0 => runtime.block_on(sender.send(way)).unwrap(),
            1 => sender.try_send(way).unwrap(),
            2 => sender.blocking_send(way).unwrap(),
            3 => runtime.block_on(sender.reserve()).unwrap().send(way),
            4 => {
                let mut permits = runtime.block_on(sender.reserve_many(1)).unwrap();
                permits.next().unwrap().send(way);
            }
            5 => _ = runtime.block_on(sender.reserve_owned()).unwrap().send(way),
            _ => runtime
                .block_on(sender.send_timeout(way, Duration::from_secs(9)))
                .unwrap(),
        }
        drop(sent);
        let received = scope(&format!("received {way}"));
        assert_eq!(runtime.block_on(receiver.recv()), Some(way));
        drop(received);
    }
    let recording = read(&path);
    check(&recording, 7);
    assert!(waits_passed(&recording).is_empty());
}

#[test]
fn every_way_to_receive_ends_an_arrow() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let (sender, mut receiver) = channel!("jobs", flows, of = tokio);
    let runtime = runtime();
    for way in 0..7 {
        let sent = scope(&format!("sent {way}"));
        sender.send(way).unwrap();
        drop(sent);
        let received = scope(&format!("received {way}"));
        let mut many = Vec::new();
        match way {
            0 => many.extend(runtime.block_on(receiver.recv())),
            1 => many.extend(receiver.try_recv()),
            2 => many.extend(receiver.blocking_recv()),
            3 => assert_eq!(runtime.block_on(receiver.recv_many(&mut many, 5)), 1),
            4 => assert_eq!(receiver.blocking_recv_many(&mut many, 5), 1),
            5 => many.extend(runtime.block_on(poll_fn(|context| receiver.poll_recv(context)))),
            _ => {
                let poll = poll_fn(|context| receiver.poll_recv_many(context, &mut many, 5));
                assert_eq!(runtime.block_on(poll), 1);
            }
        }
        assert_eq!(many, [way]);
        drop(received);
    }
    let recording = read(&path);
    check(&recording, 7);
    assert!(waits_passed(&recording).is_empty());
}

#[test]
fn the_arrow_of_a_message_that_is_waited_for_passes_through_the_wait() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let (sender, mut receiver) = mpsc::named_with_flows("jobs", 8);
    let runtime = runtime();
    let consumer = runtime.spawn(named("consumer", async move {
        assert_eq!(receiver.recv().await, Some(0));
        let mut many = Vec::new();
        assert_eq!(receiver.recv_many(&mut many, 8).await, 2);
        assert_eq!(many, [1, 2]);
        assert_eq!(receiver.recv().await, None);
    }));
    runtime.block_on(async {
        yield_now().await;
        for jobs in [vec![0], vec![1, 2]] {
            for job in jobs {
                profile_scope!("order");
                sender.try_send(job).unwrap();
            }
            while sender.capacity() < sender.max_capacity() {
                yield_now().await;
            }
            yield_now().await;
        }
        drop(sender);
        consumer.await.unwrap();
    });
    let recording = read(&path);
    let arrow = || ("order".to_owned(), "consumer".to_owned());
    assert_eq!(arrows(&recording), [arrow(), arrow(), arrow()]);
    // The third message came with the second one, and the last wait ended without a message.
    let wait = "wait: jobs to receive";
    assert_eq!(waits_passed(&recording), [wait, wait]);
}

#[test]
fn a_thread_that_waits_has_the_arrow_in_its_wait() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let (sender, mut receiver) = mpsc::unbounded_named_with_flows("jobs");
    let (answer, answered) = oneshot::named_with_flows("answer");
    let consumer = std::thread::spawn(move || {
        profile_scope!("work");
        assert_eq!(receiver.blocking_recv(), Some(0));
        assert_eq!(receiver.blocking_recv_many(&mut Vec::new(), 8), 1);
        assert_eq!(answered.blocking_recv(), Ok(2));
    });
    let order = scope("order");
    for job in 0..2 {
        let_others_wait();
        sender.send(job).unwrap();
    }
    let_others_wait();
    answer.send(2).unwrap();
    drop(order);
    consumer.join().unwrap();
    let recording = read(&path);
    let arrow = |to: &str| ("order".to_owned(), to.to_owned());
    let work = || arrow("work");
    assert_eq!(arrows(&recording), [work(), work(), work()]);
    let (jobs, answer) = ("wait: jobs to receive", "wait: answer to receive");
    let passed = arrows_to(&recording, FlowStage::Step);
    assert_eq!(passed, [arrow(jobs), arrow(jobs), arrow(answer)]);
}

#[test]
fn the_message_of_a_channel_for_one_has_an_arrow() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let runtime = runtime();
    for way in 0..4 {
        let (sender, mut receiver) = oneshot::named_with_flows("answer");
        let send = |sender: oneshot::Sender<i32, _>| {
            let _sent = scope(&format!("sent {way}"));
            sender.send(way).unwrap();
        };
        if way == 3 {
            let answered = runtime.spawn(named(&format!("received {way}"), receiver));
            runtime.block_on(yield_now());
            send(sender);
            assert_eq!(runtime.block_on(answered).unwrap(), Ok(way));
            continue;
        }
        send(sender);
        let _received = scope(&format!("received {way}"));
        let received = match way {
            0 => receiver.try_recv().unwrap(),
            1 => receiver.blocking_recv().unwrap(),
            _ => runtime.block_on(receiver).unwrap(),
        };
        assert_eq!(received, way);
    }
    let recording = read(&path);
    check(&recording, 4);
    assert_eq!(waits_passed(&recording), ["wait: answer to receive"]);
}

fn arrow(from: &str, to: &str) -> (String, String) {
    (from.to_owned(), to.to_owned())
}

#[test]
fn a_message_for_all_receivers_has_an_arrow_to_each() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let runtime = runtime();
    let (sender, mut first) = broadcast::named_with_flows("news", 4);
    let mut second = sender.subscribe();
    let mut third = first.resubscribe();
    for message in 0..2 {
        let sent = scope(&format!("sent {message}"));
        assert_eq!(sender.send(message).unwrap(), 3);
        drop(sent);
    }
    for message in 0..2 {
        let received = scope("first");
        assert_eq!(first.try_recv(), Ok(message));
        drop(received);
        let received = scope("second");
        assert_eq!(second.blocking_recv(), Ok(message));
        drop(received);
        let _received = scope("third");
        assert_eq!(runtime.block_on(third.recv()), Ok(message));
    }
    let recording = read(&path);
    let expected = ["sent 0", "sent 1"]
        .map(|sent| ["first", "second", "third"].map(|received| arrow(sent, received)));
    assert_eq!(arrows(&recording), expected.concat());
    assert!(arrows_to(&recording, FlowStage::Step).is_empty());
}

#[test]
fn each_receiver_that_waits_has_the_arrow_in_its_wait() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let runtime = runtime();
    let (sender, mut first) = broadcast::named_with_flows("news", 4);
    let (change, mut changes) = watch::named_with_flows("state", 0);
    let (mut second, mut third) = (sender.subscribe(), sender.subscribe());
    let thread = std::thread::spawn(move || {
        profile_scope!("thread");
        assert_eq!(first.blocking_recv(), Ok(1));
    });
    let tasks = [
        runtime.spawn(named("task", async move { second.recv().await.unwrap() })),
        runtime.spawn(named(
            "other task",
            async move { third.recv().await.unwrap() },
        )),
        runtime.spawn(named("watcher", async move {
            changes.changed().await.unwrap();
            assert_eq!(*changes.wait_for(|value| *value == 2).await.unwrap(), 2);
            1
        })),
    ];
    runtime.block_on(yield_now());
    let_others_wait();
    let order = scope("order");
    sender.send(1).unwrap();
    drop(order);
    thread.join().unwrap();
    for value in 1..3 {
        let _change = scope(&format!("change {value}"));
        change.send(value).unwrap();
        runtime.block_on(yield_now());
    }
    for task in tasks {
        assert_eq!(runtime.block_on(task).unwrap(), 1);
    }
    let recording = read(&path);
    // Each wait ends just before its message is received.
    let mut found = arrows(&recording);
    found.sort();
    let mut expected = [
        arrow("order", "wait: news to receive"),
        arrow("order", "thread"),
        arrow("order", "task"),
        arrow("order", "task"),
        arrow("order", "other task"),
        arrow("order", "other task"),
        arrow("change 1", "watcher"),
        arrow("change 1", "watcher"),
        arrow("change 2", "watcher"),
        arrow("change 2", "watcher"),
    ];
    expected.sort();
    assert_eq!(found, expected);
    let mut ends = recording.flows.values().flatten();
    let is_in = |task: &&RecordedTask, point: &Point| {
        (task.start_ticks..=task.end_ticks).contains(&point.ticks)
    };
    let waits = recording.ended_tasks();
    let waits: Vec<_> = waits
        .into_iter()
        .filter(|task| task.name.starts_with("wait: "))
        .collect();
    assert_eq!(waits.len(), 4);
    assert!(ends.all(|(_, point)| point.stage != FlowStage::Step));
    for wait in &waits {
        let points = recording.flows.values().flatten();
        let inside =
            points.filter(|(_, point)| point.stage == FlowStage::End && is_in(wait, point));
        assert!(inside.count() > 0, "{}", wait.name);
    }
}

#[test]
fn a_change_has_an_arrow_to_each_receiver_that_sees_it() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let runtime = runtime();
    let (sender, mut receiver) = watch::named_with_flows("state", 0);
    for way in 0..6 {
        let changed = scope(&format!("sent {way}"));
        match way {
            0 => sender.send(way).unwrap(),
            1 => sender.send_modify(|value| *value = way),
            2 => assert!(sender.send_if_modified(|value| {
                *value = way;
                true
            })),
            _ => assert_eq!(sender.send_replace(way), way - 1),
        }
        drop(changed);
        assert!(!sender.send_if_modified(|_| false));
        let received = scope(&format!("received {way}"));
        match way {
            0 | 3 => assert_eq!(*receiver.borrow_and_update(), way),
            1 | 4 => runtime.block_on(receiver.changed()).unwrap(),
            _ => {
                let seen = receiver.wait_for(|value| *value == way);
                assert_eq!(*runtime.block_on(seen).unwrap(), way);
            }
        }
        drop(received);
        let _again = scope("again");
        assert_eq!(*receiver.borrow_and_update(), way);
    }
    {
        let _last = scope("last");
        sender.send_replace(9);
    }
    let mut late = sender.subscribe();
    let mut copy = receiver.clone();
    let copied = scope("copy");
    assert_eq!(
        (*late.borrow_and_update(), *copy.borrow_and_update()),
        (9, 9)
    );
    drop(copied);
    let recording = read(&path);
    let mut expected: Vec<_> = (0..6)
        .map(|way| arrow(&format!("sent {way}"), &format!("received {way}")))
        .collect();
    // The late receiver came after the last change.
    expected.push(arrow("last", "copy"));
    assert_eq!(arrows(&recording), expected);
}

#[test]
fn a_message_that_is_not_sent_has_no_arrow() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let (sender, receiver) = mpsc::named_with_flows("jobs", 1);
    let runtime = runtime();
    sender.try_send(0).unwrap();
    assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
    let timeout = sender.send_timeout(2, Duration::from_millis(1));
    assert_eq!(runtime.block_on(timeout), Err(SendTimeoutError::Timeout(2)));
    drop(receiver);
    assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
    assert_eq!(runtime.block_on(sender.send(4)).unwrap_err().0, 4);
    assert_eq!(sender.blocking_send(5).unwrap_err().0, 5);
    let (sender, receiver) = oneshot::named_with_flows("answer");
    drop(receiver);
    assert_eq!(sender.send(6), Err(6));
    let (sender, receiver) = broadcast::named_with_flows("news", 1);
    drop(receiver);
    assert_eq!(sender.send(7).unwrap_err().0, 7);
    let (sender, receiver) = watch::named_with_flows("state", 0);
    drop(receiver);
    assert_eq!(sender.send(8).unwrap_err().0, 8);
    let recording = read(&path);
    assert!(arrows_to(&recording, FlowStage::End).is_empty());
    let points = recording.flows.values().flatten();
    assert!(
        points
            .clone()
            .all(|(_, point)| point.stage == FlowStage::Begin)
    );
}

#[test]
fn channels_without_flows_record_none() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let (sender, mut receiver) = channel!("jobs", 4, of = tokio);
    let (answer, answered) = oneshot::named("answer");
    sender.try_send(Arc::new(1)).unwrap();
    answer.send(2).unwrap();
    assert_eq!(receiver.try_recv().as_deref(), Ok(&1));
    assert_eq!(answered.blocking_recv(), Ok(2));
    let (news, mut reader) = broadcast::named("news", 1);
    news.send(3).unwrap();
    assert_eq!(reader.try_recv(), Ok(3));
    let (change, mut changes) = watch::named("state", 0);
    change.send(4).unwrap();
    assert_eq!(*changes.borrow_and_update(), 4);
    let recording = read(&path);
    recording.assert_empty();
    assert!(recording.flows.is_empty());
}
