//! Arguments of scopes: how values of all kinds are recorded.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::borrow::Cow;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use vor::capture::{ArgValue, FrameSnapshot, SiteId, SpanBatch};
use vor::sinks::{FrameSink, Interest};
use vor::{Config, Error};
use vor_fixtures::own_process;

/// Sites and arguments of the spans that ended.
type Spans = Vec<(SiteId, Vec<ArgValue>)>;

struct RecordingSink(Arc<Mutex<Spans>>);

impl FrameSink for RecordingSink {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        for thread in &batch.threads {
            let span = |args: &vor::capture::SpanArgs| {
                (thread.sites[args.span as usize], args.values.clone())
            };
            self.0.lock().unwrap().extend(thread.args.iter().map(span));
        }
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }
}

fn record(work: impl FnOnce()) -> Spans {
    Config::new().enable();
    let kept = Arc::default();
    let sink = vor::add_sink("test", RecordingSink(Arc::clone(&kept)));
    work();
    drop(sink);
    Arc::into_inner(kept).unwrap().into_inner().unwrap()
}

fn values(spans: Spans) -> Vec<Vec<ArgValue>> {
    spans.into_iter().map(|span| span.1).collect()
}

fn text(text: &str) -> ArgValue {
    ArgValue::Str(text.into())
}

#[test]
fn references_and_pointers_record_their_target() {
    own_process!();
    let (number, float, truth) = (&7_u32, &mut 0.5_f32, &&true);
    let (owned, boxed) = (String::from("owned"), Box::new(-3_i8));
    let spans = record(|| {
        {
            vor::profile_scope!(
                "plain",
                number = number,
                float = float,
                truth = truth,
                boxed = boxed,
                shared = Rc::new(1_u8),
                nonzero = NonZero::new(9_u16).unwrap(),
                far = &&&NonZero::<i64>::MIN
            );
        }
        vor::profile_scope!(
            "texts",
            owned = owned,
            reference = &owned,
            slice = &owned.as_str(),
            borrowed = Cow::Borrowed("cow"),
            made = Cow::<str>::Owned(format!("{number}!")),
            letter = 'ß',
            shared = Arc::<str>::from("arc"),
            temporary = format!("t{number}")
        );
    });
    assert_eq!((owned.as_str(), *boxed), ("owned", -3));
    let plain = vec![
        ArgValue::U64(7),
        ArgValue::F64(0.5),
        ArgValue::Bool(true),
        ArgValue::I64(-3),
        ArgValue::U64(1),
        ArgValue::U64(9),
        ArgValue::I64(i64::MIN),
    ];
    let texts = ["owned", "owned", "owned", "cow", "7!", "ß", "arc", "t7"].map(text);
    assert_eq!(values(spans), [plain, texts.to_vec()]);
}

#[vor::profile(args(name, count, ratio, label))]
fn take(name: String, count: &mut u32, ratio: &Option<f64>, label: Option<&str>) -> String {
    *count += 1;
    name + label.unwrap_or("-") + &ratio.unwrap_or(0.0).to_string()
}

#[test]
fn the_attribute_neither_moves_nor_keeps_a_parameter() {
    own_process!();
    let mut count = 1;
    let spans = record(|| {
        assert_eq!(take("a".to_owned(), &mut count, &None, Some("b")), "ab0");
        assert_eq!(take("c".to_owned(), &mut count, &Some(0.5), None), "c-0.5");
    });
    let expected = [
        vec![text("a"), ArgValue::U64(1), text("None"), text("b")],
        vec![
            text("c"),
            ArgValue::U64(2),
            ArgValue::F64(0.5),
            text("None"),
        ],
    ];
    assert_eq!(values(spans), expected);
    assert_eq!(count, 3);
}

#[vor::profile(args(owned, reference))]
async fn later(owned: String, reference: &u32) -> usize {
    owned.len() + *reference as usize
}

#[test]
fn an_async_function_keeps_its_parameters() {
    own_process!();
    let spans = record(|| {
        let future = std::pin::pin!(later("four".to_owned(), &3));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert_eq!(future.poll(&mut context), std::task::Poll::Ready(7));
    });
    assert_eq!(values(spans), [[text("four"), ArgValue::U64(3)]]);
}

#[test]
fn alternating_options_keep_two_ids() {
    own_process!();
    let spans = record(|| {
        for i in 0..1000_u64 {
            vor::profile_scope!("maybe", value = (i % 3 != 0).then_some(i));
        }
    });
    assert_eq!(spans.len(), 1000);
    let (first, second) = (spans[0].0, spans[1].0);
    assert_ne!(first, second);
    for (i, (site, values)) in (0..).zip(spans) {
        let expected = match i % 3 {
            0 => (first, text("None")),
            _ => (second, ArgValue::U64(i)),
        };
        assert_eq!((site, values), (expected.0, vec![expected.1]));
    }
}
