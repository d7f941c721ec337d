//! Counts the words of a poem, on a thread of its own.

use std::thread;

use profiling_before::Words;

const POEM: &str = "One scope opens, one scope closes,\nThe clock is read at either end;\n\
    A ring keeps what the thread discloses,\nAnd frames are what the drain will send.";

fn count(rounds: u32) -> Words {
    profiling::function_scope!();
    let mut words = Words::default();
    for _ in 0..rounds {
        profiling::scope!("round");
        words.add(POEM);
        profiling::finish_frame!();
    }
    words
}

fn main() {
    // The backend of this build is puffin. Its viewer's server would be this sink.
    profiling::puffin::set_scopes_on(true);
    let counts = puffin_counts::sink();
    let counter = thread::spawn(|| {
        profiling::register_thread!("counter");
        count(25)
    });
    let words = counter.join().expect("no panic while counting");
    eprintln!("most frequent: {:?}", words.most_frequent());
    // The scopes that ended after the last frame.
    profiling::finish_frame!();
    counts.lock().expect("no panic so far").print();
}
