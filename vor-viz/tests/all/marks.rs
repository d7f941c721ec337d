//! The marks of messages and steps in the flame chart.

use vor_viz::store::{Message, Store};

use crate::flame::harness_of;
use crate::synthetic::blocks;

#[test]
fn marks_of_messages_cover_no_spans() {
    let picture = |has_messages: bool| {
        let mut store = Store::new(64, usize::MAX);
        for mut block in blocks(8, 400, 3) {
            if has_messages {
                let begin_ns = block.frame.begin_ns;
                let messages = (0..5).map(|i| Message {
                    ns: begin_ns + i * 3_000_000,
                    text: "loaded".into(),
                });
                block.threads[1].messages.extend(messages);
            }
            store.push_block(block);
        }
        harness_of(store, true).render().unwrap()
    };
    let (with, without) = (picture(true), picture(false));
    let width = with.width();
    let differs = |y: &u32| (0..width).any(|x| with.get_pixel(x, *y) != without.get_pixel(x, *y));
    let lines: Vec<u32> = (0..with.height()).filter(differs).collect();
    // Those of the gap between the first track and the second.
    let (first, last) = (lines.first().unwrap(), lines.last().unwrap());
    assert!(last - first < 4, "{lines:?}");
}
