//! Counts the words of a poem, on a thread of its own.

use std::thread;

use profiling_after::Words;

const POEM: &str = "One scope opens, one scope closes,\nThe clock is read at either end;\n\
    A ring keeps what the thread discloses,\nAnd frames are what the drain will send.";

fn count(rounds: u32) -> Words {
    vor::profile_function!();
    let mut words = Words::default();
    for _ in 0..rounds {
        vor::profile_scope!("round");
        words.add(POEM);
        vor::frame_mark();
    }
    words
}

fn main() {
    vor::enable();
    let counter = thread::Builder::new()
        .name("counter".into())
        .spawn(|| count(25));
    let words = counter
        .expect("the system has threads")
        .join()
        .expect("no panic while counting");
    eprintln!("most frequent: {:?}", words.most_frequent());
}
