#[vor::profile(args(bytse))]
fn typo(bytes: usize, level: u32) -> usize {
    bytes + level as usize
}

#[vor::profile(args(x))]
fn no_parameters() {}

struct Frame(Vec<u8>);

impl Frame {
    #[vor::profile(args(self.0))]
    fn decode(&self) -> usize {
        self.0.len()
    }
}

#[vor::profile(args(x, x))]
fn twice(x: u32) -> u32 {
    x
}

#[vor::profile(args(half =))]
fn no_value(x: u32) -> u32 {
    x
}

fn main() {
    typo(1, 2);
    no_parameters();
    Frame(Vec::new()).decode();
    twice(1);
    no_value(1);
}
