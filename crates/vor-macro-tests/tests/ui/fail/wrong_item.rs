#[vor::profile]
struct Frame;

#[vor::profile]
impl Frame {
    fn new() -> Self {
        Self
    }
}

#[vor::profile]
mod geometry {}

trait Source {
    #[vor::profile]
    fn read(&self);
}

#[vor::all_functions]
fn single() {}

#[vor::all_functions]
enum Kind {
    One,
}

#[vor::skip(always)]
fn skipped() {}

fn main() {
    // The items are still there, so that each mistake is one error.
    let _ = (Frame::new(), Kind::One);
    single();
    skipped();
}
